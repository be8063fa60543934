package main

import (
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestAnyAnswerButTheOneThatIsDueStopsTheWalkThrough(t *testing.T) {
	forbidden := func(why string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", errors.New(why))
	}
	down := errors.New("connection refused")
	for name, tc := range map[string]struct {
		answer  error
		refusal string
		want    string
		err     string
	}{
		"allowed, as it should be":   {nil, "", "allowed", ""},
		"refused, as it should be":   {forbidden("no key"), "no key", "refused: secrets is forbidden: no key", ""},
		"allowed, against the rules": {nil, "no key", "", "it is allowed, and should be refused: no key"},
		"refused, against the rules": {forbidden("no key"), "", "", "secrets is forbidden: no key"},
		"refused for another reason": {
			forbidden("no door"), "no key", "", "it is refused, but not as it should be (no key): secrets is forbidden: no door",
		},
		"no answer where yes is due":     {down, "", "", "connection refused"},
		"no answer where a no is due":    {down, "no key", "", "connection refused"},
		"an error that only sounds like": {errors.New("no key"), "no key", "", "no key"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got, err := verdict(tc.answer, tc.refusal)
			g.Expect(got).To(Equal(tc.want))
			if tc.err == "" {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(tc.err))
			}
		})
	}
}
