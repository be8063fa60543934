package highavailability_test

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/admission/registration"
	"github.com/espalier-dev/espalier/internal/admission/reviewtest"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/webhook/handlers"
	"github.com/espalier-dev/espalier/internal/webhook/registrations"
	"github.com/espalier-dev/espalier/internal/webhook/webhooktest"
	"github.com/espalier-dev/espalier/test/binary"
)

const path = "/webhooks/high-availability-config"

// env is a server that is called for the objects of all namespaces that a test creates. Each namespace has its labels and annotations from
// its creation, so that no look-up can return older ones.
type env struct{ *webhooktest.Env }

// serve starts a server. The argument settings is the content of the section espalier.webhooks; more is added to the section of the
// handler, after the switch.
func serve(t *testing.T, settings, more string) *env {
	t.Helper()
	t.Parallel()
	e := &env{
		webhooktest.New(t, webhooktest.Options{
			Webhooks: "highAvailabilityConfig: {enabled: true" + more + "}", Settings: settings, Unregistered: true,
		}),
	}
	declared := registrations.Enabled(config.FlavorGardenerRuntime, e.Config.Webhooks, registrations.Own{
		Name: "gardener-resource-manager", URL: e.URL,
	})
	e.Expect(declared).To(HaveLen(1))
	declared[0].Namespaces.Standard = true
	built := registration.Configuration{
		Name: e.Namespace, Namespaces: &metav1.LabelSelector{MatchLabels: map[string]string{"test": e.Namespace}},
		Objects: handlers.StandardObjects(config.FlavorGardenerRuntime), Client: registration.Server{URL: e.URL}.Client(e.CA),
	}.Mutating(declared...)
	e.Expect(e.Target.Create(e.Ctx, built)).To(Succeed())
	t.Cleanup(func() { _ = e.Target.Delete(context.WithoutCancel(e.Ctx), built) })
	probe := e.namespace(nil)
	e.patiently(func(g Gomega) {
		object := e.Object(workload{namespace: probe, kind: "Deployment", component: "server"}.yaml())
		g.Expect(e.Target.Create(e.Ctx, object, client.DryRunAll)).To(Succeed())
		g.Expect(outcome(e, object)).To(HaveKeyWithValue("replicas", BeNumerically("==", 2)), "the API server calls the webhook")
	})
	return e
}

// with returns the same server for a subtest.
func (e *env) with(t *testing.T) *env {
	t.Helper()
	of := *e.Env.Env
	of.T, of.WithT = t, NewWithT(t)
	part := *e.Env
	part.Env = &of
	return &env{&part}
}

func (e *env) patiently(done func(Gomega)) {
	e.T.Helper()
	e.Eventually(done).WithTimeout(binary.Patience).Should(Succeed())
}

// namespace creates a namespace for which the handler is called. The keys of annotations lack the common prefix.
func (e *env) namespace(annotations map[string]string) string {
	e.T.Helper()
	return e.namespaceWith(map[string]string{"high-availability-config.resources.gardener.cloud/consider": "true"}, annotations)
}

func (e *env) namespaceWith(labels, annotations map[string]string) string {
	e.T.Helper()
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "ha-", Labels: map[string]string{"test": e.Namespace}}}
	maps.Copy(object.Labels, labels)
	for key, value := range annotations {
		metav1.SetMetaDataAnnotation(&object.ObjectMeta, "high-availability-config.resources.gardener.cloud/"+key, value)
	}
	e.Expect(e.Target.Create(e.Ctx, object)).To(Succeed())
	return object.Name
}

// workload describes a Deployment or StatefulSet, with 1 replica unless replicas is set.
type workload struct {
	namespace, kind, name string
	// component is the value of the label type, override the value of the annotation replicas; an empty one is left out.
	component, override string
	replicas            string
	// pods contains members for the spec of the Pods, as YAML.
	pods string
	// labels contains further labels, as YAML.
	labels string
}

func (w workload) yaml() string {
	labels, annotations, more, pods := w.labels, "", "", ""
	replicas, name := cmp.Or(w.replicas, "1"), cmp.Or(w.name, "web")
	if w.component != "" {
		labels = "high-availability-config.resources.gardener.cloud/type: " + w.component
	}
	if w.override != "" {
		annotations = "high-availability-config.resources.gardener.cloud/replicas: '" + w.override + "'"
	}
	selected := "app: web"
	if w.kind == "StatefulSet" { // a StatefulSet spreads its Pods by its selector, a Deployment by the labels of the Pods
		more, selected = ", serviceName: web", "app: web, tier: one"
	}
	if w.pods != "" {
		pods = ", " + w.pods
	}
	return "{apiVersion: apps/v1, kind: " + w.kind + ", metadata: {namespace: " + w.namespace + ", name: " + name + ", labels: {" + labels +
		"}, annotations: {" + annotations + "}}, " +
		"spec: {replicas: " + replicas + more +
		", selector: {matchLabels: {" + selected + "}}, template: {metadata: {labels: {app: web, tier: one}}, spec: {containers: [{name: web, " +
		"image: 'web:1'}]" + pods + "}}}}"
}

// kinds returns the kinds of workloads. The handler treats both in the same way.
func kinds() []string { return []string{"Deployment", "StatefulSet"} }

// outcome returns the fields of an object that the handler may change, without absent ones.
func outcome(e *env, object *unstructured.Unstructured) map[string]any {
	e.T.Helper()
	found := map[string]any{}
	for name, at := range map[string][]string{
		"replicas":    {"spec", "replicas"},
		"affinity":    {"spec", "template", "spec", "affinity"},
		"spread":      {"spec", "template", "spec", "topologySpreadConstraints"},
		"tolerations": {"spec", "template", "spec", "tolerations"},
		"min":         {"spec", "minReplicas"},
		"max":         {"spec", "maxReplicas"},
		"hvpaMin":     {"spec", "hpa", "template", "spec", "minReplicas"},
		"hvpaMax":     {"spec", "hpa", "template", "spec", "maxReplicas"},
	} {
		value, there, err := unstructured.NestedFieldNoCopy(object.Object, at...)
		e.Expect(err).NotTo(HaveOccurred())
		if there {
			found[name] = value
		}
	}
	return found
}

// becomes creates an object and requires its outcome. Neither an update through the API server nor a second call of the handler may change
// the object further.
func (e *env) becomes(object, want string) {
	e.T.Helper()
	stored, err := e.Create(object)
	e.Expect(err).NotTo(HaveOccurred(), object)
	e.outcomeIs(stored, want)
	e.settled(stored)
	updated, err := e.Update(stored, `{"metadata":{"annotations":{"note":"again"}}}`)
	e.Expect(err).NotTo(HaveOccurred())
	e.outcomeIs(updated, want)
	e.Expect(e.Target.Delete(e.Ctx, updated, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
}

func (e *env) outcomeIs(object *unstructured.Unstructured, want string) {
	e.T.Helper()
	got, err := json.Marshal(outcome(e, object))
	e.Expect(err).NotTo(HaveOccurred())
	wanted, err := yaml.YAMLToJSON([]byte(want))
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(got).To(MatchJSON(wanted))
}

// settled requires that the handler changes nothing in the object.
func (e *env) settled(object *unstructured.Unstructured) {
	e.T.Helper()
	answer := e.review(object)
	e.Expect(answer.Allowed).To(BeTrue(), answer.Status.Message)
	e.Expect(string(answer.Patch)).To(BeEmpty())
}

// review posts a request to update an object to the server directly.
func (e *env) review(object *unstructured.Unstructured) webhooktest.Answer {
	e.T.Helper()
	kind := object.GroupVersionKind()
	request, err := json.Marshal(map[string]any{
		"kind":      map[string]string{"group": kind.Group, "version": kind.Version, "kind": kind.Kind},
		"operation": "UPDATE", "namespace": object.GetNamespace(), "name": object.GetName(), "object": object, "oldObject": object,
	})
	e.Expect(err).NotTo(HaveOccurred())
	return e.Review(path, string(request))
}

// serveHvpas makes the API server serve Hvpas, of any schema, for this and all later tests.
func (e *env) serveHvpas() {
	e.T.Helper()
	err := e.Target.Create(e.Ctx, e.cluster(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: hvpas.autoscaling.k8s.io, annotations: {api-approved.kubernetes.io: "unapproved, for tests"}}
spec:
  group: autoscaling.k8s.io
  scope: Namespaced
  names: {kind: Hvpa, listKind: HvpaList, plural: hvpas, singular: hvpa}
  versions:
  - {name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`))
	if !apierrors.IsAlreadyExists(err) {
		e.Expect(err).NotTo(HaveOccurred())
	}
	e.patiently(func(g Gomega) {
		list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "autoscaling.k8s.io/v1alpha1", "kind": "HvpaList"}}
		g.Expect(e.Target.List(e.Ctx, list)).To(Succeed())
	})
}

// cluster reads a cluster-scoped object.
func (e *env) cluster(text string) *unstructured.Unstructured {
	e.T.Helper()
	object := &unstructured.Unstructured{}
	e.Expect(yaml.Unmarshal([]byte(text), &object.Object)).To(Succeed())
	return object
}

func hpa(namespace, kind, name, component, override, limits string) string {
	return autoscaler("{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, METADATA, spec: {scaleTargetRef: {apiVersion: "+
		"apps/v1, kind: "+kind+", name: "+name+"}, "+limits+"}}", namespace, component, override)
}

func hvpa(namespace, kind, name, deploy, component, override, limits string) string {
	return autoscaler("{apiVersion: autoscaling.k8s.io/v1alpha1, kind: Hvpa, METADATA, spec: {targetRef: {apiVersion: apps/v1, kind: "+kind+
		", name: "+name+"}, hpa: {deploy: "+deploy+", template: {spec: {"+limits+"}}}}}", namespace, component, override)
}

func autoscaler(text, namespace, component, override string) string {
	labels, annotations := "", ""
	if component != "" {
		labels = "high-availability-config.resources.gardener.cloud/type: " + component
	}
	if override != "" {
		annotations = "high-availability-config.resources.gardener.cloud/replicas: '" + override + "'"
	}
	return strings.Replace(text, "METADATA",
		"metadata: {namespace: "+namespace+", generateName: scaler-, labels: {"+labels+"}, annotations: {"+annotations+"}}", 1)
}

// scale creates an autoscaler, and waits until the server knows it: then a workload keeps 5 replicas.
func (e *env) scale(of workload, autoscaler string) {
	e.T.Helper()
	_, err := e.Create(autoscaler)
	e.Expect(err).NotTo(HaveOccurred())
	of.component, of.replicas = "server", "5"
	e.patiently(func(g Gomega) {
		object := e.Object(of.yaml())
		g.Expect(e.Target.Create(e.Ctx, object, client.DryRunAll)).To(Succeed())
		g.Expect(outcome(e, object)).To(HaveKeyWithValue("replicas", BeNumerically("==", 5)))
	})
}

// becomesByPost is like becomes, for objects of versions that the API server does not serve.
func (e *env) becomesByPost(object *unstructured.Unstructured, want string) {
	e.T.Helper()
	answer := e.review(object)
	e.Expect(answer.Allowed).To(BeTrue(), answer.Status.Message)
	if len(answer.Patch) > 0 {
		before, err := json.Marshal(object)
		e.Expect(err).NotTo(HaveOccurred())
		changed := &unstructured.Unstructured{}
		e.Expect(changed.UnmarshalJSON(reviewtest.Apply(e.T, before, answer.Patch))).To(Succeed())
		object = changed
	}
	e.outcomeIs(object, want)
	e.settled(object)
}

// reviewOf sends a dry run of a creation, and returns the object that the API server would store. The handler must have nothing more to
// change in it.
func (e *env) reviewOf(text string) *unstructured.Unstructured {
	e.T.Helper()
	object := e.Object(text)
	e.Expect(e.Target.Create(e.Ctx, object, client.DryRunAll)).To(Succeed())
	e.settled(object)
	return object
}

func replace(text, old, replacement string) string { return strings.ReplaceAll(text, old, replacement) }

// merge returns a JSON merge patch.
func merge(document string) client.Patch {
	return client.RawPatch(types.MergePatchType, []byte(document))
}
