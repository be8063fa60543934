package required

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/extension/installations"
)

// classGarden is the class of extension objects that belong to the Garden.
const classGarden = "garden"

// resource is the kind and type of an object of an extension.
type resource struct{ kind, typ string }

// verdict is the content of a condition.
type verdict struct {
	status          corev1beta1.ConditionStatus
	reason, message string
}

// decideRuntime decides whether the extension is required in the runtime cluster. Existing are the objects of class garden there.
func decideRuntime(e *operatorv1alpha1.Extension, garden *operatorv1alpha1.Garden, existing map[resource]bool) verdict {
	needed := maps.Clone(existing)
	if needed == nil {
		needed = map[resource]bool{}
	}
	maps.Copy(needed, neededBy(garden, e))
	kinds := map[string]bool{}
	for _, each := range e.Spec.Resources {
		if needed[resource{each.Kind, each.Type}] {
			kinds[each.Kind] = true
		}
	}
	if len(kinds) == 0 {
		return verdict{corev1beta1.ConditionFalse, operatorv1alpha1.ReasonExtensionNotRequired, "Extension is not required by the Garden"}
	}
	return verdict{
		corev1beta1.ConditionTrue, operatorv1alpha1.ReasonExtensionRequired,
		fmt.Sprintf("Extension required for kinds [%s]", strings.Join(slices.Sorted(maps.Keys(kinds)), " ")),
	}
}

// neededBy returns the objects that the Garden needs and that may not exist yet. A Garden that is being deleted needs no further objects. A
// Garden that names the bucket of its backups needs neither a BackupBucket nor a BackupEntry.
func neededBy(garden *operatorv1alpha1.Garden, e *operatorv1alpha1.Extension) map[resource]bool {
	needed := map[resource]bool{}
	if garden == nil || garden.DeletionTimestamp != nil {
		return needed
	}
	if etcd := garden.Spec.VirtualCluster.ETCD; etcd != nil && etcd.Main != nil && etcd.Main.Backup != nil {
		if backup := etcd.Main.Backup; backup.CreatesBucket() {
			needed[resource{"BackupBucket", backup.Provider}] = true
			needed[resource{"BackupEntry", backup.Provider}] = true
		}
	}
	if dns := garden.Spec.DNS; dns != nil {
		for _, each := range dns.Providers {
			needed[resource{"DNSRecord", each.Type}] = true
		}
	}
	for _, each := range garden.Spec.Extensions {
		needed[resource{operatorv1alpha1.KindExtension, each.Type}] = true
	}
	for _, each := range e.Spec.Resources {
		if each.Kind == operatorv1alpha1.KindExtension && slices.Contains(each.AutoEnable, operatorv1alpha1.ClusterTypeGarden) {
			needed[resource{each.Kind, each.Type}] = true
		}
	}
	return needed
}

// decideVirtual decides whether a Seed needs the extension.
func decideVirtual(all []installations.Installation) verdict {
	for _, each := range all {
		if found := corev1beta1.GetCondition(each.Conditions, "Required"); found != nil && found.Status == corev1beta1.ConditionTrue {
			return verdict{corev1beta1.ConditionTrue, operatorv1alpha1.ReasonInstallationRequired, fmt.Sprintf(
				"ControllerInstallation %q for Seed %q is required", each.Name, each.Seed)}
		}
	}
	return verdict{
		corev1beta1.ConditionFalse, operatorv1alpha1.ReasonNoInstallationRequired, "No ControllerInstallation of the extension is required",
	}
}
