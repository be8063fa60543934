package binaries

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/bench/harness"
	"github.com/espalier-dev/espalier/test/local"
)

// Webhooks are called in onSpace, and not in offSpace: its namespace and its Pods are opted out.
const (
	onSpace  = "with-webhooks"
	offSpace = "kube-system"
)

const workerDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: workers.extensions.gardener.cloud}
spec:
  group: extensions.gardener.cloud
  scope: Namespaced
  names: {kind: Worker, plural: workers, singular: worker, listKind: WorkerList}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

const exampleAccount = `{apiVersion: v1, kind: ServiceAccount, metadata: {name: app}, automountServiceAccountToken: false}`

const exampleOthers = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: $NAME, labels: {high-availability-config.resources.gardener.cloud/type: server}}
spec:
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec: $SPEC
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: $NAME, labels: {endpoint-slice-hints.resources.gardener.cloud/consider: "true"}}
addressType: IPv4
endpoints:
- {addresses: [10.0.0.1], zone: a}
- {addresses: [10.0.0.2], zone: b}
- {addresses: [10.0.0.3], zone: c}
---
apiVersion: v1
kind: Secret
metadata:
  name: $NAME
  labels: {resources.gardener.cloud/purpose: token-invalidator, token-invalidator.resources.gardener.cloud/consider: "true"}
data: {token: YWJj}
---
apiVersion: extensions.gardener.cloud/v1alpha1
kind: Worker
metadata: {name: $NAME}
spec:
  type: local
  region: local
  secretRef: {name: cloudprovider, namespace: shoot}
  pools:
  - {name: one, machineType: large, machineImage: {name: linux, version: 1.2.3}, userData: YWJj, architecture: amd64}
  - {name: two, machineType: large, machineImage: {name: linux, version: 1.2.3}, userData: YWJj, architecture: arm64}
`

const examplePod = `
apiVersion: v1
kind: Pod
metadata: {name: $NAME, labels: {app: shop, resources.gardener.cloud/managed-by: gardener, pod-template-hash: 5d4f8c7b9}}
spec: $SPEC
`

// podSpec returns a spec with 5 containers with 10 variables each.
func podSpec() string {
	spec := strings.Builder{}
	spec.WriteString(`{serviceAccountName: app, topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, ` +
		`whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: shop}}}], containers: [`)
	for i := range 5 {
		fmt.Fprintf(&spec, `{name: container-%d, image: registry.example.com/shop/part-%d:v1.2.3, ports: [{containerPort: %d}], `+
			`resources: {requests: {cpu: 10m, memory: 32Mi}, limits: {memory: 64Mi}}, env: [`, i, i, 8080+i)
		for j := range 10 {
			fmt.Fprintf(&spec, `{name: SHOP_SETTING_%d, value: "the value of setting %d"},`, j, j)
		}
		spec.WriteString(`]},`)
	}
	spec.WriteString(`]}`)
	return spec.String()
}

// prepareExamples creates the objects that the examples depend on.
func (w *webhook) prepareExamples() {
	w.cluster.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: onSpace, Labels: map[string]string{"high-availability-config.resources.gardener.cloud/consider": "true"},
		Annotations: map[string]string{
			"high-availability-config.resources.gardener.cloud/failure-tolerance-type": "zone",
			"high-availability-config.resources.gardener.cloud/zones":                  "a,b,c",
		},
	}})
	w.Check(errors.Join(w.apply(onSpace, exampleAccount), w.apply(offSpace, exampleAccount), w.apply("", workerDefinition)))
	w.cluster.AwaitServed(schema.GroupVersionKind{Group: "extensions.gardener.cloud", Version: "v1alpha1", Kind: "Worker"})
}

// createExamples creates one object of each kind for which there is a webhook.
func (w *webhook) createExamples(name string) error {
	return w.apply(onSpace, strings.NewReplacer("$NAME", name, "$SPEC", podSpec()).Replace(exampleOthers+"---"+examplePod))
}

// apply creates objects.
func (w *webhook) apply(namespace, text string) error {
	for document := range strings.SplitSeq(text, "---\n") {
		err := w.cluster.Client.Create(w.Ctx, object(w.Run, namespace, document))
		if client.IgnoreAlreadyExists(err) != nil {
			return err
		}
	}
	return nil
}

// podCreation creates Pods through the API server, alternately with and without webhooks, and compares the times. The same with floors
// instead of the server shows the cost of the API server itself: only for the calls, if everything is allowed, and also for changing the
// Pods, if the responses are the recorded ones of the server.
func (w *webhook) podCreation() {
	reviews := w.podReviews()
	called := float64(len(reviews))
	workload := fmt.Sprintf("%d Pods with %d webhooks, %d without", w.pods, len(reviews), w.pods)
	on, off := w.compareCreation(w.program.WebhookPort, "created", w.awaitEffect)
	w.Add(harness.On(workload,
		harness.Inform("median creation of a Pod without webhooks", "%.3f ms", off),
		harness.Inform("median creation of a Pod with webhooks", "%.3f ms", on),
		harness.AtMost("added by each webhook", "%.3f ms", (on-off)/called, 1.5),
	))
	for _, floor := range []struct {
		measure, name, answers string
		ready                  func(string)
	}{
		{"floor: added by each webhook that answers the same patch at once", "patched", w.keepAnswers(reviews), w.awaitEffect},
		// There is no way to query when an API server detects that webhooks are registered.
		{"floor: added by each webhook that allows", "allowed", "", func(string) { w.Pause(3 * time.Second) }},
	} {
		on, off = w.compareCreation(w.startFloor(floor.answers).port, floor.name, floor.ready)
		w.Add(harness.On(workload, harness.Inform(floor.measure, "%.3f ms", (on-off)/called)))
	}
}

// compareCreation returns the medians with all webhooks at a port, and without webhooks, in ms.
func (w *webhook) compareCreation(port int, name string, ready func(name string)) (on, off float64) {
	remove := w.register(net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	ready(name)
	took := map[string][]time.Duration{}
	for i := range w.pods {
		for _, namespace := range []string{onSpace, offSpace} {
			begin := time.Now()
			w.cluster.Create(w.pod(namespace, fmt.Sprintf("%s-%d", name, i)))
			took[namespace] = append(took[namespace], time.Since(begin))
		}
	}
	remove()
	return harness.InMilliseconds(harness.Median(took[onSpace])), harness.InMilliseconds(harness.Median(took[offSpace]))
}

// awaitEffect waits until the API server calls all webhooks. The names of the objects that it creates contain name.
func (w *webhook) awaitEffect(name string) {
	attempt := 0
	w.Await(time.Minute, "the API server to call the webhooks", func(ctx context.Context) error {
		attempt++
		created := w.pod(onSpace, fmt.Sprintf("%s-not-yet-%d", name, attempt))
		if err := w.cluster.Client.Create(ctx, created); err != nil {
			return local.GiveUp(err)
		}
		volumes, _, _ := unstructured.NestedSlice(created.Object, "spec", "volumes")
		scheduler, _, _ := unstructured.NestedString(created.Object, "spec", "schedulerName")
		if len(volumes) != 1 || scheduler != "bin-packing-scheduler" {
			return errors.New("it does not call all of them")
		}
		return nil
	})
}

func (w *webhook) pod(namespace, name string) *unstructured.Unstructured {
	return object(w.Run, namespace, strings.NewReplacer("$NAME", name, "$SPEC", podSpec()).Replace(examplePod))
}
