package gardenaccess_test

import (
	"math/rand/v2"
	"os"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	appsv1beta1 "k8s.io/api/apps/v1beta1"
	appsv1beta2 "k8s.io/api/apps/v1beta2"
	batchv1 "k8s.io/api/batch/v1"
	batchv1beta1 "k8s.io/api/batch/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/api/gardenaccess"
)

const (
	namespace = "extension-provider-local"
	seedPath  = "/var/run/secrets/gardener.cloud/garden/generic-kubeconfig"
)

func access() gardenaccess.Access {
	return gardenaccess.Access{
		Namespace:        namespace,
		KubeconfigSecret: "generic-garden-kubeconfig-81fb3a88", TokenSecret: "garden-access-extension", SeedName: "local",
	}
}

// secretReferences are the annotations that the document of Gardener shows, which the package comment names.
func secretReferences() map[string]string {
	return map[string]string{
		"reference.resources.gardener.cloud/secret-795f7ca6": "garden-access-extension",
		"reference.resources.gardener.cloud/secret-d5f5a834": "generic-garden-kubeconfig-81fb3a88",
	}
}

func filesVolume() corev1.Volume {
	return corev1.Volume{Name: "garden-kubeconfig", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: new(int32(420)),
		Sources: []corev1.VolumeProjection{
			{Secret: &corev1.SecretProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: "generic-garden-kubeconfig-81fb3a88"},
				Items:                []corev1.KeyToPath{{Key: "kubeconfig", Path: "kubeconfig"}}, Optional: new(false),
			}},
			{Secret: &corev1.SecretProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: "garden-access-extension"},
				Items:                []corev1.KeyToPath{{Key: "token", Path: "token"}}, Optional: new(false),
			}},
		},
	}}}
}

func mountAt(path string) corev1.VolumeMount {
	return corev1.VolumeMount{Name: "garden-kubeconfig", MountPath: path, ReadOnly: true}
}

func variable(name, value string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, Value: value}
}

// gardenVariables are the variables that a container gets at the end of its list.
func gardenVariables(before ...corev1.EnvVar) []corev1.EnvVar {
	return append(before, variable("GARDEN_KUBECONFIG", seedPath+"/kubeconfig"), variable("SEED_NAME", "local"))
}

// workload is a kind of workload. Function make gives a template of Jobs the metadata of the template of Pods too.
type workload struct {
	kind schema.GroupVersionKind
	make func(metav1.ObjectMeta, corev1.PodTemplateSpec) runtime.Object
}

// workloads returns all kinds that the injection knows.
func workloads() map[string]workload {
	type m = metav1.ObjectMeta
	type template = corev1.PodTemplateSpec
	apps := func(version, kind string) schema.GroupVersionKind {
		return schema.GroupVersionKind{Group: "apps", Version: version, Kind: kind}
	}
	batch := func(version, kind string) schema.GroupVersionKind {
		return schema.GroupVersionKind{Group: "batch", Version: version, Kind: kind}
	}
	return map[string]workload{
		"apps/v1 Deployment": {kind: apps("v1", "Deployment"), make: func(o m, t template) runtime.Object {
			return &appsv1.Deployment{ObjectMeta: o, Spec: appsv1.DeploymentSpec{Template: t}}
		}},
		"apps/v1beta2 Deployment": {kind: apps("v1beta2", "Deployment"), make: func(o m, t template) runtime.Object {
			return &appsv1beta2.Deployment{ObjectMeta: o, Spec: appsv1beta2.DeploymentSpec{Template: t}}
		}},
		"apps/v1beta1 Deployment": {kind: apps("v1beta1", "Deployment"), make: func(o m, t template) runtime.Object {
			return &appsv1beta1.Deployment{ObjectMeta: o, Spec: appsv1beta1.DeploymentSpec{Template: t}}
		}},
		"apps/v1 StatefulSet": {kind: apps("v1", "StatefulSet"), make: func(o m, t template) runtime.Object {
			return &appsv1.StatefulSet{ObjectMeta: o, Spec: appsv1.StatefulSetSpec{Template: t}}
		}},
		"apps/v1beta2 StatefulSet": {kind: apps("v1beta2", "StatefulSet"), make: func(o m, t template) runtime.Object {
			return &appsv1beta2.StatefulSet{ObjectMeta: o, Spec: appsv1beta2.StatefulSetSpec{Template: t}}
		}},
		"apps/v1beta1 StatefulSet": {kind: apps("v1beta1", "StatefulSet"), make: func(o m, t template) runtime.Object {
			return &appsv1beta1.StatefulSet{ObjectMeta: o, Spec: appsv1beta1.StatefulSetSpec{Template: t}}
		}},
		"apps/v1 DaemonSet": {kind: apps("v1", "DaemonSet"), make: func(o m, t template) runtime.Object {
			return &appsv1.DaemonSet{ObjectMeta: o, Spec: appsv1.DaemonSetSpec{Template: t}}
		}},
		"apps/v1beta2 DaemonSet": {kind: apps("v1beta2", "DaemonSet"), make: func(o m, t template) runtime.Object {
			return &appsv1beta2.DaemonSet{ObjectMeta: o, Spec: appsv1beta2.DaemonSetSpec{Template: t}}
		}},
		"batch/v1 Job": {kind: batch("v1", "Job"), make: func(o m, t template) runtime.Object {
			return &batchv1.Job{ObjectMeta: o, Spec: batchv1.JobSpec{Template: t}}
		}},
		"batch/v1 CronJob": {kind: batch("v1", "CronJob"), make: func(o m, t template) runtime.Object {
			jobs := batchv1.JobTemplateSpec{ObjectMeta: t.ObjectMeta, Spec: batchv1.JobSpec{Template: t}}
			return &batchv1.CronJob{ObjectMeta: o, Spec: batchv1.CronJobSpec{JobTemplate: jobs}}
		}},
		"batch/v1beta1 CronJob": {kind: batch("v1beta1", "CronJob"), make: func(o m, t template) runtime.Object {
			jobs := batchv1beta1.JobTemplateSpec{ObjectMeta: t.ObjectMeta, Spec: batchv1.JobSpec{Template: t}}
			return &batchv1beta1.CronJob{ObjectMeta: o, Spec: batchv1beta1.CronJobSpec{JobTemplate: jobs}}
		}},
	}
}

func inExtension(changes ...func(*metav1.ObjectMeta)) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: namespace, Name: "controller"}
	for _, change := range changes {
		change(&m)
	}
	return m
}

func labelled(value string) func(*metav1.ObjectMeta) {
	return func(m *metav1.ObjectMeta) {
		m.Labels = map[string]string{"extensions.gardener.cloud/inject-garden-kubeconfig": value}
	}
}

func template(spec corev1.PodSpec) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: spec}
}

func deployment(m metav1.ObjectMeta, spec corev1.PodSpec) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: m, Spec: appsv1.DeploymentSpec{Template: template(spec)}}
}

// unstructuredOf returns the object as a chart has it, with its kind.
func unstructuredOf(g Gomega, obj runtime.Object, kind schema.GroupVersionKind) *unstructured.Unstructured {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	g.Expect(err).NotTo(HaveOccurred())
	raw := &unstructured.Unstructured{Object: content}
	raw.SetGroupVersionKind(kind)
	return raw
}

func TestInjectGivesTheExampleOfTheDocument(t *testing.T) {
	g := NewWithT(t)
	read := func(file string, into any) {
		data, err := os.ReadFile("testdata/" + file)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(yaml.UnmarshalStrict(data, into)).To(Succeed())
	}
	raw, wantRaw := &unstructured.Unstructured{}, &unstructured.Unstructured{}
	read("chart.yaml", raw)
	read("injected.yaml", wantRaw)
	g.Expect(access().Inject(raw)).To(Succeed())
	g.Expect(raw).To(BeComparableTo(wantRaw))

	typed, want := &appsv1.Deployment{}, &appsv1.Deployment{}
	read("chart.yaml", typed)
	read("injected.yaml", want)
	g.Expect(access().Inject(typed)).To(Succeed())
	g.Expect(typed).To(BeComparableTo(want))
}

func TestInjectIntoEachKind(t *testing.T) {
	before := corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "first"}},
		Containers:     []corev1.Container{{Name: "one", Env: []corev1.EnvVar{variable("A", "a")}}, {Name: "two"}},
	}
	after := corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "first", Env: gardenVariables(), VolumeMounts: []corev1.VolumeMount{mountAt(seedPath)}}},
		Containers: []corev1.Container{
			{Name: "one", Env: gardenVariables(variable("A", "a")), VolumeMounts: []corev1.VolumeMount{mountAt(seedPath)}},
			{Name: "two", Env: gardenVariables(), VolumeMounts: []corev1.VolumeMount{mountAt(seedPath)}},
		},
		Volumes: []corev1.Volume{filesVolume()},
	}
	wantTemplate := template(after)
	wantTemplate.Annotations = secretReferences()
	for name, each := range workloads() {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			obj := each.make(inExtension(), template(*before.DeepCopy()))
			raw := unstructuredOf(g, obj, each.kind)
			want := each.make(inExtension(func(m *metav1.ObjectMeta) { m.Annotations = secretReferences() }), wantTemplate)
			g.Expect(access().Inject(obj)).To(Succeed())
			g.Expect(obj).To(BeComparableTo(want))
			g.Expect(access().Inject(raw)).To(Succeed())
			g.Expect(raw).To(BeComparableTo(unstructuredOf(g, want, each.kind)))
		})
	}
}

func TestInjectIntoContainers(t *testing.T) {
	mounted := []corev1.VolumeMount{mountAt(seedPath)}
	seedOnly := []corev1.EnvVar{variable("SEED_NAME", "local")}
	fromSecret := corev1.EnvVar{Name: "SEED_NAME", ValueFrom: &corev1.EnvVarSource{
		SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "seed"}, Key: "name"},
	}}
	own := variable("GARDEN_KUBECONFIG", "/own/kubeconfig")
	for name, tc := range map[string]struct {
		change       func(*gardenaccess.Access)
		meta         metav1.ObjectMeta
		before, want corev1.PodSpec
		references   map[string]string // nil: as it was
	}{
		"label true": {
			meta:   inExtension(labelled("true")),
			before: corev1.PodSpec{Containers: []corev1.Container{{}}},
			want: corev1.PodSpec{
				Containers: []corev1.Container{{Env: gardenVariables(), VolumeMounts: mounted}}, Volumes: []corev1.Volume{filesVolume()},
			},
			references: secretReferences(),
		},
		"no kubeconfig": {
			change: func(a *gardenaccess.Access) { a.KubeconfigSecret = "" },
			meta:   inExtension(),
			before: corev1.PodSpec{Containers: []corev1.Container{{}}},
			want:   corev1.PodSpec{Containers: []corev1.Container{{Env: seedOnly}}},
		},
		"label false": {
			meta:   inExtension(labelled("false")),
			before: corev1.PodSpec{Containers: []corev1.Container{{}}},
			want:   corev1.PodSpec{Containers: []corev1.Container{{Env: seedOnly}}},
		},
		"label that is neither true nor false": {
			meta:   inExtension(labelled("")),
			before: corev1.PodSpec{Containers: []corev1.Container{{}}},
			want:   corev1.PodSpec{Containers: []corev1.Container{{Env: seedOnly}}},
		},
		"a container that sets the variable keeps its own access, and all others get none": {
			meta: inExtension(),
			before: corev1.PodSpec{
				InitContainers: []corev1.Container{{Name: "first"}},
				Containers:     []corev1.Container{{Name: "one", Env: []corev1.EnvVar{own}}, {Name: "two"}},
			},
			want: corev1.PodSpec{
				InitContainers: []corev1.Container{{Name: "first", Env: seedOnly}},
				Containers:     []corev1.Container{{Name: "one", Env: []corev1.EnvVar{own, seedOnly[0]}}, {Name: "two", Env: seedOnly}},
			},
		},
		"an init container that sets the variable to nothing": {
			meta: inExtension(),
			before: corev1.PodSpec{
				InitContainers: []corev1.Container{{Env: []corev1.EnvVar{variable("GARDEN_KUBECONFIG", "")}}}, Containers: []corev1.Container{{}},
			},
			want: corev1.PodSpec{
				InitContainers: []corev1.Container{{Env: []corev1.EnvVar{variable("GARDEN_KUBECONFIG", ""), seedOnly[0]}}},
				Containers:     []corev1.Container{{Env: seedOnly}},
			},
		},
		"an ephemeral container stays as it is": {
			meta: inExtension(),
			before: corev1.PodSpec{EphemeralContainers: []corev1.EphemeralContainer{
				{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Env: []corev1.EnvVar{own}}},
			}},
			want: corev1.PodSpec{
				EphemeralContainers: []corev1.EphemeralContainer{
					{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Env: []corev1.EnvVar{own}}},
				},
				Volumes: []corev1.Volume{filesVolume()},
			},
			references: secretReferences(),
		},
		"volume, mount and seed name of the chart are replaced in their places": {
			meta: inExtension(),
			before: corev1.PodSpec{
				Containers: []corev1.Container{{
					Env: []corev1.EnvVar{fromSecret, variable("Z", "z")},
					VolumeMounts: []corev1.VolumeMount{
						{Name: "garden-kubeconfig", MountPath: "/old", SubPath: "x"}, {Name: "other", MountPath: "/other"},
					},
				}},
				Volumes: []corev1.Volume{
					{Name: "garden-kubeconfig", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
					{Name: "other", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				},
			},
			want: corev1.PodSpec{
				Containers: []corev1.Container{{
					Env: []corev1.EnvVar{
						variable("SEED_NAME", "local"), variable("Z", "z"), variable("GARDEN_KUBECONFIG", seedPath+"/kubeconfig"),
					},
					VolumeMounts: []corev1.VolumeMount{mounted[0], {Name: "other", MountPath: "/other"}},
				}},
				Volumes: []corev1.Volume{
					filesVolume(), {Name: "other", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				},
			},
			references: secretReferences(), // and not the Secret of the variable that was replaced
		},
		"in the cluster of the garden": {
			change: func(a *gardenaccess.Access) { a.MountPath, a.SeedName = gardenaccess.RuntimeMountPath, "" },
			meta:   inExtension(),
			before: corev1.PodSpec{Containers: []corev1.Container{{}}},
			want: corev1.PodSpec{
				Containers: []corev1.Container{{
					Env: []corev1.EnvVar{
						variable("GARDEN_KUBECONFIG", "/var/run/secrets/gardener.cloud/shoot/generic-kubeconfig/kubeconfig"),
					},
					VolumeMounts: []corev1.VolumeMount{mountAt("/var/run/secrets/gardener.cloud/shoot/generic-kubeconfig")},
				}},
				Volumes: []corev1.Volume{filesVolume()},
			},
			references: secretReferences(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			a := access()
			if tc.change != nil {
				tc.change(&a)
			}
			obj := deployment(tc.meta, tc.before)
			want := deployment(*tc.meta.DeepCopy(), tc.want)
			if tc.references != nil {
				want.Annotations, want.Spec.Template.Annotations = tc.references, tc.references
			}
			raw := unstructuredOf(g, obj, appsv1.SchemeGroupVersion.WithKind("Deployment"))
			g.Expect(a.Inject(obj)).To(Succeed())
			g.Expect(obj).To(BeComparableTo(want))
			g.Expect(a.Inject(raw)).To(Succeed())
			g.Expect(raw).To(BeComparableTo(unstructuredOf(g, want, appsv1.SchemeGroupVersion.WithKind("Deployment"))))
		})
	}
}

func TestInjectAnnotatesAllReferences(t *testing.T) {
	g := NewWithT(t)
	obj := deployment(
		inExtension(func(m *metav1.ObjectMeta) {
			m.Annotations = map[string]string{"kept": "value", "reference.resources.gardener.cloud/secret-12345678": "stale"}
		}),
		corev1.PodSpec{Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "test-5678"}},
		}}}},
	)
	g.Expect(access().Inject(obj)).To(Succeed())
	want := secretReferences()
	want["reference.resources.gardener.cloud/configmap-4ed34879"] = "test-5678"
	g.Expect(obj.Spec.Template.Annotations).To(Equal(want))
	want["kept"] = "value"
	g.Expect(obj.Annotations).To(Equal(want))
}

func TestInjectKeepsReferencesOfWorkloadsWithoutAccess(t *testing.T) {
	g := NewWithT(t)
	stale := map[string]string{"reference.resources.gardener.cloud/secret-12345678": "managed by the author"}
	obj := deployment(inExtension(labelled("false"), func(m *metav1.ObjectMeta) { m.Annotations = stale }), corev1.PodSpec{})
	g.Expect(access().Inject(obj)).To(Succeed())
	g.Expect(obj.Annotations).To(Equal(map[string]string{"reference.resources.gardener.cloud/secret-12345678": "managed by the author"}))
	g.Expect(obj.Spec.Template.Annotations).To(BeNil())
}

func TestInjectLeavesOtherObjects(t *testing.T) {
	spec := corev1.PodSpec{Containers: []corev1.Container{{Name: "one"}}}
	elsewhere := metav1.ObjectMeta{Namespace: "kube-system", Name: "x"}
	for name, tc := range map[string]struct {
		obj       runtime.Object
		namespace string
	}{
		"a workload of another namespace":       {obj: deployment(elsewhere, spec), namespace: namespace},
		"a workload without a namespace":        {obj: deployment(metav1.ObjectMeta{Name: "x"}, spec), namespace: namespace},
		"a workload without a namespace at all": {obj: deployment(metav1.ObjectMeta{Name: "x"}, spec)},
		"a ReplicaSet of another namespace":     {obj: &appsv1.ReplicaSet{ObjectMeta: elsewhere}, namespace: namespace},
		"a Pod":                                 {obj: &corev1.Pod{ObjectMeta: inExtension(), Spec: spec}, namespace: namespace},
		"a list": {
			obj: &appsv1.DeploymentList{Items: []appsv1.Deployment{*deployment(inExtension(), spec)}}, namespace: namespace,
		},
		"a kind of another group": {obj: &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apps.example.com/v1", "kind": "Deployment", "metadata": map[string]any{"namespace": namespace, "name": "x"},
		}}, namespace: namespace},
		"an unstructured workload of another namespace": {obj: &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"namespace": "kube-system", "name": "x"},
		}}, namespace: namespace},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			a, before := access(), tc.obj.DeepCopyObject()
			a.Namespace = tc.namespace
			g.Expect(a.Inject(tc.obj)).To(Succeed())
			g.Expect(tc.obj).To(BeComparableTo(before))
		})
	}
}

func TestInjectRefuses(t *testing.T) {
	raw := func(apiVersion, kind string, spec map[string]any) runtime.Object {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"namespace": namespace, "name": "x"}, "spec": spec,
		}}
	}
	where := "inject garden access into extension-provider-local/x: "
	for name, tc := range map[string]struct {
		obj  runtime.Object
		want string
	}{
		"a ReplicaSet": {
			obj:  &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "x"}},
			want: where + "unhandled object type *v1.ReplicaSet",
		},
		"an unstructured ReplicaSet": {obj: raw("apps/v1", "ReplicaSet", nil), want: where + "unhandled object type *v1.ReplicaSet"},
		"an unknown kind":            {obj: raw("apps/v3", "Deployment", nil), want: `no kind "Deployment" is registered for version "apps/v3"`},
		"a malformed field": {
			obj:  raw("apps/v1", "Deployment", map[string]any{"replicas": "many"}),
			want: where,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			before := tc.obj.DeepCopyObject()
			g.Expect(access().Inject(tc.obj)).To(MatchError(ContainSubstring(tc.want)))
			g.Expect(tc.obj).To(BeComparableTo(before))
		})
	}
}

func TestInjectKeepsFieldsOfNewerReleases(t *testing.T) {
	g := NewWithT(t)
	raw := &unstructured.Unstructured{}
	g.Expect(yaml.Unmarshal([]byte(`
apiVersion: batch/v1
kind: CronJob
metadata: {name: x, namespace: extension-provider-local, newer: 1}
spec:
  newer: 1
  jobTemplate:
    metadata: null
    spec:
      template:
        spec:
          newer: 1
          volumes:
          - {name: data, newer: {}}
          containers:
          - {name: one, newer: 1, env: [{name: A, valueFrom: {newer: {}}}], volumeMounts: [{name: data, mountPath: /data, newer: 1}]}
          - null
`), &raw.Object)).To(Succeed())
	g.Expect(access().Inject(raw)).To(Succeed())
	want := map[string]any{}
	g.Expect(yaml.Unmarshal([]byte(`
apiVersion: batch/v1
kind: CronJob
metadata:
  name: x
  namespace: extension-provider-local
  newer: 1
  annotations: &references
    reference.resources.gardener.cloud/secret-795f7ca6: garden-access-extension
    reference.resources.gardener.cloud/secret-d5f5a834: generic-garden-kubeconfig-81fb3a88
spec:
  newer: 1
  jobTemplate:
    metadata: {annotations: *references}
    spec:
      template:
        metadata: {annotations: *references}
        spec:
          newer: 1
          volumes:
          - {name: data, newer: {}}
          - name: garden-kubeconfig
            projected:
              defaultMode: 420
              sources:
              - secret:
                  {name: generic-garden-kubeconfig-81fb3a88, optional: false, items: [{key: kubeconfig, path: kubeconfig}]}
              - secret: {name: garden-access-extension, optional: false, items: [{key: token, path: token}]}
          containers:
          - name: one
            newer: 1
            env:
            - {name: A, valueFrom: {newer: {}}}
            - {name: GARDEN_KUBECONFIG, value: /var/run/secrets/gardener.cloud/garden/generic-kubeconfig/kubeconfig}
            - {name: SEED_NAME, value: local}
            volumeMounts:
            - {name: data, mountPath: /data, newer: 1}
            - {name: garden-kubeconfig, mountPath: /var/run/secrets/gardener.cloud/garden/generic-kubeconfig, readOnly: true}
          - null
`), &want)).To(Succeed())
	g.Expect(yaml.Marshal(raw.Object)).To(MatchYAML(must(yaml.Marshal(want))))
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// TestInjectTwice compares, for random workloads of each kind, the first injection with the second one, and the injection into the Go type
// with the one into the unstructured object.
func TestInjectTwice(t *testing.T) {
	for name, each := range workloads() {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			for seed := range uint64(200) {
				r := rand.New(rand.NewPCG(seed, 1))
				obj := each.make(inExtension(randomLabel(r)), template(randomPod(r)))
				raw := unstructuredOf(g, obj, each.kind)

				g.Expect(access().Inject(obj)).To(Succeed())
				once := obj.DeepCopyObject()
				g.Expect(access().Inject(obj)).To(Succeed())
				g.Expect(obj).To(BeComparableTo(once), "second injection, seed %d", seed)

				g.Expect(access().Inject(raw)).To(Succeed())
				g.Expect(raw).To(BeComparableTo(unstructuredOf(g, once, each.kind)), "unstructured, seed %d", seed)
				g.Expect(access().Inject(raw)).To(Succeed())
				g.Expect(raw).To(BeComparableTo(unstructuredOf(g, once, each.kind)), "unstructured a second time, seed %d", seed)
			}
		})
	}
}

func randomLabel(r *rand.Rand) func(*metav1.ObjectMeta) {
	values := []string{"true", "false", "other"}
	if n := r.IntN(6); n < len(values) {
		return labelled(values[n])
	}
	return func(*metav1.ObjectMeta) {}
}

func randomPod(r *rand.Rand) corev1.PodSpec {
	var spec corev1.PodSpec
	for range r.IntN(3) {
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: oneOf(r, "garden-kubeconfig", "data"), VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: oneOf(r, "seed", "garden-access-extension")},
		}})
	}
	for range r.IntN(3) {
		spec.InitContainers = append(spec.InitContainers, randomContainer(r))
	}
	for range r.IntN(3) {
		spec.Containers = append(spec.Containers, randomContainer(r))
	}
	return spec
}

func randomContainer(r *rand.Rand) corev1.Container {
	c := corev1.Container{Name: oneOf(r, "one", "two")}
	for range r.IntN(3) {
		// GARDEN_KUBECONFIG is rare, so that most Pods get access.
		c.Env = append(c.Env, variable(oneOf(r, "A", "B", "C", "SEED_NAME", "SEED_NAME", "GARDEN_KUBECONFIG"), oneOf(r, "", "x")))
	}
	for range r.IntN(3) {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: oneOf(r, "garden-kubeconfig", "data"), MountPath: "/old"})
	}
	return c
}

func oneOf(r *rand.Rand, values ...string) string {
	return values[r.IntN(len(values))]
}
