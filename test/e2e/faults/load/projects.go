package load

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

// projects are Projects whose only reader changes; the name of the reader is the revision.
type projects struct{ base }

func (p *projects) create(ctx context.Context) error {
	return p.createEach(ctx, func(name string) client.Object {
		return &corev1beta1.Project{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{marker: p.namespace}},
			Spec:       corev1beta1.ProjectSpec{Owner: &rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "owner"}},
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

func (p *projects) list(ctx context.Context) ([]corev1beta1.Project, error) {
	found := &corev1beta1.ProjectList{}
	err := p.cluster.Client.List(ctx, found, client.MatchingLabels{marker: p.namespace})
	return found.Items, err
}

func (p *projects) arrived(ctx context.Context) (map[string]int, error) {
	found, err := p.list(ctx)
	if err != nil {
		return nil, err
	}
	arrived := map[string]int{}
	for _, project := range found {
		binding := &rbacv1.RoleBinding{}
		key := client.ObjectKey{Namespace: ptr.Deref(project.Spec.Namespace, "none"), Name: "gardener.cloud:system:project-viewer"}
		if err := p.cluster.Client.Get(ctx, key, binding); client.IgnoreNotFound(err) != nil {
			return nil, err
		}
		arrived[project.Name] = onlyReader(binding.Subjects)
	}
	return arrived, nil
}

// onlyReader returns the revision of the only reader, -1 if there is none or more than one.
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

func (p *projects) unsettled(ctx context.Context) ([]string, error) {
	found, err := p.list(ctx)
	if err != nil {
		return nil, err
	}
	var unsettled []string
	for _, project := range found {
		if project.Status.Phase != corev1beta1.ProjectReady || project.Status.ObservedGeneration != project.Generation {
			unsettled = append(unsettled, fmt.Sprintf("Project %s is %q", project.Name, project.Status.Phase))
		}
	}
	return unsettled, nil
}

// remove deletes Projects as their owners do.
func (p *projects) remove(ctx context.Context) error {
	found, err := p.list(ctx)
	if err != nil {
		return err
	}
	for _, project := range found {
		confirmed := map[string]any{"metadata": map[string]any{"annotations": map[string]string{"confirmation.gardener.cloud/deletion": "true"}}}
		err := insist(ctx, acceptance, func(ctx context.Context) error {
			if err := p.patch(ctx, &project, confirmed); err != nil {
				return client.IgnoreNotFound(err)
			}
			return client.IgnoreNotFound(p.cluster.Client.Delete(ctx, &project))
		})
		if err != nil {
			return fmt.Errorf("delete Project %s: %w", project.Name, err)
		}
	}
	return insist(ctx, acceptance, func(ctx context.Context) error {
		found, err := p.list(ctx)
		if err == nil && len(found) > 0 {
			return errors.New("some Projects are still there")
		}
		return err
	})
}
