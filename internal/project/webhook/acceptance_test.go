package webhook_test

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/project/projecttest"
	"github.com/espalier-dev/espalier/test/binary"
)

func TestCreatorOfAProjectIsItsOwner(t *testing.T) {
	e := start(t, projecttest.Options{})
	p := created(e, "alice", "a54", `{}`)
	e.Expect(p.Spec.CreatedBy).To(Equal(ptr.To(user("alice"))))
	e.Expect(p.Spec.Owner).To(Equal(ptr.To(user("alice"))))
	e.Expect(p.Spec.Members).To(Equal([]corev1beta1.ProjectMember{member(user("alice"), "admin", "owner")}))
}

func TestCreatedByMustBeTheUserOfTheRequest(t *testing.T) {
	e := start(t, projecttest.Options{})
	p := created(e, "alice", "a55", `{createdBy: {apiGroup: rbac.authorization.k8s.io, kind: User, name: bob}}`)
	e.Expect(p.Spec.CreatedBy).To(Equal(ptr.To(user("alice"))))
	for _, as := range []client.Client{e.As("alice", "editors"), e.Admin} {
		e.Expect(apierrors.IsInvalid(change(e, as, p, `{spec: {createdBy: {name: bob}}}`))).To(BeTrue())
		e.Expect(apierrors.IsInvalid(change(e, as, p, `{spec: {createdBy: null}}`))).To(BeTrue())
	}
}

func TestTheFirstMemberWithTheRoleOwnsTheProject(t *testing.T) {
	e := start(t, projecttest.Options{})
	p := created(e, "alice", "a56", `{members: [{kind: User, name: bob, role: owner}]}`)
	e.Expect(p.Spec.Owner).To(Equal(ptr.To(user("bob"))))
	e.Expect(p.Spec.Members).To(Equal([]corev1beta1.ProjectMember{member(user("bob"), "owner")}))
	e.Expect(p.Spec.CreatedBy).To(Equal(ptr.To(user("alice"))))
}

func TestOwnerAndNamespaceCannotBeTakenAwayAndTheNamespaceCanBeSetLater(t *testing.T) {
	e := start(t, projecttest.Options{})
	p := created(e, "alice", "a57", `{namespace: garden-a57}`)
	err := change(e, e.Admin, p, `{spec: {owner: null}}`)
	e.Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
	e.Expect(err).To(MatchError(ContainSubstring("owner cannot be reset")))
	for _, patch := range []string{`{spec: {namespace: garden-other}}`, `{spec: {namespace: null}}`} {
		e.Expect(apierrors.IsInvalid(change(e, e.Admin, p, patch))).To(BeTrue(), patch)
	}
	// The generated name of its namespace is not valid, so the Project waits until a user sets another name.
	later := created(e, "alice", "a57.l", `{}`)
	e.Expect(change(e, e.As("alice", "editors"), later, `{spec: {namespace: garden-a57-later}}`)).To(Succeed())
	e.Expect(e.Get(later).Spec.Namespace).To(Equal(ptr.To("garden-a57-later")))
}

func TestNamesAreShortAndPlain(t *testing.T) {
	e := start(t, projecttest.Options{})
	for _, name := range []string{"project-name-too-long", "in--valid", "project_a"} {
		err := e.As("alice", "editors").Create(e.Ctx, project(e, name, `{}`))
		e.Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%s: %v", name, err)
	}
	created(e, "alice", "project.a", `{}`)
}

func TestNamespacesOfProjectsAreNamedSo(t *testing.T) {
	e := start(t, projecttest.Options{})
	for _, name := range []string{"foo", "kube-system", "gardenx"} {
		e.Expect(e.As("alice", "editors").Create(e.Ctx, project(e, "a59", `{namespace: `+name+`}`))).
			To(MatchError(ContainSubstring(".spec.namespace must start with garden-")), name)
	}
	e.Expect(e.Admin.Create(e.Ctx, project(e, "a59", `{namespace: gardener-system-seed-lease}`))).
		To(MatchError(ContainSubstring("Project namespace gardener-system-seed-lease is reserved by Gardener")))
	created(e, "alice", "a59-x", `{namespace: garden-x}`)
	e.Expect(e.Admin.Create(e.Ctx, project(e, "a59-garden", `{namespace: garden}`))).To(Succeed())
}

func TestANamespaceBelongsToOneProject(t *testing.T) {
	e := start(t, projecttest.Options{})
	created(e, "alice", "a60", `{namespace: garden-a60}`)
	const refused = `admission webhook "namespace-use.project-controller.espalier.dev" denied the request: namespace "garden-a60" is ` +
		`already used by another project`
	err := e.As("bob", "editors").Create(e.Ctx, project(e, "a60-b", `{namespace: garden-a60}`))
	e.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	e.Expect(err).To(MatchError(refused))
	later := created(e, "bob", "a60.l", `{}`)
	err = change(e, e.As("bob", "editors"), later, `{spec: {namespace: garden-a60}}`)
	e.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	e.Expect(err).To(MatchError(refused))
}

// refusedAsInvalid creates Projects, which must be refused with 422 and a text.
func refusedAsInvalid(e *projecttest.Env, name string, specs map[string]string) {
	e.T.Helper()
	for spec, want := range specs {
		err := e.Admin.Create(e.Ctx, project(e, name, spec))
		e.Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%s: %v", spec, err)
		e.Expect(err).To(MatchError(ContainSubstring(want)), spec)
	}
}

func TestMembersAreUnique(t *testing.T) {
	e := start(t, projecttest.Options{})
	refusedAsInvalid(e, "a61", map[string]string{
		`{members: [{kind: User, name: "system:serviceaccount:foo:bar"},
			{kind: ServiceAccount, namespace: foo, name: bar}]}`: `spec.members[1]: Duplicate value`,

		`{members: [{kind: User, name: "system:serviceaccount:abcd"}]}`: `unsupported service account user name: "system:serviceaccount:abcd"`,
		`{members: [{kind: User, name: a}, {kind: User, name: a}]}`:     `spec.members[1]: Duplicate value`,
	})
}

func TestRolesAreKnownAndUnique(t *testing.T) {
	e := start(t, projecttest.Options{})
	of := func(roles string) string { return `{members: [{kind: User, name: a, ` + roles + `}]}` }
	refusedAsInvalid(e, "a62", map[string]string{
		of(`role: unknown`):                                     "supported values",
		of(`roles: [admin, unknown]`):                           "supported values",
		of(`role: "extension:` + strings.Repeat("x", 21) + `"`): "30",
		of(`role: "extension:/?as"`):                            "must be a label value",
		of(`role: viewer, roles: [uam, uam]`):                   "Duplicate value",
		of(`roles: [uam, uam]`):                                 "Duplicate value",
	})
	p := created(e, "alice", "a62", `{members: [{kind: User, name: alice, role: "extension:unknown-role"}]}`)
	e.Expect(p.Spec.Members).To(Equal([]corev1beta1.ProjectMember{member(user("alice"), "extension:unknown-role", "owner")}))
}

func TestTolerationsAreWhitelistedAndUnique(t *testing.T) {
	e := start(t, projecttest.Options{})
	refusedAsInvalid(e, "a63", map[string]string{
		`{tolerations: {defaults: [{key: a}]}}`: "only the following tolerations " +
			"are allowed",
		`{tolerations: {defaults: [{key: a}], whitelist: [{key: a, value: v}]}}`: "only the following tolerations " +
			"are allowed",
		`{tolerations: {whitelist: [{key: ""}]}}`: "cannot be empty",
		`{tolerations: {whitelist: [{key: baz}, {key: baz, value: v}]}}`: "spec.tolerations.whitelist[1]: " +
			"Duplicate value",
		`{tolerations: {whitelist: [{key: baz}], defaults: [{key: baz, value: v}, {key: baz, value: v}]}}`: "spec.tolerations.defaults[1]: " +
			"Duplicate value",
	})
	e.Expect(e.Admin.Create(e.Ctx, project(e, "a63", `{tolerations: {whitelist: [{key: baz, value: v}, {key: baz}]}}`))).To(Succeed())
}

func TestOnlyTheGardenToleratesProtectedSeeds(t *testing.T) {
	e := start(t, projecttest.Options{})
	const refused = `admission webhook "permission.project-controller.espalier.dev" denied the request: user "alice" is not allowed to ` +
		`modify .spec.tolerations.whitelist for "projects"`
	err := e.As("alice", "editors").Create(e.Ctx, project(e, "a64", `{namespace: garden}`))
	e.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	e.Expect(err).To(MatchError(refused))
	later := created(e, "alice", "a64.l", `{}`)
	e.Expect(change(e, e.As("alice", "editors"), later, `{spec: {namespace: garden}}`)).To(MatchError(refused))
	p := project(e, "a64", `{namespace: garden}`)
	e.Expect(e.Admin.Create(e.Ctx, p)).To(Succeed())
	protected := []corev1beta1.Toleration{{Key: "seed.gardener.cloud/protected"}}
	e.Expect(p.Spec.Tolerations).To(Equal(&corev1beta1.ProjectTolerations{Defaults: protected, Whitelist: protected}))
}

func TestOnlyUsersWithPermissionChangeMembers(t *testing.T) {
	e := start(t, projecttest.Options{})
	allow(e, "managers", "", "get", "patch", "manage-members")
	p := created(e, "alice", "a65", `{members: [{kind: User, name: bob, role: viewer}, {kind: Group, name: crew, role: viewer}]}`)
	const (
		aliceOwns = `{apiGroup: rbac.authorization.k8s.io, kind: User, name: alice, role: admin, roles: [owner]}`
		bobViews  = `{apiGroup: rbac.authorization.k8s.io, kind: User, name: bob, role: viewer}`
		crewViews = `{apiGroup: rbac.authorization.k8s.io, kind: Group, name: crew, role: viewer}`
		refused   = `admission webhook "permission.project-controller.espalier.dev" denied the request: user "eve" is not allowed to manage ` +
			`human users or groups in .spec.members for "projects"`
	)
	members := func(list ...string) string { return `{spec: {members: [` + strings.Join(list, ", ") + `]}}` }
	eve := e.As("eve", "editors")
	for name, patch := range map[string]string{
		"adds a user":        members(aliceOwns, bobViews, crewViews, `{kind: User, name: eve, role: viewer}`),
		"adds a group":       members(aliceOwns, bobViews, crewViews, `{kind: Group, name: team, role: viewer}`),
		"removes a user":     members(aliceOwns, crewViews),
		"removes a group":    members(aliceOwns, bobViews),
		"gives another role": members(aliceOwns, `{kind: User, name: bob, role: admin}`, crewViews),
		"has an account manage members": members(aliceOwns, bobViews, crewViews,
			`{kind: ServiceAccount, namespace: ns, name: robot, role: uam}`),
		"has an account manage ServiceAccounts": members(aliceOwns, bobViews, crewViews,
			`{kind: ServiceAccount, namespace: ns, name: robot, role: serviceaccountmanager}`),
		"gives an account an extension's rights": members(aliceOwns, bobViews, crewViews,
			`{kind: ServiceAccount, namespace: ns, name: robot, roles: [viewer, "extension:x"]}`),
	} {
		err := change(e, eve, p, patch)
		e.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%s: %v", name, err)
		e.Expect(err).To(MatchError(refused), name)
	}
	robot := rbacv1.Subject{Kind: "ServiceAccount", Namespace: "ns", Name: "robot"}
	e.Expect(change(e, eve, p, members(aliceOwns, bobViews, crewViews, `{kind: ServiceAccount, namespace: ns, name: robot, role: admin}`))).
		To(Succeed())
	crew := rbacv1.Subject{APIGroup: "rbac.authorization.k8s.io", Kind: "Group", Name: "crew"}
	e.Expect(e.Get(p).Spec.Members).To(Equal([]corev1beta1.ProjectMember{
		member(user("alice"), "admin", "owner"), member(user("bob"), "viewer"), member(crew, "viewer"), member(robot, "admin"),
	}))
	e.Expect(change(e, eve, p, members(bobViews, crewViews))).To(Succeed(), "the owner comes back")
	e.Expect(e.Get(p).Spec.Members).
		To(Equal([]corev1beta1.ProjectMember{member(user("bob"), "viewer"), member(crew, "viewer"), member(user("alice"), "admin", "owner")}))

	e.Expect(change(e, e.As("alice", "editors"), p, members(aliceOwns, `{kind: Group, name: team, role: admin}`))).
		To(Succeed(), "the owner does anything")
	e.Expect(change(e, e.As("una", "managers"), p, members(aliceOwns, `{kind: User, name: carol, role: admin}`))).
		To(Succeed(), "who may manage members does")
	e.Expect(e.Get(p).Spec.Members).
		To(Equal([]corev1beta1.ProjectMember{member(user("alice"), "admin", "owner"), member(user("carol"), "admin")}))
}

func TestAProjectIsDeletedOnceThatIsConfirmed(t *testing.T) {
	e := start(t, projecttest.Options{})
	p := created(e, "alice", "a66", `{}`)
	alice := e.As("alice", "editors")
	const refused = `admission webhook "deletion-confirmation.project-controller.espalier.dev" denied the request: must have a ` +
		`"confirmation.gardener.cloud/deletion" annotation to delete`
	err := alice.Delete(e.Ctx, e.Project("a66"))
	e.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	e.Expect(err).To(MatchError(refused))
	confirm(e, alice, p, "false")
	e.Expect(alice.Delete(e.Ctx, e.Project("a66"))).To(MatchError(refused))
	confirm(e, alice, p, "true")
	e.Expect(alice.Delete(e.Ctx, e.Project("a66"))).To(Succeed())
}

func TestNamespacesOfProjectsAreNotDeletedByHand(t *testing.T) {
	e := start(t, projecttest.Options{HoldNamespaces: true})
	alice := e.As("alice", "editors")
	const webhook = `admission webhook "validate-namespace-deletion.gardener.cloud" denied the request: `

	nameless := namespace(e, "garden-a67-nameless", map[string]string{"gardener.cloud/role": "project"})
	e.Expect(alice.Delete(e.Ctx, nameless)).To(Succeed(), "row 1: no Project is named")
	orphan := namespace(e, "garden-a67-orphan", map[string]string{"gardener.cloud/role": "project", "project.gardener.cloud/name": "a67-none"})
	e.Expect(alice.Delete(e.Ctx, orphan)).To(Succeed(), "row 1: the Project does not exist")
	created(e, "alice", "a67-none", `{}`)
	e.Expect(alice.Delete(e.Ctx, orphan)).To(Succeed(), "row 3: it is being deleted already")

	p := created(e, "alice", "a67", `{}`)
	own := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ready(e, p)}}
	err := alice.Delete(e.Ctx, own)
	e.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	e.Expect(err).To(MatchError(webhook+
		fmt.Sprintf(`Namespace %[1]q is forbidden: direct deletion of namespace %[1]q is not permitted (you must delete the corresponding `+
			`project "a67")`, own.Name)),
		"row 6")

	shoot := &corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: own.Name, Name: "web"}}
	e.Expect(e.Admin.Create(e.Ctx, shoot)).To(Succeed())
	confirm(e, alice, p, "true")
	e.Expect(alice.Delete(e.Ctx, e.Project("a67"))).To(Succeed())
	err = alice.Delete(e.Ctx, own)
	e.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	e.Expect(err).To(MatchError(webhook+
		fmt.Sprintf(`Namespace %[1]q is forbidden: deletion of namespace %[1]q is not permitted (it still contains Shoots)`, own.Name)), "row 5")

	e.Expect(e.Admin.Delete(e.Ctx, shoot)).To(Succeed())
	e.Expect(alice.Delete(e.Ctx, own)).To(Succeed(), "row 4")
	e.Eventually(func() *metav1.Time {
		e.Expect(e.Admin.Get(e.Ctx, client.ObjectKeyFromObject(own), own)).To(Succeed())
		return own.DeletionTimestamp
	}, binary.Patience).ShouldNot(BeNil())
}

func TestRolesAreFoldedAndDefaulted(t *testing.T) {
	e := start(t, projecttest.Options{})
	p := created(e, "alice", "a68", `{members: [{kind: User, name: a, role: "", roles: [uam]}, {kind: User, name: b}]}`)
	e.Expect(p.Spec.Members).To(Equal([]corev1beta1.ProjectMember{
		member(user("a"), "uam"), member(user("b"), "viewer"), member(user("alice"), "admin", "owner"),
	}))
}
