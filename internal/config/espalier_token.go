package config

import (
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
	// Audiences are whom tokens are for, unless a Secret says otherwise; default gardener. An empty list leaves the choice to
	// the API server.
	Audiences *[]string `json:"audiences,omitempty"`
	// RequestorWorkers is the least number of Secrets that the requestor works on at once; at least 1, default 32.
	// controllers.tokenRequestor.concurrentSyncs counts if it is higher.
	RequestorWorkers *int `json:"requestorWorkers,omitempty"`
}

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
