package process

// Program is what a main knows about itself.
type Program struct {
	// Name is the binary's name, as in cmd/.
	Name string
	// Purpose says what it does, for --help: a sentence that begins with the verb, without its full stop.
	Purpose string
	// Source is what the configuration and messages call the source cluster: its connection is <Source>ClientConnection. A
	// process with a name for it has no target of its own. Empty: source.
	Source string
	// SharesLease makes the process use the configured lease name as it is, so that it and a running Gardener resource
	// manager exclude each other. All others append "-<name>".
	SharesLease bool
	// Subcommands are what else the binary can do; --help lists them.
	Subcommands []Subcommand
}

// UserAgent returns how the process names itself to API servers: espalier/<binary>/<version>.
func (p Program) UserAgent() string {
	return "espalier/" + p.Name + "/" + Version
}

// LeaseName returns the name of the lease under which replicas of this binary elect their leader.
func (p Program) LeaseName(configured string) string {
	if p.SharesLease {
		return configured
	}
	return configured + "-" + p.Name
}

func (p Program) sourceName() string {
	if p.Source == "" {
		return "source"
	}
	return p.Source
}

// sourceField is where the connection to the source is configured.
func (p Program) sourceField() string { return p.sourceName() + "ClientConnection" }
