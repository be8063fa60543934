package extension_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/test/binary"
)

// phase is a part of the life of an installation in which the process is cut off.
type phase struct {
	// begin causes the work, done reports whether it is complete.
	begin func(f *fixture)
	done  func(f *fixture) bool
}

func phases() map[string][]phase {
	install := phase{
		begin: func(f *fixture) {
			f.Expect(f.Garden.Create(f.Ctx, f.register(f.deployment(files{"web.yaml": workload}, "", true)))).To(Succeed())
		},
		done: func(f *fixture) bool { return isTrue(f, installed) && isTrue(f, valid) && isTrue(f, healthy) },
	}
	change := phase{
		begin: func(f *fixture) { f.replace(f.deployment(files{"a.yaml": configMap}, "", false)) },
		done: func(f *fixture) bool {
			return f.contents()["shop_templates_a.yaml"] != "" && len(f.secretNames("extension-"+f.name)) == 0 && isTrue(f, installed)
		},
	}
	uninstall := phase{
		begin: func(f *fixture) { f.Expect(f.Garden.Delete(f.Ctx, f.installation())).To(Succeed()) },
		done:  func(f *fixture) bool { return strings.Contains(f.condition(valid)(), "not found") },
	}
	return map[string][]phase{"installation": {install}, "change": {install, change}, "deletion": {install, uninstall}}
}

func (f *fixture) installation() *corev1beta1.ControllerInstallation {
	ci := &corev1beta1.ControllerInstallation{}
	ci.Name = f.name
	return ci
}

func isTrue(f *fixture, kind corev1beta1.ConditionType) bool {
	return strings.HasPrefix(f.condition(kind)(), "True ")
}

// state describes the installation and its objects, without the name of the installation.
func (f *fixture) state() []string {
	f.T.Helper()
	ci := get(f, f.Garden, "", f.name, &corev1beta1.ControllerInstallation{})
	state := []string{fmt.Sprint("finalizers ", ci.Finalizers)}
	for _, each := range ci.Status.Conditions {
		state = append(state, fmt.Sprintf("condition %s %s %s: %s", each.Type, each.Status, each.Reason, each.Message))
	}
	for _, name := range f.secretNames("extension-" + f.name) {
		state = append(state, "Secret "+name)
	}
	for _, key := range slices.Collect(maps.Keys(f.contents())) {
		state = append(state, "manifest "+key)
	}
	state = append(state, fmt.Sprint("labels ", f.set().Labels))
	for i := range state {
		state[i] = strings.ReplaceAll(state[i], f.name, "$NAME")
	}
	slices.Sort(state)
	return state
}

// countsForCuts selects the requests that installations cause. Watches of kinds that are not served list them again and again.
func countsForCuts(request *http.Request) bool {
	info := binary.Info(request)
	return info.IsResourceRequest && info.Verb != "watch" && info.APIGroup != "extensions.gardener.cloud" &&
		!slices.Contains([]string{"leases", "events"}, info.Resource)
}

// TestCrashPointsEndInTheSameState cuts the process off at its requests in the last phase. The next process must reach the state of a run
// without a cut.
func TestCrashPointsEndInTheSameState(t *testing.T) {
	t.Parallel()
	for name, all := range phases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outer := newFixture(t, func(f *fixture) { f.Requests.Counts = countsForCuts })
			last := all[len(all)-1]
			var ends [][]string
			tried := binary.EveryCut(t, 9, func(t *testing.T, at binary.Cut) bool {
				t.Helper()
				f := outer.in(t)
				await := func(p phase) { f.Eventually(func() bool { return p.done(f) }, binary.Patience).Should(BeTrue()) }
				for _, each := range all[:len(all)-1] {
					each.begin(f)
					await(each)
				}
				f.awaitRest() // the requests of the start do not count
				f.Requests.CutOff(at)
				last.begin(f)
				f.Eventually(func() bool { return f.Requests.IsCutOff() || last.done(f) }, binary.Patience).Should(BeTrue())
				f.Stop()
				happened := f.Requests.Connect()
				outer.Start()
				await(last)
				if name == "deletion" {
					f.awaitGone()
				} else {
					f.awaitRest()
					ends = append(ends, f.state())
				}
				f.forget(f.Ctx)
				return happened
			})
			outer.Expect(tried).To(BeNumerically(">=", 2))
			for _, each := range ends { // the last one is of the run without a cut
				outer.Expect(each).To(Equal(ends[len(ends)-1]))
			}
		})
	}
}
