package merge

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func TestIgnoredFieldsStayAsTheyAre(t *testing.T) {
	const live = `{spec: {replicas: 5, list: [{a: 9}, {a: 8}], map: {"0": nine, "x/y": nine, "m~n": nine}}}`
	const manifest = `{spec: {replicas: 1, list: [{a: 1}, {a: 2}], map: {"0": one, "x/y": one, "m~n": one}}}`
	for name, tc := range map[string]struct{ rules, want string }{
		"of every object": {
			`[{pointers: [/spec/replicas]}]`,
			`{replicas: 5, list: [{a: 1}, {a: 2}], map: {"0": one, "x/y": one, "m~n": one}}`,
		},
		"an item of a list": {
			`[{pointers: [/spec/list/1/a]}]`,
			`{replicas: 1, list: [{a: 1}, {a: 8}], map: {"0": one, "x/y": one, "m~n": one}}`,
		},
		"a key that is a number": {
			`[{pointers: [/spec/map/0]}]`,
			`{replicas: 1, list: [{a: 1}, {a: 2}], map: {"0": nine, "x/y": one, "m~n": one}}`,
		},
		"keys with escaped characters": {
			`[{pointers: [/spec/map/x~1y, /spec/map/m~0n]}]`,
			`{replicas: 1, list: [{a: 1}, {a: 2}], map: {"0": one, "x/y": nine, "m~n": nine}}`,
		},
		"of objects that patterns name": {
			`[{pointers: [/spec/replicas], target: {kind: Thing.example.com, name: w*b, namespace: "sh?p"}}]`,
			`{replicas: 5, list: [{a: 1}, {a: 2}], map: {"0": one, "x/y": one, "m~n": one}}`,
		},
		"of another kind": {
			`[{pointers: [/spec/replicas], target: {kind: Other}}]`,
			`{replicas: 1, list: [{a: 1}, {a: 2}], map: {"0": one, "x/y": one, "m~n": one}}`,
		},
		"of another name": {
			`[{pointers: [/spec/replicas], target: {name: w}}]`,
			`{replicas: 1, list: [{a: 1}, {a: 2}], map: {"0": one, "x/y": one, "m~n": one}}`,
		},
		"of another namespace": {
			`[{pointers: [/spec/replicas], target: {kind: Thing, namespace: x*}}]`,
			`{replicas: 1, list: [{a: 1}, {a: 2}], map: {"0": one, "x/y": one, "m~n": one}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			ignored, err := ParseIgnored(map[string]string{"espalier.dev/ignore-fields": tc.rules})
			g.Expect(err).NotTo(HaveOccurred())
			merged, err := Merge(thing(g, live), thing(g, manifest), Options{Ignored: ignored})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(merged.Object["spec"]).To(BeComparableTo(thing(g, `{spec: `+tc.want+`}`).Object["spec"]))
		})
	}
}

func thing(g *WithT, text string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	g.Expect(yaml.Unmarshal([]byte(text), &object.Object)).To(Succeed())
	object.SetAPIVersion("example.com/v1")
	object.SetKind("Thing")
	object.SetNamespace("shop")
	object.SetName("web")
	return object
}

func TestMalformedIgnoredFields(t *testing.T) {
	for text, want := range map[string]string{
		`{pointers: [/spec]}`:                                  "cannot unmarshal object",
		`[{pointer: [/spec]}]`:                                 `unknown field "pointer"`,
		`[{target: {kind: Pod}}]`:                              "a rule has no pointers",
		`[{pointers: [spec]}]`:                                 `pointer "spec": a JSON pointer begins with a slash`,
		`[{pointers: [""]}]`:                                   `pointer "": a JSON pointer begins with a slash`,
		`[{pointers: [/spec/~2]}]`:                             `pointer "/spec/~2": ~ must be written as ~0`,
		`[{pointers: [/metadata/labels]}]`:                     "only fields outside of apiVersion, kind, metadata and status can be kept",
		`[{pointers: [/0]}]`:                                   "only fields outside of",
		`[{pointers: [/spec], target: {name: "["}}]`:           `pattern "[": syntax error in pattern`,
		"[" + strings.Repeat("{pointers: [/spec]},", 65) + "]": "65 rules are too many: at most 64",
		"[{pointers: [" + strings.Repeat("/spec,", 65) + "]}]": "a rule has 65 pointers: at most 64",
		"[{pointers: [" + strings.Repeat("x", 5000) + "]}]":    "…",
	} {
		t.Run(text, func(t *testing.T) {
			_, err := ParseIgnored(map[string]string{"espalier.dev/ignore-fields": text})
			NewWithT(t).Expect(err).To(MatchError(And(HavePrefix("annotation espalier.dev/ignore-fields: "), ContainSubstring(want))))
			NewWithT(t).Expect(len(err.Error())).To(BeNumerically("<", 500))
		})
	}
}
