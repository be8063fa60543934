package extensionvalidation

import networkingv1 "k8s.io/api/networking/v1"

type bastionSpec struct {
	DefaultSpec `json:",inline"`
	UserData    opaqueBytes     `json:"userData"`
	Ingress     []ingressPolicy `json:"ingress"`
}

type ingressPolicy struct {
	IPBlock networkingv1.IPBlock `json:"ipBlock"`
}

func bastions() rules[bastionSpec, unread] {
	return rules[bastionSpec, unread]{
		namespaced: true,
		check: func(bastion *object[bastionSpec, unread], found *findings) {
			found.require(specPath("type"), bastion.Spec.Type)
			found.requireIf(len(bastion.Spec.UserData) == 0, specPath("userData"))
			found.requireIf(len(bastion.Spec.Ingress) == 0, specPath("ingress"))
		},
		keep: func(now, before *bastionSpec, found *findings) {
			found.keep(specPath("type"), now.Type, before.Type)
			found.keep(specPath("userData"), now.UserData, before.UserData)
		},
	}
}
