package desired

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// OfInstance returns the selector for the policies of an instance that have the required labels. If instance is empty, the selector
// matches the policies of the instance without a name. The argument required is a selector as text, and not empty.
func OfInstance(required, instance string) (labels.Selector, error) {
	ofInstance := "!" + resourcesv1alpha1.NetworkingInstance
	if instance != "" {
		ofInstance = resourcesv1alpha1.NetworkingInstance + "=" + instance
	}
	selector, err := labels.Parse(required + "," + ofInstance)
	if err != nil {
		return nil, fmt.Errorf("select policies by label %s: %w", resourcesv1alpha1.NetworkingInstance, err)
	}
	return selector, nil
}

// RepairsPause returns the note of an Event about a policy that the controller does not repair for some time.
func RepairsPause(policy types.NamespacedName, pause time.Duration) string {
	return fmt.Sprintf("Repairs of NetworkPolicy %s pause for %s, since another client changes or deletes it again and again: find this "+
		"client in its managedFields or the audit log, and stop it", policy, pause)
}
