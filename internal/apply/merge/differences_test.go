package merge

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

func TestDifferences(t *testing.T) {
	const (
		cm     = "apiVersion: v1, kind: ConfigMap"
		widget = "apiVersion: example.com/v1, kind: Widget"
		pod    = "apiVersion: v1, kind: Pod"
		secret = "apiVersion: v1, kind: Secret"
	)
	for name, tc := range map[string]struct {
		kind         string
		live, merged string
		want         []string
	}{
		// Any kind.
		"equal objects":                          {kind: widget, live: "spec: {a: [1, x, {b: c}]}", merged: "spec: {a: [1, x, {b: c}]}"},
		"additional fields of live do not count": {kind: widget, live: "spec: {a: 1, b: 2}, other: x", merged: "spec: {a: 1}"},
		"another value": {
			kind: widget, live: "spec: {a: 1, b: {c: x}}", merged: "spec: {a: 2, b: {c: y}}", want: []string{"spec.a", "spec.b.c"},
		},
		"a missing value": {kind: widget, live: "spec: {}", merged: "spec: {a: {b: 1}}", want: []string{"spec.a"}},
		"no spec at all":  {kind: widget, live: "x: y", merged: "spec: {a: {b: 1}}", want: []string{"spec"}},
		"another type": {
			kind: widget, live: "spec: {a: [], b: {}, c: x, d: 1}", merged: "spec: {a: {}, b: [], c: {x: y}, d: '1'}",
			want: []string{"spec.a", "spec.b", "spec.c", "spec.d"},
		},
		"numbers of another type": {kind: widget, live: "spec: {a: 1.0, b: 2}", merged: "spec: {a: 1, b: 2.0}"},
		"large numbers": {
			kind: widget, live: "spec: {a: 9007199254740993}", merged: "spec: {a: 9007199254740992}", want: []string{"spec.a"},
		},
		"null in merged is no difference": {kind: widget, live: "spec: {a: x}", merged: "spec: {a: null, b: null}"},
		"a custom resource keeps empty and zero values": {
			kind: widget, live: "spec: {c: false}", merged: "spec: {a: {}, b: [], c: false, d: false}",
			want: []string{"spec.a", "spec.b", "spec.d"},
		},
		"quantities in other kinds are text": {
			kind: widget, live: "spec: {cpu: '1'}", merged: "spec: {cpu: 1000m}", want: []string{"spec.cpu"},
		},
		"another kind or version": {
			kind: "x: y", live: "apiVersion: example.com/v1, kind: Widget", merged: "apiVersion: example.com/v2, kind: Gadget",
			want: []string{"apiVersion", "kind"},
		},
		// Metadata.
		"labels and annotations exactly": {
			kind: widget, live: "metadata: {labels: {a: b, c: d, e.f/g: x}, annotations: {more: x}}",
			merged: "metadata: {labels: {a: b, c: x, new: x}}",
			want:   []string{"metadata.annotations.more", "metadata.labels.c", "metadata.labels['e.f/g']", "metadata.labels.new"},
		},
		"no labels are empty labels": {kind: widget, live: "metadata: {labels: {}}", merged: "metadata: {annotations: {}}"},
		"malformed labels": {
			kind: widget, live: "metadata: {labels: x}", merged: "metadata: {labels: {a: b}}", want: []string{"metadata.labels"},
		},
		"other metadata": {
			kind: widget, live: "metadata: {name: a, uid: u, managedFields: [{manager: a}]}",
			merged: "metadata: {name: a, finalizers: [x], managedFields: [{manager: b}]}", want: []string{"metadata.finalizers"},
		},
		"metadata that is not an object": {kind: widget, live: "metadata: {}", merged: "metadata: x", want: []string{"metadata"}},
		// Lists.
		"an additional item in live":        {kind: widget, live: "spec: [a, b]", merged: "spec: [a]", want: []string{"spec[1]"}},
		"a missing item in live":            {kind: widget, live: "spec: [a]", merged: "spec: [a, b]", want: []string{"spec[1]"}},
		"an item that merged no longer has": {kind: widget, live: "spec: [{a: 1}]", merged: "spec: []", want: []string{"spec[0]"}},
		"items by name": {
			kind: widget, live: "spec: [{name: x, v: 1}, {name: w, v: 1}]", merged: "spec: [{name: w, v: 2}, {name: z, v: 1}]",
			want: []string{"spec[name=w].v", "spec[name=z]", "spec[name=x]"},
		},
		"items in another order": {
			kind: widget, live: "spec: [{name: x}, {name: w}]", merged: "spec: [{name: w}, {name: x}]", want: []string{"spec"},
		},
		"an item before the others": {
			kind: widget, live: "spec: [{name: x}, {name: w}]", merged: "spec: [{name: w}]", want: []string{"spec[name=x]"},
		},
		"names that occur twice are no key": {
			kind: widget, live: "spec: [{name: x, key: a}, {name: x, key: b}]", merged: "spec: [{name: x, key: a}, {name: x, key: c}]",
			want: []string{"spec[key=c]", "spec[key=b]"},
		},
		"a key that is not text or number": {
			kind: widget, live: "spec: [{name: {}, port: 80}]", merged: "spec: [{name: {}, port: 80, v: 1}]", want: []string{"spec[port=80].v"},
		},
		"an empty key is no key": {
			kind: widget, live: "spec: [{name: '', v: 1}]", merged: "spec: [{name: '', v: 2}]", want: []string{"spec[0].v"},
		},
		"defaults inside items do not count": {
			kind: pod,
			live: "spec: {containers: [{name: a, image: i, terminationMessagePath: /dev/termination-log, ports: [{containerPort: 80, " +
				"protocol: TCP}]}]}",
			merged: "spec: {containers: [{name: a, image: i, ports: [{containerPort: 80}]}]}",
		},
		"changes inside items count": {
			kind: pod, live: "spec: {containers: [{name: a, image: i, ports: [{containerPort: 80, protocol: TCP}]}]}",
			merged: "spec: {containers: [{name: a, image: j, ports: [{containerPort: 80, protocol: UDP}]}]}",
			want:   []string{"spec.containers[name=a].image", "spec.containers[name=a].ports[containerPort=80].protocol"},
		},
		"an additional container in live": {
			kind: pod, live: "spec: {containers: [{name: a}, {name: b}]}", merged: "spec: {containers: [{name: a}]}",
			want: []string{"spec.containers[name=b]"},
		},
		"a volume of another kind": {
			kind: pod, live: "spec: {volumes: [{name: a, hostPath: {path: /}}]}", merged: "spec: {volumes: [{name: a, emptyDir: {}}]}",
			want: []string{"spec.volumes[name=a].emptyDir"},
		},
		"fields that the library does not know": {
			kind: pod, live: "spec: {containers: [{name: a, new: 1, cpu: x}], hostNetwork: true}",
			merged: "spec: {containers: [{name: a, new: 2, cpu: x}], newer: {a: b}, hostNetwork: true}",
			want:   []string{"spec.containers[name=a].new", "spec.newer"},
		},
		// Values that are equal as Go types.
		"quantities": {
			kind: pod, live: "spec: {containers: [{name: a, resources: {limits: {cpu: '1', memory: 1Gi}}}]}",
			merged: "spec: {containers: [{name: a, resources: {limits: {cpu: 1000m, memory: 1024Mi}}}]}",
		},
		"quantities that are numbers": {
			kind: pod, live: "spec: {containers: [{name: a, resources: {limits: {cpu: '1'}}}]}",
			merged: "spec: {containers: [{name: a, resources: {limits: {cpu: 1}}}]}",
		},
		"quantities that differ": {
			kind: pod, live: "spec: {containers: [{name: a, resources: {limits: {cpu: '1'}}}]}",
			merged: "spec: {containers: [{name: a, resources: {limits: {cpu: 100m}}}]}",
			want:   []string{"spec.containers[name=a].resources.limits.cpu"},
		},
		"a port as number or text is different": {
			kind: "apiVersion: v1, kind: Service", live: "spec: {ports: [{port: 80, targetPort: 8080}]}",
			merged: "spec: {ports: [{port: 80, targetPort: '8080'}]}", want: []string{"spec.ports[port=80].targetPort"},
		},
		"base64 with line breaks": {kind: secret, live: "data: {a: aGVsbG8=}", merged: `data: {a: "aGVs\nbG8=\n"}`},
		"base64 of something else": {
			kind: secret, live: "data: {a: aGVsbG8=}", merged: `data: {a: "aGVs\nbG9v"}`, want: []string{"data.a"},
		},
		"stringData counts as data": {kind: secret, live: "data: {a: aGVsbG8=}, type: Opaque", merged: "stringData: {a: hello}"},
		"stringData that differs": {
			kind: secret, live: "data: {a: aGVsbG8=}", merged: "stringData: {a: hunter2}", want: []string{"data.a"},
		},
		"a missing creation time": {
			kind: "apiVersion: apps/v1, kind: Deployment", live: "spec: {template: {metadata: {labels: {a: b}}}}",
			merged: "spec: {template: {metadata: {labels: {a: b}, creationTimestamp: null}}}",
		},
		"zero values that are left out": {
			kind: pod, live: "spec: {containers: [{name: a}]}",
			merged: "spec: {hostNetwork: false, containers: [{name: a, args: [], env: null, image: '', resources: {}, workingDir: ''}], " +
				"nodeSelector: {}, volumes: []}",
		},
		"zero values that are not left out": {
			kind: pod, live: "spec: {hostNetwork: true, containers: [{name: a}]}",
			merged: "spec: {hostNetwork: false, hostUsers: false, containers: [{name: a, securityContext: {}}]}",
			want:   []string{"spec.containers[name=a].securityContext", "spec.hostNetwork", "spec.hostUsers"},
		},
		"rules that are null or empty": {
			kind: "apiVersion: rbac.authorization.k8s.io/v1, kind: Role", live: "rules: null", merged: "rules: []",
		},
		"an empty list that was filled": {
			kind: "apiVersion: rbac.authorization.k8s.io/v1, kind: Role", live: "rules: [{verbs: [get]}]", merged: "rules: []",
			want: []string{"rules[0]"},
		},
		"definitions": {
			kind: "apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition",
			live: "spec: {versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {a: {type: " +
				"integer, default: 1}}}}}], conversion: {strategy: None}}",
			merged: "spec: {preserveUnknownFields: false, versions: [{name: v1, served: true, storage: true, deprecated: false, schema: " +
				"{openAPIV3Schema: {type: object, description: '', properties: {a: {type: integer, default: 1}}}}}]}",
		},
		"API services": {
			kind: "apiVersion: apiregistration.k8s.io/v1, kind: APIService", live: "spec: {caBundle: aGVsbG8=}",
			merged: "spec: {caBundle: \"aGVs\\nbG8=\", insecureSkipTLSVerify: false}",
		},
		"an object that does not fit its type": {
			kind: cm, live: "data: {a: b}", merged: "data: {a: 1}, immutable: false", want: []string{"data.a", "immutable"},
		},
		"a known kind with an additional map entry": {kind: cm, live: "data: {a: b, c: d}", merged: "data: {a: b}"},
		"a known kind with a missing map entry":     {kind: cm, live: "data: {a: b}", merged: "data: {a: b, c: ''}", want: []string{"data.c"}},
		"status is compared like the rest":          {kind: cm, live: "status: {a: b}", merged: "status: {a: c}", want: []string{"status.a"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			live, merged := object(t, "{"+tc.kind+", "+tc.live+"}"), object(t, "{"+tc.kind+", "+tc.merged+"}")
			liveBefore, mergedBefore := live.DeepCopy(), merged.DeepCopy()
			var got []string
			for _, path := range Differences(live, merged) {
				got = append(got, PathText(path))
			}
			g.Expect(got).To(Equal(tc.want))
			g.Expect(live).To(Equal(liveBefore))
			g.Expect(merged).To(Equal(mergedBefore))
		})
	}
}

func TestDifferencesAreBounded(t *testing.T) {
	g := NewWithT(t)
	var many strings.Builder
	for i := range 100 {
		fmt.Fprintf(&many, "f%03d: 1, ", i)
	}
	got := Differences(object(t, "{kind: Widget}"), object(t, "{kind: Widget, "+many.String()+"}"))
	g.Expect(got).To(HaveLen(64))
	g.Expect(got[63]).To(Equal(fieldpath.MakePathOrDie("f063")))
	got = Differences(object(t, "{kind: Widget, spec: []}"), object(t, "{kind: Widget, spec: ["+strings.Repeat("1, ", 100)+"]}"))
	g.Expect(got).To(HaveLen(64))
	g.Expect(got[63]).To(Equal(fieldpath.MakePathOrDie("spec", 63)))
}

func TestMergingAMergedObjectChangesNothing(t *testing.T) {
	// The stored object is merged once more. The second merge must not change it.
	for name, text := range map[string]string{
		"a Deployment":  `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {template: {spec: {containers: [{name: a}]}}}}`,
		"a Job":         `{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {template: {spec: {containers: [{name: a}]}}}}`,
		"a Service":     `{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {type: LoadBalancer, ports: [{port: 80}]}}`,
		"a StatefulSet": `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a}, spec: {volumeClaimTemplates: [{metadata: {name: c}}]}}`,
		"a Secret":      `{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: {a: b}}`,
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			manifest := object(t, text)
			live, err := ForCreate(manifest, options(forceLabels, forceAnnotations))
			g.Expect(err).NotTo(HaveOccurred())
			live.SetUID("u")
			live.SetResourceVersion("1")
			again, err := Merge(live, manifest, options(forceLabels, forceAnnotations))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(Differences(live, again)).To(BeNil())
		})
	}
}

func TestPath(t *testing.T) {
	for want, path := range map[string]fieldpath.Path{
		"spec.template.spec.containers[name=app].image": fieldpath.MakePathOrDie("spec", "template", "spec", "containers",
			fieldpath.KeyElementByFields("name", "app"), "image"),
		"spec.ports[port=80,protocol=TCP]": fieldpath.MakePathOrDie("spec", "ports",
			fieldpath.KeyElementByFields("port", 80, "protocol", "TCP")),
		"metadata.finalizers[=a]":                   fieldpath.MakePathOrDie("metadata", "finalizers", value.NewValueInterface("a")),
		"metadata.labels['app.kubernetes.io/name']": fieldpath.MakePathOrDie("metadata", "labels", "app.kubernetes.io/name"),
		`data['it\'s']['']`:                         fieldpath.MakePathOrDie("data", "it's", ""),
		"rules[0]":                                  fieldpath.MakePathOrDie("rules", 0),
		"['a b'].c":                                 fieldpath.MakePathOrDie("a b", "c"),
		"":                                          nil,
	} {
		t.Run(want, func(t *testing.T) { NewWithT(t).Expect(PathText(path)).To(Equal(want)) })
	}
}
