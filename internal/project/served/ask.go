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
)

// ask asks the API server about each group.
func (t *Tracker) ask(ctx context.Context) answer {
	for _, w := range []*watch{t.services, t.definitions} {
		if finding := w.finding(); finding.State != Served {
			return unanswered(finding)
		}
	}
	known, problems := map[schema.GroupVersion]facts{}, map[schema.GroupVersion]error{}
	for _, version := range versions() {
		f, err := t.gather(ctx, version)
		if err != nil {
			problems[version] = err
			continue
		}
		known[version] = f
	}
	return judgeAll(known, problems)
}

// gather reads what the API server says about a group.
func (t *Tracker) gather(ctx context.Context, version schema.GroupVersion) (facts, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	f := facts{definitions: map[string]types.UID{}, listed: map[Kind]bool{}}
	for _, object := range t.definitions.all() {
		f.definitions[object.Name] = object.UID
	}
	if err := t.readServices(ctx, version.Group, &f); err != nil {
		return f, err
	}
	err := t.discover(ctx, version, &f)
	return f, err
}

// readServices reads the APIServices of a group.
func (t *Tracker) readServices(ctx context.Context, group string, f *facts) error {
	for _, object := range t.services.all() {
		if !strings.HasSuffix(object.Name, "."+group) {
			continue
		}
		found, err := t.dynamic.Resource(apiServices()).Get(ctx, object.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue // the watch is about to report the deletion
		}
		if err != nil {
			return fmt.Errorf("read APIService %s: %w", object.Name, err)
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

// discover reads which kinds a version has. A version that the API server does not know has none; judge decides whether that is plausible.
func (t *Tracker) discover(ctx context.Context, version schema.GroupVersion, f *facts) error {
	resources, err := t.resources(ctx, version)
	for _, resource := range resources {
		if strings.Contains(resource.Name, "/") {
			continue
		}
		f.listed[Kind(resource.Kind)] = true
		f.complete = f.complete || resource.Name == typical(version)
	}
	return err
}

// resources reads the resources of a version of a group. It returns none if there is no such version.
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
