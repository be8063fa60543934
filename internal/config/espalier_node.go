package config

import (
	"fmt"
	"slices"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// EspalierNode configures node-controller.
type EspalierNode struct {
	// RequiredDaemonSets lists DaemonSets, as "namespace/name". They must exist and be marked as critical before the taint of any node is
	// removed. Without this setting, a node that joins before the DaemonSets are created loses its taint too early. Empty (default): the
	// existing DaemonSets count.
	//
	// Read it with Required.
	RequiredDaemonSets []string `json:"requiredDaemonSets,omitempty"`
}

// Required returns RequiredDaemonSets, whose format the validation has checked, as names of objects.
func (c EspalierNode) Required() []types.NamespacedName {
	names := make([]types.NamespacedName, 0, len(c.RequiredDaemonSets))
	for _, each := range c.RequiredDaemonSets {
		namespace, name, _ := strings.Cut(each, "/")
		names = append(names, types.NamespacedName{Namespace: namespace, Name: name})
	}
	return names
}

func validateEspalierNode(c EspalierNode, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, each := range c.RequiredDaemonSets {
		where := at.Child("requiredDaemonSets").Index(i)
		if slices.Contains(c.RequiredDaemonSets[:i], each) {
			errs = append(errs, field.Duplicate(where, each))
		}
		if why := notAnObjectName(each); why != "" {
			errs = append(errs, field.Invalid(where, each, why))
		}
	}
	return errs
}

// notAnObjectName returns why a text is not the name of an object in a namespace, or "" if it is one.
func notAnObjectName(text string) string {
	namespace, name, found := strings.Cut(text, "/")
	if !found {
		return "must be <namespace>/<name>"
	}
	if problems := apivalidation.ValidateNamespaceName(namespace, false); len(problems) > 0 {
		return fmt.Sprintf("is not in a namespace that can exist: %s", problems[0])
	}
	if problems := apivalidation.NameIsDNSSubdomain(name, false); len(problems) > 0 {
		return fmt.Sprintf("is not a name: %s", problems[0])
	}
	return ""
}
