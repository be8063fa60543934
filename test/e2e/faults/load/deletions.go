package load

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/test/local"
)

// watched returns the kinds whose objects must not be deleted.
func watched() map[string]schema.GroupVersionKind {
	return map[string]schema.GroupVersionKind{
		"namespaces":                      {Version: "v1", Kind: "Namespace"},
		"nodes":                           {Version: "v1", Kind: "Node"},
		"configmaps":                      {Version: "v1", Kind: "ConfigMap"},
		"secrets":                         {Version: "v1", Kind: "Secret"},
		"serviceaccounts":                 {Version: "v1", Kind: "ServiceAccount"},
		"services":                        {Version: "v1", Kind: "Service"},
		"resourcequotas":                  {Version: "v1", Kind: "ResourceQuota"},
		"deployments":                     {Group: "apps", Version: "v1", Kind: "Deployment"},
		"poddisruptionbudgets":            {Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
		"networkpolicies":                 {Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"},
		"roles":                           {Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"},
		"rolebindings":                    {Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
		"clusterroles":                    {Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
		"clusterrolebindings":             {Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"},
		"customresourcedefinitions":       {Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
		"mutatingwebhookconfigurations":   {Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingWebhookConfiguration"},
		"validatingwebhookconfigurations": {Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"},
		"managedresources":                {Group: "resources.gardener.cloud", Version: "v1alpha1", Kind: "ManagedResource"},
		"projects":                        {Group: "core.gardener.cloud", Version: "v1beta1", Kind: "Project"},
	}
}

// Baseline is the state at one time: all objects, and the size of the audit log.
type Baseline struct {
	objects  map[string]types.UID
	auditLog string
	offset   int64
}

// Remember returns a Baseline with the current objects and the current size of the audit log.
func (l *Load) Remember(ctx context.Context, auditLog string) (Baseline, error) {
	objects, err := l.snapshot(ctx)
	if err != nil {
		return Baseline{}, err
	}
	info, err := os.Stat(auditLog)
	if err != nil {
		return Baseline{}, fmt.Errorf("find audit log: %w", err)
	}
	return Baseline{objects: objects, auditLog: auditLog, offset: info.Size()}, nil
}

// snapshot returns the UIDs of all objects, by <resource>/<namespace>/<name>. It omits objects that are being deleted.
func (l *Load) snapshot(ctx context.Context) (map[string]types.UID, error) {
	objects := map[string]types.UID{}
	for resource, kind := range watched() {
		found := &metav1.PartialObjectMetadataList{}
		found.SetGroupVersionKind(kind)
		if err := l.cluster.Client.List(ctx, found); err != nil {
			return nil, fmt.Errorf("list %s: %w", resource, err)
		}
		for _, object := range found.Items {
			if object.DeletionTimestamp.IsZero() {
				objects[resource+"/"+object.Namespace+"/"+object.Name] = object.UID
			}
		}
	}
	return objects, nil
}

// WrongDeletions returns the objects that were wrongly deleted since the Baseline: objects that are missing or replaced, and objects that
// the binaries have deleted according to the audit log, even if the objects were created after the Baseline. An obsolete object may be
// deleted, but not before it is obsolete.
func (l *Load) WrongDeletions(ctx context.Context, since Baseline) ([]string, error) {
	now, err := l.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	deletions, err := deletionsSince(since)
	if err != nil {
		return nil, err
	}
	return l.wrong(since.objects, now, deletions), nil
}

// wrong returns the wrong deletions, from two snapshots and the deletions between them.
func (l *Load) wrong(before, now map[string]types.UID, deletions []deletion) []string {
	l.mu.Lock()
	drift := l.deleted.Clone()
	l.mu.Unlock()
	wrong := sets.New[string]()
	first := map[string]time.Time{}
	for _, d := range deletions {
		if at, known := first[d.name]; !known || d.at.Before(at) {
			first[d.name] = d.at
		}
		if d.ours && !l.obsolete(d.name, d.at) {
			wrong.Insert(d.name)
		}
	}
	for name, uid := range before {
		at, known := first[name]
		if !known {
			at = l.clock.Now()
		}
		if now[name] != uid && !drift.Has(uid) && !l.obsolete(name, at) {
			wrong.Insert(name)
		}
	}
	return sets.List(wrong)
}

// obsolete reports whether, at that time, the object's set defined an object with another name instead. Times in the audit log have a
// resolution of a microsecond.
func (l *Load) obsolete(name string, at time.Time) bool {
	rest, ours := strings.CutPrefix(name, "configmaps/"+l.Namespace+"/")
	owner, number, found := strings.Cut(rest, "-"+renamed+"-")
	revision, err := strconv.Atoi(number)
	if !ours || !found || err != nil || revision < 1 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	wanted := l.wanted["ManagedResource "+owner+"."+renamed]
	return revision < len(wanted) && !at.Before(wanted[revision].Truncate(time.Microsecond)) // since then the next revision was wanted
}

// deletion is a successful request to delete an object, which is named as in snapshots, or a collection, whose name ends with "/".
type deletion struct {
	name string
	at   time.Time
	// ours is true if the ServiceAccount of a binary sent the request.
	ours bool
}

// deletionsSince returns the deletions that the audit log contains after the Baseline.
func deletionsSince(since Baseline) ([]deletion, error) {
	var deletions []deletion
	for line, err := range local.AuditLines(since.auditLog, since.offset) {
		if err != nil {
			return nil, err
		}
		event := auditv1.Event{}
		if json.Unmarshal(line, &event) != nil {
			continue // a line that a killed API server did not complete
		}
		ref, status := event.ObjectRef, ptr.Deref(event.ResponseStatus, metav1.Status{})
		if strings.HasPrefix(event.Verb, "delete") && ref != nil && status.Code < 300 {
			deletions = append(deletions, deletion{
				name: ref.Resource + "/" + ref.Namespace + "/" + ref.Name, at: event.RequestReceivedTimestamp.UTC(),
				ours: strings.HasPrefix(event.User.Username, "system:serviceaccount:espalier-system:"),
			})
		}
	}
	return deletions, nil
}
