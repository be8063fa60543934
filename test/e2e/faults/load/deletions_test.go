package load

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestDeletionsSince(t *testing.T) {
	const (
		stamp  = `,"requestReceivedTimestamp":"2026-01-02T03:04:05.000006Z"}` + "\n"
		before = `{"verb":"delete","user":{"username":"system:serviceaccount:espalier-system:espalier-a"},` +
			`"objectRef":{"resource":"secrets","namespace":"n","name":"before"},"responseStatus":{"code":200}` + stamp
		ours = `{"verb":"delete","user":{"username":"system:serviceaccount:espalier-system:espalier-a"},` +
			`"objectRef":{"resource":"secrets","namespace":"n","name":"ours"},"responseStatus":{"code":200}` + stamp
		many = `{"verb":"deletecollection","user":{"username":"system:serviceaccount:espalier-system:espalier-b"},` +
			`"objectRef":{"resource":"pods","namespace":"n"},"responseStatus":{"code":200}` + stamp
		refused = `{"verb":"delete","user":{"username":"system:serviceaccount:espalier-system:espalier-a"},` +
			`"objectRef":{"resource":"secrets","namespace":"n","name":"refused"},"responseStatus":{"code":409}` + stamp
		others = `{"verb":"delete","user":{"username":"system:admin"},"objectRef":{"resource":"secrets","namespace":"n",` +
			`"name":"others"},"responseStatus":{"code":200}` + stamp
		read = `{"verb":"get","user":{"username":"system:serviceaccount:espalier-system:espalier-a"},` +
			`"objectRef":{"resource":"secrets","namespace":"n","name":"read"},"responseStatus":{"code":200}` + stamp
		half     = `{"verb":"del` + "\n"
		unending = `{"verb":"delete","user":{"username":"system:serviceaccount:espalier-system:espalier-a"}`
	)
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	g := NewWithT(t)
	log := filepath.Join(t.TempDir(), "audit.log")
	g.Expect(os.WriteFile(log, []byte(before+read+ours+half+many+refused+others+unending), 0o600)).To(Succeed())
	found, err := deletionsSince(Baseline{auditLog: log, offset: int64(len(before))})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found).To(Equal([]deletion{
		{name: "secrets/n/ours", at: at, ours: true},
		{name: "pods/n/", at: at, ours: true},
		{name: "secrets/n/others", at: at},
	}))
}

// noon is the time since which revision 1 of the tested values was wanted. Each further revision was wanted a minute later.
func noon() time.Time { return time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC) }

func every(minutes int) []time.Time {
	times := make([]time.Time, 0, minutes)
	for i := range minutes {
		times = append(times, noon().Add(time.Duration(i)*time.Minute))
	}
	return times
}

func TestObsolete(t *testing.T) {
	l := &Load{Namespace: "ns", wanted: map[string][]time.Time{"ManagedResource set-1.renamed": every(7)}}
	since := func(minutes int) time.Time { return noon().Add(time.Duration(minutes) * time.Minute) }
	for name, tc := range map[string]struct {
		object string
		at     time.Time
		want   bool
	}{
		"the former one, in the end":                    {"configmaps/ns/set-1-renamed-6", since(60), true},
		"the last one":                                  {"configmaps/ns/set-1-renamed-7", since(60), false},
		"one that is not wanted any more at that time":  {"configmaps/ns/set-1-renamed-3", since(3), true},
		"one that is still wanted at that time":         {"configmaps/ns/set-1-renamed-3", since(3).Add(-time.Microsecond), false},
		"one that is not wanted yet at that time":       {"configmaps/ns/set-1-renamed-6", since(1), false},
		"none that there ever was":                      {"configmaps/ns/set-1-renamed-0", since(60), false},
		"one of the same name, with each revision":      {"configmaps/ns/set-1-fixed-1", since(60), false},
		"one of another namespace":                      {"configmaps/other/set-1-renamed-6", since(60), false},
		"one of another kind":                           {"secrets/ns/set-1-renamed-6", since(60), false},
		"one of another set, of which nothing is known": {"configmaps/ns/set-2-renamed-6", since(60), false},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(l.obsolete(tc.object, tc.at)).To(Equal(tc.want)) })
	}
}

func TestObsoleteToTheMicrosecond(t *testing.T) {
	next := noon().Add(1234 * time.Nanosecond)
	l := &Load{Namespace: "ns", wanted: map[string][]time.Time{"ManagedResource set-1.renamed": {noon(), next}}}
	g := NewWithT(t)
	g.Expect(l.obsolete("configmaps/ns/set-1-renamed-1", next.Truncate(time.Microsecond))).To(BeTrue())
	g.Expect(l.obsolete("configmaps/ns/set-1-renamed-1", noon())).To(BeFalse())
}

func TestWrong(t *testing.T) {
	const current = "configmaps/ns/set-1-renamed-2" // current until two minutes after noon
	for name, tc := range map[string]struct {
		before, now map[string]types.UID
		deletions   []deletion
		want        []string
	}{
		"nothing": {
			map[string]types.UID{"secrets/ns/a": "1"},
			map[string]types.UID{"secrets/ns/a": "1"},
			nil,
			[]string{},
		},
		"one has vanished": {map[string]types.UID{"secrets/ns/a": "1"}, nil, nil, []string{"secrets/ns/a"}},
		"one is another one now": {
			map[string]types.UID{"secrets/ns/a": "1"},
			map[string]types.UID{"secrets/ns/a": "2"},
			nil,
			[]string{"secrets/ns/a"},
		},
		"the load has deleted it":         {map[string]types.UID{"secrets/ns/a": "drift"}, nil, nil, []string{}},
		"we have deleted what came later": {nil, nil, []deletion{{name: "secrets/ns/a", at: noon(), ours: true}}, []string{"secrets/ns/a"}},
		"others have":                     {nil, nil, []deletion{{name: "secrets/ns/a", at: noon()}}, []string{}},
		"an obsolete one is deleted": {
			map[string]types.UID{current: "1"},
			nil,
			[]deletion{{name: current, at: noon().Add(2 * time.Minute), ours: true}},
			[]string{},
		},
		"one is deleted that becomes obsolete later": {
			map[string]types.UID{current: "1"}, nil, []deletion{{name: current, at: noon().Add(90 * time.Second), ours: true}}, []string{current},
		},
		"the same by others": {
			map[string]types.UID{current: "1"},
			nil,
			[]deletion{{name: current, at: noon().Add(90 * time.Second)}},
			[]string{current},
		},
		"one is deleted too early, and once more": {
			nil, nil, []deletion{
				{name: current, at: noon().Add(90 * time.Second), ours: true},
				{name: current, at: noon().Add(3 * time.Minute), ours: true},
			}, []string{current},
		},
		"an obsolete one has vanished at an unknown time": {map[string]types.UID{current: "1"}, nil, nil, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			l := &Load{
				Namespace: "ns", clock: clocktesting.NewFakePassiveClock(noon().Add(time.Hour)), deleted: sets.New[types.UID]("drift"),
				wanted: map[string][]time.Time{"ManagedResource set-1.renamed": every(7)},
			}
			NewWithT(t).Expect(l.wrong(tc.before, tc.now, tc.deletions)).To(Equal(tc.want))
		})
	}
}

func TestOnlyReader(t *testing.T) {
	subject := func(name string) rbacv1.Subject { return rbacv1.Subject{Kind: "User", Name: name} }
	for name, tc := range map[string]struct {
		subjects []rbacv1.Subject
		want     int
	}{
		"none":                     {nil, -1},
		"one":                      {[]rbacv1.Subject{subject("reader-3")}, 3},
		"one, and another subject": {[]rbacv1.Subject{subject("owner"), subject("reader-3")}, 3},
		"the former one is still":  {[]rbacv1.Subject{subject("reader-2"), subject("reader-3")}, -1},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(onlyReader(tc.subjects)).To(Equal(tc.want)) })
	}
}
