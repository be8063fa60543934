package objecttest

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/admission/reviewtest"
)

// Case defines a random object, and the change that the handler must make.
type Case[T any] struct {
	Handler review.Handler
	Kind    schema.GroupVersionKind
	Object  Value
	// Touched are the paths that the handler may change; * matches every index of a list.
	Touched []string
	// Want makes the expected change in a typed object. It returns false if the handler must refuse the object.
	Want func(*T) bool
}

// CheckRules checks the rules for all handlers. A handler never panics. Its patch can be applied. A second run on the result changes
// nothing. The result differs from the object only in the touched fields. If an API server could send the object, the result must equal
// the object that Want has changed.
func (c Case[T]) CheckRules(tb testing.TB, bytes []byte) {
	tb.Helper()
	g := NewWithT(tb)
	source := From(bytes)
	before, err := json.Marshal(c.Object(source))
	g.Expect(err).NotTo(HaveOccurred())
	response, after := reviewtest.Handle(tb, c.Handler, &review.Request{
		UID: "uid", Kind: c.Kind, Namespace: "shop", Operation: review.Create, Object: before,
	})
	g.Expect(cmp.Diff(c.untouchedFields(tb, before), c.untouchedFields(tb, after))).
		To(BeEmpty(), "more fields than the touched ones are changed of %s", before)
	if source.IsInvalid() {
		return
	}
	g.Expect(response.Code).NotTo(BeEquivalentTo(http.StatusBadRequest), "%s: %s", response.Message, before)
	want, got := new(T), new(T)
	g.Expect(json.Unmarshal(before, want)).To(Succeed(), "%s", before)
	g.Expect(json.Unmarshal(after, got)).To(Succeed(), "%s", after)
	g.Expect(response.Allowed).To(Equal(c.Want(want)), "%s: %s", response.Message, before)
	g.Expect(cmp.Diff(want, got, cmpopts.EquateEmpty())).To(BeEmpty(), "%s", before)
}

// untouchedFields returns a copy of an object without the touched fields. The copy also has no empty values, because a patch may create
// empty parents of the touched fields.
func (c Case[T]) untouchedFields(tb testing.TB, object []byte) any {
	tb.Helper()
	var decoded any
	NewWithT(tb).Expect(json.Unmarshal(object, &decoded)).To(Succeed())
	for _, path := range c.Touched {
		remove(decoded, strings.Split(strings.TrimPrefix(path, "/"), "/"))
	}
	return withoutEmpty(decoded)
}

func remove(from any, path []string) {
	switch from := from.(type) {
	case map[string]any:
		if len(path) == 1 {
			delete(from, path[0])
			return
		}
		remove(from[path[0]], path[1:])
	case []any:
		if path[0] == "*" && len(path) > 1 {
			for _, item := range from {
				remove(item, path[1:])
			}
		}
	}
}

// withoutEmpty removes empty members of objects. Items of lists stay, because their indexes matter.
func withoutEmpty(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			if kept := withoutEmpty(member); kept == nil {
				delete(value, name)
			} else {
				value[name] = kept
			}
		}
		if len(value) == 0 {
			return nil
		}
	case []any:
		for i, item := range value {
			value[i] = withoutEmpty(item)
		}
		if len(value) == 0 {
			return nil
		}
	}
	return value
}

// Seeds returns bytes from which large objects are made. The bytes are the same in each call.
func Seeds() [][]byte {
	const count, size = 200, 400
	random := rand.NewChaCha8([32]byte{})
	seeds := make([][]byte, count)
	for i := range seeds[1:] { // the first stays empty
		seeds[i+1] = make([]byte, size)
		_, _ = random.Read(seeds[i+1]) // it never fails
	}
	return seeds
}
