package served

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

// ask asks the API server.
func (t *Tracker) ask(ctx context.Context) answer {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	facts, problem := t.gather(ctx)
	if problem != nil {
		return unanswered(*problem)
	}
	return judgeAll(facts)
}

// gather returns what the API server says, or why it is not known.
func (t *Tracker) gather(ctx context.Context) (facts, *Finding) {
	f := facts{definitions: map[string]types.UID{}, listed: map[Kind]bool{}}
	for _, w := range []*watch{t.services, t.definitions} {
		if finding := w.finding(); finding.State != Served {
			return f, &finding
		}
	}
	for _, object := range t.definitions.objects.List() {
		if found, ok := object.(metav1.Object); ok {
			f.definitions[found.GetName()] = found.GetUID()
		}
	}
	err := t.readServices(ctx, &f)
	if err == nil {
		err = t.discover(ctx, &f)
	}
	if err != nil {
		problem := unknown("%v", err)
		return f, &problem
	}
	return f, nil
}

// readServices reads the APIServices of the group.
func (t *Tracker) readServices(ctx context.Context, f *facts) error {
	for _, name := range t.services.objects.ListKeys() {
		if !strings.HasSuffix(name, "."+corev1beta1.GroupName) {
			continue
		}
		found, err := t.dynamic.Resource(apiServices()).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue // the watch is about to tell
		}
		if err != nil {
			return fmt.Errorf("read APIService %s: %w", name, err)
		}
		f.services = append(f.services, serviceOf(found))
	}
	return nil
}

func serviceOf(found *unstructured.Unstructured) service {
	s := service{name: found.GetName(), uid: found.GetUID(), message: "it has no condition Available"}
	s.version, _, _ = unstructured.NestedString(found.Object, "spec", "version")
	reference, _, _ := unstructured.NestedMap(found.Object, "spec", "service")
	s.backed = reference != nil
	conditions, _, _ := unstructured.NestedSlice(found.Object, "status", "conditions")
	for _, each := range conditions {
		if condition, ok := each.(map[string]any); ok && condition["type"] == "Available" {
			s.available = condition["status"] == "True"
			s.message, _ = condition["message"].(string)
		}
	}
	return s
}

// discover reads which kinds the group's version has. A version that is not known has none; judge decides whether that can be.
func (t *Tracker) discover(ctx context.Context, f *facts) error {
	resources, err := t.resources(ctx, corev1beta1.SchemeGroupVersion)
	for _, resource := range resources {
		if strings.Contains(resource.Name, "/") {
			continue
		}
		f.listed[Kind(resource.Kind)] = true
		f.projects = f.projects || resource.Kind == "Project"
	}
	return err
}

// resources reads what a version of a group has; nothing if there is no such version.
func (t *Tracker) resources(ctx context.Context, version schema.GroupVersion) ([]metav1.APIResource, error) {
	list, err := t.discovery.ServerResourcesForGroupVersionWithContext(ctx, version.String())
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("discover the kinds of %s: %w", version, err)
	}
	return list.APIResources, nil
}
