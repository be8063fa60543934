package process

import (
	"cmp"
	"strings"
)

// Program describes a binary.
type Program struct {
	// Name is the binary's name, as in cmd/.
	Name string
	// Purpose is the description for --help: a sentence that begins with a verb, without a full stop.
	Purpose string
	// Source is the name of the source cluster in the configuration and in messages: the field of its connection is
	// <Source>ClientConnection. A process with this setting has no separate target, unless Target is set. Empty: source.
	Source string
	// Target is the name of the target cluster, as Source is the name of the source cluster. Empty: target.
	Target string
	// SharesLease makes the process use the configured lease name unchanged, so that the process and a running Gardener resource manager
	// exclude each other. It also changes the field manager: see FieldManager. Without SharesLease and KeepsLeaseName, the process appends
	// "-<name>" to the lease name.
	SharesLease bool
	// KeepsLeaseName makes the process use the configured lease name unchanged too, so that it and a running program of Gardener, other
	// than the resource manager, exclude each other. It does not change the field manager.
	KeepsLeaseName bool
	// Subcommands are additional functions of the binary; --help lists them.
	Subcommands []Subcommand
}

// FieldManager returns the name under which managedFields record the writes of the process. For the binary that replaces Gardener's
// resource manager, the field manager is "espalier". By this field manager, that binary recognizes its own writes to the objects of
// ManagedResources. For each other binary, the field manager is "espalier-" followed by the name of the binary. So the binary that
// replaces the resource manager does not take the writes of other binaries for its own writes.
func (p Program) FieldManager() string {
	if p.SharesLease {
		return "espalier"
	}
	return "espalier-" + p.Name
}

// UserAgent returns the user agent for requests to API servers: <field manager>/<binary>/<version>. If a write names no field manager, API
// servers use the text before the first slash as its field manager.
func (p Program) UserAgent() string {
	return p.FieldManager() + "/" + p.Name + "/" + Version
}

// LeaseName returns the name of the lease under which replicas of this binary elect their leader.
func (p Program) LeaseName(configured string) string {
	if p.SharesLease || p.KeepsLeaseName {
		return configured
	}
	return configured + "-" + p.Name
}

func (p Program) sourceName() string {
	return cmp.Or(p.Source, "source")
}

// sourceField is the configuration field of the connection to the source.
func (p Program) sourceField() string { return p.sourceName() + "ClientConnection" }

func (p Program) targetName() string { return cmp.Or(p.Target, "target") }

// targetField is the configuration field of the connection to the target.
func (p Program) targetField() string { return p.targetName() + "ClientConnection" }

// targetVariable is the environment variable with the path of a kubeconfig for the target.
func (p Program) targetVariable() string { return strings.ToUpper(p.targetName()) + "_KUBECONFIG" }
