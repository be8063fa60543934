package crdtest

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/test/binary"
)

// writer writes a manifest to the API server. It fails for fields that the schema does not have.
type writer func(e *env, manifest *unstructured.Unstructured) error

// writers are the ways in which clients write manifests.
func writers() map[string]writer {
	return map[string]writer{
		"create and update": createOrUpdate,
		"client-side apply": applyOnClient,
		"server-side apply": func(e *env, manifest *unstructured.Unstructured) error { return applyOnServer(e, manifest) },
	}
}

func createOrUpdate(e *env, manifest *unstructured.Unstructured) error {
	current := manifest.DeepCopy()
	err := e.client.Get(e.t.Context(), client.ObjectKeyFromObject(manifest), current)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err != nil {
		return e.client.Create(e.t.Context(), manifest.DeepCopy(), client.FieldValidation("Strict"))
	}
	updated := manifest.DeepCopy()
	updated.SetResourceVersion(current.GetResourceVersion())
	return e.client.Update(e.t.Context(), updated, client.FieldValidation("Strict"))
}

// applyOnClient writes a manifest as kubectl apply does: with a three-way merge patch from the manifest that was applied last, the new
// manifest and the stored object.
func applyOnClient(e *env, manifest *unstructured.Unstructured) error {
	modified := manifest.DeepCopy()
	applied, err := json.Marshal(manifest)
	e.Expect(err).NotTo(HaveOccurred())
	annotations := modified.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[corev1.LastAppliedConfigAnnotation] = string(applied)
	modified.SetAnnotations(annotations)

	current := manifest.DeepCopy()
	err = e.client.Get(e.t.Context(), client.ObjectKeyFromObject(manifest), current)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err != nil {
		return e.client.Create(e.t.Context(), modified, client.FieldValidation("Strict"))
	}
	before := []byte(current.GetAnnotations()[corev1.LastAppliedConfigAnnotation])
	after, err := json.Marshal(modified)
	e.Expect(err).NotTo(HaveOccurred())
	now, err := json.Marshal(current)
	e.Expect(err).NotTo(HaveOccurred())
	patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch(before, after, now)
	e.Expect(err).NotTo(HaveOccurred())
	return e.client.Patch(e.t.Context(), current, client.RawPatch(types.MergePatchType, patch), client.FieldValidation("Strict"))
}

func applyOnServer(e *env, manifest *unstructured.Unstructured, options ...client.ApplyOption) error {
	options = append(options, client.FieldOwner("user"))
	return e.client.Apply(e.t.Context(), client.ApplyConfigurationFromUnstructured(manifest.DeepCopy()), options...)
}

func TestManifestsOfEveryReleaseAreStoredAsWritten(t *testing.T) {
	served := newEnv(t)
	manifests := served.manifests()
	for way, write := range writers() {
		for name, manifest := range manifests {
			t.Run(way+" of "+name, func(t *testing.T) {
				e := served.in(t)
				status := manifest.Object["status"]
				written := manifest.DeepCopy()
				delete(written.Object, "status")
				binary.DeleteAtEnd(e.t, e.client, written)
				e.Expect(write(e, written)).To(Succeed())
				first := e.stored(written)
				e.Expect(first.Object["spec"]).To(BeComparableTo(manifest.Object["spec"]))
				e.Expect(write(e, written)).To(Succeed(), "again")
				e.Expect(e.stored(written).GetResourceVersion()).To(Equal(first.GetResourceVersion()), "nothing has changed")

				first.Object["status"] = status
				e.Expect(e.client.Status().Update(t.Context(), first)).To(Succeed())
				stored := e.stored(written)
				e.Expect(stored.Object["status"]).To(BeComparableTo(status))
				e.Expect(stored.Object["spec"]).To(BeComparableTo(manifest.Object["spec"]))
				e.Expect(stored.GetGeneration()).To(BeEquivalentTo(1))
				e.Expect(write(e, written)).To(Succeed(), "with a status")
				e.Expect(e.stored(written).Object["status"]).To(BeComparableTo(status))
			})
		}
	}
}

// forms are the changes to the minimal Garden that bring each field with two forms into one of them.
func forms() map[string]map[string]string {
	networks := map[string]string{
		"runtimeCluster.networking.pods":     `10.2.0.0/16`,
		"runtimeCluster.networking.services": `10.3.0.0/16`,
		"virtualCluster.networking.services": `100.64.0.0/13`,
	}
	names := maps.Clone(networks)
	names["runtimeCluster.ingress.domains"] = `[ingress.example.com]`
	names["virtualCluster.dns.domains"] = `[example.com]`
	oneDomain := maps.Clone(names)
	oneDomain["runtimeCluster.ingress.domains"] = "-"
	oneDomain["runtimeCluster.ingress.domain"] = `ingress.example.com`
	return map[string]map[string]string{"current": {}, "v1.112": networks, "v1.107": names, "v1.84": oneDomain}
}

func TestAGardenChangesFromEveryFormToEveryOther(t *testing.T) {
	served := newEnv(t)
	for way, write := range writers() {
		for from, before := range forms() {
			for to, after := range forms() {
				if from == to {
					continue
				}
				t.Run(way+" from "+from+" to "+to, func(t *testing.T) {
					e := served.in(t)
					first, second := e.garden("forms", before), e.garden("forms", after)
					binary.DeleteAtEnd(e.t, e.client, first)
					e.Expect(write(e, first)).To(Succeed())
					e.Expect(e.stored(first).Object["spec"]).To(BeComparableTo(first.Object["spec"]))
					e.Expect(write(e, second)).To(Succeed())
					e.Expect(e.stored(second).Object["spec"]).To(BeComparableTo(second.Object["spec"]))
				})
			}
		}
	}
}

// A Garden that was applied in one way can be applied in another way, in another form.
func TestTheWayToApplyAndTheFormChangeTogether(t *testing.T) {
	served := newEnv(t)
	for first, write := range writers() {
		for second, writeAgain := range writers() {
			if first == second {
				continue
			}
			t.Run(first+", then "+second, func(t *testing.T) {
				e := served.in(t)
				before, after := e.garden("ways", forms()["v1.107"]), e.garden("ways", nil)
				binary.DeleteAtEnd(e.t, e.client, before)
				e.Expect(write(e, before)).To(Succeed())
				if second == "server-side apply" { // it asks users for this option when another manager has set a field
					writeAgain = func(e *env, manifest *unstructured.Unstructured) error {
						return applyOnServer(e, manifest, client.ForceOwnership)
					}
				}
				e.Expect(writeAgain(e, after)).To(Succeed())
				e.Expect(e.stored(after).Object["spec"]).To(BeComparableTo(after.Object["spec"]))
			})
		}
	}
}

// A Go program that changes other fields by patches leaves the form of the stored fields alone.
func TestPatchesOfGoProgramsKeepTheStoredForm(t *testing.T) {
	served := newEnv(t)
	for name, changes := range forms() {
		t.Run(name, func(t *testing.T) {
			e := served.in(t)
			created, err := e.create(e.garden("patches", changes))
			e.Expect(err).NotTo(HaveOccurred())
			garden := &operatorv1alpha1.Garden{}
			e.Expect(e.client.Get(t.Context(), client.ObjectKeyFromObject(created), garden)).To(Succeed())

			before := garden.DeepCopy()
			garden.Annotations = map[string]string{operatorv1alpha1.AnnotationGenericTokenKubeconfig: "a"}
			e.Expect(e.client.Patch(t.Context(), garden, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))).To(Succeed())
			before = garden.DeepCopy()
			garden.Status.ObservedGeneration = garden.Generation
			garden.Status.Tasks = []operatorv1alpha1.Task{{Name: "a", State: operatorv1alpha1.TaskRunning, Since: created.GetCreationTimestamp()}}
			e.Expect(e.client.Status().Patch(t.Context(), garden, client.MergeFrom(before))).To(Succeed())
			e.Expect(e.stored(created).Object["spec"]).To(BeComparableTo(created.Object["spec"]))
			e.Expect(e.stored(created).GetGeneration()).To(BeEquivalentTo(1))
		})
	}
}

// Go programs can read Gardens that wrong manifests have stored, so that one wrong Garden does not make the list unreadable.
func TestWrongTypesAreReadableAndKept(t *testing.T) {
	e := newEnv(t)
	created, err := e.create(e.garden("wrong", map[string]string{
		"runtimeCluster.networking.pods": `5`, "runtimeCluster.networking.services": `{a: b}`,
		"virtualCluster.dns.domains": `[5, {name: a.example.com, unknown: x}]`,
	}))
	e.Expect(err).NotTo(HaveOccurred())
	list := &operatorv1alpha1.GardenList{}
	e.Expect(e.client.List(t.Context(), list)).To(Succeed())
	at := slices.IndexFunc(list.Items, func(g operatorv1alpha1.Garden) bool { return g.Name == created.GetName() })
	e.Expect(at).To(BeNumerically(">=", 0))
	spec := list.Items[at].Spec
	e.Expect(spec.RuntimeCluster.Networking.Pods).To(BeComparableTo(operatorv1alpha1.CIDRList{"malformed: 5"}))
	e.Expect(spec.RuntimeCluster.Networking.Services).To(BeComparableTo(operatorv1alpha1.CIDRList{`malformed: {"a":"b"}`}))
	e.Expect(spec.VirtualCluster.DNS.Domains).To(BeComparableTo([]operatorv1alpha1.Domain{
		{Name: "malformed: 5"}, {Name: `malformed: {"name":"a.example.com","unknown":"x"}`},
	}))
}

func TestDefaultsOfTheSchema(t *testing.T) {
	e := newEnv(t)
	created, err := e.create(e.garden("defaults", map[string]string{
		"runtimeCluster.settings": `{verticalPodAutoscaler: {}}`,
		"virtualCluster.etcd":     `{main: {storage: {}}, events: {storage: {}}}`,
		"virtualCluster.gardener": `{clusterIdentity: a, gardenerAPIServer: {auditWebhook: {kubeconfigSecretName: a}},
			gardenerAdmissionController: {}, gardenerControllerManager: {}, gardenerScheduler: {}}`,
		"virtualCluster.kubernetes": `{version: 1.36.1, kubeControllerManager: {},
			kubeAPIServer: {auditWebhook: {kubeconfigSecretName: a}, authentication: {webhook: {kubeconfigSecretName: a}}}}`,
	}))
	e.Expect(err).NotTo(HaveOccurred())
	spec := map[string]any{}
	for _, part := range []string{"etcd", "gardener", "kubernetes"} {
		value, _, failure := unstructured.NestedFieldNoCopy(created.Object, "spec", "virtualCluster", part)
		e.Expect(failure).NotTo(HaveOccurred())
		spec[part] = value
	}
	settings, _, err := unstructured.NestedFieldNoCopy(created.Object, "spec", "runtimeCluster", "settings")
	e.Expect(err).NotTo(HaveOccurred())
	spec["settings"] = settings
	got, err := yaml.Marshal(spec)
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(got).To(MatchYAML(`
settings: {verticalPodAutoscaler: {enabled: true}}
etcd: {main: {storage: {capacity: 10Gi}}, events: {storage: {capacity: 10Gi}}}
gardener:
  clusterIdentity: a
  gardenerAPIServer: {auditWebhook: {kubeconfigSecretName: a, batchMaxSize: 30, version: audit.k8s.io/v1}}
  gardenerAdmissionController: {logLevel: info}
  gardenerControllerManager: {logLevel: info}
  gardenerScheduler: {logLevel: info, strategy: SameRegion}
kubernetes:
  version: 1.36.1
  kubeControllerManager: {certificateSigningDuration: 48h}
  kubeAPIServer:
    auditWebhook: {kubeconfigSecretName: a, batchMaxSize: 30, version: audit.k8s.io/v1}
    authentication: {webhook: {kubeconfigSecretName: a, version: v1beta1}}
`))
}
