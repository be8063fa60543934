package health_test

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/health"
)

func TestRolloutOf(t *testing.T) {
	type result struct {
		Rollout health.Rollout
		Found   bool
	}
	web := map[string]string{"app": "web"}
	for name, tc := range map[string]struct {
		deployment string
		want       result
	}{
		"several replicas": {
			"spec: {replicas: 3, selector: {matchLabels: {app: web}}}", result{health.Rollout{Selector: web, Replicas: 3}, true},
		},
		"no number means one": {
			"spec: {selector: {matchLabels: {app: web}}}", result{health.Rollout{Selector: web, Replicas: 1}, true},
		},
		"none": {
			"spec: {replicas: 0, selector: {matchLabels: {app: web}}}", result{health.Rollout{Selector: web}, true},
		},
		"expressions are not looked at": {
			"spec: {selector: {matchLabels: {app: web}, matchExpressions: [{key: x, operator: Exists}]}}",
			result{health.Rollout{Selector: web, Replicas: 1}, true},
		},
		"expressions only":       {"spec: {selector: {matchExpressions: [{key: x, operator: Exists}]}}", result{}},
		"no selector":            {"spec: {replicas: 3}", result{}},
		"left out of the checks": {skip + "spec: {selector: {matchLabels: {app: web}}}", result{}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			object := &appsv1.Deployment{}
			g.Expect(yaml.Unmarshal([]byte(tc.deployment), object)).To(Succeed())
			rollout, found := health.RolloutOf(object)
			g.Expect(result{rollout, found}).To(Equal(tc.want))
		})
	}
	NewWithT(t).Expect(health.OldPods).To(Equal("there are still non-terminated old pods"))
}

func TestRelevant(t *testing.T) {
	for name, tc := range map[string]struct {
		pod  string
		want bool
	}{
		"running":     {"status: {phase: Running, conditions: [{type: Ready, status: 'True'}]}", true},
		"new":         {"{}", true},
		"pending":     {"status: {phase: Pending}", true},
		"terminating": {"metadata: {deletionTimestamp: '2026-03-01T12:00:00Z'}\nstatus: {phase: Running}", true},
		"not ready": {
			"status: {phase: Running, conditions: [{type: Ready, status: 'False', reason: ContainersNotReady}]}", true,
		},
		"reason of a condition of yore": {"status: {phase: Running, conditions: [{type: Ready, status: 'True', reason: PodCompleted}]}", true},
		"not disrupted after all":       {"status: {phase: Running, conditions: [{type: DisruptionTarget, status: 'False'}]}", true},
		"some other reason":             {"status: {phase: Running, reason: Busy}", true},
		"succeeded":                     {"status: {phase: Succeeded}", false},
		"failed":                        {"status: {phase: Failed}", false},
		"completed": {
			"status: {phase: Running, conditions: [{type: PodScheduled, status: 'True'}, {type: Ready, status: 'False', reason: PodCompleted}]}",
			false,
		},
		"disrupted":                      {"status: {phase: Running, conditions: [{type: DisruptionTarget, status: 'True'}]}", false},
		"evicted":                        {"status: {phase: Pending, reason: Evicted}", false},
		"without room":                   {"status: {phase: Pending, reason: OutOfcpu}", false},
		"on a node that does not fit it": {"status: {phase: Pending, reason: NodeAffinity}", false},
		"on a node that is gone":         {"status: {phase: Running, reason: NodeLost}", false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			object := &corev1.Pod{}
			g.Expect(yaml.Unmarshal([]byte(tc.pod), object)).To(Succeed())
			g.Expect(health.Relevant(object)).To(Equal(tc.want))
		})
	}
}
