package components

import (
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/secrets"
)

// Owned is a credential with the component that it belongs to.
type Owned struct {
	component.Credential
	// Owner is the name of the row of the component, or of the operator itself.
	Owner string
}

const operatorItself = "garden-operator"

// Registry returns all credentials that the operator and the components that it deploys create in the runtime cluster and in the virtual
// cluster: the credentials of the rows, the tokens in their access Secrets, and the credentials of the operator, of Extensions and of
// gardenlets.
func Registry() []Owned {
	var all []Owned
	for _, each := range authorities() {
		all = append(all, Owned{each, operatorItself})
	}
	for _, row := range All() {
		if row.Deploy.Name == "" {
			continue
		}
		for _, each := range row.Credentials {
			all = append(all, Owned{each, row.Name})
		}
		for _, secret := range row.AccessSecrets {
			all = append(all, Owned{component.Token(secret, row.Name, "12 hours"), row.Name})
		}
	}
	return append(all,
		Owned{component.Token("shoot-access-extension-admission-*", "admission controllers of Extensions", "12 hours"), "Extensions"},
		Owned{component.Credential{
			Name: "gardenlet-kubeconfig-bootstrap", Secret: "gardenlet-kubeconfig-bootstrap", Purpose: "lets a gardenlet request its certificate",
			Users: "gardenlet", Lifetime: "24 hours", Renewal: "with each deployment of a Gardenlet whose Seed does not exist",
			Test: "TestATokenThatExpiredIsReplaced", Restored: component.GeneratedAgain,
		}, "Gardenlets"},
		Owned{component.Credential{
			Name: "gardenlet-kubeconfig*", Secret: "gardenlet-kubeconfig*", Users: "gardenlet",
			Purpose:  "authenticates a gardenlet in the virtual cluster; in Secrets that its Gardenlet names, also as a bootstrap kubeconfig",
			Lifetime: "as the virtual cluster signs it; a bootstrap token 24 hours",
			Renewal:  "by gardenlet; when it has expired, with a deployment of its Gardenlet", Test: "TestATokenThatExpiredIsReplaced",
			Restored: component.GeneratedAgain,
		}, "Gardenlets"},
		Owned{component.Credential{
			Name: "bootstrap-token-*", Secret: "bootstrap-token-*",
			Purpose: "the token of a bootstrap kubeconfig, in namespace `kube-system` of the virtual cluster; the operator writes it for Gardenlets",
			Users:   "gardenlet", Lifetime: "24 hours", Renewal: "with each deployment of a Gardenlet whose Seed does not exist",
			Test: "TestATokenThatExpiredIsReplaced", Restored: component.GeneratedAgain,
		}, "Gardenlets"},
		Owned{component.WebhookCertificate("espalier-garden-operator", "serves webhooks for Gardens and Extensions"), operatorItself},
	)
}

// authorities returns the certificate authorities.
func authorities() []component.Credential {
	all := make([]component.Credential, 0, len(rotation.Authorities))
	for _, authority := range rotation.Authorities {
		credential := component.Credential{
			Name: authority.Name, Purpose: authority.Purpose, Users: authority.Users, Restored: component.GeneratedAgain,
			Request: func(v values.Values) secrets.Request { return authority.Request(v.Phases) },
		}
		if !authority.RenewsItself {
			credential.Rotation, credential.Irreplaceable = rotation.CertificateAuthorities, true
			credential.Restored = component.FromBackup
		}
		all = append(all, credential)
	}
	return all
}
