package documented_test

import (
	"maps"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
)

func allExamples() map[string]example {
	all := map[string]example{}
	for _, each := range []map[string]example{
		secretExamples(), fieldExamples(), setExamples(), objectExamples(), updateExamples(),
		garbageExamples(), waitingExamples(),
	} {
		maps.Copy(all, each)
	}
	return all
}

func TestEveryExampleDoesWhatThePageSays(t *testing.T) {
	t.Parallel()
	p := readPage(t)
	shown := p.examples()
	for name, tc := range allExamples() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, p, shown[name], tc)
			for _, sentence := range shown[name].sentences {
				t.Log(sentence)
				claim := tc.claims[sentence]
				s.Expect(claim).NotTo(BeNil(), "no test proves this sentence")
				claim(s)
			}
		})
	}
}

// Every sentence of the page must have a claim in the tests, and every claim a sentence.
func TestExamplesAndTestsAreTheSame(t *testing.T) {
	shown, proved := map[string][]string{}, map[string][]string{}
	for name, each := range readPage(t).examples() {
		shown[name] = slices.Sorted(slices.Values(each.sentences))
	}
	for name, each := range allExamples() {
		proved[name] = slices.Sorted(maps.Keys(each.claims))
	}
	NewWithT(t).Expect(shown).To(BeComparableTo(proved))
}
