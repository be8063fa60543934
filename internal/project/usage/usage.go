// Package usage finds out whether the namespace of a project is in use. It reads the caches of package served, or a snapshot of the same
// objects. It sends requests to the API server only for Pods, workloads and volume claims, and only if Shoots are not served. It decides
// nothing else about a project, and writes nothing.
//
// SecretBindings and CredentialsBindings count alike. A CredentialsBinding may refer to credentials that are not a Secret, such as a
// WorkloadIdentity. Such credentials count as used if a Shoot uses the binding. The package does not check that they exist: the process
// does not watch such kinds, and an object that the process does not watch must not look unused.
package usage

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/project/served"
)

// If Shoots are not served, objects of these kinds count as use of a namespace.
// +kubebuilder:rbac:groups="",resources=pods;persistentvolumeclaims,verbs=list,roleName=espalier-project-controller-source
// +kubebuilder:rbac:groups=apps,resources=deployments;statefulsets;daemonsets,verbs=list,roleName=espalier-project-controller-source
// +kubebuilder:rbac:groups=batch,resources=jobs;cronjobs,verbs=list,roleName=espalier-project-controller-source

// Caches are the caches of package served.
type Caches interface {
	// Finding returns whether a kind is served.
	Finding(kind served.Kind) served.Finding
	// Objects returns the objects of a kind by an index. They are complete if the finding is Served; otherwise there are none.
	Objects(kind served.Kind, index, key string) ([]*served.Object, served.Finding)
}

// ObjectExists asks the API server whether there is an object of a resource in a namespace. It returns false if there is no such resource.
type ObjectExists func(ctx context.Context, resource schema.GroupVersionResource, namespace string) (bool, error)

// Verdict says whether a namespace is in use. The zero value means that it is not.
type Verdict struct {
	// By is the kind of the object that uses the namespace; empty if no use was found.
	By string
	// Undecided is true if no use was found, but some objects could not be checked.
	Undecided bool
	// Why names the obstacle to a decision; empty while the process is still starting its caches.
	Why string
	// WithoutShoots is true if the API server does not serve Shoots.
	WithoutShoots bool
}

// observer reads caches, and records in the verdict that it could not read some.
type observer struct {
	Caches
	Verdict
}

func (e *observer) objects(kind served.Kind, index, key string) []*served.Object {
	found, finding := e.Objects(kind, index, key)
	if finding.State == served.Unknown {
		e.Undecided, e.Why = true, cmp.Or(e.Why, finding.Why)
	}
	return found
}

// isAbsent reports whether there can be no object of a kind.
func (e *observer) isAbsent(kind served.Kind) bool { return e.Finding(kind).State == served.Absent }

// check looks for one kind of use; find returns true if it has found it.
type check struct {
	by   served.Kind
	find func(e *observer, namespace string) bool
}

// checks are in the order in which they are made. A use that any of them finds counts, even if others could not read their kinds.
func checks() []check {
	return []check{
		{served.Shoot, hasObjects(served.Shoot)},
		{served.Plant, hasObjects(served.Plant)},
		{served.BackupEntry, hasObjects(served.BackupEntry)},
		{served.Secret, usedSecret},
		{served.Quota, usedQuota},
		{served.CredentialsBinding, usedOtherCredentials},
	}
}

// CheckCaches finds out from caches whether a namespace is in use.
func CheckCaches(c Caches, namespace string) Verdict {
	e := &observer{Caches: c}
	e.WithoutShoots = e.isAbsent(served.Shoot)
	for _, look := range checks() {
		if look.find(e, namespace) {
			return Verdict{By: string(look.by), WithoutShoots: e.WithoutShoots}
		}
	}
	return e.Verdict
}

// hasObjects finds the objects of a kind in the namespace.
func hasObjects(kind served.Kind) func(*observer, string) bool {
	return func(e *observer, namespace string) bool {
		return len(e.objects(kind, served.ByNamespace, namespace)) > 0
	}
}

// boundCredentials returns the bindings in any namespace that refer to credentials of this namespace and that a Shoot uses.
func boundCredentials(e *observer, namespace string) []*served.Object {
	var found []*served.Object
	for _, kind := range served.Bindings() {
		for _, binding := range e.objects(kind, served.ByCredentialsNamespace, namespace) {
			if isUsedByShoot(e, binding) {
				found = append(found, binding)
			}
		}
	}
	return found
}

// usedSecret reports whether the namespace has a Secret that a Shoot uses through a binding in any namespace.
func usedSecret(e *observer, namespace string) bool {
	if e.isAbsent(served.Shoot) {
		return false
	}
	names := map[string]bool{}
	for _, each := range boundCredentials(e, namespace) {
		if each.Binding.OfSecret {
			names[each.Binding.Credentials.Name] = true
		}
	}
	return len(names) > 0 && slices.ContainsFunc(e.objects(served.Secret, served.ByNamespace, namespace), func(secret *served.Object) bool {
		return names[secret.Name] && secret.Credentials
	})
}

// usedOtherCredentials reports whether a Shoot uses a binding that refers to credentials of the namespace other than a Secret.
func usedOtherCredentials(e *observer, namespace string) bool {
	return !e.isAbsent(served.Shoot) &&
		slices.ContainsFunc(boundCredentials(e, namespace), func(each *served.Object) bool { return !each.Binding.OfSecret })
}

// usedQuota reports whether the namespace has a Quota that applies to a Shoot through a binding.
func usedQuota(e *observer, namespace string) bool {
	if e.isAbsent(served.Shoot) || e.isAbsent(served.SecretBinding) && e.isAbsent(served.CredentialsBinding) {
		return false
	}
	for _, quota := range e.objects(served.Quota, served.ByNamespace, namespace) {
		for _, kind := range served.Bindings() {
			bindings := e.objects(kind, served.ByQuota, served.Key(namespace, quota.Name))
			if slices.ContainsFunc(bindings, func(binding *served.Object) bool { return isUsedByShoot(e, binding) }) {
				return true
			}
		}
	}
	return false
}

// isUsedByShoot reports whether a Shoot uses a binding. Such a Shoot must be in the binding's own namespace.
func isUsedByShoot(e *observer, binding *served.Object) bool {
	return len(e.objects(served.Shoot, binding.Binding.UsedBy, served.Key(binding.Namespace, binding.Name))) > 0
}

// CheckServer is for clusters without Shoots. It searches the API server for Pods, workloads and volume claims in a namespace, and stops
// at the first resource that has an object there. If the API server would repeat an error, such as a missing right, and no object is
// found, the verdict is undecided. CheckServer returns other errors, so that the caller retries soon.
func CheckServer(ctx context.Context, exists ObjectExists, namespace string) (Verdict, error) {
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
		found, err := exists(ctx, resource, namespace)
		switch {
		case found:
			return Verdict{By: resource.Resource, WithoutShoots: true}, nil
		case err == nil:
		case !isLasting(err):
			return Verdict{}, fmt.Errorf("find running workloads: %w", err)
		case !verdict.Undecided:
			verdict.Undecided, verdict.Why = true, err.Error()
		}
	}
	return verdict, nil
}

// isLasting reports whether the API server would return the same error again.
func isLasting(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
}
