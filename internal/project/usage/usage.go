// Package usage finds out whether somebody uses a project's namespace. It answers from the caches of what is served, or
// from a snapshot of the same, and asks the API server itself only for Pods, workloads and volumes where there are no Shoots. It judges nothing else of a project, and writes nothing.
package usage

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
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
	// Objects are those of a kind by an index, nothing unless the kind is served.
	Objects(kind served.Kind, index, key string) []any
}

// Live asks the API server.
type Live interface {
	// AnyOf tells whether there is an object of a resource in a namespace.
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

// check looks for one sort of use. It returns the kind that it has found, or what it could not see.
type check func(c Caches, namespace string) (by string, blind []served.Finding)

// checks are in the order in which they are made; whatever any of them finds counts, even if others could not see.
func checks() []check {
	return []check{present(served.Shoot), present(served.Plant), present(served.BackupEntry), usedSecret, usedQuota}
}

// Look answers from caches.
func Look(c Caches, namespace string) Verdict {
	verdict := Verdict{WithoutShoots: c.Finding(served.Shoot).State == served.Absent}
	for _, look := range checks() {
		by, blind := look(c, namespace)
		if by != "" {
			return Verdict{By: by, WithoutShoots: verdict.WithoutShoots}
		}
		for _, finding := range blind {
			verdict.Undecided = true
			if verdict.Why == "" {
				verdict.Why = finding.Why
			}
		}
	}
	return verdict
}

// present finds the objects of a kind in the namespace.
func present(kind served.Kind) check {
	return func(c Caches, namespace string) (string, []served.Finding) {
		blind := blindTo(c, kind)
		if len(blind) == 0 && len(c.Objects(kind, served.ByNamespace, namespace)) > 0 {
			return string(kind), nil
		}
		return "", blind
	}
}

// usedSecret finds a Secret of the namespace that a Shoot uses through a SecretBinding, be they in the same namespace or not.
func usedSecret(c Caches, namespace string) (string, []served.Finding) {
	blind := blindTo(c, served.Shoot, served.SecretBinding)
	if len(blind) > 0 {
		return "", blind
	}
	names := map[string]bool{}
	for _, object := range c.Objects(served.SecretBinding, served.BySecretNamespace, namespace) {
		if binding, ok := object.(*corev1beta1.SecretBinding); ok && bound(c, binding) {
			names[binding.SecretRef.Name] = true
		}
	}
	if len(names) == 0 {
		return "", nil
	}
	if blind := blindTo(c, served.Secret); len(blind) > 0 {
		return "", blind
	}
	for _, object := range c.Objects(served.Secret, served.ByNamespace, namespace) {
		if secret, ok := object.(metav1.Object); ok && names[secret.GetName()] && served.Credentials(secret) {
			return string(served.Secret), nil
		}
	}
	return "", nil
}

// usedQuota finds a Quota of the namespace that binds a Shoot through a SecretBinding.
func usedQuota(c Caches, namespace string) (string, []served.Finding) {
	blind := blindTo(c, served.Shoot, served.SecretBinding, served.Quota)
	if len(blind) > 0 {
		return "", blind
	}
	for _, object := range c.Objects(served.Quota, served.ByNamespace, namespace) {
		quota, ok := object.(metav1.Object)
		if !ok {
			continue
		}
		for _, named := range c.Objects(served.SecretBinding, served.ByQuota, served.Key(namespace, quota.GetName())) {
			if binding, ok := named.(*corev1beta1.SecretBinding); ok && bound(c, binding) {
				return string(served.Quota), nil
			}
		}
	}
	return "", nil
}

// bound tells whether a Shoot uses a SecretBinding; that is only possible in the binding's own namespace.
func bound(c Caches, binding *corev1beta1.SecretBinding) bool {
	return len(c.Objects(served.Shoot, served.ByBinding, served.Key(binding.Namespace, binding.Name))) > 0
}

// blindTo returns what is known of those of the kinds that nobody can see. If one of them is absent there is nothing to see
// of what needs them all.
func blindTo(c Caches, kinds ...served.Kind) []served.Finding {
	var blind []served.Finding
	for _, kind := range kinds {
		switch finding := c.Finding(kind); finding.State {
		case served.Absent:
			return nil
		case served.Unknown:
			blind = append(blind, finding)
		}
	}
	return blind
}

// Running asks the API server for Pods, workloads and volume claims in a namespace, and returns the first resource that there
// is something of.
func Running(ctx context.Context, live Live, namespace string) (by string, err error) {
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
		if err != nil {
			return "", fmt.Errorf("find out what runs: %w", err)
		}
		if found {
			return resource.Resource, nil
		}
	}
	return "", nil
}
