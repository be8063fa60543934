package extensionvalidation

type controlPlaneSpec struct {
	DefaultSpec                  `json:",inline"`
	Purpose                      *string          `json:"purpose,omitempty"`
	InfrastructureProviderStatus *opaqueExtension `json:"infrastructureProviderStatus,omitempty"`
	Region                       string           `json:"region"`
	SecretRef                    secretReference  `json:"secretRef"`
}

func controlPlanes() rules[controlPlaneSpec, unread] {
	return rules[controlPlaneSpec, unread]{
		namespaced: true,
		check: func(plane *object[controlPlaneSpec, unread], found *findings) {
			found.require(specPath("type"), plane.Spec.Type)
			found.require(specPath("region"), plane.Spec.Region)
			found.require(specPath("secretRef", "name"), plane.Spec.SecretRef.Name)
			if purpose := plane.Spec.Purpose; purpose != nil {
				found.oneOf(specPath("purpose"), *purpose, "normal", "exposure")
			}
		},
		keep: func(now, before *controlPlaneSpec, found *findings) {
			found.keep(specPath("type"), now.Type, before.Type)
			found.keep(specPath("purpose"), now.Purpose, before.Purpose)
			found.keep(specPath("region"), now.Region, before.Region)
		},
	}
}
