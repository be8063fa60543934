package conflict_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/espalier-dev/espalier/internal/conflict"
)

func changed() error {
	return fmt.Errorf("patch: %w", apierrors.NewConflict(schema.GroupResource{Resource: "rolebindings"}, "b", errors.New("changed")))
}

func forbidden() error {
	return fmt.Errorf("patch: %w", apierrors.NewForbidden(schema.GroupResource{Resource: "rolebindings"}, "b", errors.New("no")))
}

func TestOnly(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"no error":                   {},
		"a conflict":                 {err: changed(), want: true},
		"something else":             {err: forbidden()},
		"no answer of an API server": {err: errors.New("away")},
		"several conflicts": {
			err: fmt.Errorf("roles: %w", errors.Join(errors.Join(changed(), changed()), errors.Join(changed()))), want: true,
		},
		"a conflict before something else":  {err: errors.Join(changed(), forbidden())},
		"something else deep in a conflict": {err: errors.Join(changed(), fmt.Errorf("more: %w", errors.Join(changed(), errors.New("away"))))},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(conflict.Only(tc.err)).To(Equal(tc.want)) })
	}
}

func TestConflictsHaveABackOffOfTheirOwn(t *testing.T) {
	g := NewWithT(t)
	var answer error
	r := conflict.RetryAtOnce(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		return reconcile.Result{RequeueAfter: time.Hour, Priority: ptr.To(7)}, answer
	}))
	request := func(name string) reconcile.Request {
		return reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}
	}
	for _, step := range []struct {
		name  string
		err   error
		after time.Duration
		want  error
	}{
		{name: "a", err: changed(), after: 5 * time.Millisecond},
		{name: "a", err: changed(), after: 10 * time.Millisecond},
		{name: "b", err: changed(), after: 5 * time.Millisecond},
		{name: "a", err: forbidden(), after: time.Hour, want: forbidden()},
		{name: "a", err: changed(), after: 5 * time.Millisecond},
		{name: "b", after: time.Hour},
		{name: "b", err: changed(), after: 5 * time.Millisecond},
	} {
		answer = step.err
		result, err := r.Reconcile(t.Context(), request(step.name))
		if step.want == nil {
			g.Expect(err).NotTo(HaveOccurred())
		} else {
			g.Expect(err).To(MatchError(step.want.Error()))
		}
		g.Expect(result).To(Equal(reconcile.Result{RequeueAfter: step.after, Priority: ptr.To(7)}))
	}
	for range 20 {
		answer = changed()
		result, err := r.Reconcile(t.Context(), request("a"))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(result.RequeueAfter).To(BeNumerically("<=", 10*time.Second))
	}
}

func TestPatchIsForTheVersionThatWasRead(t *testing.T) {
	g := NewWithT(t)
	before := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", UID: "u1", ResourceVersion: "5"}}
	after := before.DeepCopy()
	after.Labels = map[string]string{"a": "b"}
	patch, err := conflict.MergeFrom(before).Data(after)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(patch).To(MatchJSON(`{"metadata": {"resourceVersion": "5", "labels": {"a": "b"}}}`))
}
