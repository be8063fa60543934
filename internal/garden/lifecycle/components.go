package lifecycle

import (
	"context"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/espalier-dev/espalier/internal/flow"
	"github.com/espalier-dev/espalier/internal/garden/component/crds"
	"github.com/espalier-dev/espalier/internal/garden/component/etcddruid"
	"github.com/espalier-dev/espalier/internal/garden/component/istio"
	"github.com/espalier-dev/espalier/internal/garden/component/networkpolicies"
	"github.com/espalier-dev/espalier/internal/garden/component/nginxingress"
	"github.com/espalier-dev/espalier/internal/garden/component/resourcemanager"
	"github.com/espalier-dev/espalier/internal/garden/component/shared"
	"github.com/espalier-dev/espalier/internal/garden/component/system"
	"github.com/espalier-dev/espalier/internal/garden/component/vpa"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/rollout"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

type definitions = func() ([]*unstructured.Unstructured, error)

// definitions returns definitions without those that are omitted.
func (o *operation) definitions(read definitions) ([]*unstructured.Unstructured, error) {
	all, err := read()
	if o.OmitsDefinition == nil {
		return all, err
	}
	return slices.DeleteFunc(all, func(each *unstructured.Unstructured) bool { return o.OmitsDefinition(each.GetName()) }), err
}

// deployDefinitions returns the work of a task that deploys definitions and waits until they are served.
func (o *operation) deployDefinitions(read definitions) func(context.Context, flow.WaitingFor) error {
	return func(ctx context.Context, waitingFor flow.WaitingFor) error {
		wanted, err := o.definitions(read)
		if err != nil {
			return err
		}
		if err := o.cluster.Deploy(ctx, wanted...); err != nil {
			return err
		}
		return o.cluster.UntilHealthy(ctx, waitingFor, o.Timing.defaulted().Definitions, wanted...)
	}
}

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
func (o *operation) deployResourceManager(ctx context.Context, waitingFor flow.WaitingFor) error {
	if err := o.deployDefinitions(crds.ManagedResources)(ctx, waitingFor); err != nil {
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
	if err := o.cluster.UntilHealthy(ctx, waitingFor, timeout, rollout.Deployments(objects)...); err != nil {
		return err
	}
	registration := rollout.Identity(mutatingKind, "", resourcemanager.Name)
	return o.cluster.Until(ctx, waitingFor, timeout, o.checkRegistration, rollout.WatchObject(registration))
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

func (o *operation) deploySystem(ctx context.Context) error {
	if err := o.deploySet(ctx, o.values.Namespace, system.ManagedResource, system.Objects()); err != nil {
		return err
	}
	return o.deploySet(ctx, o.values.Namespace, networkpolicies.ManagedResource, networkpolicies.Objects(o.values))
}

// deploySet deploys a ManagedResource of class seed with these objects.
func (o *operation) deploySet(ctx context.Context, namespace, name string, objects []client.Object) error {
	set, err := rollout.NewSeedManagedResource(namespace, name, objects...)
	if err != nil {
		return err
	}
	return o.cluster.Deploy(ctx, set...)
}

// deployIngressController removes the ingress controller if the configuration of the operator disables it.
func (o *operation) deployIngressController(ctx context.Context) error {
	if o.values.DisableNginxIngress {
		_, err := o.cluster.DeleteManagedResource(ctx, o.values.Namespace, nginxingress.ManagedResource)
		return err
	}
	objects, err := nginxingress.Objects(o.values)
	if err != nil {
		return err
	}
	return o.deploySet(ctx, o.values.Namespace, nginxingress.ManagedResource, objects)
}

// deployAutoscaler removes the vertical pod autoscaler if the Garden brings its own.
func (o *operation) deployAutoscaler(ctx context.Context) error {
	if !o.values.VerticalPodAutoscaler {
		_, err := o.cluster.DeleteManagedResource(ctx, o.values.Namespace, vpa.ManagedResource)
		return err
	}
	s := o.secrets.Collect()
	authority, server := s.Bundle(vpa.Authority), s.Generate(ctx, vpa.ServerCertificate(o.values.Namespace))
	if err := s.Err(); err != nil {
		return err
	}
	if unknown := vpa.UnknownGates(o.values); len(unknown) > 0 {
		log.FromContext(ctx).Info("Ignored feature gates that the vertical pod autoscaler does not know", "gates", unknown)
	}
	objects, err := vpa.Objects(o.values, vpa.Credentials{
		Authority: authority.Name, Bundle: authority.Data[secretconfig.DataKeyCertificateBundle], Server: server.Name,
	})
	if err != nil {
		return err
	}
	return o.deploySet(ctx, o.values.Namespace, vpa.ManagedResource, objects)
}

func (o *operation) deployDruid(ctx context.Context, waitingFor flow.WaitingFor) error {
	objects, err := etcddruid.Objects(o.values)
	if err != nil {
		return err
	}
	if err := o.deploySet(ctx, o.values.Namespace, etcddruid.ManagedResource, objects); err != nil {
		return err
	}
	timeout := o.Timing.defaulted().ManagedResources
	return o.cluster.UntilManagedResourcesReady(
		ctx, waitingFor, timeout, shared.RolledOut, o.values.Namespace, etcddruid.ManagedResource,
	)
}

// deployIstio deploys the namespaces of Istio and what is in them, and waits until istiod and the gateway are healthy.
func (o *operation) deployIstio(ctx context.Context, waitingFor flow.WaitingFor) error {
	if err := o.cluster.DeployTyped(ctx, istio.Namespaces(o.values)...); err != nil {
		return err
	}
	for _, each := range []struct {
		set     string
		objects func(values.Values) ([]client.Object, error)
	}{{istio.ManagedResource, istio.Objects}, {istio.GatewayManagedResource, istio.GatewayObjects}} {
		objects, err := each.objects(o.values)
		if err != nil {
			return err
		}
		if err := o.deploySet(ctx, istio.Namespace, each.set, objects); err != nil {
			return err
		}
	}
	timeout := o.Timing.defaulted().ManagedResources
	return o.cluster.UntilManagedResourcesReady(
		ctx, waitingFor, timeout, shared.Ready, istio.Namespace, istio.ManagedResource, istio.GatewayManagedResource,
	)
}
