package extensionvalidation

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

type pot struct {
	Soil string `json:"soil"`
}

type bonsaiSpec struct {
	DefaultSpec `json:",inline"`
	Pot         *pot `json:"pot,omitempty"`
}

// bonsais returns the given rules, completed like a row in the table of kinds.
func bonsais(t *testing.T, r rules[bonsaiSpec, unread]) *rules[bonsaiSpec, unread] {
	t.Helper()
	built, ok := kind("trees.example.com", "Bonsai", "bonsais", r).Handler.(*rules[bonsaiSpec, unread])
	NewWithT(t).Expect(ok).To(BeTrue())
	return built
}

func bonsai(kept *pot) *object[bonsaiSpec, unread] {
	return &object[bonsaiSpec, unread]{
		Metadata: metav1.ObjectMeta{Name: "elm", Namespace: "garden", ResourceVersion: "1"},
		Spec:     bonsaiSpec{DefaultSpec: DefaultSpec{Type: "elm"}, Pot: kept},
	}
}

func TestRequiredFieldBelowAPointer(t *testing.T) {
	r := bonsais(t, rules[bonsaiSpec, unread]{required: []string{"type", "pot.soil"}})
	missing := field.ErrorList{field.Required(field.NewPath("spec", "pot", "soil"), "field is required")}
	for name, tc := range map[string]struct {
		pot  *pot
		want field.ErrorList
	}{
		"nil pointer": {nil, missing},
		"empty":       {&pot{}, missing},
		"set":         {&pot{Soil: "akadama"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(r.validate(bonsai(tc.pot), nil)).To(Equal(tc.want))
		})
	}
}

func TestImmutableFieldBelowAPointer(t *testing.T) {
	r := bonsais(t, rules[bonsaiSpec, unread]{immutable: []string{"pot.soil"}})
	changed := field.ErrorList{field.Invalid(field.NewPath("spec", "pot", "soil"), "pumice", "field is immutable")}
	for name, tc := range map[string]struct {
		now, before *pot
		want        field.ErrorList
	}{
		"nil in the old object": {&pot{Soil: "pumice"}, nil, nil},
		"nil in the new object": {nil, &pot{Soil: "akadama"}, nil},
		"the same":              {&pot{Soil: "akadama"}, &pot{Soil: "akadama"}, nil},
		"changed":               {&pot{Soil: "pumice"}, &pot{Soil: "akadama"}, changed},
	} {
		t.Run(name, func(t *testing.T) {
			found := r.validate(bonsai(tc.now), bonsai(tc.before))
			for i := range found {
				found[i].Origin = "" // the Kubernetes library sets it
			}
			NewWithT(t).Expect(found).To(Equal(tc.want))
		})
	}
}

func TestAFieldThatDoesNotExistFailsWhenTheTableIsBuilt(t *testing.T) {
	for _, path := range []string{"age", "pot.age"} {
		for name, r := range map[string]rules[bonsaiSpec, unread]{
			"required": {required: []string{path}}, "immutable": {immutable: []string{path}},
		} {
			NewWithT(t).Expect(func() { kind("trees.example.com", "Bonsai", "bonsais", r) }).To(Panic(), name+" "+path)
		}
	}
}
