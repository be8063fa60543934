package webui

import (
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/basicauth"
	"github.com/espalier-dev/espalier/internal/garden/component/observability"
)

// Component is the exposure of web UIs. A step returns the objects, because they contain the wildcard certificate if there is one.
var Component = row()

func row() component.Component {
	row := observability.Component(Name, "web UIs at the gateway",
		"creates ManagedResource `"+Name+"` with the certificates and the routes of the web UIs, after the gateway asks for passwords",
		[]string{component.BasicAuthServer}, nil)
	row.Own.Objects, row.Objects = true, nil
	row.Requires, row.Unless = []string{component.BasicAuthServer}, basicauth.Unless
	for _, ui := range observability.UIs() {
		row.Credentials = append(row.Credentials, component.Credential{
			Name: ui.Certificate, Purpose: "serves the host `" + ui.Host + ".<ingress domain>`, unless there is a wildcard certificate",
			Users: "gateway", Lifetime: "730 days", Restored: component.GeneratedAgain,
		})
	}
	return row
}
