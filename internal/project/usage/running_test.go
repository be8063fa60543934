package usage_test

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/project/usage"
)

// live is a fake API server; the keys are the names of resources.
type live struct {
	there map[string]bool
	fails map[string]error
}

func (l live) HasObject(_ context.Context, resource schema.GroupVersionResource, _ string) (bool, error) {
	return l.there[resource.Resource], l.fails[resource.Resource]
}

func TestRunning(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no"))
	missing := apierrors.NewNotFound(schema.GroupResource{Group: "batch", Resource: "jobs"}, "")
	for name, tc := range map[string]struct {
		live live
		want usage.Verdict
		err  string
	}{
		"nothing": {want: usage.Verdict{WithoutShoots: true}},
		"a Pod": {
			live: live{there: map[string]bool{"pods": true}}, want: usage.Verdict{By: "pods", WithoutShoots: true},
		},
		"a CronJob": {
			live: live{there: map[string]bool{"cronjobs": true}}, want: usage.Verdict{By: "cronjobs", WithoutShoots: true},
		},
		"a claim": {
			live: live{there: map[string]bool{"persistentvolumeclaims": true}},
			want: usage.Verdict{By: "persistentvolumeclaims", WithoutShoots: true},
		},
		"no right": {
			live: live{fails: map[string]error{"pods": forbidden}},
			want: usage.Verdict{Undecided: true, Why: forbidden.Error(), WithoutShoots: true},
		},
		"no right, but something else": {
			live: live{there: map[string]bool{"jobs": true}, fails: map[string]error{"pods": forbidden}},
			want: usage.Verdict{By: "jobs", WithoutShoots: true},
		},
		"not found, though it should be": {
			live: live{fails: map[string]error{"jobs": missing}},
			want: usage.Verdict{Undecided: true, Why: missing.Error(), WithoutShoots: true},
		},
		"the first that is in the way": {
			live: live{fails: map[string]error{"jobs": missing, "pods": forbidden}},
			want: usage.Verdict{Undecided: true, Why: forbidden.Error(), WithoutShoots: true},
		},
		"a failure that is worth a retry": {live: live{fails: map[string]error{"pods": errors.New("down")}}, err: "find running workloads: down"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			verdict, err := usage.CheckServer(t.Context(), tc.live.HasObject, "ns")
			g.Expect(verdict).To(Equal(tc.want))
			if tc.err != "" {
				g.Expect(err).To(MatchError(tc.err))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
		})
	}
}
