package config

import (
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// defaultRequestorWorkers keeps an API server busy that signs one token per core at a time.
const defaultRequestorWorkers = 32

// EspalierToken tunes token-controllers.
type EspalierToken struct {
	// Class is the value of label resources.gardener.cloud/class of the Secrets that the requestor serves; not empty. Nil: it
	// serves Secrets of every class and those without one.
	Class *string `json:"class,omitempty"`
	// TargetNamespace is the namespace of all ServiceAccounts, whatever the Secrets say. Nil: the Secrets say it.
	TargetNamespace *string `json:"targetNamespace,omitempty"`
	// SameCluster says what the requestor may do where source and target are one cluster. Nil: nothing but what
	// TargetNamespace or the namespaces of the connections allow.
	SameCluster *EspalierTokenSameCluster `json:"sameCluster,omitempty"`
	// Audiences are whom tokens are for, unless a Secret says otherwise; default gardener. An empty list leaves the choice to
	// the API server.
	Audiences *[]string `json:"audiences,omitempty"`
	// RequestorWorkers is the least number of Secrets that the requestor works on at once; at least 1, default 32.
	// controllers.tokenRequestor.concurrentSyncs counts if it is higher.
	RequestorWorkers *int `json:"requestorWorkers,omitempty"`
}

// EspalierTokenSameCluster says what Secrets may ask for where source and target are one cluster.
type EspalierTokenSameCluster struct {
	// Scope says of which namespaces a Secret may name ServiceAccounts and target Secrets, except kube-system and the namespace
	// of this process: SecretNamespace (that of the Secret), or AllNamespaces. Empty: neither, so that TargetNamespace or the
	// namespaces of the connections must say it.
	Scope string `json:"scope,omitempty"`
	// SystemServiceAccounts are the ServiceAccounts of kube-system and of the namespace of this process, as namespace/name,
	// whose tokens Secrets may ask for. Default none.
	SystemServiceAccounts []string `json:"systemServiceAccounts,omitempty"`
}

// Scopes of Secrets where source and target are one cluster.
const (
	TokenScopeSecretNamespace = "SecretNamespace"
	TokenScopeAllNamespaces   = "AllNamespaces"
)

func defaultEspalierToken(c *EspalierToken) {
	setIfNil(&c.Audiences, []string{"gardener"})
	setIfNil(&c.RequestorWorkers, defaultRequestorWorkers)
}

func validateEspalierToken(c EspalierToken, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if c.Class != nil {
		errs = append(errs, validateTokenClass(*c.Class, at.Child("class"))...)
	}
	if c.TargetNamespace != nil {
		for _, message := range apivalidation.ValidateNamespaceName(*c.TargetNamespace, false) {
			errs = append(errs, field.Invalid(at.Child("targetNamespace"), *c.TargetNamespace, message))
		}
	}
	if c.SameCluster != nil {
		if scope := c.SameCluster.Scope; scope != "" {
			errs = append(errs, validateOneOf(scope, at.Child("sameCluster", "scope"), TokenScopeSecretNamespace, TokenScopeAllNamespaces)...)
		}
		errs = append(errs, validateSystemServiceAccounts(c.SameCluster.SystemServiceAccounts, at.Child("sameCluster", "systemServiceAccounts"))...)
	}
	for i, audience := range ptr.Deref(c.Audiences, nil) {
		if audience == "" {
			errs = append(errs, field.Required(at.Child("audiences").Index(i), "must not be empty; an empty list leaves the choice to the API server"))
		}
	}
	if n := ptr.Deref(c.RequestorWorkers, 0); n < minWorkers {
		errs = append(errs, field.Invalid(at.Child("requestorWorkers"), n, "must be at least 1"))
	}
	return errs
}

func validateSystemServiceAccounts(names []string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, each := range names {
		namespace, name, _ := strings.Cut(each, "/")
		if len(apivalidation.ValidateNamespaceName(namespace, false))+len(apivalidation.ValidateServiceAccountName(name, false)) > 0 {
			errs = append(errs, field.Invalid(at.Index(i), each, "must be <namespace>/<name> of a ServiceAccount"))
		}
	}
	return errs
}

func validateTokenClass(class string, at *field.Path) field.ErrorList {
	if class == "" {
		return field.ErrorList{field.Required(at, "must not be empty; remove the key to serve every class")}
	}
	var errs field.ErrorList
	for _, message := range validation.IsValidLabelValue(class) {
		errs = append(errs, field.Invalid(at, class, message))
	}
	return errs
}
