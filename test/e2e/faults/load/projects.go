package load

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

// projects are Projects whose only reader changes. The name of the reader contains the revision.
type projects struct{ base }

func (p *projects) create(ctx context.Context) error {
	return p.createEach(ctx, func(name string) client.Object {
		return &corev1beta1.Project{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, Labels: map[string]string{marker: p.namespace},
				Annotations: map[string]string{"confirmation.gardener.cloud/deletion": "true"}, // for Close
			},
			Spec: corev1beta1.ProjectSpec{Owner: &rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "owner"}},
		}
	})
}

const reader = "reader-"

func (p *projects) change(ctx context.Context, lane string, to int) error {
	project := &corev1beta1.Project{ObjectMeta: metav1.ObjectMeta{Name: lane}}
	return p.patch(ctx, project, map[string]any{"spec": map[string]any{"members": []any{
		map[string]any{"apiGroup": rbacv1.GroupName, "kind": "User", "name": "owner", "role": "owner"},
		map[string]any{"apiGroup": rbacv1.GroupName, "kind": "User", "name": reader + strconv.Itoa(to), "role": "viewer"},
	}}})
}

func (p *projects) results(ctx context.Context) (arrived map[string]int, unsettled []string, err error) {
	found := &corev1beta1.ProjectList{}
	if err := p.cluster.Client.List(ctx, found, client.MatchingLabels{marker: p.namespace}); err != nil {
		return nil, nil, err
	}
	arrived = map[string]int{}
	for _, project := range found.Items {
		binding := &rbacv1.RoleBinding{}
		key := client.ObjectKey{Namespace: ptr.Deref(project.Spec.Namespace, "none"), Name: "gardener.cloud:system:project-viewer"}
		if err := p.cluster.Client.Get(ctx, key, binding); client.IgnoreNotFound(err) != nil {
			return nil, nil, err
		}
		arrived[project.Name] = onlyReader(binding.Subjects)
		if project.Status.Phase != corev1beta1.ProjectReady || project.Status.ObservedGeneration != project.Generation {
			unsettled = append(unsettled, fmt.Sprintf("Project %s is %q", project.Name, project.Status.Phase))
		}
	}
	return arrived, unsettled, nil
}

// onlyReader returns the revision in the name of the only reader; -1 if there is none or more than one.
func onlyReader(subjects []rbacv1.Subject) int {
	value, readers := -1, 0
	for _, subject := range subjects {
		if number, err := strconv.Atoi(strings.TrimPrefix(subject.Name, reader)); err == nil {
			value, readers = number, readers+1
		}
	}
	if readers != 1 {
		return -1
	}
	return value
}
