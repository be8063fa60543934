package lifecycle

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/excerpt"
	"github.com/espalier-dev/espalier/internal/flow"
	"github.com/espalier-dev/espalier/internal/garden/validation"
)

const gardenerOperation = resourcesv1alpha1.GardenerOperation

func operationType(garden *operatorv1alpha1.Garden) operatorv1alpha1.LastOperationType {
	if garden.DeletionTimestamp != nil {
		return operatorv1alpha1.LastOperationDelete
	}
	return operatorv1alpha1.LastOperationReconcile
}

func startOf(garden *operatorv1alpha1.Garden) string {
	if garden.DeletionTimestamp != nil {
		return deletionStarts
	}
	return reconciliationStarts
}

// virtualGardenAddress is the name of the address of the virtual cluster in the status.
const virtualGardenAddress = "virtual-garden"

// advertisedAddresses returns the addresses of the virtual cluster for its clients. A Garden without a domain, which can only be deleted,
// keeps its addresses.
func advertisedAddresses(garden *operatorv1alpha1.Garden) []operatorv1alpha1.AdvertisedAddress {
	domains := garden.Spec.VirtualCluster.DNS.Domains
	if len(domains) == 0 {
		return garden.Status.AdvertisedAddresses
	}
	return []operatorv1alpha1.AdvertisedAddress{{Name: virtualGardenAddress, URL: "https://api." + domains[0].Name}}
}

func rotationOf(garden *operatorv1alpha1.Garden) *operatorv1alpha1.CredentialsRotation {
	if garden.Status.Credentials == nil {
		return nil
	}
	return garden.Status.Credentials.Rotation
}

func setRotation(status *operatorv1alpha1.GardenStatus, r *operatorv1alpha1.CredentialsRotation) {
	if r == nil {
		return
	}
	if status.Credentials == nil {
		status.Credentials = &operatorv1alpha1.Credentials{}
	}
	status.Credentials.Rotation = r
}

// providers returns the encryption providers of spec and status. The provider of the status is empty if it is not known.
func providers(garden *operatorv1alpha1.Garden) (wanted, current operatorv1alpha1.EncryptionProviderType) {
	server := ptr.Deref(garden.Spec.VirtualCluster.Kubernetes.KubeAPIServer, operatorv1alpha1.KubeAPIServer{})
	config := ptr.Deref(server.EncryptionConfig, operatorv1alpha1.EncryptionConfig{})
	provider := ptr.Deref(config.Provider, operatorv1alpha1.EncryptionProvider{})
	wanted = cmp.Or(ptr.Deref(provider.Type, ""), operatorv1alpha1.EncryptionProviderAESCBC)
	if c := garden.Status.Credentials; c != nil && c.EncryptionAtRest != nil && c.EncryptionAtRest.Provider != nil {
		current = c.EncryptionAtRest.Provider.Type
	}
	return wanted, current
}

// tasksOf returns the tasks of a flow for the status.
func tasksOf(progress flow.Status) []operatorv1alpha1.Task {
	tasks := make([]operatorv1alpha1.Task, 0, len(progress.Tasks))
	for _, each := range progress.Tasks[:min(len(progress.Tasks), operatorv1alpha1.MaxTasks)] {
		tasks = append(tasks, operatorv1alpha1.Task{
			Name: each.Name, State: operatorv1alpha1.TaskState(each.State), Since: metav1.NewTime(each.Since),
			WaitingFor: excerpt.Of(each.Message, operatorv1alpha1.MaxWaitingFor),
		})
	}
	return slices.Clip(tasks)
}

// skippedChecks returns the names of the checks that the user skips.
func skippedChecks(garden *operatorv1alpha1.Garden) []string {
	return validation.ListOf(garden, operatorv1alpha1.AnnotationSkippedChecks)
}
