package process

// Program describes a binary.
type Program struct {
	// Name is the binary's name, as in cmd/.
	Name string
	// Purpose is the description for --help: a sentence that begins with the verb, without its full stop.
	Purpose string
	// Source is the name of the source cluster in the configuration and in messages: its connection is <Source>ClientConnection. A process
	// that sets it has no separate target. Empty: source.
	Source string
	// SharesLease makes the process use the configured lease name unchanged, so that it and a running Gardener resource manager exclude
	// each other. All others append "-<name>".
	SharesLease bool
	// Subcommands are additional functions of the binary; --help lists them.
	Subcommands []Subcommand
}

// UserAgent returns the user agent for requests to API servers: espalier/<binary>/<version>.
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

// sourceField is the configuration field of the connection to the source.
func (p Program) sourceField() string { return p.sourceName() + "ClientConnection" }
