// Package usage finds out whether somebody uses a project's namespace. It answers from the caches of what is served, or
// from a snapshot of the same, and asks the API server itself only for Pods, workloads and volumes where there are no
// Shoots. It judges nothing else of a project, and writes nothing.
//
// SecretBindings and CredentialsBindings count alike. Credentials of a CredentialsBinding that are no Secret, such as a
// WorkloadIdentity, count as used when a Shoot uses the binding, without proof that they exist: the process watches no such kind,
// and what it does not watch must not look unused.
package usage

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/project/served"
)

// Where Shoots are not served, these count as use of a namespace.
// +kubebuilder:rbac:groups="",resources=pods;persistentvolumeclaims,verbs=list,roleName=espalier-project-controller-source
// +kubebuilder:rbac:groups=apps,resources=deployments;statefulsets;daemonsets,verbs=list,roleName=espalier-project-controller-source
// +kubebuilder:rbac:groups=batch,resources=jobs;cronjobs,verbs=list,roleName=espalier-project-controller-source

// Caches are those of what is served.
type Caches interface {
	// Finding says whether a kind is served.
	Finding(kind served.Kind) served.Finding
	// Objects are those of a kind by an index. They are all there are if the finding is Served; otherwise there are none.
	Objects(kind served.Kind, index, key string) ([]any, served.Finding)
}

// Live asks the API server.
type Live interface {
	// AnyOf tells whether there is an object of a resource in a namespace; not if there is no such resource.
	AnyOf(ctx context.Context, resource schema.GroupVersionResource, namespace string) (bool, error)
}

// Verdict is what is known of the use of a namespace. The zero value means that nobody uses it.
type Verdict struct {
	// By is the kind of what uses the namespace; empty if nothing was found.
	By string
	// Undecided means that nothing was found, and that something may have been missed.
	Undecided bool
	// Why says what is in the way of a decision; empty while the process is about to know.
	Why string
	// WithoutShoots means that the API server serves no Shoots.
	WithoutShoots bool
}

// eyes look at caches, and remember what they could not see.
type eyes struct {
	Caches
	blind []served.Finding
}

func (e *eyes) see(kind served.Kind, index, key string) []any {
	found, finding := e.Objects(kind, index, key)
	if finding.State == served.Unknown {
		e.blind = append(e.blind, finding)
	}
	return found
}

// absent tells whether there can be no object of a kind.
func (e *eyes) absent(kind served.Kind) bool { return e.Finding(kind).State == served.Absent }

// check looks for one sort of use, and tells whether it has found it.
type check struct {
	by   served.Kind
	find func(e *eyes, namespace string) bool
}

// checks are in the order in which they are made; whatever any of them finds counts, even if others could not see.
func checks() []check {
	return []check{
		{served.Shoot, present(served.Shoot)},
		{served.Plant, present(served.Plant)},
		{served.BackupEntry, present(served.BackupEntry)},
		{served.Secret, usedSecret},
		{served.Quota, usedQuota},
		{served.CredentialsBinding, usedOtherCredentials},
	}
}

// Look answers from caches.
func Look(c Caches, namespace string) Verdict {
	e := &eyes{Caches: c}
	verdict := Verdict{WithoutShoots: e.absent(served.Shoot)}
	for _, look := range checks() {
		if look.find(e, namespace) {
			verdict.By = string(look.by)
			return verdict
		}
	}
	for _, finding := range e.blind {
		verdict.Undecided = true
		if verdict.Why == "" {
			verdict.Why = finding.Why
		}
	}
	return verdict
}

// present finds the objects of a kind in the namespace.
func present(kind served.Kind) func(*eyes, string) bool {
	return func(e *eyes, namespace string) bool { return len(e.see(kind, served.ByNamespace, namespace)) > 0 }
}

// boundCredentials returns the bindings that name credentials of the namespace and that a Shoot uses, in any namespace.
func boundCredentials(e *eyes, namespace string) []served.Binding {
	var found []served.Binding
	for _, kind := range served.Bindings() {
		for _, object := range e.see(kind, served.ByCredentialsNamespace, namespace) {
			if binding, ok := served.BindingOf(object); ok && bound(e, binding) {
				found = append(found, binding)
			}
		}
	}
	return found
}

// usedSecret finds a Secret of the namespace that a Shoot uses through a binding, be they in the same namespace or not.
func usedSecret(e *eyes, namespace string) bool {
	if e.absent(served.Shoot) {
		return false
	}
	names := map[string]bool{}
	for _, binding := range boundCredentials(e, namespace) {
		if binding.NamesSecret() {
			names[binding.Credentials.Name] = true
		}
	}
	if len(names) == 0 {
		return false
	}
	for _, object := range e.see(served.Secret, served.ByNamespace, namespace) {
		if secret, ok := object.(metav1.Object); ok && names[secret.GetName()] && served.Credentials(secret) {
			return true
		}
	}
	return false
}

// usedOtherCredentials finds a binding that names credentials of the namespace which are no Secret, and that a Shoot uses.
func usedOtherCredentials(e *eyes, namespace string) bool {
	return !e.absent(served.Shoot) &&
		slices.ContainsFunc(boundCredentials(e, namespace), func(binding served.Binding) bool { return !binding.NamesSecret() })
}

// usedQuota finds a Quota of the namespace that binds a Shoot through a binding.
func usedQuota(e *eyes, namespace string) bool {
	if e.absent(served.Shoot) || e.absent(served.SecretBinding) && e.absent(served.CredentialsBinding) {
		return false
	}
	for _, object := range e.see(served.Quota, served.ByNamespace, namespace) {
		if quota, ok := object.(metav1.Object); ok && bindsShoot(e, served.Key(namespace, quota.GetName())) {
			return true
		}
	}
	return false
}

// bindsShoot reports whether a Shoot uses a binding that names a Quota.
func bindsShoot(e *eyes, quota string) bool {
	for _, kind := range served.Bindings() {
		for _, object := range e.see(kind, served.ByQuota, quota) {
			if binding, ok := served.BindingOf(object); ok && bound(e, binding) {
				return true
			}
		}
	}
	return false
}

// bound reports whether a Shoot uses a binding; that is only possible in the binding's own namespace.
func bound(e *eyes, binding served.Binding) bool {
	return len(e.see(served.Shoot, binding.UsedBy, served.Key(binding.Namespace, binding.Name))) > 0
}

// Running asks the API server for Pods, workloads and volume claims in a namespace where no Shoots are served, and finds
// the first resource that there is something of. An answer that would stay the same, such as a missing right, leaves the
// verdict undecided; other failures are errors, after which it makes sense to ask again soon.
func Running(ctx context.Context, live Live, namespace string) (Verdict, error) {
	verdict := Verdict{WithoutShoots: true}
	for _, resource := range []schema.GroupVersionResource{
		{Version: "v1", Resource: "pods"},
		{Group: "apps", Version: "v1", Resource: "deployments"},
		{Group: "apps", Version: "v1", Resource: "statefulsets"},
		{Group: "apps", Version: "v1", Resource: "daemonsets"},
		{Group: "batch", Version: "v1", Resource: "jobs"},
		{Group: "batch", Version: "v1", Resource: "cronjobs"},
		{Version: "v1", Resource: "persistentvolumeclaims"},
	} {
		found, err := live.AnyOf(ctx, resource, namespace)
		switch {
		case found:
			return Verdict{By: resource.Resource, WithoutShoots: true}, nil
		case err == nil:
		case !lasting(err):
			return Verdict{}, fmt.Errorf("find out what runs: %w", err)
		case !verdict.Undecided:
			verdict.Undecided, verdict.Why = true, err.Error()
		}
	}
	return verdict, nil
}

// lasting tells whether an API server would go on to answer with this.
func lasting(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
}
