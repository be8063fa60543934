// Package managedresourcetest runs the ManagedResource controllers against the real API servers of a test run, under their own
// ServiceAccount and the roles that deploy/ ships. Only tests may use it.
package managedresourcetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/managedresource"
	"github.com/espalier-dev/espalier/test/binary"
)

// Patience is how long tests wait for an event that takes milliseconds on an idle machine.
const Patience = binary.Patience

// Options change the controller and the clusters of New.
type Options = binary.Options

// Requests counts the requests of a controller, except watches and requests for leases and Events.
type Requests = binary.Requests

// account is the name of the controller's ServiceAccount.
const account = "managedresource-controller"

// Env is a source namespace, a target namespace of the same name, and a running controller that serves only that source namespace.
type Env struct{ *binary.Env }

// New prepares namespaces and rights, and starts the controller unless Stopped is set.
func New(t *testing.T, options Options) *Env {
	t.Helper()
	return newEnv(t, options, func(e *Env) {
		e.allow("espalier-managedresource-controller-target-builtin",
			authorizationv1.ResourceAttributes{Group: "apps", Resource: "deployments", Verb: "delete"})
	})
}

// NewImpersonating is New for a controller that applies every set with the rights of a ServiceAccount. The controller may use only the
// ServiceAccounts of the env's namespace. It does not have the shipped ClusterRoles for the built-in kinds and for garbage collection in
// the target.
func NewImpersonating(t *testing.T, options Options) *Env {
	t.Helper()
	configure := options.Configure
	options.Configure = func(cfg *config.ResourceManagerConfiguration) {
		cfg.Espalier.ManagedResource.Accounts = &config.EspalierAccounts{Lockdown: ptr.To(true)}
		if configure != nil {
			configure(cfg)
		}
	}
	return newEnv(t, options, func(e *Env) {
		e.Expect(e.Target.Delete(e.Ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{
			Name: e.Namespace + "-espalier-managedresource-controller-target-garbagecollector",
		}})).To(Succeed())
		e.AllowOwnAccounts()
	})
}

func newEnv(t *testing.T, options Options, allow func(*Env)) *Env {
	t.Helper()
	start, configure := !options.Stopped, options.Configure
	options.Stopped = true
	options.Configure = func(cfg *config.ResourceManagerConfiguration) {
		cfg.Controllers.ManagedResource.SyncPeriod = &metav1.Duration{Duration: 2 * time.Second}
		if configure != nil {
			configure(cfg)
		}
		if cfg.Controllers.GarbageCollector.Enabled && cfg.Controllers.GarbageCollector.SyncPeriod == nil {
			cfg.Controllers.GarbageCollector.SyncPeriod = &metav1.Duration{Duration: time.Hour} // it has no default while disabled
		}
	}
	controller := binary.Binary{Name: account, SharesLease: true, Needs: managedresource.Needs, Add: managedresource.Add}
	e := &Env{binary.New(t, controller, options)}
	e.install(e.Source)
	if options.TwoClusters {
		e.install(e.Target)
	}
	allow(e)
	if start {
		e.Start()
	}
	return e
}

// install creates the CustomResourceDefinitions and the roles that are not generated.
func (e *Env) install(c client.Client) {
	_, err := binary.Install(e.Ctx, c, "deploy/crds/*.yaml", "deploy/managedresource-controller/*.yaml",
		"deploy/managedresource-controller/alternatives/*.yaml")
	e.Expect(err).NotTo(HaveOccurred())
	e.Eventually(func() error { return c.List(e.Ctx, &resourcesv1alpha1.ManagedResourceList{}, client.Limit(1)) }).
		WithTimeout(Patience).Should(Succeed())
}

// StartAnother is binary.Env.StartAnother, but returns an Env of this package.
func (e *Env) StartAnother(change func(*config.ResourceManagerConfiguration)) *Env {
	e.T.Helper()
	return &Env{e.Env.StartAnother(change)}
}

// Set creates a Secret with documents under one key, and a ManagedResource that references it, both with the given name.
func (e *Env) Set(name string, documents ...string) *resourcesv1alpha1.ManagedResource {
	e.T.Helper()
	e.Secret(name, documents...)
	mr := e.ManagedResource(name, name)
	e.Expect(e.Source.Create(e.Ctx, mr)).To(Succeed())
	return mr
}

// ManagedResource returns a set that references the named Secrets, without creating it.
func (e *Env) ManagedResource(name string, secrets ...string) *resourcesv1alpha1.ManagedResource {
	mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: name}}
	mr.Spec.SecretRefs = []corev1.LocalObjectReference{}
	for _, secret := range secrets {
		mr.Spec.SecretRefs = append(mr.Spec.SecretRefs, corev1.LocalObjectReference{Name: secret})
	}
	return mr
}

// Secret creates or replaces a Secret with the documents under key "objects.yaml".
func (e *Env) Secret(name string, documents ...string) {
	e.T.Helper()
	e.SecretData(name, map[string][]byte{"objects.yaml": []byte(strings.Join(documents, "\n---\n"))})
}

// SecretData creates or replaces a Secret.
func (e *Env) SecretData(name string, data map[string][]byte) {
	e.T.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: name}, Data: data}
	if err := e.Source.Create(e.Ctx, secret); apierrors.IsAlreadyExists(err) {
		e.Expect(e.Source.Update(e.Ctx, secret)).To(Succeed())
	} else {
		e.Expect(err).NotTo(HaveOccurred())
	}
}

// Get reads a set.
func (e *Env) Get(name string) *resourcesv1alpha1.ManagedResource {
	e.T.Helper()
	mr := &resourcesv1alpha1.ManagedResource{}
	e.Expect(e.Source.Get(e.Ctx, client.ObjectKey{Namespace: e.Namespace, Name: name}, mr)).To(Succeed())
	return mr
}

// Change updates a set, and retries on conflicts.
func (e *Env) Change(name string, change func(*resourcesv1alpha1.ManagedResource)) {
	e.T.Helper()
	e.Eventually(func() error {
		mr := e.Get(name)
		change(mr)
		return e.Source.Update(e.Ctx, mr)
	}).WithTimeout(Patience).Should(Succeed())
}

// Condition describes a condition as "status/reason", "" if it is absent.
func Condition(mr *resourcesv1alpha1.ManagedResource, kind string) string {
	if c := corev1beta1.GetCondition(mr.Status.Conditions, corev1beta1.ConditionType(kind)); c != nil {
		return string(c.Status) + "/" + c.Reason
	}
	return ""
}

// Message returns the message of a condition.
func Message(mr *resourcesv1alpha1.ManagedResource, kind string) string {
	if c := corev1beta1.GetCondition(mr.Status.Conditions, corev1beta1.ConditionType(kind)); c != nil {
		return c.Message
	}
	return ""
}

// AwaitApplied waits until the condition ResourcesApplied of the set has the value want, as "status/reason". A successfully applied set
// must also have been judged for its current generation, so that no work is left.
func (e *Env) AwaitApplied(name, want string) *resourcesv1alpha1.ManagedResource {
	e.T.Helper()
	var mr *resourcesv1alpha1.ManagedResource
	e.Eventually(func(g Gomega) {
		mr = &resourcesv1alpha1.ManagedResource{}
		g.Expect(e.Source.Get(e.Ctx, client.ObjectKey{Namespace: e.Namespace, Name: name}, mr)).To(Succeed())
		g.Expect(Condition(mr, "ResourcesApplied")).To(Equal(want), "%s", Message(mr, "ResourcesApplied"))
		if want == "True/ApplySucceeded" {
			g.Expect(mr.Status.ObservedGeneration).To(Equal(mr.Generation))
			Judged(g, mr)
		}
	}).WithTimeout(Patience).Should(Succeed())
	return mr
}

// AwaitCondition waits until a condition of a set has the value want, as "status/reason".
func (e *Env) AwaitCondition(name, kind, want string) {
	e.T.Helper()
	e.Eventually(func() string { return Condition(e.Get(name), kind) }).WithTimeout(Patience).
		Should(Equal(want))
}

// Judged requires that a set has been judged since it was applied. Conditions that were written while the set was being deleted, or while
// the set was ignored, do not count: the controller will replace them.
func Judged(g Gomega, mr *resourcesv1alpha1.ManagedResource) {
	for _, kind := range []string{"ResourcesHealthy", "ResourcesProgressing"} {
		g.Expect(Condition(mr, kind)).NotTo(
			Or(BeEmpty(), HavePrefix("Unknown/"), HaveSuffix("/DeletionPending"), HaveSuffix("/ManagedResourceIgnored")))
	}
}

// AwaitGone waits until a set no longer exists.
func (e *Env) AwaitGone(name string) {
	e.T.Helper()
	e.Eventually(func() bool {
		err := e.Source.Get(e.Ctx, client.ObjectKey{Namespace: e.Namespace, Name: name}, &resourcesv1alpha1.ManagedResource{})
		return apierrors.IsNotFound(err)
	}).WithTimeout(Patience).Should(BeTrue())
}

// ConfigMap returns the manifest of a ConfigMap in the env's namespace, with the value under the key "key" and additional lines of
// metadata.
func (e *Env) ConfigMap(name, value string, metadata ...string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\n  namespace: %s\n%sdata:\n  key: %q\n", name, e.Namespace,
		indent(metadata), value)
}

func indent(lines []string) string {
	var b strings.Builder
	for _, line := range lines {
		for each := range strings.SplitSeq(line, "\n") {
			b.WriteString("  " + each + "\n")
		}
	}
	return b.String()
}

// LiveConfigMap reads a ConfigMap of the target; nil if it does not exist.
func (e *Env) LiveConfigMap(name string) *corev1.ConfigMap {
	e.T.Helper()
	live := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: name}}
	if !e.read(live) {
		return nil
	}
	return live
}

// AwaitData waits until a ConfigMap of the target has the value under the key "key".
func (e *Env) AwaitData(name, value string) *corev1.ConfigMap {
	e.T.Helper()
	var live *corev1.ConfigMap
	e.Eventually(func() string {
		if live = e.LiveConfigMap(name); live == nil {
			return "(absent)"
		}
		return live.Data["key"]
	}).WithTimeout(Patience).Should(Equal(value))
	return live
}

// Edit changes a ConfigMap of the target as another field manager.
func (e *Env) Edit(name, patch string) {
	e.T.Helper()
	e.Patch("v1/ConfigMap", name, patch)
}

// Events lists the Events about a set as "reason: note".
func (e *Env) Events(name string) []string {
	e.T.Helper()
	list := &corev1.EventList{}
	e.Expect(e.Source.List(e.Ctx, list, client.InNamespace(e.Namespace))).To(Succeed())
	var found []string
	for _, event := range list.Items {
		if event.InvolvedObject.Name == name {
			found = append(found, event.Reason+": "+event.Message)
		}
	}
	return found
}

// Unstructured returns an empty object of the kind of a status entry.
func Unstructured(ref resourcesv1alpha1.ObjectReference) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(ref.APIVersion)
	object.SetKind(ref.Kind)
	return object
}

// DeleteSecret removes a Secret of the source.
func (e *Env) DeleteSecret(name string) {
	e.T.Helper()
	e.Expect(e.Source.Delete(e.Ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: name}})).To(Succeed())
}

// Grant gives the controller all rights on resources of a group in the target, in addition to the rights in the shipped roles, and waits
// until the API server applies them. Call it before a set needs the rights: if the API server has refused a watch, the controller does not
// try it again soon.
func (e *Env) Grant(group string, resources ...string) {
	e.T.Helper()
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{GenerateName: e.Namespace + "-"},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{group}, Resources: resources,
			Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"},
		}},
	}
	e.Expect(e.Target.Create(e.Ctx, role)).To(Succeed())
	e.allow(role.Name, authorizationv1.ResourceAttributes{Group: group, Resource: resources[0], Verb: "delete", Version: "*"})
}

// GrantTo binds a ServiceAccount of the env's namespace to a ClusterRole in that namespace, and waits until right, one of the permissions
// of the ClusterRole, is in effect.
func (e *Env) GrantTo(c client.Client, name, role string, right authorizationv1.ResourceAttributes) {
	e.T.Helper()
	err := c.Create(e.Ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: name + "-" + role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: e.Namespace, Name: name}},
	})
	e.Expect(client.IgnoreAlreadyExists(err)).To(Succeed()) // source and target may be one cluster
	right.Namespace = e.Namespace
	e.AwaitRight(c, name, right)
}

// BareAccount creates a ServiceAccount without rights in the source.
func (e *Env) BareAccount(name string) {
	e.T.Helper()
	e.Expect(e.Source.Create(e.Ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: name}})).To(Succeed())
}

// Account creates a ServiceAccount in the source. In the env's namespace, in source and target, the ServiceAccount may do everything with
// ConfigMaps, and may read Secrets.
func (e *Env) Account(name string) {
	e.T.Helper()
	e.BareAccount(name)
	all := []string{"get", "list", "watch", "create", "update", "patch", "delete"}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "test-team"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: all},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}},
	}}
	for _, c := range []client.Client{e.Source, e.Target} {
		e.Expect(client.IgnoreAlreadyExists(c.Create(e.Ctx, role.DeepCopy()))).To(Succeed())
		e.GrantTo(c, name, role.Name, authorizationv1.ResourceAttributes{Resource: "configmaps", Verb: "delete"})
	}
}

// impersonate is a right of the ClusterRole impersonation.
var impersonate = authorizationv1.ResourceAttributes{Resource: "serviceaccounts", Verb: "impersonate"}

// impersonation is the ClusterRole to use ServiceAccounts.
const impersonation = "espalier-managedresource-controller-impersonate"

// AllowOwnAccounts lets the controller use the ServiceAccounts of the env's namespace, in source and target.
func (e *Env) AllowOwnAccounts() {
	e.T.Helper()
	for _, c := range []client.Client{e.Source, e.Target} {
		e.GrantTo(c, account, impersonation, impersonate)
	}
}

// AllowImpersonation lets the controller use the ServiceAccounts of all namespaces, for controllers that serve another one than the env's.
func (e *Env) AllowImpersonation() {
	e.T.Helper()
	e.allow(impersonation, impersonate)
}

// Revoke takes the rights that Account has granted in the target, and waits until that is in effect.
func (e *Env) Revoke(name string) {
	e.T.Helper()
	e.Expect(e.Target.Delete(e.Ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: name + "-test-team"}})).
		To(Succeed())
	user := "system:serviceaccount:" + e.Namespace + ":" + name
	right := &authorizationv1.ResourceAttributes{Namespace: e.Namespace, Resource: "configmaps", Verb: "delete"}
	e.Eventually(func() (bool, error) { return binary.Allowed(e.Ctx, e.Target, user, right) }).WithTimeout(Patience).Should(BeFalse())
}

// AwaitRight waits until a ServiceAccount of the env's namespace has a right in the cluster of c.
func (e *Env) AwaitRight(c client.Client, name string, right authorizationv1.ResourceAttributes) {
	e.T.Helper()
	user := "system:serviceaccount:" + e.Namespace + ":" + name
	e.Eventually(func() (bool, error) { return binary.Allowed(e.Ctx, c, user, &right) }).WithTimeout(Patience).Should(BeTrue())
}

// allow binds the controller to a ClusterRole in the target, and waits until right, one of the permissions of the ClusterRole, is in
// effect. It must wait because the authorizer of the API server reads roles from its own watches.
func (e *Env) allow(role string, right authorizationv1.ResourceAttributes) {
	e.T.Helper()
	e.Expect(e.Target.Create(e.Ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: e.Namespace + "-" + role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: e.Namespace, Name: account}},
	})).To(Succeed())
	e.AwaitRight(e.Target, account, right)
}
