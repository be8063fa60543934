package main

import (
	"encoding/json"

	"github.com/espalier-dev/espalier/internal/config"
)

// program is a binary of cmd/ that this process runs as a child. The file "programs" lists the same binaries for hack/images.
type program struct {
	name string
	// enabled reports whether a section of the configuration that the binary serves is enabled. Without one, the binary would only end with
	// the message that there is nothing to do.
	enabled func(*configuration) bool
	// everyReplica makes all replicas run the binary, not only the leader.
	everyReplica bool
}

func programs() []program {
	return []program{
		{name: "managedresource-controller", enabled: func(*configuration) bool { return true }},
		{name: "token-controllers", enabled: func(c *configuration) bool {
			return c.Controllers.TokenRequestor.Enabled || c.Controllers.TokenInvalidator.Enabled
		}},
		{name: "csr-approver", enabled: func(c *configuration) bool { return c.Controllers.KubeletCSRApprover.Enabled }},
		{name: "node-controller", enabled: func(c *configuration) bool { return c.Controllers.Node.Enabled }},
		{name: "webhook-server", enabled: func(c *configuration) bool { return anyEnabled(c.Webhooks) }, everyReplica: true},
	}
}

// anyEnabled reports whether a handler is enabled.
func anyEnabled(webhooks config.Webhooks) bool {
	encoded, err := json.Marshal(webhooks)
	if err != nil { // the value was decoded from JSON
		return false
	}
	var sections map[string]struct {
		Enabled bool `json:"enabled"`
	}
	if err := json.Unmarshal(encoded, &sections); err != nil {
		return false
	}
	for _, each := range sections {
		if each.Enabled {
			return true
		}
	}
	return false
}
