package gardenaccess

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	appsv1beta1 "k8s.io/api/apps/v1beta1"
	appsv1beta2 "k8s.io/api/apps/v1beta2"
	batchv1 "k8s.io/api/batch/v1"
	batchv1beta1 "k8s.io/api/batch/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/espalier-dev/espalier/api/references"
)

// Access is the access to a garden that the workloads of one installation get.
type Access struct {
	// Namespace is the namespace of the installation. Objects of other namespaces, and objects without a namespace, do not change.
	Namespace string
	// KubeconfigSecret is the name of the Secret with the kubeconfig, under the key kubeconfig, in that namespace. Empty: no workload gets
	// access, and containers get only EnvSeedName.
	KubeconfigSecret string
	// TokenSecret is the name of the Secret with the token, under the key token, in that namespace. Pods start only when this key and the key
	// of KubeconfigSecret exist. They see a renewed token without a restart.
	TokenSecret string
	// MountPath is the folder in which the containers see kubeconfig and token as files. Default: SeedMountPath.
	MountPath string
	// SeedName is the value of EnvSeedName. Default: containers do not get the variable.
	SeedName string
}

// Inject gives obj access to the garden, if it is a workload of the API groups apps or batch in the namespace of the installation. All its
// containers and init containers get the volume VolumeName, which is mounted at the mount path, and the variable EnvKubeconfig. Every
// template in obj gets the annotations of package references for the Secrets and ConfigMaps that the workload uses, so that the garbage
// collector keeps them. A volume, mount or variable of the same name is replaced.
//
// A workload with another value of LabelInject than "true", or of which one container or init container sets EnvKubeconfig, gets neither
// the volume, the variable EnvKubeconfig nor the annotations. EnvSeedName is set in each workload of the namespace. Ephemeral containers do
// not change. A second call changes nothing.
//
// Inject knows Deployments and StatefulSets of apps/v1, v1beta2 and v1beta1; DaemonSets of apps/v1 and v1beta2; Jobs of batch/v1; CronJobs
// of batch/v1 and v1beta1; as Go types, and as unstructured objects, of which it changes the named fields only. Another kind of the two
// groups in the namespace of the installation is an error, and so is an unstructured workload with a field of the wrong type.
//
// Source: Gardener 1.103, which reads the same kinds, and 1.149 for LabelInject.
func (a Access) Inject(obj runtime.Object) error {
	if raw, isRaw := obj.(*unstructured.Unstructured); isRaw {
		return a.injectUnstructured(raw)
	}
	accessor, err := meta.Accessor(obj)
	if kinds, _, unknown := workloads.ObjectKinds(obj); unknown != nil || err != nil || !a.covers(kinds[0], accessor) {
		return nil //nolint:nilerr // objects of other groups do not change
	}
	_, err = a.inject(obj, accessor)
	return err
}

// covers reports whether Inject handles an object: the object is in the API group apps or batch, and in the namespace of the installation.
// For a kind of these groups that Inject does not know, Inject returns an error.
func (a Access) covers(gvk schema.GroupVersionKind, obj metav1.Object) bool {
	return (gvk.Group == appsv1.GroupName || gvk.Group == batchv1.GroupName) && a.Namespace != "" && obj.GetNamespace() == a.Namespace
}

// inject injects into a Go type of the two groups and returns the additions to its Pods.
func (a Access) inject(workload runtime.Object, m metav1.Object) (additions, error) {
	pod := references.PodSpec(workload)
	if pod == nil {
		return additions{}, fmt.Errorf("inject garden access into %s/%s: unhandled object type %T", m.GetNamespace(), m.GetName(), workload)
	}
	added := a.additions(a.KubeconfigSecret != "" && WantsAccess(m) && !hasOwnAccess(pod))
	added.addTo(pod)
	if added.volume == nil {
		return added, nil
	}
	return added, references.InjectAnnotations(workload)
}

// additions are the parts of a Pod that the injection adds.
type additions struct {
	volume    *corev1.Volume // nil: neither the volume nor the mount
	mount     corev1.VolumeMount
	variables []corev1.EnvVar
}

func (a Access) additions(access bool) additions {
	var added additions
	if access {
		path := a.MountPath
		if path == "" {
			path = SeedMountPath
		}
		added.volume = &corev1.Volume{Name: VolumeName, VolumeSource: Files(a.KubeconfigSecret, a.TokenSecret)}
		added.mount = mountOf(added.volume.Name, path)
		added.variables = append(added.variables, corev1.EnvVar{Name: EnvKubeconfig, Value: path + "/" + kubeconfigFile})
	}
	if a.SeedName != "" {
		added.variables = append(added.variables, corev1.EnvVar{Name: EnvSeedName, Value: a.SeedName})
	}
	return added
}

func (a additions) addTo(pod *corev1.PodSpec) {
	if a.volume != nil {
		pod.Volumes = put(pod.Volumes, *a.volume, nameOfVolume)
	}
	for c := range containers(pod) {
		if a.volume != nil {
			c.VolumeMounts = put(c.VolumeMounts, a.mount, nameOfMount)
		}
		for _, each := range a.variables {
			c.Env = put(c.Env, each, nameOfVariable)
		}
	}
}

// WantsAccess reports whether the label LabelInject of a workload allows the injection. Programs create the Secret with the token only if
// one of the workloads that they install, Pods included, wants access.
func WantsAccess(workload metav1.Object) bool {
	value, labelled := workload.GetLabels()[LabelInject]
	return !labelled || value == "true"
}

// Files returns the volume source with the kubeconfig of one Secret and the token of another. Pods wait for both keys.
func Files(kubeconfigSecret, tokenSecret string) corev1.VolumeSource {
	return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: new(int32(0o644)),
		Sources:     []corev1.VolumeProjection{file(kubeconfigSecret, kubeconfigFile), file(tokenSecret, tokenFile)},
	}}
}

func file(secret, key string) corev1.VolumeProjection {
	return corev1.VolumeProjection{Secret: &corev1.SecretProjection{
		LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Optional: new(false),
		Items: []corev1.KeyToPath{{Key: key, Path: key}},
	}}
}

// Mount mounts a volume read-only at path in all containers and init containers of a Pod. A volume of the same name is replaced, and so is
// the first mount of that name in each container.
func Mount(pod *corev1.PodSpec, volume corev1.Volume, path string) {
	additions{volume: &volume, mount: mountOf(volume.Name, path)}.addTo(pod)
}

func mountOf(volume, path string) corev1.VolumeMount {
	return corev1.VolumeMount{Name: volume, MountPath: path, ReadOnly: true}
}

func hasOwnAccess(pod *corev1.PodSpec) bool {
	for c := range containers(pod) {
		if slices.ContainsFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == EnvKubeconfig }) {
			return true
		}
	}
	return false
}

func nameOfVolume(v corev1.Volume) string     { return v.Name }
func nameOfMount(m corev1.VolumeMount) string { return m.Name }
func nameOfVariable(v corev1.EnvVar) string   { return v.Name }

// containers yields the init containers and the containers of a Pod.
func containers(pod *corev1.PodSpec) func(yield func(*corev1.Container) bool) {
	return func(yield func(*corev1.Container) bool) {
		for _, list := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
	}
}

// put returns a copy of list in which value has the place of the first item of the same name, or the last place. Containers may share a
// list.
func put[T any](list []T, value T, name func(T) string) []T {
	list = slices.Clone(list)
	if i := slices.IndexFunc(list, func(item T) bool { return name(item) == name(value) }); i >= 0 {
		list[i] = value
		return list
	}
	return append(list, value)
}

// workloads has the kinds of the API groups apps and batch.
var workloads = scheme()

func scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		appsv1.AddToScheme, appsv1beta1.AddToScheme, appsv1beta2.AddToScheme, batchv1.AddToScheme, batchv1beta1.AddToScheme,
	} {
		utilruntime.Must(add(s)) // which cannot fail, because the kinds do not overlap
	}
	return s
}
