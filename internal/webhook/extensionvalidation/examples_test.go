package extensionvalidation_test

import (
	"embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/webhook/extensionvalidation"
)

// example is one write request, and the expected errors. Objects are written as merge patches of the valid object of their kind in
// testdata.
type example struct {
	kind string
	// object is the object in the request.
	object string
	// updated is true for an update of an earlier object, which is the valid one patched by before.
	updated bool
	before  string
	// deleting is true if the earlier object is being deleted; a finalizer keeps it.
	deleting bool
	// bare is true if object and before are whole objects, not patches.
	bare bool
	// impossible is true for a request that no API server sends to webhooks.
	impossible bool
	// want lists the expected errors: "Required spec.type", or with the text, "Invalid spec.ttl: Invalid value: -1: must be …".
	want []string
}

const name = "sample"

//go:embed testdata/*.yaml
var valid embed.FS

func kindOf(tb testing.TB, kind string) extensionvalidation.Kind {
	tb.Helper()
	kinds := extensionvalidation.Kinds()
	i := slices.IndexFunc(kinds, func(k extensionvalidation.Kind) bool { return k.Kind == kind })
	NewWithT(tb).Expect(i).To(BeNumerically(">=", 0), "there is no kind %s", kind)
	return kinds[i]
}

// validObject returns a valid object of a kind as JSON.
func validObject(tb testing.TB, kind extensionvalidation.Kind, namespace string) []byte {
	tb.Helper()
	g := NewWithT(tb)
	text, err := valid.ReadFile("testdata/" + strings.ToLower(kind.Kind) + ".yaml")
	g.Expect(err).NotTo(HaveOccurred())
	meta := "name: " + name
	if kind.Namespaced {
		meta += ", namespace: " + namespace
	}
	head := fmt.Sprintf("apiVersion: %s/v1alpha1\nkind: %s\nmetadata: {%s}\n", kind.Group, kind.Kind, meta)
	object, err := yaml.YAMLToJSON(append([]byte(head), text...))
	g.Expect(err).NotTo(HaveOccurred())
	return in(namespace, object)
}

// in replaces $NS in a text by the namespace.
func in[T ~string | ~[]byte](namespace string, text T) T {
	return T(strings.ReplaceAll(string(text), "$NS", namespace))
}

// patched applies merge patches, written as YAML, to an object.
func patched(tb testing.TB, object []byte, patches ...string) []byte {
	tb.Helper()
	g := NewWithT(tb)
	for _, patch := range patches {
		encoded, err := yaml.YAMLToJSON([]byte(patch))
		g.Expect(err).NotTo(HaveOccurred())
		if string(encoded) == "null" {
			continue
		}
		object, err = jsonpatch.MergePatch(object, encoded)
		g.Expect(err).NotTo(HaveOccurred())
	}
	return object
}

// request returns the request that an API server would send for an example.
func (e example) request(tb testing.TB, namespace string) *review.Request {
	tb.Helper()
	kind := kindOf(tb, e.kind)
	gv := schema.GroupVersion{Group: kind.Group, Version: "v1alpha1"}
	r := &review.Request{
		UID: "uid", Kind: gv.WithKind(kind.Kind), Resource: gv.WithResource(kind.Plural), Name: name, Operation: review.Create,
	}
	if kind.Namespaced {
		r.Namespace = namespace
	}
	from, server := validObject(tb, kind, namespace), ""
	if e.bare {
		from = []byte("{}")
	}
	if e.updated {
		r.Operation = review.Update
		server = "metadata: {uid: uid, resourceVersion: '7', generation: 1, creationTimestamp: 2026-01-02T03:04:05Z}"
		if e.deleting {
			server = "metadata: {uid: uid, resourceVersion: '7', generation: 2, creationTimestamp: 2026-01-02T03:04:05Z, deletionTimestamp: " +
				"2026-01-03T03:04:05Z, deletionGracePeriodSeconds: 0, finalizers: [espalier.dev/test]}"
		}
		r.OldObject = in(namespace, patched(tb, from, server, e.before))
	}
	r.Object = in(namespace, patched(tb, from, server, e.object))
	return r
}

// found returns the errors in a response, in the format of example.want.
func found(tb testing.TB, response review.Response) []string {
	tb.Helper()
	if response.Allowed {
		return nil
	}
	g := NewWithT(tb)
	g.Expect(response.Code).To(BeEquivalentTo(422), response.Message)
	g.Expect(response.Reason).To(BeEquivalentTo("Invalid"))
	encoded, err := json.Marshal(response.Details.Causes)
	g.Expect(err).NotTo(HaveOccurred())
	return causes(tb, encoded)
}

// causes returns the causes in a JSON list of causes, in the format of example.want.
func causes(tb testing.TB, encoded []byte) []string {
	tb.Helper()
	var list []struct{ Reason, Field, Message string }
	NewWithT(tb).Expect(json.Unmarshal(encoded, &list)).To(Succeed())
	var texts []string
	for _, cause := range list {
		texts = append(texts, strings.TrimPrefix(cause.Reason, "FieldValue")+" "+cause.Field+": "+cause.Message)
	}
	return texts
}

// matches requires that the errors equal want, in any order.
func (e example) matches(tb testing.TB, namespace string, found []string) {
	tb.Helper()
	var want []any
	for _, each := range e.want {
		each = in(namespace, each)
		if strings.Contains(each, ": ") {
			want = append(want, Equal(each))
		} else {
			want = append(want, HavePrefix(each+": "))
		}
	}
	NewWithT(tb).Expect(found).To(ConsistOf(want...))
}
