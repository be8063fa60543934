package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/crds"
	"github.com/espalier-dev/espalier/internal/garden/component/networkpolicies"
	"github.com/espalier-dev/espalier/internal/garden/component/resourcemanager"
	"github.com/espalier-dev/espalier/internal/garden/component/system"
	"github.com/espalier-dev/espalier/internal/garden/flow"
	"github.com/espalier-dev/espalier/internal/garden/rollout"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/garden/webhook/auditpolicy"
	"github.com/espalier-dev/espalier/internal/secrets/manager"
)

// Names of tasks. Users see them in descriptions, in the status and in errors.
const (
	taskKubeconfig      = "Generating generic token kubeconfig"
	taskETCDCRDs        = "Deploying ETCD-related custom resource definitions"
	taskVPACRDs         = "Deploying custom resource definitions for VPA"
	taskHVPACRDs        = "Reconciling custom resource definitions for HVPA"
	taskIstioCRDs       = "Deploying custom resource definitions for Istio"
	taskFluentCRDs      = "Deploying custom resource definitions for fluent-operator"
	taskResourceManager = "Deploying and waiting for gardener-resource-manager to be healthy"
	taskSystem          = "Deploying runtime system resources"
)

const noVPA = "The Garden does not enable the vertical pod autoscaler."

// operation is one reconciliation or deletion. Its fields do not change while the flow runs, except for the status.
type operation struct {
	*Reconciler

	cluster rollout.Cluster
	status  *status
	secrets *manager.Manager
	values  values.Values
	// garden is the Garden before the flow.
	garden *operatorv1alpha1.Garden
}

// prepare does what must be done before the flow, one step after the other.
func (o *operation) prepare(ctx context.Context) error {
	if err := o.addFinalizer(ctx, o.status.garden); err != nil {
		return err
	}
	if !o.values.VerticalPodAutoscaler {
		if _, err := o.Client.RESTMapper().RESTMapping(schema.GroupKind{Group: "autoscaling.k8s.io", Kind: "VerticalPodAutoscaler"}); err != nil {
			return fmt.Errorf("VPA is required for runtime cluster but CRD is not installed: %w", err)
		}
	}
	if err := o.cluster.Deploy(ctx, namespace(o.values)); err != nil {
		return err
	}
	if err := o.generateAuthorities(ctx); err != nil {
		return err
	}
	if err := o.checkWildcardCertificate(ctx); err != nil {
		return err
	}
	if err := o.checkAuditPolicies(ctx); err != nil {
		return err
	}
	return o.readAPIServerPorts(ctx)
}

// checkAuditPolicies fails if API servers could not start with an audit policy that the Garden refers to. The API server may
// have stored the Garden or the ConfigMap before the webhook was registered.
func (o *operation) checkAuditPolicies(ctx context.Context) error {
	for _, each := range auditpolicy.References(o.status.garden) {
		configMap := &corev1.ConfigMap{}
		err := o.Client.Get(ctx, client.ObjectKey{Namespace: o.values.Namespace, Name: each.Name}, configMap)
		if apierrors.IsNotFound(err) {
			configMap, err = nil, nil
		}
		if err != nil {
			return fmt.Errorf("read ConfigMap with audit policy: %w", err)
		}
		if problem := auditpolicy.Problem(configMap); problem != "" {
			return field.Invalid(each.Path, each.Name, problem)
		}
	}
	return nil
}

// readAPIServerPorts sets APIServerPorts in the values: the ports of Service default/kubernetes and their target ports.
func (o *operation) readAPIServerPorts(ctx context.Context) error {
	service := &corev1.Service{}
	if err := o.Client.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "kubernetes"}, service); err != nil {
		return fmt.Errorf("read Service of API server: %w", err)
	}
	for _, each := range service.Spec.Ports {
		o.values.APIServerPorts = append(o.values.APIServerPorts, each.Port)
		if target := each.TargetPort.IntVal; target != 0 {
			o.values.APIServerPorts = append(o.values.APIServerPorts, target)
		}
	}
	slices.Sort(o.values.APIServerPorts)
	o.values.APIServerPorts = slices.Compact(o.values.APIServerPorts)
	return nil
}

func namespace(v values.Values) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{
			"name": v.Namespace,
			"labels": map[string]any{
				"pod-security.kubernetes.io/enforce":                         "privileged",
				"high-availability-config.resources.gardener.cloud/consider": "true",
			},
			"annotations": map[string]any{"high-availability-config.resources.gardener.cloud/zones": strings.Join(v.Zones, ",")},
		},
	}}
}

// run runs a flow, reports its progress, and returns its tasks for the status.
func (o *operation) run(ctx context.Context, name string, tasks []flow.Task) ([]operatorv1alpha1.Task, error) {
	o.garden = o.status.garden.DeepCopy()
	f, err := flow.New(name, tasks)
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the flow
	}
	timing := o.Timing.defaulted()
	last, err := f.Run(ctx, flow.Options{
		Clock: o.Clock, Report: o.status.report, ReportInterval: timing.ReportInterval, ReportDelay: timing.ReportDelay,
	})
	if err != nil {
		o.status.tasks = tasksOf(last)
	}
	return tasksOf(last), err //nolint:wrapcheck // the errors of tasks have their final form
}

func (o *operation) reconciliationTasks() []flow.Task {
	noVPADefinitions := ""
	if !o.values.VerticalPodAutoscaler {
		noVPADefinitions = noVPA
	}
	return []flow.Task{
		{Name: taskKubeconfig, Run: func(ctx context.Context, _ flow.WaitingFor) error { return o.generateKubeconfig(ctx) }},
		{Name: taskETCDCRDs, Run: o.deployDefinitions(crds.ETCD)},
		{Name: taskVPACRDs, Run: o.deployDefinitions(crds.VPA), SkipReason: noVPADefinitions},
		{Name: taskHVPACRDs, Run: o.removeHVPA},
		{Name: taskIstioCRDs, Run: o.deployDefinitions(crds.Istio)},
		{Name: taskFluentCRDs, Run: o.deployDefinitions(crds.Fluent)},
		{Name: taskResourceManager, DependsOn: []string{taskETCDCRDs, taskVPACRDs, taskHVPACRDs, taskIstioCRDs}, Run: o.deployResourceManager},
		{Name: taskSystem, DependsOn: []string{taskResourceManager}, Run: func(ctx context.Context, _ flow.WaitingFor) error { return o.deploySystem(ctx) }},
	}
}

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
			return err //nolint:wrapcheck // it names the object
		}
		return o.cluster.UntilHealthy(ctx, waitingFor, o.Timing.defaulted().Definitions, wanted...) //nolint:wrapcheck // as above
	}
}

// resourceManager returns the objects of the resource manager.
func (o *operation) resourceManager() ([]*unstructured.Unstructured, error) {
	typed, err := resourcemanager.Objects(o.values)
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the object
	}
	return rollout.Unstructured(typed...) //nolint:wrapcheck // as above
}

// deployResourceManager deploys the definition of ManagedResources and the resource manager, and waits until its Deployments are healthy.
func (o *operation) deployResourceManager(ctx context.Context, waitingFor flow.WaitingFor) error {
	if err := o.deployDefinitions(crds.ManagedResources)(ctx, waitingFor); err != nil {
		return err
	}
	objects, err := o.resourceManager()
	if err != nil {
		return err
	}
	if err := o.cluster.Deploy(ctx, objects...); err != nil {
		return err //nolint:wrapcheck // it names the object
	}
	return o.cluster.UntilHealthy(ctx, waitingFor, o.Timing.defaulted().ResourceManager, deployments(objects)...) //nolint:wrapcheck // as above
}

func deployments(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	var found []*unstructured.Unstructured
	for _, each := range objects {
		if each.GetKind() == "Deployment" {
			found = append(found, each)
		}
	}
	return found
}

func (o *operation) deploySystem(ctx context.Context) error {
	classes, err := rollout.SeedSet(o.values.Namespace, system.ManagedResource, system.Objects()...)
	if err != nil {
		return err //nolint:wrapcheck // it names the object
	}
	policies, err := rollout.SeedSet(o.values.Namespace, networkpolicies.ManagedResource, networkpolicies.Objects(o.values)...)
	if err != nil {
		return err //nolint:wrapcheck // as above
	}
	return o.cluster.Deploy(ctx, append(classes, policies...)...) //nolint:wrapcheck // as above
}
