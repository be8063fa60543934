// Package opentelemetry returns the objects of the OpenTelemetry operator 0.156, and of the collector that it runs: fluent-bit sends logs
// to the collector, which sends them to the stores of logs.
package opentelemetry

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/network"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/observability"
	"github.com/espalier-dev/espalier/internal/garden/component/pods"
	"github.com/espalier-dev/espalier/internal/garden/component/rights"
	"github.com/espalier-dev/espalier/internal/garden/component/system"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// Group is the API group of the operator.
const Group = "opentelemetry.io"

// Kind is the kind of collectors.
var Kind = schema.GroupVersionKind{Group: Group, Version: "v1beta1", Kind: "OpenTelemetryCollector"}

const operatorRole = "gardener.cloud:logging:opentelemetry-operator"

// OperatorObjects returns the objects of the ManagedResource of the operator. The rights are not limited to a namespace, because a Seed in
// the same cluster has collectors in the namespaces of Shoots.
func OperatorObjects(v values.Values) ([]client.Object, error) {
	const name = component.OpenTelemetryOperator
	image, err := v.ExternalImage(name)
	if err != nil {
		return nil, err
	}
	owner := object.Owner{Namespace: v.Namespace, Labels: observability.LoggingLabels(name)}
	d := owner.WithLabels(map[string]string{object.AvailabilityType: object.Controller}).
		Deployment(name, 1, owner.Labels, network.Clients(), corev1.PodSpec{
			ServiceAccountName: name, PriorityClassName: system.Class100,
			Containers: []corev1.Container{{
				Name: name, Image: image, Resources: pods.Requests("10m", "64Mi"),
				Args: []string{
					"--metrics-addr=127.0.0.1:8080", "--enable-leader-election", "--zap-log-level=info", "--zap-time-encoding=rfc3339nano",
				},
				Env: []corev1.EnvVar{
					{Name: "ENABLE_WEBHOOKS", Value: "false"},
					pods.FieldVariable("NAMESPACE", "metadata.namespace"),
					pods.FieldVariable("SERVICE_ACCOUNT_NAME", "spec.serviceAccountName"),
				},
			}},
		})
	return []client.Object{
		owner.ServiceAccount(name),
		owner.ClusterRole(operatorRole, operatorRules()...),
		owner.ClusterRoleBinding(operatorRole, operatorRole, name),
		owner.RoleIn(operatorRole, rights.Rule("coordination.k8s.io", "leases", "get", "list", "create", "update")),
		owner.RoleBinding(operatorRole, operatorRole, name),
		d,
		object.Autoscaler{Name: name, Labels: owner.Labels, Container: name, MinAllowed: pods.Memory("64Mi")}.Object(v, v.Namespace),
	}, nil
}

// operatorRules returns the rights of the OpenTelemetry operator. The operator has no right on Secrets: only its webhooks, which are off,
// read Secrets.
func operatorRules() []rbacv1.PolicyRule {
	write := rights.Read("create", "update", "patch", "delete")
	return []rbacv1.PolicyRule{
		rights.Rule("", "pods;configmaps;services;serviceaccounts", write...),
		rights.Rule(";events.k8s.io", "events", "create", "patch"),
		rights.Rule("", "namespaces", rights.Read()...),
		rights.Rule("apps", "daemonsets;deployments;statefulsets", write...),
		rights.Rule("apps", "deployments/finalizers", "get", "watch", "update", "patch"),
		rights.Rule("apps", "replicasets", rights.Read()...),
		rights.Rule("autoscaling", "horizontalpodautoscalers", write...),
		rights.Rule("policy", "poddisruptionbudgets", write...),
		rights.Rule("networking.k8s.io", "ingresses;networkpolicies", write...),
		rights.Rule(observability.Group, "servicemonitors;podmonitors", write...),
		rights.Rule(Group, "opentelemetrycollectors;instrumentations", rights.Read("update", "patch")...),
		rights.Rule(Group, "opampbridges;targetallocators", write...),
		rights.Rule(Group, "opentelemetrycollectors/finalizers;opentelemetrycollectors/status;opampbridges/finalizers;opampbridges/status;"+
			"targetallocators/finalizers;targetallocators/status", "get", "update", "patch"),
	}
}
