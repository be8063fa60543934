package webhook_test

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/admission/registration"
	"github.com/espalier-dev/espalier/internal/project/projecttest"
	"github.com/espalier-dev/espalier/test/binary"
)

// TestUsersCannotTakeOverProjects acts as members of each role, with the rights that the controller has given them.
func TestUsersCannotTakeOverProjects(t *testing.T) {
	e := start(t, projecttest.Options{})
	p := created(e, "alice", "attack", `{members: [
		{kind: User, name: adam, role: admin}, {kind: User, name: vera, role: viewer}, {kind: User, name: una, role: uam},
		{kind: User, name: sam, role: serviceaccountmanager}]}`)
	ready(e, p)
	e.Eventually(func() error { return change(e, e.As("adam"), p, `{metadata: {labels: {seen: by-adam}}}`) }, binary.Patience).
		Should(Succeed())
	e.Eventually(func() error { return change(e, e.As("una"), p, `{metadata: {labels: {seen: by-una}}}`) }, binary.Patience).Should(Succeed())
	e.Eventually(func() error { return change(e, e.As("alice"), p, `{metadata: {labels: {seen: by-alice}}}`) }, binary.Patience).
		Should(Succeed())
	stored := e.Get(p)
	const (
		owner   = `is not allowed to manage owner in .spec.owner for "projects"`
		members = `is not allowed to manage human users or groups in .spec.members for "projects"`
		times   = `is not allowed to manage the end of memberships in annotation project.espalier.dev/membership-expiry for "projects"`
		remove  = `is not allowed to remove finalizer "gardener" for "projects"`
	)
	others := `{kind: User, name: adam, role: admin}, {kind: User, name: una, role: uam}, {kind: User, name: sam, role: serviceaccountmanager}`
	for name, tc := range map[string]struct{ user, patch, want string }{
		"a viewer becomes the owner": {"vera", `{spec: {owner: {name: vera}}}`, "cannot patch resource"},
		"a viewer becomes an admin": {
			"vera", `{spec: {members: [{kind: User, name: vera, role: admin}, ` + others + `]}}`, "cannot patch resource",
		},
		"a viewer says to have created it":        {"vera", `{spec: {createdBy: {name: vera}}}`, "cannot patch resource"},
		"a manager of accounts becomes the owner": {"sam", `{spec: {owner: {name: sam}}}`, "cannot patch resource"},
		"who is no member becomes the owner":      {"mallory", `{spec: {owner: {name: mallory}}}`, "cannot patch resource"},
		"an admin becomes the owner":              {"adam", `{spec: {owner: {name: adam}}}`, owner},
		"an admin gives it to a group of his":     {"adam", `{spec: {owner: {kind: Group, name: "system:authenticated"}}}`, owner},
		"an admin gives it to an account": {
			"adam", `{spec: {owner: {kind: ServiceAccount, apiGroup: "", namespace: default, name: default}}}`, owner,
		},
		"an admin becomes the owner among members": {
			"adam", `{spec: {owner: {name: adam}, members: [{kind: User, name: adam, role: admin, roles: [owner]}]}}`, owner,
		},
		"an admin adds an admin": {
			"adam", `{spec: {members: [{kind: User, name: mallory, role: admin}, {kind: User, name: vera, role: viewer}, ` + others + `]}}`,
			members,
		},
		"an admin makes a viewer an admin": {
			"adam", `{spec: {members: [{kind: User, name: vera, role: admin}, ` + others + `]}}`, members,
		},
		"an admin removes all members": {"adam", `{spec: {members: null}}`, members},
		"an admin has an account manage members": {
			"adam",
			`{spec: {members: [{kind: ServiceAccount, namespace: default, name: default, role: uam}, {kind: User, name: vera, role: viewer}, ` +
				others + `]}}`,
			members,
		},
		"an admin whitelists a toleration": {
			"adam", `{spec: {tolerations: {whitelist: [{key: seed.gardener.cloud/protected}]}}}`,
			`is not allowed to modify .spec.tolerations.whitelist for "projects"`,
		},
		"an admin has an account make tokens": {
			"adam",
			`{spec: {members: [{kind: ServiceAccount, namespace: default, name: default, role: serviceaccountmanager}, {kind: User, name: vera,` +
				` role: viewer}, ` + others + `]}}`,
			members,
		},
		"an admin gives an account a foreign role": {
			"adam",
			`{spec: {members: [{kind: ServiceAccount, namespace: default, name: default, role: "extension:x"}, {kind: User, name: vera, ` +
				`role: viewer}, ` + others + `]}}`,
			members,
		},
		"an admin ends a membership": {
			"adam", `{metadata: {annotations: {project.espalier.dev/membership-expiry: '{"User:una":"2000-01-01T00:00:00Z"}'}}}`, times,
		},
		"an admin removes the finalizer": {"adam", `{metadata: {finalizers: null}}`, remove},
		"an admin exchanges it":          {"adam", `{metadata: {finalizers: [foregroundDeletion]}}`, remove},
		"an admin has its namespace set free": {
			"adam", `{metadata: {finalizers: [gardener, orphan]}}`, `is not allowed to add finalizer "orphan" for "projects"`,
		},
		"a manager of members removes it": {"una", `{metadata: {finalizers: []}}`, remove},
		"a viewer removes it":             {"vera", `{metadata: {finalizers: null}}`, "cannot patch resource"},
		"the owner removes it":            {"alice", `{metadata: {finalizers: null}}`, remove},
		"the owner has the namespace deleted": {
			"alice", `{metadata: {finalizers: [gardener, foregroundDeletion]}}`,
			`is not allowed to add finalizer "foregroundDeletion" for "projects"`,
		},
		"a manager of members whitelists one": {
			"una", `{spec: {tolerations: {whitelist: [{key: seed.gardener.cloud/protected}]}}}`,
			`is not allowed to modify .spec.tolerations.whitelist for "projects"`,
		},
	} {
		err := change(e, e.As(tc.user), p, tc.patch)
		e.Expect(err).To(MatchError(ContainSubstring(tc.want)), name)
		e.Expect(apierrors.IsForbidden(err)).To(BeTrue(), name)
	}
	applied := fmt.Sprintf(`{"apiVersion":"core.gardener.cloud/v1beta1","kind":"Project","metadata":{"name":%q},`+
		`"spec":{"owner":{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"adam"}}}`, p.Name)
	for kind, patch := range map[client.Patch]string{
		client.RawPatch("application/apply-patch+yaml", []byte(applied)):                                                      owner,
		client.RawPatch("application/json-patch+json", []byte(`[{"op":"replace","path":"/spec/owner/name","value":"adam"}]`)): owner,
		client.RawPatch("application/json-patch+json", []byte(`[{"op":"remove","path":"/metadata/finalizers"}]`)):             remove,
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
	written = e.Get(p)
	written.Finalizers = nil
	e.Expect(e.As("adam").Update(e.Ctx, written)).To(MatchError(ContainSubstring(remove)))
	e.Expect(e.Get(p)).To(Equal(stored), "nothing has changed")
	e.Expect(change(e, e.As("una"), p, `{metadata: {annotations: {project.espalier.dev/membership-expiry: "{}"}}}`)).
		To(Succeed(), "who manages members manages their times")
}

// TestUsersCannotBypassTheController deletes in each way that would have the garbage collector act before the controller.
func TestUsersCannotBypassTheController(t *testing.T) {
	e := start(t, projecttest.Options{HoldNamespaces: true})
	p := created(e, "alice", "hasty", `{members: [{kind: User, name: adam, role: admin}]}`)
	ready(e, p)
	adam := e.As("adam")
	for _, as := range []client.Client{adam, e.As("alice")} {
		e.Eventually(func() error {
			return change(e, as, p, `{metadata: {annotations: {confirmation.gardener.cloud/deletion: "true"}}}`)
		}, binary.Patience).Should(Succeed())
	}
	hasty := map[string]client.DeleteOption{
		`propagation policy "Foreground"`: client.PropagationPolicy("Foreground"),
		`propagation policy "Orphan"`:     client.PropagationPolicy("Orphan"),
		//nolint:staticcheck // deprecated, but API servers still go by it
		`its dependents orphaned`: &client.DeleteOptions{Raw: &metav1.DeleteOptions{OrphanDependents: ptr.To(true)}},
	}
	refused := func() {
		for want, option := range hasty {
			for _, as := range []client.Client{adam, e.As("alice"), e.Admin} {
				err := as.Delete(e.Ctx, e.Project(p.Name), option)
				e.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%s: %v", want, err)
				e.Expect(err).To(MatchError(ContainSubstring("must not be deleted with " + want)))
			}
		}
	}
	refused()
	e.Expect(e.As("eve", "editors").DeleteAllOf(e.Ctx, &corev1beta1.Project{}, client.PropagationPolicy("Orphan"))).
		To(MatchError(ContainSubstring(`must not be deleted with propagation policy "Orphan"`)))
	e.Expect(change(e, e.Admin, p, `{metadata: {finalizers: [gardener, orphan]}}`)).To(Succeed(), "as before there were webhooks")
	e.Expect(adam.Delete(e.Ctx, e.Project(p.Name))).To(MatchError(ContainSubstring(`must not be deleted with finalizer "orphan"`)))
	e.Expect(e.Get(p).DeletionTimestamp).To(BeNil())

	e.Expect(adam.Delete(e.Ctx, e.Project(p.Name), client.PropagationPolicy("Background"))).To(Succeed())
	going := e.Get(p)
	e.Expect(going.DeletionTimestamp).NotTo(BeNil())
	e.Expect(going.Finalizers).To(Equal([]string{"gardener"}), "the API server goes by what the request says")
	refused()
	e.Expect(change(e, adam, p, `{metadata: {finalizers: null}}`)).
		To(MatchError(ContainSubstring(`is not allowed to remove finalizer "gardener"`)))
	e.Expect(change(e, adam, p, `{metadata: {finalizers: [gardener, foregroundDeletion]}}`)).NotTo(Succeed())
	e.Expect(e.Get(p).Finalizers).To(Equal([]string{"gardener"}))
}

// TestMembersWithTokensOfTheirOwnTakeNothingOver attacks without the help of an administrator who impersonates.
func TestMembersWithTokensOfTheirOwnTakeNothingOver(t *testing.T) {
	e := start(t, projecttest.Options{})
	var members []corev1beta1.ProjectMember
	clients := map[string]client.Client{}
	for _, role := range []string{"admin", "viewer", "uam", "serviceaccountmanager"} {
		subject, c := e.Account(role)
		members, clients[role] = append(members, member(subject, role)), c
	}
	p := e.Project("tokens", func(p *corev1beta1.Project) { p.Spec.Members = members })
	e.Expect(e.As("alice", "editors").Create(e.Ctx, p)).To(Succeed())
	ready(e, p)
	for _, role := range []string{"admin", "uam"} {
		e.Eventually(func() error { return change(e, clients[role], p, `{metadata: {labels: {seen: by-`+role+`}}}`) }, binary.Patience).
			Should(Succeed())
	}
	stored := e.Get(p)
	_, stranger := e.Account("stranger")
	clients["stranger"] = stranger
	const mallory = `{spec: {members: [{kind: User, name: mallory, role: admin}]}}`
	for name, tc := range map[string]struct{ role, patch, want string }{
		"an admin becomes the owner": {
			"admin", `{spec: {owner: {kind: ServiceAccount, apiGroup: "", namespace: ` + e.Namespace + `, name: admin}}}`,
			"is not allowed to manage owner",
		},
		"an admin adds a user":           {"admin", mallory, "is not allowed to manage human users or groups"},
		"an admin removes the finalizer": {"admin", `{metadata: {finalizers: null}}`, "is not allowed to remove finalizer"},
		"an admin ends memberships": {
			"admin", `{metadata: {annotations: {project.espalier.dev/membership-expiry: "{}"}}}`,
			"is not allowed to manage the end of memberships",
		},
		"a manager of members removes it": {"uam", `{metadata: {finalizers: null}}`, "is not allowed to remove finalizer"},
		"a manager of members whitelists": {
			"uam", `{spec: {tolerations: {whitelist: [{key: a}]}}}`, "is not allowed to modify .spec.tolerations.whitelist",
		},
		"a viewer adds a user":              {"viewer", mallory, "cannot patch resource"},
		"a manager of accounts adds a user": {"serviceaccountmanager", mallory, "cannot patch resource"},
		"who is no member adds a user":      {"stranger", mallory, "cannot patch resource"},
		"a viewer removes the finalizer":    {"viewer", `{metadata: {finalizers: null}}`, "cannot patch resource"},
		"who is no member confirms deletion": {
			"stranger", `{metadata: {annotations: {confirmation.gardener.cloud/deletion: "true"}}}`, "cannot patch resource",
		},
	} {
		err := change(e, clients[tc.role], p, tc.patch)
		e.Expect(err).To(MatchError(ContainSubstring(tc.want)), name)
		e.Expect(err).To(MatchError(ContainSubstring("system:serviceaccount:"+e.Namespace+":"+tc.role)), name)
		e.Expect(apierrors.IsForbidden(err)).To(BeTrue(), name)
	}
	e.Expect(e.Get(p)).To(Equal(stored), "nothing has changed")
}

func TestMalformedSubjectsAndRolesAndTooManyAreRefused(t *testing.T) {
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
	tenThousandMembersAreRefused(e)
}

func tenThousandMembersAreRefused(e *projecttest.Env) {
	e.T.Helper()
	for name, form := range map[string]string{
		"in their normal form": `{apiGroup: rbac.authorization.k8s.io, kind: User, name: u%d, role: viewer}`,
		"bare":                 `{kind: User, name: u%d}`,
	} {
		list := make([]string, 10_000)
		for i := range list {
			list[i] = fmt.Sprintf(form, i)
		}
		err := e.Admin.Create(e.Ctx, project(e, "many", `{members: [`+strings.Join(list, ", ")+`]}`))
		e.Expect(err).To(MatchError(Or(ContainSubstring("must have at most 1000 items"), ContainSubstring("the object needs too many changes"))),
			name)
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
	e.Expect(alice.DeleteAllOf(e.Ctx, &corev1beta1.Project{})).
		To(MatchError(ContainSubstring(`must have a "confirmation.gardener.cloud/deletion" annotation to delete`)))
	e.Expect(e.Get(second).DeletionTimestamp).To(BeNil())
	confirm(e, alice, second, "true")
	e.Eventually(func() error { return alice.DeleteAllOf(e.Ctx, &corev1beta1.Project{}) }, binary.Patience).Should(Succeed())
}

func TestNumberOfProjectsPerUserIsLimited(t *testing.T) {
	e := start(t, projecttest.Options{Settings: "maxProjectsPerCreator: 2"})
	alice := e.As("alice", "editors")
	first := created(e, "alice", "limit-a", `{}`)
	created(e, "alice", "limit-b", `{owner: {kind: User, name: bob}, createdBy: {kind: User, name: bob}}`)
	err := alice.Create(e.Ctx, project(e, "limit-c", `{createdBy: {kind: User, name: bob}}`))
	e.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	e.Expect(err).To(MatchError(`admission webhook "creator-limit.project-controller.espalier.dev" denied the request: user "alice" has ` +
		`created 2 projects (limit-a, limit-b), and may have created at most 2: delete one that is not needed, or ask an administrator to ` +
		`raise espalier.project.maxProjectsPerCreator`))
	created(e, "bob", "limit-c", `{}`)
	confirm(e, alice, first, "true")
	e.Expect(alice.Delete(e.Ctx, e.Project("limit-a"))).To(Succeed())
	e.Eventually(func() error { return alice.Create(e.Ctx, project(e, "limit-d", `{}`)) }, binary.Patience).Should(Succeed())
}

func TestUnregisteredWebhooksAreDisabled(t *testing.T) {
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
