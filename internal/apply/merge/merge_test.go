package merge

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// object reads an object from YAML; numbers are as unstructured objects have them.
func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	result := &unstructured.Unstructured{}
	if err := utilyaml.Unmarshal([]byte(text), &result.Object); err != nil {
		t.Fatalf("read %s: %v", text, err)
	}
	return result
}

// options returns the options of a set ns/mr.
func options(modify ...func(*Options)) Options {
	o := Options{Origin: "ns/mr", InjectLabels: map[string]string{"resources.gardener.cloud/managed-by": "gardener"}}
	for _, m := range modify {
		m(&o)
	}
	return o
}

func previous(labels, annotations map[string]string) func(*Options) {
	return func(o *Options) {
		o.Previous = &resourcesv1alpha1.ObjectReference{Labels: labels, Annotations: annotations}
	}
}

func forceLabels(o *Options)      { o.ForceLabels = true }
func forceAnnotations(o *Options) { o.ForceAnnotations = true }
func preserveReplicas(o *Options) { o.PreserveReplicas = true }
func replicasAt(path ...string) func(*Options) {
	return func(o *Options) { o.ReplicasPath = path }
}
func preserveResources(o *Options) { o.PreserveResources = true }

func injected(labels map[string]string) func(*Options) {
	return func(o *Options) { o.InjectLabels = InjectedLabels(labels, "gardener") }
}

func overlay(lower, upper map[string]string) map[string]string { return labels.Merge(lower, upper) }

// metadataOfSet is the metadata of every merged object in the tables below.
const metadataOfSet = `
    resources.gardener.cloud/description: |-
      DO NOT EDIT - This resource is managed by gardener-resource-manager.
      Any modifications are discarded and the resource is returned to the original state.
    resources.gardener.cloud/origin: ns/mr
`

// merged returns the result of Merge and proves that Merge does not change its inputs.
func merged(t *testing.T, live, manifest *unstructured.Unstructured, o Options) *unstructured.Unstructured {
	t.Helper()
	g := NewWithT(t)
	liveBefore, manifestBefore := live.DeepCopy(), manifest.DeepCopy()
	result, err := Merge(live, manifest, o)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(live).To(Equal(liveBefore))
	g.Expect(manifest).To(Equal(manifestBefore))
	changeEveryValue(result.Object)
	g.Expect(live).To(Equal(liveBefore), "the result shares something with live")
	g.Expect(manifest).To(Equal(manifestBefore), "the result shares something with the manifest")
	result, err = Merge(live, manifest, o)
	g.Expect(err).NotTo(HaveOccurred())
	return result
}

// changeEveryValue changes every map and list in a value, so that a test shows whether another value shares them.
func changeEveryValue(value any) {
	switch typed := value.(type) {
	case map[string]any:
		for _, item := range typed {
			changeEveryValue(item)
		}
		typed["scribbled"] = true
	case []any:
		for i, item := range typed {
			changeEveryValue(item)
			typed[i] = "scribbled"
		}
	}
}

func TestMergeMetadata(t *testing.T) {
	type texts = map[string]string
	managed := texts{"resources.gardener.cloud/managed-by": "gardener"}
	own := texts{
		"resources.gardener.cloud/description": "DO NOT EDIT - This resource is managed by gardener-resource-manager.\nAny modifications " +
			"are discarded and the resource is returned to the original state.",
		"resources.gardener.cloud/origin": "ns/mr",
	}
	for name, tc := range map[string]struct {
		live, manifest, want                                  texts // labels
		liveAnnotations, manifestAnnotations, wantAnnotations texts
		options                                               Options
	}{
		"an object without anything gets label, origin and description": {want: managed, options: options()},
		"keys that users add are kept": {
			live: texts{"user": "1"}, want: overlay(managed, texts{"user": "1"}),
			liveAnnotations: texts{"user": "1"}, wantAnnotations: texts{"user": "1"}, options: options(),
		},
		"labels that users add are removed with forced labels": {
			live: texts{"user": "1"}, manifest: texts{"a": "b"}, want: overlay(managed, texts{"a": "b"}),
			liveAnnotations: texts{"user": "1"}, wantAnnotations: texts{"user": "1"}, options: options(forceLabels),
		},
		"annotations that users add are removed with forced annotations, ours stay": {
			live: texts{"user": "1"}, want: overlay(managed, texts{"user": "1"}),
			liveAnnotations: texts{"user": "1"}, manifestAnnotations: texts{"a": "b"}, wantAnnotations: texts{"a": "b"},
			options: options(forceAnnotations),
		},
		"a value of the manifest replaces live's": {
			live: texts{"a": "live"}, manifest: texts{"a": "manifest"}, want: overlay(managed, texts{"a": "manifest"}),
			liveAnnotations: texts{"a": "live"}, manifestAnnotations: texts{"a": "manifest"}, wantAnnotations: texts{"a": "manifest"},
			options: options(),
		},
		"label dropped from manifest is removed if live value unchanged since": {
			live: texts{"a": "1"}, want: managed, liveAnnotations: texts{"a": "1"}, options: options(previous(texts{"a": "1"}, texts{"a": "1"})),
		},
		"label dropped from manifest is kept if live value changed": {
			live: texts{"a": "2"}, want: overlay(managed, texts{"a": "2"}),
			liveAnnotations: texts{"a": "2"}, wantAnnotations: texts{"a": "2"}, options: options(previous(texts{"a": "1"}, texts{"a": "1"})),
		},
		"a label that is still in the manifest stays, whatever its previous value": {
			live: texts{"a": "1"}, manifest: texts{"a": "1"}, want: overlay(managed, texts{"a": "1"}),
			liveAnnotations: texts{"a": "1"}, manifestAnnotations: texts{"a": "1"}, wantAnnotations: texts{"a": "1"},
			options: options(previous(texts{"a": "1"}, texts{"a": "1"})),
		},
		"a dropped label that live lacks is not added": {want: managed, options: options(previous(texts{"a": "1"}, texts{"a": "1"}))},
		"label moved from manifest to injectLabels stays": {
			live: texts{"a": "1"}, want: overlay(managed, texts{"a": "1"}),
			options: options(previous(texts{"a": "1"}, nil), injected(texts{"a": "1"})),
		},
		"injectLabels cannot set managed-by": {want: managed, options: options(injected(texts{"resources.gardener.cloud/managed-by": "foo"}))},
		"injected labels replace those of the manifest": {
			manifest: texts{"a": "manifest"}, want: overlay(managed, texts{"a": "injected"}), options: options(injected(texts{"a": "injected"})),
		},
		"stale reference annotations are removed from live, labels of that name are not": {
			live: texts{"reference.resources.gardener.cloud/secret-1": "x"},
			want: overlay(managed, texts{"reference.resources.gardener.cloud/secret-1": "x"}),
			liveAnnotations: texts{
				"reference.resources.gardener.cloud/secret-1": "old", "reference.resources.gardener.cloud/secret-2": "same",
				"reference.resources.gardener.cloud.other": "x",
			},
			manifestAnnotations: texts{"reference.resources.gardener.cloud/secret-2": "same", "reference.resources.gardener.cloud/secret-3": "new"},
			wantAnnotations: texts{
				"reference.resources.gardener.cloud/secret-2": "same", "reference.resources.gardener.cloud/secret-3": "new",
				"reference.resources.gardener.cloud.other": "x",
			},
			options: options(),
		},
		"origin and description are always ours": {
			want:                managed,
			liveAnnotations:     texts{"resources.gardener.cloud/origin": "ns/other", "resources.gardener.cloud/description": "mine"},
			manifestAnnotations: texts{"resources.gardener.cloud/origin": "ns/another", "resources.gardener.cloud/description": "yours"},
			options:             options(forceAnnotations),
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			live, manifest := object(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}"),
				object(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")
			live.SetLabels(tc.live)
			live.SetAnnotations(tc.liveAnnotations)
			manifest.SetLabels(tc.manifest)
			manifest.SetAnnotations(tc.manifestAnnotations)
			result := merged(t, live, manifest, tc.options)
			g.Expect(result.GetLabels()).To(Equal(tc.want))
			g.Expect(result.GetAnnotations()).To(Equal(overlay(tc.wantAnnotations, own)))
		})
	}
}

func TestMergeGeneric(t *testing.T) {
	for name, tc := range map[string]struct{ live, manifest, want string }{
		"finalizers and owners of the manifest count at creation only, metadata is live's": {
			live: `
apiVersion: v1
kind: ConfigMap
metadata: {name: a, namespace: ns, uid: u, resourceVersion: "7", generation: 3, creationTimestamp: "2024-01-02T03:04:05Z", finalizers: [live], ownerReferences: [{name: live}], managedFields: [{manager: m}]}
data: {live: x}
`,
			manifest: `
apiVersion: v1
kind: ConfigMap
metadata: {name: a, namespace: ns, finalizers: [manifest], ownerReferences: [{name: manifest}], generateName: x}
data: {manifest: x}
immutable: true
`,
			want: `
apiVersion: v1
kind: ConfigMap
metadata:
  name: a
  namespace: ns
  uid: u
  resourceVersion: "7"
  generation: 3
  creationTimestamp: "2024-01-02T03:04:05Z"
  finalizers: [live]
  ownerReferences: [{name: live}]
  managedFields: [{manager: m}]
  labels: {resources.gardener.cloud/managed-by: gardener}
  annotations:` + metadataOfSet + `
data: {manifest: x}
immutable: true
`,
		},
		"status of live is kept, the manifest's is ignored": {
			live:     `{apiVersion: example.com/v1, kind: Widget, metadata: {name: a}, status: {ready: true}, extra: 1}`,
			manifest: `{apiVersion: example.com/v2, kind: Widget, metadata: {name: a}, status: {ready: false}, spec: {size: 1.5}}`,
			want: `
apiVersion: example.com/v2
kind: Widget
metadata:
  name: a
  labels: {resources.gardener.cloud/managed-by: gardener}
  annotations:` + metadataOfSet + `
spec: {size: 1.5}
status: {ready: true}
`,
		},
		"an empty status is removed": {
			live:     `{apiVersion: example.com/v1, kind: Widget, metadata: {name: a}, status: {}}`,
			manifest: `{apiVersion: example.com/v1, kind: Widget, metadata: {name: a}, status: {ready: false}}`,
			want: `
apiVersion: example.com/v1
kind: Widget
metadata:
  name: a
  labels: {resources.gardener.cloud/managed-by: gardener}
  annotations:` + metadataOfSet,
		},
		"secrets and imagePullSecrets of a ServiceAccount are live's": {
			live: `{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}, secrets: [{name: live}]}`,
			manifest: `{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}, secrets: [{name: manifest}], imagePullSecrets: [{name: ` +
				`manifest}], automountServiceAccountToken: false}`,
			want: `
apiVersion: v1
kind: ServiceAccount
metadata:
  name: a
  labels: {resources.gardener.cloud/managed-by: gardener}
  annotations:` + metadataOfSet + `
secrets: [{name: live}]
automountServiceAccountToken: false
`,
		},
		"a ServiceAccount of another group has no rules": {
			live:     `{apiVersion: example.com/v1, kind: ServiceAccount, metadata: {name: a}, secrets: [{name: live}]}`,
			manifest: `{apiVersion: example.com/v1, kind: ServiceAccount, metadata: {name: a}, secrets: [{name: manifest}]}`,
			want: `
apiVersion: example.com/v1
kind: ServiceAccount
metadata:
  name: a
  labels: {resources.gardener.cloud/managed-by: gardener}
  annotations:` + metadataOfSet + `
secrets: [{name: manifest}]
`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(merged(t, object(t, tc.live), object(t, tc.manifest), options()).Object).To(Equal(object(t, tc.want).Object))
		})
	}
}

func TestForCreate(t *testing.T) {
	for name, tc := range map[string]struct {
		manifest, want string
		options        Options
	}{
		"finalizers, owners and status of the manifest count": {
			manifest: `{apiVersion: example.com/v1, kind: Widget, metadata: {name: a, finalizers: [f], ownerReferences: [{name: o}]}, status: ` +
				`{a: b}, spec: {c: d}}`,
			options: options(previous(map[string]string{"a": "b"}, nil)),
			want: `
apiVersion: example.com/v1
kind: Widget
metadata:
  name: a
  finalizers: [f]
  ownerReferences: [{name: o}]
  labels: {resources.gardener.cloud/managed-by: gardener}
  annotations:` + metadataOfSet + `
status: {a: b}
spec: {c: d}
`,
		},
		"reference annotations of the manifest are kept, forced ones too": {
			manifest: `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {a: b}, annotations: ` +
				`{reference.resources.gardener.cloud/secret-1: x}}}`,
			options: options(forceLabels, forceAnnotations),
			want: `
apiVersion: v1
kind: ConfigMap
metadata:
  name: a
  labels: {a: b, resources.gardener.cloud/managed-by: gardener}
  annotations:
    reference.resources.gardener.cloud/secret-1: x` + metadataOfSet,
		},
		"a ServiceAccount is created unchanged": {
			manifest: `{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}, secrets: [{name: s}], imagePullSecrets: [{name: p}]}`,
			options:  options(),
			want: `
apiVersion: v1
kind: ServiceAccount
metadata:
  name: a
  labels: {resources.gardener.cloud/managed-by: gardener}
  annotations:` + metadataOfSet + `
secrets: [{name: s}]
imagePullSecrets: [{name: p}]
`,
		},
		"labels get into the claims of a StatefulSet, even if it was exported from a cluster": {
			manifest: `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a, creationTimestamp: "2024-01-02T03:04:05Z"}, spec: ` +
				`{volumeClaimTemplates: [{metadata: {name: c}}], template: {}}}`,
			options: options(injected(map[string]string{"foo": "bar"}), preserveReplicas, preserveResources),
			want: `
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: a
  creationTimestamp: "2024-01-02T03:04:05Z"
  labels: {foo: bar, resources.gardener.cloud/managed-by: gardener}
  annotations:` + metadataOfSet + `
spec:
  template: {metadata: {labels: {foo: bar, resources.gardener.cloud/managed-by: gardener}}}
  volumeClaimTemplates: [{metadata: {name: c, labels: {foo: bar, resources.gardener.cloud/managed-by: gardener}}}]
`,
		},
		"missing replicas stay missing, a given selector of a Job is kept": {
			manifest: `{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {selector: {a: b}, template: {metadata: {labels: {c: d}}}}}`,
			options:  options(),
			want: `
apiVersion: batch/v1
kind: Job
metadata:
  name: a
  labels: {resources.gardener.cloud/managed-by: gardener}
  annotations:` + metadataOfSet + `
spec: {selector: {a: b}, template: {metadata: {labels: {c: d, resources.gardener.cloud/managed-by: gardener}}}}
`,
		},
		"a Service keeps the cluster IP that it asks for": {
			manifest: `{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {type: NodePort, clusterIP: 10.0.0.1, ports: [{port: 80, ` +
				`nodePort: 30080}]}}`,
			options: options(),
			want: `
apiVersion: v1
kind: Service
metadata:
  name: a
  labels: {resources.gardener.cloud/managed-by: gardener}
  annotations:` + metadataOfSet + `
spec: {type: NodePort, clusterIP: 10.0.0.1, ports: [{port: 80, nodePort: 30080}]}
`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			manifest := object(t, tc.manifest)
			before := manifest.DeepCopy()
			result, err := ForCreate(manifest, tc.options)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(result.Object).To(Equal(object(t, tc.want).Object))
			changeEveryValue(result.Object)
			g.Expect(manifest).To(Equal(before))
		})
	}
}

func TestInjectLabels(t *testing.T) {
	labels := map[string]string{"foo": "bar", "resources.gardener.cloud/managed-by": "gardener"}
	for name, tc := range map[string]struct{ object, want, err string }{
		"a Deployment and its pod template, not the selector": {
			object: `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, labels: {foo: old, b: c}}, spec: {selector: {matchLabels: ` +
				`{app: web}}, template: {metadata: {labels: {app: web}}}}}`,
			want: `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, labels: {foo: bar, b: c, resources.gardener.cloud/managed-by: ` +
				`gardener}}, spec: {selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web, foo: bar, ` +
				`resources.gardener.cloud/managed-by: gardener}}}}}`,
		},
		"any kind that has a template": {
			object: `{apiVersion: example.com/v1, kind: Widget, metadata: {name: a}, spec: {template: {}}}`,
			want: `{apiVersion: example.com/v1, kind: Widget, metadata: {name: a, labels: {foo: bar, resources.gardener.cloud/managed-by: ` +
				`gardener}}, spec: {template: {metadata: {labels: {foo: bar, resources.gardener.cloud/managed-by: gardener}}}}}`,
		},
		"a CronJob has no injected labels in its jobTemplate": {
			object: `{apiVersion: batch/v1, kind: CronJob, metadata: {name: a}, spec: {jobTemplate: {spec: {template: {}}}}}`,
			want: `{apiVersion: batch/v1, kind: CronJob, metadata: {name: a, labels: {foo: bar, resources.gardener.cloud/managed-by: ` +
				`gardener}}, spec: {jobTemplate: {spec: {template: {}}}}}`,
		},
		"a spec that is not an object has no template": {
			object: `{apiVersion: example.com/v1, kind: Widget, metadata: {name: a}, spec: x}`,
			want: `{apiVersion: example.com/v1, kind: Widget, metadata: {name: a, labels: {foo: bar, resources.gardener.cloud/managed-by: ` +
				`gardener}}, spec: x}`,
		},
		"a template that is null": {
			object: `{apiVersion: example.com/v1, kind: Letter, metadata: {name: a}, spec: {template: null}}`,
			want: `{apiVersion: example.com/v1, kind: Letter, metadata: {name: a, labels: {foo: bar, resources.gardener.cloud/managed-by: ` +
				`gardener}}, spec: {template: null}}`,
		},
		"a template that is text": {
			object: `{apiVersion: example.com/v1, kind: Letter, metadata: {name: a}, spec: {template: "Dear {{ .name }}"}}`,
			want: `{apiVersion: example.com/v1, kind: Letter, metadata: {name: a, labels: {foo: bar, resources.gardener.cloud/managed-by: ` +
				`gardener}}, spec: {template: "Dear {{ .name }}"}}`,
		},
		"a template that is a list": {
			object: `{apiVersion: example.com/v1, kind: Letter, metadata: {name: a}, spec: {template: [a, b]}}`,
			want: `{apiVersion: example.com/v1, kind: Letter, metadata: {name: a, labels: {foo: bar, resources.gardener.cloud/managed-by: ` +
				`gardener}}, spec: {template: [a, b]}}`,
		},
		"a template that is a number": {
			object: `{apiVersion: example.com/v1, kind: Letter, metadata: {name: a}, spec: {template: 1}}`,
			want: `{apiVersion: example.com/v1, kind: Letter, metadata: {name: a, labels: {foo: bar, resources.gardener.cloud/managed-by: ` +
				`gardener}}, spec: {template: 1}}`,
		},
		"metadata of a template that is not an object": {
			object: `{apiVersion: example.com/v1, kind: Letter, metadata: {name: a}, spec: {template: {metadata: []}}}`,
			want: `{apiVersion: example.com/v1, kind: Letter, metadata: {name: a, labels: {foo: bar, resources.gardener.cloud/managed-by: ` +
				`gardener}}, spec: {template: {metadata: []}}}`,
		},
		"labels of a template that are not texts": {
			object: `{apiVersion: example.com/v1, kind: Letter, metadata: {name: a}, spec: {template: {metadata: {labels: {a: 1}}}}}`,
			want: `{apiVersion: example.com/v1, kind: Letter, metadata: {name: a, labels: {foo: bar, resources.gardener.cloud/managed-by: ` +
				`gardener}}, spec: {template: {metadata: {labels: {a: 1}}}}}`,
		},
		"a claim that is not an object": {
			object: `{apiVersion: example.com/v1, kind: Letter, metadata: {name: a}, spec: {volumeClaimTemplates: [{}, 1, null]}}`,
			want: `{apiVersion: example.com/v1, kind: Letter, metadata: {name: a, labels: {foo: bar, resources.gardener.cloud/managed-by: ` +
				`gardener}}, spec: {volumeClaimTemplates: [{metadata: {labels: {foo: bar, ` +
				`resources.gardener.cloud/managed-by: gardener}}}, 1, null]}}`,
		},
		"claims that are not a list": {
			object: `{apiVersion: example.com/v1, kind: Letter, metadata: {name: a}, spec: {volumeClaimTemplates: {data: {size: 1Gi}}}}`,
			want: `{apiVersion: example.com/v1, kind: Letter, metadata: {name: a, labels: {foo: bar, resources.gardener.cloud/managed-by: ` +
				`gardener}}, spec: {volumeClaimTemplates: {data: {size: 1Gi}}}}`,
		},
		"labels that are not texts": {
			object: `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {a: true}}}`,
			err:    `error injecting labels into object "v1/ConfigMap/default/a": metadata.labels["a"]: is a boolean, but must be text`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			obj := object(t, tc.object)
			if err := InjectLabels(obj, labels); tc.err != "" {
				g.Expect(err).To(MatchError(tc.err))
				return
			}
			g.Expect(obj.Object).To(Equal(object(t, tc.want).Object))
		})
	}
}

func TestInjectedLabels(t *testing.T) {
	g := NewWithT(t)
	spec := map[string]string{"resources.gardener.cloud/managed-by": "foo", "a": "b"}
	g.Expect(InjectedLabels(spec, "gardener")).To(Equal(map[string]string{"resources.gardener.cloud/managed-by": "gardener", "a": "b"}))
	g.Expect(spec).To(HaveKeyWithValue("resources.gardener.cloud/managed-by", "foo"))
	g.Expect(InjectedLabels(nil, "x")).To(Equal(map[string]string{"resources.gardener.cloud/managed-by": "x"}))
}

func TestIgnored(t *testing.T) {
	for name, tc := range map[string]struct {
		object, want string
		changed      bool
	}{
		"nothing is added": {
			object: `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {b: c}, annotations: {resources.gardener.cloud/ignore: ` +
				`"true"}}, status: {}}`,
			want: `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {b: c}, annotations: {resources.gardener.cloud/ignore: ` +
				`"true"}}, status: {}}`,
		},
		"a description is removed": {
			object: `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, annotations: {a: b, resources.gardener.cloud/description: x}}}`,
			want:   `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, annotations: {a: b}}}`, changed: true,
		},
		"malformed annotations stay unchanged": {
			object: `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, annotations: x}}`,
			want:   `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, annotations: x}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			obj := object(t, tc.object)
			result, changed := MergeIgnored(obj)
			g.Expect(changed).To(Equal(tc.changed))
			g.Expect(result.Object).To(Equal(object(t, tc.want).Object))
			g.Expect(ForCreateIgnored(obj).Object).To(Equal(object(t, tc.want).Object))
			g.Expect(obj.Object).To(Equal(object(t, tc.object).Object))
		})
	}
}

func TestAsksForPlan(t *testing.T) {
	type asked struct{ only, malformed bool }
	g := NewWithT(t)
	only, malformed := AsksForPlan(nil)
	g.Expect(asked{only, malformed}).To(Equal(asked{}))
	for value, want := range map[string]asked{
		"true": {only: true}, "1": {only: true}, "T": {only: true}, "false": {}, "0": {}, "F": {},
		"yes": {only: true, malformed: true}, "": {only: true, malformed: true}, "truly": {only: true, malformed: true},
	} {
		only, malformed := AsksForPlan(map[string]string{"espalier.dev/plan": value})
		g.Expect(asked{only, malformed}).To(Equal(want), "%q", value)
	}
}

func TestTruthy(t *testing.T) {
	for value, want := range map[string]bool{
		"1": true, "t": true, "T": true, "true": true, "TRUE": true, "True": true, "": false, "0": false, "yes": false, "tRUE": false,
		"false": false, "true-ish": false,
	} {
		t.Run(fmt.Sprintf("%q", value), func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(Truthy(value)).To(Equal(want))
			manifest := &unstructured.Unstructured{}
			manifest.SetAnnotations(map[string]string{"resources.gardener.cloud/ignore": value})
			g.Expect(IsIgnored(manifest)).To(Equal(want))
		})
	}
	NewWithT(t).Expect(IsIgnored(&unstructured.Unstructured{})).To(BeFalse())
}

func TestMergeErrors(t *testing.T) {
	for name, tc := range map[string]struct{ live, manifest, want string }{
		"a CronJob of another version": {
			live:     `{apiVersion: batch/v2alpha1, kind: CronJob, metadata: {name: a}}`,
			manifest: `{apiVersion: batch/v2alpha1, kind: CronJob, metadata: {name: a}}`,
			want:     `cannot merge objects with gvk: batch/v2alpha1, Kind=CronJob`,
		},
		"metadata of live is not an object": {
			live: `{apiVersion: v1, kind: ConfigMap, metadata: x}`, manifest: `{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}`,
			want: `live object: metadata: is text, but must be an object`,
		},
		"labels of live are not texts": {
			live:     `{apiVersion: v1, kind: ConfigMap, metadata: {labels: {a: 1}}}`,
			manifest: `{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}`,
			want:     `live object: metadata.labels["a"]: is a number, but must be text`,
		},
		"annotations of live are not texts": {
			live:     `{apiVersion: v1, kind: ConfigMap, metadata: {annotations: {a: []}}}`,
			manifest: `{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}`,
			want:     `live object: metadata.annotations["a"]: is a list, but must be text`,
		},
		"annotations of the manifest": {
			live:     `{apiVersion: v1, kind: ConfigMap}`,
			manifest: `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, annotations: {a: null}}}`,
			want:     `metadata.annotations["a"]: is null, but must be text`,
		},
		"spec of a live Deployment": {
			live: `{apiVersion: apps/v1, kind: Deployment, spec: []}`, manifest: `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}}`,
			want: `live object: spec: is a list, but must be an object`,
		},
		"spec of a Deployment": {
			live: `{apiVersion: apps/v1, kind: Deployment}`, manifest: `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: x}`,
			want: `spec: is text, but must be an object`,
		},
		"containers of a Deployment": {
			live:     `{apiVersion: apps/v1, kind: Deployment, spec: {template: {}}}`,
			manifest: `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {template: {spec: {containers: [x]}}}}`,
			want:     `pod template: spec.containers[0]: is text, but must be an object`,
		},
		"containers of a live Deployment": {
			live:     `{apiVersion: apps/v1, kind: Deployment, spec: {template: {spec: {containers: x}}}}`,
			manifest: `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {template: {}}}`,
			want:     `live object: pod template: spec.containers: is text, but must be a list`,
		},
		"annotations of a live pod template": {
			live:     `{apiVersion: apps/v1, kind: DaemonSet, spec: {template: {metadata: {annotations: x}}}}`,
			manifest: `{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: a}, spec: {template: {}}}`,
			want:     `live object: pod template: metadata.annotations: is text, but must be an object`,
		},
		"the type of a Service": {
			live: `{apiVersion: v1, kind: Service, spec: {type: 1}}`, manifest: `{apiVersion: v1, kind: Service, metadata: {name: a}}`,
			want: `live object: spec.type: is a number, but must be text`,
		},
		"the ports of a Service": {
			live:     `{apiVersion: v1, kind: Service, spec: {ports: [{port: x}]}}`,
			manifest: `{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {type: NodePort, ports: [{port: 1}]}}`,
			want:     `spec.ports: live object: port: is text, but must be a number`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Merge(object(t, tc.live), object(t, tc.manifest), options(preserveResources))
			NewWithT(t).Expect(err).To(MatchError(tc.want))
		})
	}
}
