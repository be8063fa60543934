package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/test/bench/gauge"
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

const account = `{apiVersion: v1, kind: ServiceAccount, metadata: {name: app}, automountServiceAccountToken: false}`

const others = `
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
metadata: {name: $NAME, labels: {resources.gardener.cloud/purpose: token-invalidator, token-invalidator.resources.gardener.cloud/consider: "true"}}
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

const pod = `
apiVersion: v1
kind: Pod
metadata: {name: $NAME, labels: {app: shop, resources.gardener.cloud/managed-by: gardener, pod-template-hash: 5d4f8c7b9}}
spec: $SPEC
`

// podSpec returns a spec with 5 containers with 10 variables each.
func podSpec() string {
	spec := strings.Builder{}
	spec.WriteString(`{serviceAccountName: app, topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: shop}}}], containers: [`)
	for i := range 5 {
		fmt.Fprintf(&spec, `{name: container-%d, image: registry.example.com/shop/part-%d:v1.2.3, ports: [{containerPort: %d}], resources: {requests: {cpu: 10m, memory: 32Mi}, limits: {memory: 64Mi}}, env: [`, i, i, 8080+i)
		for j := range 10 {
			fmt.Fprintf(&spec, `{name: SHOP_SETTING_%d, value: "the value of setting %d"},`, j, j)
		}
		spec.WriteString(`]},`)
	}
	spec.WriteString(`]}`)
	return spec.String()
}

// prepareExamples creates the objects that the examples depend on.
func (b *bench) prepareExamples(ctx context.Context) error {
	err := b.namespace(ctx, onSpace, map[string]string{"high-availability-config.resources.gardener.cloud/consider": "true"}, map[string]string{
		"high-availability-config.resources.gardener.cloud/failure-tolerance-type": "zone",
		"high-availability-config.resources.gardener.cloud/zones":                  "a,b,c",
	})
	if err != nil {
		return err
	}
	err = errors.Join(b.apply(ctx, onSpace, account), b.apply(ctx, offSpace, account), b.apply(ctx, "", workerDefinition))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for { // until the kind is served
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion("extensions.gardener.cloud/v1alpha1")
		list.SetKind("WorkerList")
		err := b.client.List(ctx, list)
		if err == nil || !meta.IsNoMatchError(err) && ctx.Err() != nil {
			return err
		}
		if err := gauge.Pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// createExamples creates one object of each kind for which there is a webhook.
func (b *bench) createExamples(ctx context.Context, name string) error {
	return b.apply(ctx, onSpace, strings.NewReplacer("$NAME", name, "$SPEC", podSpec()).Replace(others+"---"+pod))
}

// apply creates objects.
func (b *bench) apply(ctx context.Context, namespace, text string) error {
	for document := range strings.SplitSeq(text, "---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			return err
		}
		object.SetNamespace(namespace)
		if err := b.client.Create(ctx, object); err != nil {
			return client.IgnoreAlreadyExists(err)
		}
	}
	return nil
}
