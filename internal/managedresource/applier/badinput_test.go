package applier_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/andybalholm/brotli"
	. "github.com/onsi/gomega"

	. "github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
)

// Each case adds a bad key to a Secret with a valid key. The condition names Secret, key, index, object and reason. The other objects and
// another set are applied.
func TestBadInput(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		key      string
		value    func(e *Env) string
		want     string
		contains []string
	}{
		"a document that is not YAML": {
			value: func(*Env) string { return "a: b\n---\nfoo: [1, 2\n" },
			want:  "False/ApplyFailed", contains: []string{"index 0 in 'bad.yaml' in secret"},
		},
		"only a document that is not YAML": {
			value: func(e *Env) string { return e.ConfigMap("other", "1") + "\n---\nfoo: [1, 2\n" },
			want:  "False/DecodingFailed", contains: []string{"Could not decode resource at index 1 in 'bad.yaml' in secret '%s/mr'"},
		},
		"a scalar": {
			value: func(*Env) string { return "just text" },
			want:  "False/DecodingFailed", contains: []string{"Could not decode resource at index 0 in 'bad.yaml' in secret '%s/mr'"},
		},
		"a list at top level": {
			value: func(*Env) string { return "- a\n- b\n" },
			want:  "False/DecodingFailed", contains: []string{"Could not decode resource at index 0 in 'bad.yaml' in secret '%s/mr'"},
		},
		"broken JSON": {
			value: func(*Env) string { return `{"apiVersion": "v1", ` },
			want:  "False/DecodingFailed", contains: []string{"Could not decode resource at index 0 in 'bad.yaml' in secret '%s/mr'"},
		},
		"an unknown kind": {
			value: func(e *Env) string {
				return fmt.Sprintf("apiVersion: no.such/v1\nkind: Thing\nmetadata: {name: x, namespace: %s}", e.Namespace)
			},
			want: "False/ApplyFailed", contains: []string{
				`"no.such/v1/Thing/%s/x"`, "no matches for kind",
				"index 0 in 'bad.yaml' in secret '%s/mr'",
			},
		},
		"an object that the API server rejects": {
			value: func(e *Env) string {
				return fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: x, namespace: %s}\nspec: {ports: [{port: 99999}]}", e.Namespace)
			},
			want: "False/ApplyFailed", contains: []string{`"v1/Service/%s/x"`, "is invalid", "index 0 in 'bad.yaml' in secret '%s/mr'"},
		},
		"an invalid name": {
			value: func(e *Env) string {
				return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ../../x, namespace: %s}", e.Namespace)
			},
			want: "False/ApplyFailed", contains: []string{"index 0 in 'bad.yaml' in secret '%s/mr'"},
		},
		"an object without a name": {
			value: func(e *Env) string {
				return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: %s}", e.Namespace)
			},
			want: "False/ApplyFailed", contains: []string{"index 0 in 'bad.yaml' in secret '%s/mr'"},
		},
		"metadata of the wrong type": {
			value: func(*Env) string { return "apiVersion: v1\nkind: ConfigMap\nmetadata: [1]\n" },
			want:  "False/ApplyFailed", contains: []string{"index 0 in 'bad.yaml' in secret '%s/mr'"},
		},
		"a kind that RBAC forbids": {
			value: func(e *Env) string {
				return fmt.Sprintf("apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: x, namespace: %s}", e.Namespace)
			},
			want: "False/ApplyFailed", contains: []string{
				`"coordination.k8s.io/v1/Lease/%s/x"`, "forbidden",
				"index 0 in 'bad.yaml' in secret '%s/mr'",
			},
		},
		"a namespace that does not exist": {
			value: func(e *Env) string {
				return strings.ReplaceAll(e.ConfigMap("x", "1"), e.Namespace, e.Namespace+"-none")
			},
			want: "False/ApplyFailed", contains: []string{`"v1/ConfigMap/%s-none/x"`, "not found"},
		},
		"a YAML bomb of aliases": {
			value: func(*Env) string {
				var bomb strings.Builder
				_, _ = bomb.WriteString("a0: &a0 [x]\n")
				for i := 1; i < 12; i++ {
					_, _ = fmt.Fprintf(&bomb, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 9), ","))
				}
				return bomb.String()
			},
			want: "False/DecodingFailed", contains: []string{"Could not decode resource at index 0 in 'bad.yaml' in secret '%s/mr'"},
		},
		"a Brotli bomb": {
			key: "bad.br", value: func(e *Env) string { return compress(e, bytes.Repeat([]byte{'#'}, 100<<20)) },
			want: "False/DecodingFailed", contains: []string{"Could not decode resource at index 0 in 'bad.br' in secret '%s/mr'"},
		},
		"a key with the suffix of compressed keys that is not compressed": {
			key: "bad.br", value: func(e *Env) string { return e.ConfigMap("x", "1") },
			want: "False/DecodingFailed", contains: []string{"Could not decode resource at index 0 in 'bad.br' in secret '%s/mr'"},
		},
		"a Secret full of one huge list": {
			value: func(*Env) string { return "[" + strings.TrimSuffix(strings.Repeat("1,", 500_000), ",") + "]" },
			want:  "False/DecodingFailed", contains: []string{"Could not decode resource at index 0 in 'bad.yaml' in secret '%s/mr'"},
		},
		"a list of objects": {
			value: func(*Env) string { return "apiVersion: v1\nkind: List\nitems: []" },
			want:  "False/ApplyFailed", contains: []string{"no matches for kind", "index 0 in 'bad.yaml' in secret '%s/mr'"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := New(t, Options{Configure: longSyncPeriod})
			key := tc.key
			if key == "" {
				key = "bad.yaml"
			}
			e.SecretData("mr", map[string][]byte{"good.yaml": []byte(e.ConfigMap("good", "1")), key: []byte(tc.value(e))})
			e.Expect(e.Source.Create(e.Ctx, e.ManagedResource("mr", "mr"))).To(Succeed())
			e.Set("neighbour", e.ConfigMap("neighbour", "1"))
			mr := e.AwaitApplied("mr", tc.want)
			for _, part := range tc.contains {
				e.Expect(Message(mr, applied)).To(ContainSubstring(strings.ReplaceAll(part, "%s", e.Namespace)))
			}
			e.Expect(len(Message(mr, applied))).To(BeNumerically("<", 4096))
			e.AwaitData("good", "1")
			e.AwaitApplied("neighbour", succeeded)
			e.Eventually(func() []string { return e.Events("mr") }).WithTimeout(Patience).Should(ContainElement(
				HavePrefix(strings.TrimPrefix(tc.want, "False/") + ": ")))

			t.Log("the good object is still kept, and once the bad one is gone all is well")
			e.Edit("good", `{"data":{"key":"x"}}`)
			e.AwaitData("good", "1")
			e.SecretData("mr", map[string][]byte{"good.yaml": []byte(e.ConfigMap("good", "1"))})
			e.AwaitApplied("mr", succeeded)
		})
	}
}

// The controller has no permission to read the object. It never wrote the object, so it does not read it after the object has left the set,
// even if the set changes again before the removal is complete.
func TestAForbiddenObjectThatLeavesIsNotReadWhenTheSetChangesAgain(t *testing.T) {
	t.Parallel()
	e := New(t, Options{Configure: longSyncPeriod})
	forbidden := fmt.Sprintf("apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: x, namespace: %s}", e.Namespace)
	e.SecretData("mr", map[string][]byte{
		"good.yaml": []byte(e.ConfigMap("good", "1")), "held.yaml": []byte(e.ConfigMap("held", "1")),
		"bad.yaml": []byte(forbidden),
	})
	e.Expect(e.Source.Create(e.Ctx, e.ManagedResource("mr", "mr"))).To(Succeed())
	e.AwaitApplied("mr", "False/ApplyFailed")
	e.AwaitData("held", "1")
	e.Edit("held", `{"metadata":{"finalizers":["example.com/hold"]}}`)
	for _, value := range []string{"2", "3"} {
		e.SecretData("mr", map[string][]byte{"good.yaml": []byte(e.ConfigMap("good", value))})
		mr := e.AwaitApplied("mr", "Progressing/DeletionPending")
		e.Expect(Message(mr, applied)).To(And(ContainSubstring("/held"), Not(ContainSubstring("Lease"))))
	}
	e.Edit("held", `{"metadata":{"finalizers":null}}`)
	e.AwaitApplied("mr", succeeded)
	e.AwaitData("good", "3")
}

// The object still counts as never written after a retry that fails before the first write: here because the Secret cannot be read.
func TestForbiddenObjectThatLeavesIsNotReadAfterARetryWithoutSecret(t *testing.T) {
	t.Parallel()
	e := New(t, Options{Configure: longSyncPeriod})
	forbidden := fmt.Sprintf("apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: x, namespace: %s}", e.Namespace)
	e.Set("mr", e.ConfigMap("good", "1"), forbidden)
	e.AwaitApplied("mr", "False/ApplyFailed")
	var failedReads atomic.Int32
	e.Requests.SetHook(func(r *http.Request) error {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/secrets/mr") {
			failedReads.Add(1)
			return errors.New("the Secret cannot be read")
		}
		return nil
	})
	e.Eventually(failedReads.Load).WithTimeout(Patience).Should(BeNumerically(">", 1))
	e.Requests.SetHook(nil)
	e.Requests.Reset()
	e.Secret("mr", e.ConfigMap("good", "2"))
	e.AwaitApplied("mr", succeeded)
	e.AwaitData("good", "2")
	e.Expect(e.Requests.Seen()).NotTo(ContainElement(SatisfyAll(HavePrefix("GET "), HaveSuffix("/leases/x"))))
}

func compress(e *Env, content []byte) string {
	var out bytes.Buffer
	w := brotli.NewWriter(&out)
	_, err := w.Write(content)
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(w.Close()).To(Succeed())
	return out.String()
}

// While a document or a Secret of the set cannot be read, nothing is pruned. The deletion of the set is not blocked.
func TestNothingIsPrunedWhileAnythingOfTheSetIsUnreadable(t *testing.T) {
	t.Parallel()
	e := New(t, Options{Configure: longSyncPeriod})
	e.Set("mr", e.ConfigMap("a", "1"), e.ConfigMap("b", "1"), e.ConfigMap("c", "1"))
	e.AwaitApplied("mr", succeeded)

	t.Log("one document becomes unreadable, another one is dropped in the same change")
	e.Secret("mr", e.ConfigMap("a", "2"), "b: [")
	mr := e.AwaitApplied("mr", "False/DecodingFailed")
	e.Expect(configMaps(e)).To(Equal(map[string]string{"a": "2", "b": "1", "c": "1"}))
	e.Expect(mr.Status.Resources).To(HaveLen(3))
	e.Expect(mr.Status.ObservedGeneration).To(Equal(mr.Generation))

	t.Log("a restart in that state changes nothing")
	e.Restart(nil)
	e.Reconciled("mr")
	e.Expect(configMaps(e)).To(Equal(map[string]string{"a": "2", "b": "1", "c": "1"}))

	t.Log("the Secret disappears")
	secret := e.Get("mr").Spec.SecretRefs[0].Name
	e.DeleteSecret(secret)
	mr = e.AwaitApplied("mr", "False/CannotReadSecret")
	e.Expect(Message(mr, applied)).To(ContainSubstring(e.Namespace + "/mr"))
	e.Expect(configMaps(e)).To(HaveLen(3))

	t.Log("it comes back and decodes: now the rest is pruned")
	e.Secret("mr", e.ConfigMap("a", "3"))
	e.AwaitApplied("mr", succeeded)
	e.Expect(configMaps(e)).To(Equal(map[string]string{"a": "3"}))

	t.Log("a set that cannot be decoded can be deleted")
	e.Secret("mr", "b: [")
	e.AwaitApplied("mr", "False/DecodingFailed")
	e.Expect(e.Source.Delete(e.Ctx, e.Get("mr"))).To(Succeed())
	e.AwaitGone("mr")
	e.Expect(configMaps(e)).To(BeEmpty())
}

// The condition lists every failing object. The other objects are applied, and obsolete objects are pruned.
func TestAllFailingObjectsAreListed(t *testing.T) {
	t.Parallel()
	e := New(t, Options{Configure: longSyncPeriod})
	e.Set("mr", e.ConfigMap("gone", "1"))
	e.AwaitApplied("mr", succeeded)
	var documents []string
	for i := range 25 {
		documents = append(documents,
			fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: bad-%02d, namespace: %s}\nspec: {ports: [{port: 99999}]}", i, e.Namespace))
	}
	e.Secret("mr", append(documents, e.ConfigMap("good", "1"))...)
	mr := e.AwaitApplied("mr", "False/ApplyFailed")
	message := Message(mr, applied)
	e.Expect(message).To(HavePrefix(fmt.Sprintf("error during apply of object %q: ", "v1/Service/"+e.Namespace+"/bad-00")))
	e.Expect(message).To(SatisfyAll(ContainSubstring("bad-19"), Not(ContainSubstring("bad-20")), HaveSuffix("and 5 more")))
	e.AwaitData("good", "1")
	e.Expect(e.LiveConfigMap("gone")).To(BeNil())
}
