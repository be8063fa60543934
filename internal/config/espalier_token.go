package config

import (
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// defaultRequestorWorkers is the default of RequestorWorkers. It is enough to use the full capacity of an API server that signs one token
// per core at a time.
const defaultRequestorWorkers = 32

// EspalierToken configures token-controllers.
type EspalierToken struct {
	// Class is the value of label resources.gardener.cloud/class of the Secrets that the requestor serves; not empty. Nil: the requestor
	// serves Secrets of all classes and Secrets without a class.
	Class *string `json:"class,omitempty"`
	// TargetNamespace is the namespace of all ServiceAccounts, and overrides the Secrets. Nil: the Secrets name it.
	TargetNamespace *string `json:"targetNamespace,omitempty"`
	// SameCluster defines which ServiceAccounts and target Secrets a Secret may name if source and target are one cluster. Nil: only
	// TargetNamespace and the namespaces of the connections define it.
	SameCluster *EspalierTokenSameCluster `json:"sameCluster,omitempty"`
	// Audiences are the audiences of the tokens, unless a Secret names other audiences; no audience may be empty. With an empty list, the API
	// server chooses the audience.
	Audiences *[]string `json:"audiences,omitempty"`
	// RequestorWorkers is the minimum number of Secrets that the requestor reconciles at the same time; at least 1.
	// controllers.tokenRequestor.concurrentSyncs is used if it is higher.
	RequestorWorkers *int `json:"requestorWorkers,omitempty"`
}

// EspalierTokenSameCluster configures the tokens that Secrets may ask for if source and target are one cluster.
type EspalierTokenSameCluster struct {
	// Scope defines the namespaces of the ServiceAccounts and target Secrets that a Secret may name: SecretNamespace (the namespace of the
	// Secret), or AllNamespaces. Neither scope includes kube-system or the namespace of this process. If the scope is empty, TargetNamespace
	// or the namespaces of the connections must define the namespaces.
	Scope string `json:"scope,omitempty"`
	// SystemServiceAccounts lists ServiceAccounts, as namespace/name, in kube-system and in the namespace of this process. Secrets may ask
	// for tokens of these ServiceAccounts. With scope SecretNamespace, only Secrets in the namespace of the ServiceAccount may.
	SystemServiceAccounts []string `json:"systemServiceAccounts,omitempty"`
}

// Scopes of Secrets if source and target are one cluster.
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
		if *c.Class == "" {
			errs = append(errs, field.Required(at.Child("class"), "must not be empty; remove the key to serve every class"))
		}
		errs = append(errs, invalid(at.Child("class"), *c.Class, validation.IsValidLabelValue(*c.Class))...)
	}
	if c.TargetNamespace != nil {
		errs = append(errs,
			invalid(at.Child("targetNamespace"), *c.TargetNamespace, apivalidation.ValidateNamespaceName(*c.TargetNamespace, false))...)
	}
	if c.SameCluster != nil {
		if scope := c.SameCluster.Scope; scope != "" {
			errs = append(errs, validateOneOf(scope, at.Child("sameCluster", "scope"), TokenScopeSecretNamespace, TokenScopeAllNamespaces)...)
		}
		errs = append(errs, validateEach(c.SameCluster.SystemServiceAccounts, at.Child("sameCluster", "systemServiceAccounts"),
			isServiceAccount, "must be <namespace>/<name> of a ServiceAccount")...)
	}
	for i, audience := range ptr.Deref(c.Audiences, nil) {
		if audience == "" {
			errs = append(errs,
				field.Required(at.Child("audiences").Index(i), "must not be empty; an empty list leaves the choice to the API server"))
		}
	}
	return append(errs, validateCount(ptr.Deref(c.RequestorWorkers, 0), at.Child("requestorWorkers"))...)
}

func isServiceAccount(text string) bool {
	namespace, name, _ := strings.Cut(text, "/")
	return len(apivalidation.ValidateNamespaceName(namespace, false))+len(apivalidation.ValidateServiceAccountName(name, false)) == 0
}
