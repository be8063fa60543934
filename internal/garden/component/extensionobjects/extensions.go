package extensionobjects

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	extensionsv1alpha1 "github.com/espalier-dev/espalier/api/extensions/v1alpha1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// beforeKubeAPIServer is the time in a lifecycle before kube-apiserver is deployed or destroyed.
const beforeKubeAPIServer = "BeforeKubeAPIServer"

// Activated is an Extension of extensions.gardener.cloud in the runtime cluster. Early and Within are from the Extension of
// operator.gardener.cloud that offers its type.
type Activated struct {
	*extensionsv1alpha1.Extension

	// Early is true if the object is reconciled before kube-apiserver is deployed.
	Early bool
	// Within is how long the reconciliation may take. 0: the default of package runtime.
	Within time.Duration
}

// Extensions returns the objects of the extensions that the Garden names, followed by the objects of the extensions that one of the
// available Extensions activates in all Gardens. An available Extension that is being deleted does not count.
func Extensions(v values.Values, available []operatorv1alpha1.Extension) []Activated {
	all := make([]Activated, 0, len(v.Extensions))
	for _, each := range v.Extensions {
		all = append(all, activated(v, each))
	}
	for i := range available {
		for _, offered := range available[i].Spec.Resources {
			if offered.Kind != operatorv1alpha1.KindExtension || available[i].DeletionTimestamp != nil {
				continue
			}
			at := slices.IndexFunc(all, func(a Activated) bool { return a.Spec.Type == offered.Type })
			if at < 0 && slices.Contains(offered.AutoEnable, operatorv1alpha1.ClusterTypeGarden) {
				at, all = len(all), append(all, activated(v, operatorv1alpha1.GardenExtension{Type: offered.Type}))
			}
			if at < 0 {
				continue
			}
			lifecycle := ptr.Deref(offered.Lifecycle, operatorv1alpha1.ExtensionLifecycle{})
			all[at].Early = ptr.Deref(lifecycle.Reconcile, "") == beforeKubeAPIServer
			all[at].Within = ptr.Deref(offered.ReconcileTimeout, metav1.Duration{}).Duration
		}
	}
	return all
}

func activated(v values.Values, extension operatorv1alpha1.GardenExtension) Activated {
	return Activated{Extension: &extensionsv1alpha1.Extension{
		TypeMeta:   object.Type(ExtensionKind.GroupVersion().String(), ExtensionKind.Kind),
		ObjectMeta: metav1.ObjectMeta{Namespace: v.Namespace, Name: "garden-" + extension.Type},
		Spec: extensionsv1alpha1.ExtensionSpec{DefaultSpec: extensionsv1alpha1.DefaultSpec{
			Type: extension.Type, Class: ptr.To(extensionsv1alpha1.ClassGarden), ProviderConfig: extension.ProviderConfig,
		}},
	}}
}

// IsDeletedEarly reports whether the object of an extension of a type is deleted before kube-apiserver is destroyed. That is the default.
func IsDeletedEarly(typ string, available []operatorv1alpha1.Extension) bool {
	for i := range available {
		for _, offered := range available[i].Spec.Resources {
			if offered.Kind == operatorv1alpha1.KindExtension && offered.Type == typ && offered.Lifecycle != nil {
				return ptr.Deref(offered.Lifecycle.Delete, beforeKubeAPIServer) == beforeKubeAPIServer
			}
		}
	}
	return true
}
