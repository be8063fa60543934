package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/flow"
	"github.com/espalier-dev/espalier/internal/secrets/manager"
)

func TestDescriptionHasFailuresAndWhatTasksWaitFor(t *testing.T) {
	for want, progress := range map[string]flow.Status{
		"a, b": {Description: "a, b", Tasks: []flow.TaskStatus{
			{Name: "a", State: flow.Running}, {Name: "c", State: flow.Pending, Message: "Waits."},
		}},
		"flow starts": {Description: "flow starts"},
		`a, b; task "b" waits: not ready; task "c" failed: no right`: {Description: "a, b", Tasks: []flow.TaskStatus{
			{Name: "a", State: flow.Running},
			{Name: "b", State: flow.Running, Message: "not ready"},
			{Name: "c", State: flow.Failed, Message: "no right"},
		}},
		`task "c" failed: no right`: {Tasks: []flow.TaskStatus{{Name: "c", State: flow.Failed, Message: "no right"}}},
	} {
		NewWithT(t).Expect(describe(progress)).To(Equal(want))
	}
}

func TestErrorsThatUsersCanRemedySayHow(t *testing.T) {
	g, r := NewWithT(t), &Reconciler{}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "a", errors.New("no"))
	missing := &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "druid.gardener.cloud", Kind: "Etcd"}}
	etcds := schema.GroupResource{Group: "druid.gardener.cloud", Resource: "etcds"}
	unserved := apierrors.NewGenericServerResponse(http.StatusNotFound, "POST", etcds, "", "404 page not found", 0, true)
	g.Expect(r.withRemedy(fmt.Errorf("deploy a: %w", forbidden))).To(MatchError(
		"the operator lacks a right (apply its roles again, with deploy/overlays/garden or the chart): " +
			`deploy a: secrets "a" is forbidden: no`,
	))
	planner := &Reconciler{Foresee: func(task flow.Task) flow.Task { return task }}
	g.Expect(planner.withRemedy(forbidden)).To(MatchError(
		`the user who asks for the plan lacks a right (deploy/garden-read has the roles for plans): secrets "a" is forbidden: no`,
	))
	for _, each := range []error{missing, unserved} {
		g.Expect(r.withRemedy(each)).To(
			MatchError(HavePrefix("a definition is missing (those of the operator are deployed again at the next attempt): ")),
		)
	}
	g.Expect(r.withRemedy(apierrors.NewNotFound(etcds, "a"))).To(MatchError(`etcds.druid.gardener.cloud "a" not found`))
	g.Expect(r.withRemedy(&manager.LostError{Problem: "a is lost: restore b"})).To(MatchError("a is lost: restore b"))
	g.Expect(r.withRemedy(errors.New("other"))).To(MatchError("other"))
	g.Expect(r.withRemedy(nil)).To(Succeed())
}

func TestFailuresOfTasksAreCounted(t *testing.T) {
	g := NewWithT(t)
	registry := prometheus.NewRegistry()
	r := &Reconciler{Metrics: NewMetrics(registry, nil), Recorder: events.NewFakeRecorder(1)}
	task := r.withEvents(&operatorv1alpha1.Garden{}, flow.Task{Name: "a", Run: func(context.Context) error { return errors.New("no") }}, nil)
	g.Expect(task.Run(t.Context())).NotTo(Succeed())
	sample := &dto.Metric{}
	g.Expect(r.Metrics.failures.WithLabelValues("a").Write(sample)).To(Succeed())
	g.Expect(sample.GetCounter().GetValue()).To(Equal(1.0))
}
