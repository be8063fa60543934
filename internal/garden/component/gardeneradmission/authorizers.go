package gardeneradmission

import "fmt"

// Authorizer is a webhook of gardener-admission-controller that authorizes the requests of certain users.
type Authorizer struct {
	// Name is part of the path of the webhook.
	Name string
	// users is a condition in CEL, with the verbs %[1]s and %[2]s of fmt for the groups and the name of the user.
	users string
}

// Authorizers are the webhooks for gardenlets and extensions of seeds, and for gardenlets and extensions of self-hosted shoots.
// kube-apiserver asks them after RBAC.
func Authorizers() []Authorizer {
	return []Authorizer{
		{Name: "seed", users: `'gardener.cloud:system:seeds' in %[1]s || %[1]s.exists(e, e.startsWith('system:serviceaccounts:seed-'))`},
		{Name: "shoot", users: `'gardener.cloud:system:shoots' in %[1]s || ` +
			`(%[1]s.exists(e, e == 'system:serviceaccounts:garden' || e.startsWith('system:serviceaccounts:garden-')) && ` +
			`%[2]s.contains(':extension-shoot--'))`},
	}
}

// URL returns where kube-apiserver reaches the webhook, by the Service in its own namespace.
func (a Authorizer) URL() string { return "https://" + Name + "/webhooks/auth/" + a.Name }

// Condition returns an expression in CEL that is true if the user of a request is one of the users of the Authorizer. Groups and name are
// CEL expressions for the groups and the name of the user.
func (a Authorizer) Condition(groups, name string) string { return fmt.Sprintf(a.users, groups, name) }
