package basicauth

import (
	"time"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/judgement"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/observability"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/secrets"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// PasswordSecret is the logical name of the Secret with the user and the password of the web UIs.
const PasswordSecret = "observability-ingress"

const serverSecret = Name + "-tls"

// Component is the server that checks passwords for the gateway. The task that exposes web UIs starts after this server is healthy. A step
// returns the objects, because the EnvoyFilter depends on the routes in the cluster.
var Component = row()

func row() component.Component {
	row := observability.Component(Name, "server for passwords of the gateway",
		"generates the password of the web UIs, and creates ManagedResource `"+Name+"`, with the EnvoyFilter that makes the gateway ask the "+
			"server; waits until the server is healthy", nil, nil)
	row.Own.Objects, row.Objects = true, nil
	row.Ready, row.Within = judgement.Ready, 5*time.Minute
	row.Needs = component.Needs{Bundles: []string{rotation.BasicAuthAuthority}}
	row.Credentials = []component.Credential{
		{
			Name: PasswordSecret, Request: Password, Rotation: rotation.Observability,
			Purpose: "authenticates users of the web UIs at the gateway", Users: "users",
			Renewal: "operation `rotate-observability-credentials`", Test: "TestPasswordsOfWebUIsAreRotated",
			Restored: component.FromBackup,
		},
		{Name: serverSecret, Request: Certificate, Purpose: "serves requests of the gateway", Users: Name, Restored: component.GeneratedAgain},
	}
	row.Unless = Unless
	// Without the filter, the gateway would serve the routes to users without a password.
	row.Users = []component.Object{{
		GroupVersionKind: resourcesv1alpha1.SchemeGroupVersion.WithKind("ManagedResource"), Name: component.Exposure,
	}}
	row.Destroy.After = []string{component.Exposure}
	return row
}

// Unless returns why a Garden has no password for web UIs, in one sentence, or "".
func Unless(v values.Values) string {
	if len(observability.Exposed(v)) == 0 {
		return "No web UI is exposed."
	}
	return ""
}

// Password returns the request for the user and the password.
func Password(values.Values) secrets.Request {
	return secrets.Request{Config: secretconfig.BasicAuth{
		Name: PasswordSecret, Format: secretconfig.FormatNormal, Username: "admin", PasswordLength: 32,
	}, Persist: true}
}

// Certificate returns the request for the certificate of the server.
func Certificate(v values.Values) secrets.Request {
	return secrets.Request{
		Config: secretconfig.Certificate{
			Name: serverSecret, CommonName: Name, DNSNames: object.DNSNames(v.Namespace, Name), Type: secretconfig.Server,
			SkipPublishingCACertificate: true,
		},
		SignedBy: rotation.BasicAuthAuthority,
	}
}
