package ownership

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/config"
)

// Limits restrict the sets that are applied and the objects that they may contain.
type Limits struct {
	// Own are the configured restrictions. The zero value does not restrict, so a nil ClusterScoped allows objects without a namespace.
	Own config.EspalierNamespaces
	// TargetNamespaces are the namespaces of the target that the process can read; empty means all.
	TargetNamespaces []string
}

// refuseObject returns why sets must not write an object into a namespace, or a cluster-scoped object; "" if they may.
func (l Limits) refuseObject(namespace string, namespaced bool) string {
	switch {
	case !namespaced && ptr.Deref(l.Own.ClusterScoped, true):
		return ""
	case !namespaced:
		return "refused: sets may not contain cluster-scoped objects (espalier.managedResource.namespaces.clusterScoped)"
	case l.Own.Objects != nil && !slices.Contains(*l.Own.Objects, namespace):
		return fmt.Sprintf("refused: sets may not write into namespace %q (espalier.managedResource.namespaces.objects)", namespace)
	case len(l.TargetNamespaces) > 0 && !slices.Contains(l.TargetNamespaces, namespace):
		return fmt.Sprintf("refused: namespace %q is not one of targetClientConnection.namespaces", namespace)
	}
	return ""
}

// selectorSetting is the path of the field SetSelector in the configuration file.
const selectorSetting = "espalier.managedResource.namespaces.setSelector"

// NeedsLabels reports whether the labels of a namespace decide whether its sets are applied.
func (l Limits) NeedsLabels(namespace string) bool {
	return l.Own.SetSelector != nil && !l.isListed(namespace)
}

func (l Limits) isListed(namespace string) bool {
	return l.Own.Sets != nil && slices.Contains(*l.Own.Sets, namespace)
}

// Selects reports whether Own.SetSelector matches these labels of a namespace. A selector that cannot be read matches nothing.
func (l Limits) Selects(have map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(l.Own.SetSelector)
	return err == nil && selector.Matches(labels.Set(have))
}

// RefuseSet returns why sets of a namespace with these labels are not applied, "" if they are applied.
func (l Limits) RefuseSet(namespace string, have map[string]string) string {
	switch {
	case l.Own.Sets == nil && l.Own.SetSelector == nil, l.isListed(namespace):
		return ""
	case l.Own.SetSelector == nil:
		return fmt.Sprintf("refused: sets may not live in namespace %q (espalier.managedResource.namespaces.sets)", namespace)
	case l.Selects(have):
		return ""
	}
	missing := missingLabels(l.Own.SetSelector, have)
	return fmt.Sprintf("refused: the labels of namespace %q do not allow sets (%s wants %s); an administrator allows them with: kubectl "+
		"label --overwrite namespace %s %s",
		namespace, selectorSetting, metav1.FormatLabelSelector(l.Own.SetSelector), namespace, strings.Join(missing, " "))
}

// missingLabels returns the changes of labels after which the selector matches a namespace, as arguments of kubectl label.
func missingLabels(selector *metav1.LabelSelector, have map[string]string) []string {
	requirements := make([]metav1.LabelSelectorRequirement, 0, len(selector.MatchLabels))
	for _, key := range slices.Sorted(maps.Keys(selector.MatchLabels)) {
		values := []string{selector.MatchLabels[key]}
		requirements = append(requirements, metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: values})
	}
	var arguments []string
	for _, each := range append(requirements, selector.MatchExpressions...) {
		value, found := have[each.Key]
		listed := found && slices.Contains(each.Values, value)
		switch {
		case each.Operator == metav1.LabelSelectorOpIn && !listed:
			arguments = append(arguments, each.Key+"="+each.Values[0])
		case each.Operator == metav1.LabelSelectorOpExists && !found:
			arguments = append(arguments, each.Key+"=")
		case each.Operator == metav1.LabelSelectorOpNotIn && listed, each.Operator == metav1.LabelSelectorOpDoesNotExist && found:
			arguments = append(arguments, each.Key+"-")
		}
	}
	return arguments
}
