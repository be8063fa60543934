package lifecycle

import (
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

func alpha() *corev1beta1.Project {
	return &corev1beta1.Project{ObjectMeta: metav1.ObjectMeta{Name: "alpha", UID: "1"}}
}

// namespace is one that the controller has created for alpha.
func namespace(change ...func(*metav1.ObjectMeta)) *metav1.ObjectMeta {
	meta := &metav1.ObjectMeta{
		Name:   "garden-alpha",
		Labels: map[string]string{"gardener.cloud/role": "project", "project.gardener.cloud/name": "alpha"},
		Annotations: map[string]string{
			"namespace.gardener.cloud/project": "1", "namespace.gardener.cloud/created-by-project-controller": "true",
		},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "core.gardener.cloud/v1beta1", Kind: "Project", Name: "alpha", UID: "1", Controller: ptr.To(true),
			BlockOwnerDeletion: ptr.To(true),
		}},
	}
	for _, each := range change {
		each(meta)
	}
	return meta
}

func annotated(key, value string) func(*metav1.ObjectMeta) {
	return func(m *metav1.ObjectMeta) { m.Annotations[key] = value }
}

func without(annotation string) func(*metav1.ObjectMeta) {
	return func(m *metav1.ObjectMeta) { delete(m.Annotations, annotation) }
}

func relabelled(key, value string) func(*metav1.ObjectMeta) {
	return func(m *metav1.ObjectMeta) { m.Labels[key] = value }
}

func orphaned(m *metav1.ObjectMeta) { m.OwnerReferences = nil }

func withName(name string) func(*metav1.ObjectMeta) {
	return func(m *metav1.ObjectMeta) { m.Name = name }
}

func TestNamespaceName(t *testing.T) {
	for want, spec := range map[string]*string{"garden-alpha-6b86b": nil, "garden-mine": ptr.To("garden-mine")} {
		p := alpha()
		p.Spec.Namespace = spec
		NewWithT(t).Expect(namespaceName(p)).To(Equal(want))
	}
	empty := alpha()
	empty.Spec.Namespace = ptr.To("")
	NewWithT(t).Expect(namespaceName(empty)).To(Equal("garden-alpha-6b86b"))
}

func TestCheck(t *testing.T) {
	const labels = `namespace cannot be used as it needs the project labels map[string]string{"gardener.cloud/role":"project", ` +
		`"project.gardener.cloud/name":"alpha"}`
	for name, tc := range map[string]struct {
		namespace *metav1.ObjectMeta
		want      string
	}{
		"its own":              {namespace(), ""},
		"labelled for it":      {namespace(without("namespace.gardener.cloud/project")), ""},
		"labelled for another": {namespace(relabelled("project.gardener.cloud/name", "beta")), labels},
		"with another role":    {namespace(relabelled("gardener.cloud/role", "shoot")), labels},
		"without labels":       {&metav1.ObjectMeta{Name: "x"}, labels},
		"another project's": {
			namespace(annotated("namespace.gardener.cloud/project", "2")), "namespace is already in-use by another project",
		},
		"emptied annotation": {
			namespace(annotated("namespace.gardener.cloud/project", "")), "namespace is already in-use by another project",
		},
		"the system's, though marked": {
			namespace(withName("kube-system")), `namespace "kube-system" is the system's and cannot belong to a project`,
		},
		"of a foreign name": {
			namespace(withName("kube-x"), without("namespace.gardener.cloud/project")),
			`namespace "kube-x" cannot belong to a project: .spec.namespace must start with garden-`,
		},
		"got before names had rules": {namespace(withName("kube-x")), ""},
		"the garden":                 {namespace(withName("garden"), without("namespace.gardener.cloud/project")), ""},
		"almost the garden": {
			namespace(withName("gardener"), without("namespace.gardener.cloud/project")),
			`namespace "gardener" cannot belong to a project: .spec.namespace must start with garden-`,
		},
		"default, though marked": {namespace(withName("default")), `namespace "default" is the system's and cannot belong to a project`},
	} {
		t.Run(name, func(t *testing.T) {
			err := check(alpha(), tc.namespace)
			if tc.want == "" {
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
				return
			}
			NewWithT(t).Expect(err).To(MatchError(tc.want))
		})
	}
}

func TestAdopt(t *testing.T) {
	const created, keep, uid = "namespace.gardener.cloud/" +
		"created-by-project-controller", "namespace.gardener.cloud/keep-after-project-deletion", "namespace.gardener.cloud/project"
	for name, tc := range map[string]struct{ have, want *metav1.ObjectMeta }{
		"its own stays as it is":                {namespace(), namespace()},
		"an operator may keep what was created": {namespace(annotated(keep, "true")), namespace(annotated(keep, "true"))},
		"an operator may not have an adopted one go": {
			namespace(without(created), annotated(keep, "false")), namespace(without(created), annotated(keep, "true")),
		},
		"any value counts as created": {namespace(annotated(created, "false")), namespace(annotated(created, "false"))},
		"owner and UID are added":     {namespace(without(uid), orphaned), namespace()},
		"foreign annotations stay, and labels as well": {
			namespace(annotated("a", "b"), relabelled("c", "d")), namespace(annotated("a", "b"), relabelled("c", "d")),
		},
	} {
		t.Run(name, func(t *testing.T) {
			adopt(alpha(), tc.have)
			NewWithT(t).Expect(tc.have).To(Equal(tc.want))
		})
	}
}

func TestDecideRelease(t *testing.T) {
	const keepKey, uid = "namespace.gardener.cloud/keep-after-project-deletion", "namespace.gardener.cloud/project"
	const created = "namespace.gardener.cloud/created-by-project-controller"
	for name, tc := range map[string]struct {
		namespace *metav1.ObjectMeta
		want      release
	}{
		"created":                             {namespace(), remove},
		"to be kept":                          {namespace(annotated(keepKey, "true")), keep},
		"to be kept, 1":                       {namespace(annotated(keepKey, "1")), keep},
		"to be kept, but not in Go":           {namespace(annotated(keepKey, "yes")), remove},
		"not to be kept":                      {namespace(annotated(keepKey, "false")), remove},
		"adopted":                             {namespace(without(created)), keep},
		"adopted, and not to be kept":         {namespace(without(created), annotated(keepKey, "false")), remove},
		"adopted, with another word":          {namespace(without(created), annotated(keepKey, "no")), keep},
		"marked as not created":               {namespace(annotated(created, "false")), keep},
		"adopted, and marked as created":      {namespace(annotated(created, "true")), remove},
		"terminating":                         {namespace(func(m *metav1.ObjectMeta) { m.DeletionTimestamp = ptr.To(metav1.Unix(1, 0)) }), wait},
		"labelled for another":                {namespace(relabelled("project.gardener.cloud/name", "beta")), leave},
		"without role":                        {namespace(relabelled("gardener.cloud/role", "")), leave},
		"another's of the same name":          {namespace(annotated(uid, "2")), leave},
		"labelled, but never adopted":         {namespace(without(uid), orphaned), leave},
		"the system's, though marked":         {namespace(withName("kube-system")), leave},
		"its own, though the UID was removed": {namespace(without(uid)), remove},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(decideRelease(alpha(), tc.namespace)).To(Equal(tc.want)) })
	}
}

func TestRemoveOwnership(t *testing.T) {
	other := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "n", UID: "n"}
	have := namespace(annotated("a", "b"), relabelled("c", "d"), annotated("namespace.gardener.cloud/keep-after-project-deletion", "true"),
		func(m *metav1.ObjectMeta) { m.OwnerReferences = append(m.OwnerReferences, other) })
	removeOwnership(alpha(), have)
	NewWithT(t).Expect(have).To(Equal(&metav1.ObjectMeta{
		Name: "garden-alpha", Labels: map[string]string{"c": "d"}, Annotations: map[string]string{"a": "b"},
		OwnerReferences: []metav1.OwnerReference{other},
	}))
}

func TestFailuresHaveTheSpecifiedTexts(t *testing.T) {
	cause := errors.Join(errors.New("a"), errors.New("b"))
	for want, have := range map[string]*failure{
		"NamespaceReconcileFailed a; b":                                                            newFailure(stepNamespace, "n", cause),
		"NamespaceReconcileFailed Error while setting up ResourceQuota: a; b":                      newFailure(stepQuota, "n", cause),
		`NamespaceReconcileFailed Error while reconciling RBAC resources for namespace "n": a; b`:  newFailure(stepRoles, "n", cause),
		"NamespaceReconcileFailed Error while deleting stale RBAC rules for extension roles: a; b": newFailure(stepExtensionRoles, "n", cause),
		"NamespaceReconcileFailed Error while trying to mark project as ready: a; b":               newFailure(stepPhase, "n", cause),
		`NamespaceDeletionFailed Failed to release project namespace "n": a; b`:                    releaseFailed("n", cause),
	} {
		NewWithT(t).Expect(have.reason + " " + have.message).To(Equal(want))
	}
	NewWithT(t).Expect(releaseFailed("n", cause).err).To(MatchError("failed to release project namespace: a\nb"))
	NewWithT(t).Expect(newFailure(stepRoles, "n", nil)).To(BeNil())
	NewWithT(t).Expect(newFailure(stepExtensionRoles, "n", nil)).To(BeNil())
	NewWithT(t).Expect(failureWithoutEvent(stepPhase, nil)).To(BeNil())
}

func TestEndsWith(t *testing.T) {
	const uid = "namespace.gardener.cloud/project"
	for name, tc := range map[string]struct {
		namespace *metav1.ObjectMeta
		want      bool
	}{
		"its own": {namespace(), true},
		"without labels, but garbage is collected": {namespace(relabelled("gardener.cloud/role", "")), true},
		"without labels and owner, but marked":     {namespace(relabelled("gardener.cloud/role", ""), orphaned), true},
		"labelled, but never adopted":              {namespace(without(uid), orphaned), false},
		"another's":                                {namespace(annotated(uid, "2"), orphaned), false},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(endsWith(alpha(), tc.namespace)).To(Equal(tc.want)) })
	}
}
