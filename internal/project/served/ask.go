package served

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ask asks the API server about each group.
func (t *Tracker) ask(ctx context.Context) answer {
	known := map[schema.GroupVersion]facts{}
	for _, version := range versions() {
		f := facts{definitions: map[string]types.UID{}, listed: map[Kind]bool{}}
		f.problem = t.gather(ctx, version, &f)
		known[version] = f
	}
	return judgeAll(known)
}

// gather reads the facts about a group from the API server. It sends no request until the watches are up to date.
func (t *Tracker) gather(ctx context.Context, version schema.GroupVersion, f *facts) error {
	for _, w := range []*watch{t.services, t.definitions} {
		if finding := w.finding(); finding.State != Served {
			return errors.New(finding.Why)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	for _, object := range t.definitions.all() {
		f.definitions[object.Name] = object.UID
	}
	if err := t.readServices(ctx, version.Group, f); err != nil {
		return err
	}
	return t.discover(ctx, version, f)
}

// readServices reads the APIServices of a group.
func (t *Tracker) readServices(ctx context.Context, group string, f *facts) error {
	for _, object := range t.services.all() {
		if !strings.HasSuffix(object.Name, "."+group) {
			continue
		}
		found := &apiregistrationv1.APIService{}
		err := t.whole.Get(ctx, client.ObjectKey{Name: object.Name}, found)
		if apierrors.IsNotFound(err) {
			continue // the watch will report the deletion
		}
		if err != nil {
			return fmt.Errorf("read APIService %s: %w", object.Name, err)
		}
		f.services = append(f.services, serviceOf(found))
	}
	return nil
}

func serviceOf(found *apiregistrationv1.APIService) service {
	s := service{
		name: found.Name, uid: found.UID, version: found.Spec.Version, backed: found.Spec.Service != nil,
		message: "it has no condition Available",
	}
	for _, condition := range found.Status.Conditions {
		if condition.Type == apiregistrationv1.Available {
			s.available, s.message = condition.Status == apiregistrationv1.ConditionTrue, condition.Message
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
		f.complete = f.complete || resource.Name == typicalResource(version)
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
