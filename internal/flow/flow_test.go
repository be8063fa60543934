package flow_test

import (
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/flow"
)

func TestWrongGraphsAreRefusedWithTheNamesOfTheTasks(t *testing.T) {
	for name, tc := range map[string]struct {
		tasks []flow.Task
		want  string
	}{
		"a dependency that is not in the flow": {
			tasks: []flow.Task{task("etcd", succeed, "druid"), task("API server", succeed, "etcd", "Istio")},
			want: `build flow "Garden reconciliation": task "etcd" depends on unknown task "druid"` + "\n" +
				`task "API server" depends on unknown task "Istio"`,
		},
		"a name that two tasks have": {
			tasks: []flow.Task{task("etcd", succeed), task("etcd", succeed)},
			want:  `build flow "Garden reconciliation": more than one task has the name "etcd"`,
		},
		"a task without a name": {
			tasks: []flow.Task{task("etcd", succeed), task("", succeed)},
			want:  `build flow "Garden reconciliation": task at position 1 has no name`,
		},
		"a task without work": {
			tasks: []flow.Task{task("etcd", nil)},
			want:  `build flow "Garden reconciliation": task "etcd" has no work`,
		},
		"a task that depends on itself": {
			tasks: []flow.Task{task("etcd", succeed, "etcd")},
			want:  `build flow "Garden reconciliation": dependencies form a cycle: "etcd" depends on "etcd"`,
		},
		"a cycle behind a task that is not part of it": {
			tasks: []flow.Task{
				task("seed", succeed, "a"), task("a", succeed, "root", "b"), task("b", succeed, "c"), task("c", succeed, "a"),
				task("root", succeed),
			},
			want: `build flow "Garden reconciliation": dependencies form a cycle: "a" depends on "b" depends on "c" depends on "a"`,
		},
		"a cycle through a skipped task": {
			tasks: []flow.Task{task("a", succeed, "b"), skipped("b", "a")},
			want:  `build flow "Garden reconciliation": dependencies form a cycle: "a" depends on "b" depends on "a"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := flow.New("Garden reconciliation", tc.tasks)
			NewWithT(t).Expect(err).To(MatchError(tc.want))
		})
	}
}

func TestAFlowKeepsNoSliceOfItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		tasks := []flow.Task{task("a", succeed), task("b", succeed, "a")}
		built, err := flow.New("Garden reconciliation", tasks)
		g.Expect(err).NotTo(HaveOccurred())
		tasks[0] = flow.Task{Name: "changed"}
		tasks[1].DependsOn[0] = "changed"

		status, err := run(t.Context(), g, built)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(states(status)).To(Equal(map[string]flow.State{"a": flow.Succeeded, "b": flow.Succeeded}))
	})
}
