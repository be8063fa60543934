package plutono

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/observability"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/secrets"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// adminValidity is how long the password of the administrator is valid. The operator renews it after 80 % of that time.
const adminValidity = 720 * time.Hour

// Component is Plutono. A new password of the administrator is a new configuration, so that Pods with the new password replace the others.
var Component = row()

func row() component.Component {
	row := observability.Component(Name, "Plutono", "generates the password of its administrator, and creates ManagedResource `plutono`", nil,
		func(v values.Values, s component.Secrets) ([]client.Object, error) {
			return Objects(v, s.Generated[AdminSecret])
		})
	row.Credentials = []component.Credential{{
		Name: AdminSecret, Request: Administrator, Rotation: rotation.Observability, Lifetime: "30 days",
		Purpose: "authenticates the sidecars of Plutono, which make it read dashboards", Users: "Plutono",
		Renewal: "by the operator, after 80 % of its validity, and by operation `rotate-observability-credentials`",
		Test:    "TestPasswordsOfWebUIsAreRotated", Restored: component.FromBackup,
	}}
	return row
}

// Administrator returns the request for the user and the password of the administrator.
func Administrator(values.Values) secrets.Request {
	return secrets.Request{
		Config:   secretconfig.BasicAuth{Name: AdminSecret, Format: secretconfig.FormatNormal, Username: "admin", PasswordLength: 32},
		Validity: adminValidity,
	}
}
