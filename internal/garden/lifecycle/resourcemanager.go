package lifecycle

import (
	"context"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/resourcemanager"
	"github.com/espalier-dev/espalier/internal/rollout"
)

// resourceManager returns the objects of the resource manager.
func (o *operation) resourceManager() ([]*unstructured.Unstructured, error) {
	typed, err := resourcemanager.Objects(o.values)
	if err != nil {
		return nil, err
	}
	return rollout.Unstructured(typed...)
}

// deployResourceManager deploys the definition of ManagedResources and the resource manager, and waits until its Deployments are healthy
// and its webhooks are registered. These webhooks add tokens to Pods. A Pod that is created before stays without a token, and no controller
// replaces it.
func (o *operation) deployResourceManager(ctx context.Context) error {
	if err := o.installer().DeployDefinitions(ctx, resourcemanager.Component); err != nil {
		return err
	}
	objects, err := o.resourceManager()
	if err != nil {
		return err
	}
	if err := o.cluster.Deploy(ctx, objects...); err != nil {
		return err
	}
	timeout := o.Timing.defaulted().ResourceManager
	if err := o.cluster.UntilHealthy(ctx, timeout, rollout.Deployments(objects)...); err != nil {
		return err
	}
	registration := rollout.Identity(mutatingKind, "", resourcemanager.Name)
	return o.cluster.Until(ctx, timeout, o.checkRegistration, rollout.WatchObject(registration))
}

// mutatingKind is the kind of the configuration that webhook-server maintains, under the name of the resource manager.
var mutatingKind = admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration")

// checkRegistration returns an error as long as the webhooks of the resource manager are not registered.
func (o *operation) checkRegistration(ctx context.Context) error {
	registration := &admissionregistrationv1.MutatingWebhookConfiguration{}
	err := o.Client.Get(ctx, client.ObjectKey{Name: resourcemanager.Name}, registration)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("read %s %s: %w", mutatingKind.Kind, resourcemanager.Name, err)
	}
	lacksBundle := func(w admissionregistrationv1.MutatingWebhook) bool { return len(w.ClientConfig.CABundle) == 0 }
	if len(registration.Webhooks) == 0 || slices.ContainsFunc(registration.Webhooks, lacksBundle) {
		return fmt.Errorf("%s %s has no webhooks with a CA bundle (see kubectl -n %s logs deployment/%s)",
			mutatingKind.Kind, resourcemanager.Name, o.values.Namespace, resourcemanager.WebhookServer)
	}
	return nil
}
