package expiry_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/project/expiry"
)

func at(text string) time.Time {
	parsed, _ := time.Parse(time.RFC3339Nano, text) // the zero time fails every comparison
	return parsed
}

var now = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// subject returns the member that a key of the annotation names, such as User:alice.
func subject(text string) rbacv1.Subject {
	kind, name, _ := strings.Cut(text, ":")
	if kind == "ServiceAccount" {
		namespace, account, _ := strings.Cut(name, "/")
		return rbacv1.Subject{Kind: kind, Namespace: namespace, Name: account}
	}
	return rbacv1.Subject{APIGroup: "rbac.authorization.k8s.io", Kind: kind, Name: name}
}

// project returns a Project with the annotation, with the owner User:owner, who is its first member, and with further members.
func project(annotation string, members ...string) *corev1beta1.Project {
	p := &corev1beta1.Project{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"project.espalier.dev/membership-expiry": annotation}},
	}
	owner := subject("User:owner")
	p.Spec.Owner = &owner
	for _, each := range append([]string{"User:owner"}, members...) {
		p.Spec.Members = append(p.Spec.Members, corev1beta1.ProjectMember{Subject: subject(each), Role: "admin", Roles: []string{"uam"}})
	}
	return p
}

func names(members []corev1beta1.ProjectMember) []string {
	found := []string{}
	for _, each := range members {
		if each.Kind == "ServiceAccount" {
			found = append(found, each.Kind+":"+each.Namespace+"/"+each.Name)
			continue
		}
		found = append(found, each.Kind+":"+each.Name)
	}
	return found
}

const annotation = "Annotation project.espalier.dev/membership-expiry"

func noTime(key, value string) string {
	return annotation + `: "` + key + `" has no roles until its time is correct: write it like "2027-01-31T18:00:00Z", not ` + value
}

func TestMembers(t *testing.T) {
	const (
		wrongSubject = " is no subject, and has no effect: write User:<name>, Group:<name> or ServiceAccount:<namespace>/<name>"
		noMember     = " is no member, so the entry has no effect: correct or remove it"
	)
	for name, tc := range map[string]struct {
		annotation string
		members    []string
		want       []string // after the owner
		next       string
		problems   []string
	}{
		"nothing is written": {"", []string{"User:a"}, []string{"User:a"}, "", nil},
		"an empty object":    {"{}", []string{"User:a"}, []string{"User:a"}, "", nil},
		"a time that is ahead": {
			`{"User:a":"2026-06-01T12:00:01Z"}`, []string{"User:a"}, []string{"User:a"}, "2026-06-01T12:00:01Z", nil,
		},
		"a time that has come just now": {`{"User:a":"2026-06-01T12:00:00Z"}`, []string{"User:a", "User:b"}, []string{"User:b"}, "", nil},
		"a fraction of a second is left": {
			`{"User:a":"2026-06-01T12:00:00.001Z"}`, []string{"User:a"}, []string{"User:a"}, "2026-06-01T12:00:00.001Z", nil,
		},
		"a time in another zone": {`{"User:a":"2026-06-01T13:59:59+02:00"}`, []string{"User:a"}, nil, "", nil},
		"all kinds of subjects": {
			`{"User:a:b":"2020-01-01T00:00:00Z","Group:system:x":"2020-01-01T00:00:00Z","ServiceAccount:n/s":"2020-01-01T00:00:00Z"}`,
			[]string{"User:a:b", "Group:a:b", "Group:system:x", "User:system:x", "ServiceAccount:n/s", "ServiceAccount:m/s"},
			[]string{"Group:a:b", "User:system:x", "ServiceAccount:m/s"},
			"", nil,
		},
		"the first of several times that are ahead": {
			`{"User:a":"2027-01-01T00:00:00Z","User:b":"2026-12-01T00:00:00Z","User:c":"2020-01-01T00:00:00Z"}`,
			[]string{"User:a", "User:b", "User:c"},
			[]string{"User:a", "User:b"},
			"2026-12-01T00:00:00Z", nil,
		},
		"a member that is listed twice loses both": {
			`{"User:a":"2020-01-01T00:00:00Z"}`, []string{"User:a", "User:b", "User:a"}, []string{"User:b"}, "", nil,
		},
		"a ServiceAccount listed as a user": {
			`{"ServiceAccount:n/s":"2020-01-01T00:00:00Z"}`, []string{"User:system:serviceaccount:n:s"}, nil, "", nil,
		},
		"a user that is a listed ServiceAccount": {
			`{"User:system:serviceaccount:n:s":"2020-01-01T00:00:00Z"}`, []string{"ServiceAccount:n/s"}, nil, "", nil,
		},
		"the strictest of two entries, later": {
			`{"User:a":"2020-01-01T00:00:00Z","User:a":"2027-01-01T00:00:00Z"}`, []string{"User:a"}, nil, "", nil,
		},
		"the strictest of two entries, earlier": {
			`{"User:a":"2027-01-01T00:00:00Z","User:a":"2020-01-01T00:00:00Z"}`, []string{"User:a"}, nil, "", nil,
		},
		"the earlier of two times ahead": {
			`{"User:a":"2027-01-01T00:00:00Z","User:a":"2026-07-01T00:00:00Z"}`,
			[]string{"User:a"},
			[]string{"User:a"},
			"2026-07-01T00:00:00Z",
			nil,
		},
		"one entry of two cannot be read": {
			`{"User:a":"2027-01-01T00:00:00Z","User:a":"later"}`, []string{"User:a"}, nil, "", []string{noTime("User:a", `"later"`)},
		},
		"times that are none": {
			`{"User:a":"tomorrow","User:b":5,"User:c":null,"User:d":{"at":["2027-01-01T00:00:00Z"]},"User:e":"","User:f":"2027-01-01",` +
				`"User:g":"0001-01-01T00:00:00Z"}`,
			[]string{"User:a", "User:b", "User:c", "User:d", "User:e", "User:f", "User:g", "User:i"},
			[]string{"User:i"},
			"",
			[]string{
				noTime("User:a", `"tomorrow"`), noTime("User:b", "5"), noTime("User:c", "null"), noTime("User:d", `{"at":["2027-01-01T00:00:00Z"]}`),
				noTime("User:e", `""`), noTime("User:f", `"2027-01-01"`), noTime("User:g", `"0001-01-01T00:00:00Z"`),
			},
		},
		"keys that are no subjects": {
			`{"a":"2020-01-01T00:00:00Z","user:a":"2020-01-01T00:00:00Z","User:":"x","ServiceAccount:s":"x","ServiceAccount:/s":"x",` +
				`"ServiceAccount:n/":"x","ServiceAccount:n/s/t":"x","":"x"}`,
			[]string{"User:a", "ServiceAccount:n/s"},
			[]string{"User:a", "ServiceAccount:n/s"},
			"",
			[]string{
				annotation + `: "a"` + wrongSubject, annotation + `: "user:a"` + wrongSubject, annotation + `: "User:"` + wrongSubject,
				annotation + `: "ServiceAccount:s"` + wrongSubject,
				annotation + `: "ServiceAccount:/s"` + wrongSubject, annotation + `: "ServiceAccount:n/"` + wrongSubject,
				annotation + `: "ServiceAccount:n/s/t"` + wrongSubject, annotation + `: ""` + wrongSubject,
			},
		},
		"a subject that is no member": {
			`{"User:gone":"2027-01-01T00:00:00Z"}`, []string{"User:a"}, []string{"User:a"}, "", []string{annotation + `: "User:gone"` + noMember},
		},
		"the owner": {
			`{"User:owner":"2020-01-01T00:00:00Z"}`, nil, nil, "",
			[]string{annotation + `: "User:owner" is the owner, whose membership does not end: remove the entry, or make another member the owner`},
		},
		"no JSON": {
			`User:a=2020-01-01T00:00:00Z`,
			[]string{"User:a"},
			[]string{"User:a"},
			"",
			[]string{annotation + " is no JSON object and has no effect: correct it"},
		},
		"another JSON value": {
			`["User:a"]`, []string{"User:a"}, []string{"User:a"}, "", []string{annotation + " is no JSON object and has no effect: correct it"},
		},
		"broken off within a time": {
			`{"User:a":"2020-01-01T00:00:00Z","User:b":"2027-`,
			[]string{"User:a", "User:b", "User:c"},
			[]string{"User:c"},
			"",
			[]string{noTime("User:b", "what is there"), annotation + " is no JSON after byte 42, and has no effect from there on: correct it"},
		},
		"a comma too many": {
			`{"User:a":"2020-01-01T00:00:00Z",}`,
			[]string{"User:a", "User:b"},
			[]string{"User:b"},
			"",
			[]string{annotation + " is no JSON after byte 33, and has no effect from there on: correct it"},
		},
		"no end": {
			`{"User:a":"2020-01-01T00:00:00Z"`,
			[]string{"User:a", "User:b"},
			[]string{"User:b"},
			"",
			[]string{annotation + " is no JSON after byte 32, and has no effect from there on: correct it"},
		},
		"something behind the end": {
			`{"User:a":"2020-01-01T00:00:00Z"} {}`,
			[]string{"User:a", "User:b"},
			[]string{"User:b"},
			"",
			[]string{annotation + " is no JSON after byte 35, and has no effect from there on: correct it"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			p := project(tc.annotation, tc.members...)
			before := p.DeepCopy()
			members, next, problems := expiry.Members(p, true, now)
			g.Expect(names(members)).To(Equal(append([]string{"User:owner"}, tc.want...)))
			want := time.Time{}
			if tc.next != "" {
				want = at(tc.next)
			}
			g.Expect(next).To(BeTemporally("==", want))
			g.Expect(problems).To(Equal(tc.problems))
			g.Expect(p).To(Equal(before))
		})
	}
}

func TestMembersKeepAllTheirRoles(t *testing.T) {
	p := project(`{"User:a":"2027-01-01T00:00:00Z","User:b":"2020-01-01T00:00:00Z"}`, "User:a", "User:b")
	members, _, _ := expiry.Members(p, true, now)
	NewWithT(t).Expect(members).To(Equal(p.Spec.Members[:2]))
}

func TestExpiryDisabledKeepsMembers(t *testing.T) {
	g := NewWithT(t)
	p := project(`{"User:a":"2020-01-01T00:00:00Z","User:b":5,`, "User:a", "User:b")
	members, next, problems := expiry.Members(p, false, now)
	g.Expect(members).To(Equal(p.Spec.Members))
	g.Expect(next).To(BeZero())
	g.Expect(problems).To(BeEmpty())
}

func TestAllMembersCanExpireWithoutAnOwner(t *testing.T) {
	g := NewWithT(t)
	p := project(`{"User:owner":"2020-01-01T00:00:00Z"}`)
	p.Spec.Owner = nil
	members, _, problems := expiry.Members(p, true, now)
	g.Expect(members).To(BeEmpty())
	g.Expect(problems).To(BeEmpty())
}

func TestProblemsAreBounded(t *testing.T) {
	g := NewWithT(t)
	entries := map[string]string{}
	for i := range 1000 {
		entries[fmt.Sprintf("User:%03d%s", i, strings.Repeat("x", 1000))] = "2020-01-01T00:00:00Z"
	}
	text, err := json.Marshal(entries)
	g.Expect(err).NotTo(HaveOccurred())
	_, _, problems := expiry.Members(project(string(text)), true, now)
	g.Expect(problems).To(HaveLen(11))
	g.Expect(problems[9]).To(HavePrefix(annotation + `: "User:009xxx`))
	g.Expect(problems[10]).To(Equal("Further entries of annotation project.espalier.dev/membership-expiry are wrong too: correct these first"))
	for _, each := range problems {
		g.Expect(len(each)).To(BeNumerically("<", 512))
	}
}

// An annotation can only remove members, and never the owner. Mistakes in it are reported.
func FuzzMembers(f *testing.F) {
	for _, each := range []string{
		``, `{}`, `{"User:a":"2020-01-01T00:00:00Z"}`, `{"User:a":"2020-01-01T00:00:00Z",}`, `{"User:a":{`, `[]`,
		`{"ServiceAccount:n/s":null}`, "{\"User:\xff\":1}",
	} {
		f.Add(each)
	}
	f.Fuzz(func(t *testing.T, text string) {
		g := NewWithT(t)
		p := project(text, "User:a", "Group:g", "ServiceAccount:n/s")
		members, next, problems := expiry.Members(p, true, now)
		g.Expect(names(p.Spec.Members)).To(ContainElements(names(members)))
		g.Expect(names(members)).To(ContainElement("User:owner"))
		g.Expect(next.IsZero() || next.After(now)).To(BeTrue())
		if strings.TrimSpace(text) != "" && json.Unmarshal([]byte(text), &map[string]any{}) != nil {
			g.Expect(problems).NotTo(BeEmpty())
		}
		g.Expect(len(problems)).To(BeNumerically("<=", 11))
		again, sameNext, sameProblems := expiry.Members(p, true, now)
		g.Expect(again).To(Equal(members))
		g.Expect(sameNext).To(Equal(next))
		g.Expect(sameProblems).To(Equal(problems))
		if !next.IsZero() { // next is not too late: just before it, nothing has changed yet.
			still, _, _ := expiry.Members(p, true, next.Add(-time.Nanosecond))
			g.Expect(still).To(Equal(members))
			fewer, _, _ := expiry.Members(p, true, next)
			g.Expect(len(fewer)).To(BeNumerically("<", len(members)))
		}
	})
}
