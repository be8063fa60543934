package webhook_test

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/admission/registration"
	"github.com/espalier-dev/espalier/internal/project/projecttest"
	"github.com/espalier-dev/espalier/test/binary"
)

// TestNobodyTakesAProjectOver acts as members of each role, with the rights that the controller has given them.
func TestNobodyTakesAProjectOver(t *testing.T) {
	e := start(t, projecttest.Options{})
	p := created(e, "alice", "attack", `{members: [
		{kind: User, name: adam, role: admin}, {kind: User, name: vera, role: viewer}, {kind: User, name: una, role: uam},
		{kind: User, name: sam, role: serviceaccountmanager}]}`)
	ready(e, p)
	e.Eventually(func() error { return change(e, e.As("adam"), p, `{metadata: {labels: {seen: by-adam}}}`) }, binary.Patience).Should(Succeed())
	e.Eventually(func() error { return change(e, e.As("una"), p, `{metadata: {labels: {seen: by-una}}}`) }, binary.Patience).Should(Succeed())
	stored := e.Get(p).Spec
	const (
		owner   = `is not allowed to manage owner in .spec.owner for "projects"`
		members = `is not allowed to manage human users or groups in .spec.members for "projects"`
	)
	others := `{kind: User, name: adam, role: admin}, {kind: User, name: una, role: uam}, {kind: User, name: sam, role: serviceaccountmanager}`
	for name, tc := range map[string]struct{ user, patch, want string }{
		"a viewer becomes the owner":               {"vera", `{spec: {owner: {name: vera}}}`, "cannot patch resource"},
		"a viewer becomes an admin":                {"vera", `{spec: {members: [{kind: User, name: vera, role: admin}, ` + others + `]}}`, "cannot patch resource"},
		"a viewer says to have created it":         {"vera", `{spec: {createdBy: {name: vera}}}`, "cannot patch resource"},
		"a manager of accounts becomes the owner":  {"sam", `{spec: {owner: {name: sam}}}`, "cannot patch resource"},
		"who is no member becomes the owner":       {"mallory", `{spec: {owner: {name: mallory}}}`, "cannot patch resource"},
		"an admin becomes the owner":               {"adam", `{spec: {owner: {name: adam}}}`, owner},
		"an admin gives it to a group of his":      {"adam", `{spec: {owner: {kind: Group, name: "system:authenticated"}}}`, owner},
		"an admin gives it to an account":          {"adam", `{spec: {owner: {kind: ServiceAccount, apiGroup: "", namespace: default, name: default}}}`, owner},
		"an admin becomes the owner among members": {"adam", `{spec: {owner: {name: adam}, members: [{kind: User, name: adam, role: admin, roles: [owner]}]}}`, owner},
		"an admin adds an admin":                   {"adam", `{spec: {members: [{kind: User, name: mallory, role: admin}, {kind: User, name: vera, role: viewer}, ` + others + `]}}`, members},
		"an admin makes a viewer an admin":         {"adam", `{spec: {members: [{kind: User, name: vera, role: admin}, ` + others + `]}}`, members},
		"an admin throws everybody out":            {"adam", `{spec: {members: null}}`, members},
		"an admin has an account manage members":   {"adam", `{spec: {members: [{kind: ServiceAccount, namespace: default, name: default, role: uam}, {kind: User, name: vera, role: viewer}, ` + others + `]}}`, members},
		"an admin whitelists a toleration":         {"adam", `{spec: {tolerations: {whitelist: [{key: seed.gardener.cloud/protected}]}}}`, `is not allowed to modify .spec.tolerations.whitelist for "projects"`},
		"a manager of members whitelists one":      {"una", `{spec: {tolerations: {whitelist: [{key: seed.gardener.cloud/protected}]}}}`, `is not allowed to modify .spec.tolerations.whitelist for "projects"`},
	} {
		err := change(e, e.As(tc.user), p, tc.patch)
		e.Expect(err).To(MatchError(ContainSubstring(tc.want)), name)
		e.Expect(apierrors.IsForbidden(err)).To(BeTrue(), name)
	}
	applied := fmt.Sprintf(`{"apiVersion":"core.gardener.cloud/v1beta1","kind":"Project","metadata":{"name":%q},"spec":{"owner":{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"adam"}}}`, p.Name)
	for kind, patch := range map[client.Patch]string{
		client.RawPatch("application/apply-patch+yaml", []byte(applied)):                                                      owner,
		client.RawPatch("application/json-patch+json", []byte(`[{"op":"replace","path":"/spec/owner/name","value":"adam"}]`)): owner,
	} {
		options := []client.PatchOption{}
		if kind.Type() == "application/apply-patch+yaml" {
			options = append(options, client.FieldOwner("adam"), client.ForceOwnership)
		}
		e.Expect(e.As("adam").Patch(e.Ctx, e.Project(p.Name), kind, options...)).To(MatchError(ContainSubstring(patch)), string(kind.Type()))
	}
	written := e.Get(p)
	written.Spec.Owner.Name = "adam"
	e.Expect(e.As("adam").Update(e.Ctx, written)).To(MatchError(ContainSubstring(owner)))
	e.Expect(e.Get(p).Spec).To(Equal(stored), "nothing has changed")
}

func TestMalformedSubjectsAndRolesAreRefused(t *testing.T) {
	e := start(t, projecttest.Options{})
	of := func(subject string) string { return `{members: [{` + subject + `}]}` }
	for name, spec := range map[string]string{
		"another kind":                         of(`kind: Robot, name: a`),
		"no kind":                              of(`kind: "", name: a`),
		"no name":                              of(`kind: User, name: ""`),
		"a user in another API group":          of(`kind: User, apiGroup: example.com, name: a`),
		"a ServiceAccount in an API group":     of(`kind: ServiceAccount, apiGroup: rbac.authorization.k8s.io, namespace: ns, name: a`),
		"a ServiceAccount nowhere":             of(`kind: ServiceAccount, name: a`),
		"a ServiceAccount with a strange name": of(`kind: ServiceAccount, namespace: ns, name: "../a"`),
		"a user who looks like an account":     of(`kind: User, name: "system:serviceaccount:"`),
		"an owner without name":                `{owner: {kind: User, name: ""}}`,
		"an owner of another kind":             `{owner: {kind: Robot, name: a}}`,
		"a path as a role":                     of(`kind: User, name: a, role: "extension:../admin"`),
		"an escaped path as a role":            of(`kind: User, name: a, role: "extension:..%2fadmin"`),
		"two lines as a role":                  of(`kind: User, name: a, role: "viewer\nadmin"`),
		"a zero byte in a role":                of(`kind: User, name: a, role: "admin\0"`),
		"a space in a role":                    of(`kind: User, name: a, role: "extension:a b"`),
		"a colon in a role":                    of(`kind: User, name: a, role: "extension:a:b"`),
		"no extension":                         of(`kind: User, name: a, role: "extension:"`),
		"capitals":                             of(`kind: User, name: a, role: Admin`),
		"an empty role":                        of(`kind: User, name: a, roles: ["", admin]`),
		"two owners":                           `{members: [{kind: User, name: a, role: owner}, {kind: User, name: b, roles: [viewer, owner]}]}`,
	} {
		err := e.Admin.Create(e.Ctx, project(e, "malformed", spec))
		e.Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%s: %v", name, err)
	}
}

func TestTenThousandMembersAreRefused(t *testing.T) {
	e := start(t, projecttest.Options{})
	for name, form := range map[string]string{
		"in their normal form": `{apiGroup: rbac.authorization.k8s.io, kind: User, name: u%d, role: viewer}`,
		"bare":                 `{kind: User, name: u%d}`,
	} {
		list := make([]string, 10_000)
		for i := range list {
			list[i] = fmt.Sprintf(form, i)
		}
		err := e.Admin.Create(e.Ctx, project(e, "many", `{members: [`+strings.Join(list, ", ")+`]}`))
		e.Expect(err).To(MatchError(Or(ContainSubstring("must have at most 1000 items"), ContainSubstring("the object needs too many changes"))), name)
	}
	list := make([]string, 999)
	for i := range list {
		list[i] = fmt.Sprintf(`{kind: User, name: u%d}`, i)
	}
	p := created(e, "alice", "many", `{members: [`+strings.Join(list, ", ")+`]}`)
	e.Expect(p.Spec.Members).To(HaveLen(1000), "as many as there may be")
}

func TestACollectionIsNotDeletedUnconfirmed(t *testing.T) {
	e := start(t, projecttest.Options{})
	alice := e.As("alice", "editors")
	first, second := created(e, "alice", "coll-a", `{}`), created(e, "alice", "coll-b", `{}`)
	confirm(e, alice, first, "true")
	e.Expect(alice.DeleteAllOf(e.Ctx, &corev1beta1.Project{})).To(MatchError(ContainSubstring(`must have a "confirmation.gardener.cloud/deletion" annotation to delete`)))
	e.Expect(e.Get(second).DeletionTimestamp).To(BeNil())
	confirm(e, alice, second, "true")
	e.Eventually(func() error { return alice.DeleteAllOf(e.Ctx, &corev1beta1.Project{}) }, binary.Patience).Should(Succeed())
}

func TestAUserCreatesOnlySoManyProjects(t *testing.T) {
	e := start(t, projecttest.Options{Settings: "maxProjectsPerCreator: 2"})
	alice := e.As("alice", "editors")
	first := created(e, "alice", "limit-a", `{}`)
	created(e, "alice", "limit-b", `{owner: {kind: User, name: bob}, createdBy: {kind: User, name: bob}}`)
	err := alice.Create(e.Ctx, project(e, "limit-c", `{createdBy: {kind: User, name: bob}}`))
	e.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	e.Expect(err).To(MatchError(`admission webhook "creator-limit.project-controller.espalier.dev" denied the request: user "alice" has created 2 projects (limit-a, limit-b), and may have created at most 2: delete one that nobody needs, or ask an administrator to raise espalier.project.maxProjectsPerCreator`))
	created(e, "bob", "limit-c", `{}`)
	confirm(e, alice, first, "true")
	e.Expect(alice.Delete(e.Ctx, e.Project("limit-a"))).To(Succeed())
	e.Eventually(func() error { return alice.Create(e.Ctx, project(e, "limit-d", `{}`)) }, binary.Patience).Should(Succeed())
}

func TestWhatIsNotRegisteredIsOff(t *testing.T) {
	e := start(t, projecttest.Options{Register: func(all []registration.Webhook) []registration.Webhook {
		var kept []registration.Webhook
		for _, each := range all {
			if strings.HasPrefix(each.Name, "normalization.") {
				kept = append(kept, each)
			}
		}
		return kept
	}})
	first := created(e, "alice", "off-a", `{namespace: garden-off, members: [{kind: User, name: bob}]}`)
	e.Expect(first.Spec.CreatedBy).To(BeNil())
	e.Expect(first.Spec.Owner).To(BeNil())
	e.Expect(first.Spec.Members).To(Equal([]corev1beta1.ProjectMember{member(user("bob"), "viewer")}))
	created(e, "alice", "off-b", `{namespace: garden-off}`)
	e.Expect(e.As("alice", "editors").Delete(e.Ctx, &corev1beta1.Project{ObjectMeta: metav1.ObjectMeta{Name: "off-b"}})).To(Succeed())
}
