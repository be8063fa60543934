package config

import (
	"time"

	"k8s.io/utils/ptr"
)

// Process is the part of a configuration file that every binary needs, for all schemas.
type Process struct {
	Source         ClientConnection
	Target         *ClientConnection // nil: the source cluster is the target
	LeaderElection LeaderElection
	Server         Server
	Debugging      Debugging
	LogLevel       string
	LogFormat      string
	// CacheSyncTimeout is how long controllers wait for their caches at start.
	CacheSyncTimeout time.Duration
}

// Process returns the part of c that every binary needs. It expects a defaulted configuration.
func (c *ResourceManagerConfiguration) Process() Process {
	p := Process{
		Source:           c.SourceClientConnection,
		LeaderElection:   c.LeaderElection,
		Server:           c.Server,
		Debugging:        c.Debugging,
		LogLevel:         c.LogLevel,
		LogFormat:        c.LogFormat,
		CacheSyncTimeout: ptr.Deref(c.Controllers.CacheSyncTimeout, duration(defaultCacheSyncTimeout)).Duration,
	}
	if c.TargetClientConnection != nil {
		p.Target = ptr.To(*c.TargetClientConnection)
	}
	return p
}
