package config

import "k8s.io/apimachinery/pkg/util/validation/field"

// Espalier contains our own settings, one section per family.
type Espalier struct {
	ManagedResource EspalierManagedResource `json:"managedResource,omitempty"`
	Token           EspalierToken           `json:"token,omitempty"`
	CSRApprover     EspalierCSRApprover     `json:"csrApprover,omitempty"`
	NetworkPolicy   EspalierNetworkPolicy   `json:"networkPolicy,omitempty"`
	Node            EspalierNode            `json:"node,omitempty"`
	Webhooks        EspalierWebhooks        `json:"webhooks,omitempty"`
}

func defaultEspalier(c *Espalier) {
	defaultEspalierManagedResource(&c.ManagedResource)
	defaultEspalierToken(&c.Token)
	defaultEspalierCSRApprover(&c.CSRApprover)
	defaultEspalierWebhooks(&c.Webhooks)
}

func validateEspalier(c Espalier, at *field.Path) field.ErrorList {
	errs := validateEspalierManagedResource(c.ManagedResource, at.Child("managedResource"))
	errs = append(errs, validateEspalierToken(c.Token, at.Child("token"))...)
	errs = append(errs, validateEspalierCSRApprover(c.CSRApprover, at.Child("csrApprover"))...)
	errs = append(errs, validateEspalierWebhooks(c.Webhooks, at.Child("webhooks"))...)
	errs = append(errs, validateEspalierNetworkPolicy(c.NetworkPolicy, at.Child("networkPolicy"))...)
	return append(errs, validateEspalierNode(c.Node, at.Child("node"))...)
}
