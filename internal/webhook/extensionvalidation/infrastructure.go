package extensionvalidation

type infrastructureSpec struct {
	DefaultSpec  `json:",inline"`
	Region       string          `json:"region"`
	SecretRef    secretReference `json:"secretRef"`
	SSHPublicKey opaqueBytes     `json:"sshPublicKey,omitempty"`
}

func infrastructures() rules[infrastructureSpec, unread] {
	return rules[infrastructureSpec, unread]{
		namespaced: true,
		check: func(infrastructure *object[infrastructureSpec, unread], found *findings) {
			found.require(specPath("type"), infrastructure.Spec.Type)
			found.require(specPath("region"), infrastructure.Spec.Region)
			found.require(specPath("secretRef", "name"), infrastructure.Spec.SecretRef.Name)
		},
		keep: func(now, before *infrastructureSpec, found *findings) {
			found.keep(specPath("type"), now.Type, before.Type)
			found.keep(specPath("region"), now.Region, before.Region)
		},
	}
}
