package criticalcomponents

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// maxDriverName is the longest name of a CSI driver that a CSINode accepts.
const maxDriverName = 63

// requiredDrivers returns the CSI drivers for which the Pods wait, sorted and without duplicates. Invalid names are included, so that a
// mistake never removes the taint of a Node.
func requiredDrivers(pods []corev1.Pod) []string {
	drivers := sets.New[string]()
	for i := range pods {
		for key, value := range pods[i].Annotations {
			if strings.HasPrefix(key, resourcesv1alpha1.WaitForCSINodePrefix) {
				drivers.Insert(value)
			}
		}
	}
	return sets.List(drivers)
}

// missingDrivers returns the required drivers that the CSINode does not list, sorted. csiNode is nil if it does not exist.
func missingDrivers(required []string, csiNode *storagev1.CSINode) []string {
	missing := sets.New(required...)
	if csiNode != nil {
		for i := range csiNode.Spec.Drivers {
			missing.Delete(csiNode.Spec.Drivers[i].Name)
		}
	}
	return sets.List(missing)
}

// badAnnotation is an annotation with the name of a driver that cannot exist.
type badAnnotation struct{ key, value, why string }

// badAnnotations returns the bad annotations of a Pod, sorted by key.
func badAnnotations(pod *corev1.Pod) []badAnnotation {
	var bad []badAnnotation
	for _, key := range slices.Sorted(maps.Keys(pod.Annotations)) {
		if !strings.HasPrefix(key, resourcesv1alpha1.WaitForCSINodePrefix) {
			continue
		}
		if why := notADriverName(pod.Annotations[key]); why != "" {
			bad = append(bad, badAnnotation{key: key, value: pod.Annotations[key], why: why})
		}
	}
	return bad
}

// notADriverName returns the reason why a CSINode cannot list a driver of that name, or "". A CSINode accepts upper case letters.
func notADriverName(name string) string {
	switch {
	case name == "":
		return "it is empty"
	case len(name) > maxDriverName:
		return fmt.Sprintf("it has more than %d characters", maxDriverName)
	case len(validation.IsDNS1123Subdomain(strings.ToLower(name))) > 0:
		return "only letters, digits, '-' and '.' may be in it, and it begins and ends with a letter or digit"
	}
	return ""
}
