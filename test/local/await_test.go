package local

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestAwait(t *testing.T) {
	g := NewWithT(t)
	calls := 0
	g.Expect(Await(t.Context(), time.Minute, "it", func(context.Context) error {
		calls++
		if calls < 3 {
			return errors.New("not yet")
		}
		return nil
	})).To(Succeed())
	g.Expect(Await(t.Context(), time.Millisecond, "it", func(context.Context) error { return errors.New("not yet") })).
		To(MatchError("wait for it: not within 1ms: not yet"))
}

func TestAwaitGivesUpWhenTheProbeSaysSo(t *testing.T) {
	probe := func(context.Context) error { return GiveUp(errors.New("it has ended")) }
	err := Await(t.Context(), 5*time.Second, "a process to be ready", probe)
	NewWithT(t).Expect(err).To(MatchError("wait for a process to be ready: it has ended"))
}

func TestAwaitReportsTheLastErrorAfterTheLimit(t *testing.T) {
	err := Await(t.Context(), time.Millisecond, "a process to be ready", func(context.Context) error { return errors.New("it is not") })
	NewWithT(t).Expect(err).To(MatchError("wait for a process to be ready: not within 1ms: it is not"))
}

func TestParseManifests(t *testing.T) {
	g := NewWithT(t)
	got, err := ParseManifests([]byte("# only a comment\n---\napiVersion: v1\nkind: Namespace\n---\n---\nkind: Secret\n"))
	g.Expect(err).NotTo(HaveOccurred())
	var objects []map[string]any
	for _, each := range got {
		objects = append(objects, each.Object)
	}
	g.Expect(objects).To(Equal([]map[string]any{{"apiVersion": "v1", "kind": "Namespace"}, {"kind": "Secret"}}))
	_, err = ParseManifests([]byte("a: b: c"))
	g.Expect(err).To(HaveOccurred())
}
