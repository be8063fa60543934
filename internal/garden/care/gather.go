package care

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/istio"
	"github.com/espalier-dev/espalier/internal/garden/validation"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// etcdKind is the kind of Etcds. They are read without their Go type, because only a few fields of the status are needed.
var etcdKind = schema.GroupVersionKind{Group: "druid.gardener.cloud", Version: "v1alpha1", Kind: "Etcd"}

// controlPlane selects the objects of the control plane of the virtual cluster.
var controlPlane = client.MatchingLabels{"gardener.cloud/role": "controlplane"}

// gather reads the facts for the checks, all at the same time, because an API server of the virtual cluster that does not answer must not
// delay the other reads.
func (r *Reconciler) gather(ctx context.Context, garden *operatorv1alpha1.Garden) facts {
	f := facts{namespace: r.Namespace, values: values.OfAny(garden, r.Operator)}
	var group sync.WaitGroup // each function writes fields of its own
	group.Go(func() { f.healthz = r.askHealthz(ctx) })
	group.Go(func() { f.managedResources, f.managedResourcesErr = r.listManagedResources(ctx) })
	group.Go(func() { f.deployments, f.deploymentsErr = r.listDeployments(ctx) })
	group.Go(func() { f.etcds, f.etcdsErr = r.listEtcds(ctx) })
	group.Go(func() { f.backup, f.backupErr = r.incompleteBackup(ctx, garden) })
	group.Go(func() { f.workloads, f.workloadsErr = r.judgeWorkloads(ctx, f.values) })
	if f.prometheus = (verdict{healthy: true}); f.values.PrometheusHealthChecks {
		group.Go(func() { f.prometheus = r.checkPrometheuses(ctx) })
	}
	group.Wait()
	return f
}

// incompleteBackup says which settings the backup of the Garden lacks. It returns "" if none is missing.
func (r *Reconciler) incompleteBackup(ctx context.Context, garden *operatorv1alpha1.Garden) (string, error) {
	available := &operatorv1alpha1.ExtensionList{}
	if err := r.Client.List(ctx, available); err != nil {
		return "", fmt.Errorf("list Extensions: %w", err)
	}
	return validation.IncompleteBackup(garden, available.Items), nil
}

func (r *Reconciler) askHealthz(ctx context.Context) healthz {
	server, err := r.Virtual(ctx)
	if err != nil {
		log.FromContext(ctx).Info("Cannot connect to virtual cluster", "error", err.Error())
	}
	if err != nil || server == nil {
		return healthz{}
	}
	begin := r.Clock.Now()
	body, err := server.Get().AbsPath("/healthz").Do(ctx).Raw()
	answer := healthz{connected: true, took: r.Clock.Since(begin), status: http.StatusOK, body: string(body)}
	if err == nil {
		return answer
	}
	var refusal apierrors.APIStatus
	if !errors.As(err, &refusal) {
		answer.err = err
		return answer
	}
	// If the answer is plain text, client-go returns neither its status nor its body; the error contains both.
	status := refusal.Status()
	answer.status = int(status.Code)
	if answer.body == "" {
		answer.body = textOf(status)
	}
	return answer
}

// textOf returns the text that a server has sent with an error.
func textOf(status metav1.Status) string {
	if status.Details != nil {
		for _, cause := range status.Details.Causes {
			if cause.Type == metav1.CauseTypeUnexpectedServerResponse {
				return cause.Message
			}
		}
	}
	return status.Message
}

func (r *Reconciler) listManagedResources(ctx context.Context) ([]resourcesv1alpha1.ManagedResource, error) {
	var all []resourcesv1alpha1.ManagedResource
	for _, namespace := range []string{r.Namespace, istio.Namespace} {
		list := &resourcesv1alpha1.ManagedResourceList{}
		if err := r.Client.List(ctx, list, client.InNamespace(namespace)); ignoreNotServed(err) != nil {
			return nil, fmt.Errorf("list managed resources in namespace %q: %w", namespace, err)
		}
		all = append(all, list.Items...)
	}
	return all, nil
}

func (r *Reconciler) listDeployments(ctx context.Context) ([]appsv1.Deployment, error) {
	list := &appsv1.DeploymentList{}
	if err := r.Reader.List(ctx, list, client.InNamespace(r.Namespace), controlPlane); err != nil {
		return nil, fmt.Errorf("list deployments of the control plane: %w", err)
	}
	return list.Items, nil
}

// judgeWorkloads returns why workloads of observability components are not healthy: see facts.
func (r *Reconciler) judgeWorkloads(ctx context.Context, v values.Values) (map[component.Object]string, error) {
	judged := map[component.Object]string{}
	for _, each := range workloads(v, operatorv1alpha1.ObservabilityComponentsHealthy) {
		key := client.ObjectKey{Namespace: r.Namespace, Name: each.Name}
		object, reader := newWorkload(each), r.Reader
		if _, isCustom := object.(*unstructured.Unstructured); isCustom { // one object is not worth a watch of all namespaces
			reader = r.Client
		}
		switch err := reader.Get(ctx, key, object); {
		case err == nil:
			judged[each] = problemOf(object)
		case ignoreNotServed(err) != nil:
			return nil, fmt.Errorf("get %s %q: %w", each.Kind, each.Name, err)
		}
	}
	return judged, nil
}

// newWorkload returns an empty object of the kind of a workload.
func newWorkload(of component.Object) client.Object {
	switch of.Kind {
	case "Deployment":
		return &appsv1.Deployment{}
	case "StatefulSet":
		return &appsv1.StatefulSet{}
	case "DaemonSet":
		return &appsv1.DaemonSet{}
	}
	custom := &unstructured.Unstructured{}
	custom.SetGroupVersionKind(of.GroupVersionKind)
	return custom
}

// problemOf returns why a workload is not healthy, "" if it is healthy.
func problemOf(object client.Object) string {
	custom, isCustom := object.(*unstructured.Unstructured)
	if !isCustom {
		return failureOf(object)
	}
	// The errors of NestedString are ignored, because the operator of VictoriaMetrics writes only strings into these fields.
	state, _, _ := unstructured.NestedString(custom.Object, "status", "updateStatus")
	reason, _, _ := unstructured.NestedString(custom.Object, "status", "reason")
	if state == "failed" {
		return cmp.Or(reason, "its operator gives no reason")
	}
	return ""
}

func (r *Reconciler) listEtcds(ctx context.Context) ([]etcd, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(etcdKind.GroupVersion().WithKind(etcdKind.Kind + "List"))
	if err := r.Reader.List(ctx, list, client.InNamespace(r.Namespace), controlPlane); ignoreNotServed(err) != nil {
		return nil, fmt.Errorf("list etcds of the control plane: %w", err)
	}
	var all []etcd
	for i := range list.Items {
		all = append(all, etcdOf(&list.Items[i]))
	}
	return all, nil
}

// ignoreNotServed returns nil for an error which says that an object does not exist, or that the API server does not serve the kind of the
// object: such a kind has no objects. It returns every other error unchanged.
func ignoreNotServed(err error) error {
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// etcdOf reads an Etcd. Fields of unexpected types count as missing.
func etcdOf(object *unstructured.Unstructured) etcd {
	e := etcd{name: object.GetName()}
	e.ready, _, _ = unstructured.NestedBool(object.Object, "status", "ready")
	e.lastError, _, _ = unstructured.NestedString(object.Object, "status", "lastError")
	lastErrors, _, _ := unstructured.NestedSlice(object.Object, "status", "lastErrors")
	var descriptions []string
	for _, each := range lastErrors {
		if fields, ok := each.(map[string]any); ok {
			if description, ok := fields["description"].(string); ok {
				descriptions = append(descriptions, description)
			}
		}
	}
	if e.lastError == "" { // etcd-druid has replaced the field by lastErrors
		e.lastError = strings.Join(descriptions, "; ")
	}
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, each := range conditions {
		fields, ok := each.(map[string]any)
		if ok && fields["type"] == "BackupReady" && fields["status"] == "False" { // it is Unknown for minutes after a backup was configured
			e.hasBackupFailure = true
			e.backupFailure, _ = fields["message"].(string)
		}
	}
	return e
}
