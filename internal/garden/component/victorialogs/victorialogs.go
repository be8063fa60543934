// Package victorialogs returns the objects of the operator of VictoriaMetrics 0.73, and of VictoriaLogs 1.50, which stores log lines and
// has a web UI.
package victorialogs

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/istio"
	"github.com/espalier-dev/espalier/internal/garden/component/network"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/observability"
	"github.com/espalier-dev/espalier/internal/garden/component/pods"
	"github.com/espalier-dev/espalier/internal/garden/component/rights"
	"github.com/espalier-dev/espalier/internal/garden/component/system"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// Name is the name of the component, of its ManagedResource and of its object.
const Name = component.VictoriaLogs

// Group is the API group of the operator.
const Group = "operator.victoriametrics.com"

// Kind is the kind of the object that the operator makes a Deployment of.
var Kind = schema.GroupVersionKind{Group: Group, Version: "v1", Kind: "VLSingle"}

// Workload is the name of the Deployment and the Service that the operator makes.
const Workload = "vlsingle-" + Name

const (
	operatorRole = "gardener.cloud:logging:victoria-operator"
	healthPort   = 8081
	metricsPort  = 8080
	port         = observability.VictoriaLogsPort
)

// otherKinds are the kinds of the operator and of prometheus-operator that the operator of VictoriaMetrics does not reconcile here,
// although a cluster may have their definitions.
var otherKinds = []string{
	"VMCluster", "VMAgent", "VMAnomaly", "VMAnomalyConfig", "VMAuth", "VMSingle", "VLAgent", "VLogs", "VLCluster", "VTSingle", "VTCluster",
	"VMAlertmanager", "VMAlert", "VMUser", "VMRule", "VMAlertmanagerConfig", "VMServiceScrape", "VMPodScrape", "VMProbe", "VMNodeScrape",
	"VMStaticScrape", "VMScrapeConfig", "VMDistributed", "PodMonitor", "ServiceMonitor", "ScrapeConfig", "AlertmanagerConfig", "Probe",
	"PrometheusRule",
}

// OperatorObjects returns the objects of the ManagedResource of the operator. The rights are not limited to a namespace, because a Seed in
// the same cluster has objects of Kind in the namespaces of Shoots.
func OperatorObjects(v values.Values) ([]client.Object, error) {
	const name = component.VictoriaOperator
	image, err := v.ExternalImage(name)
	if err != nil {
		return nil, err
	}
	owner := object.Owner{Namespace: v.Namespace, Labels: observability.LoggingLabels(name)}
	readiness := &corev1.Probe{ProbeHandler: pods.HTTPGet("/ready", healthPort, ""), PeriodSeconds: 10}
	d := owner.WithLabels(map[string]string{object.AvailabilityType: object.Controller}).
		Deployment(name, 1, owner.Labels, network.Clients(), corev1.PodSpec{
			ServiceAccountName: name, PriorityClassName: system.Class100,
			Containers: []corev1.Container{{
				Name: name, Image: image, Resources: pods.Requests("80m", "120Mi"),
				Args: []string{
					"--leader-elect", fmt.Sprintf("--health-probe-bind-address=:%d", healthPort),
					fmt.Sprintf("--metrics-bind-address=:%d", metricsPort), "--controller.disableReconcileFor=" + strings.Join(otherKinds, ","),
				},
				Env: []corev1.EnvVar{
					{Name: "WATCH_NAMESPACE", Value: ""}, {Name: "VM_DISABLESELFSERVICESCRAPECREATION", Value: "true"},
				},
				StartupProbe: pods.StartupProbe(readiness), ReadinessProbe: readiness,
				LivenessProbe: &corev1.Probe{ProbeHandler: pods.HTTPGet("/health", healthPort, ""), PeriodSeconds: 20},
			}},
		})
	return []client.Object{
		owner.ServiceAccount(name),
		owner.ClusterRole(operatorRole, operatorRules()...),
		owner.ClusterRoleBinding(operatorRole, operatorRole, name),
		owner.RoleIn(operatorRole, rights.Rule("coordination.k8s.io", "leases", "get", "create", "update")),
		owner.RoleBinding(operatorRole, operatorRole, name),
		d, owner.DisruptionBudget(name),
		object.Autoscaler{Name: name, Labels: owner.Labels, Container: name, MinAllowed: pods.Memory("64Mi")}.Object(v, v.Namespace),
	}, nil
}

func operatorRules() []rbacv1.PolicyRule {
	write := rights.Read("create", "update", "patch", "delete")
	return []rbacv1.PolicyRule{
		rights.Rule(Group, "vlsingles;vlsingles/finalizers;vlsingles/status", rights.Read("create", "update", "patch")...),
		rights.Rule("", "persistentvolumeclaims;services;serviceaccounts;configmaps", write...),
		rights.Rule("", "persistentvolumeclaims/finalizers;services/finalizers;serviceaccounts/finalizers", "update"),
		rights.Rule("", "pods", rights.Read()...),
		rights.Rule("apps", "deployments", write...),
		rights.Rule("apps", "deployments/finalizers", "update"),
		rights.Rule("apps", "replicasets", rights.Read()...),
		rights.Rule(";events.k8s.io", "events", "create", "patch"),
		rights.Rule("apiextensions.k8s.io", "customresourcedefinitions", rights.Read()...),
	}
}

// Objects returns the objects of the ManagedResource of VictoriaLogs.
func Objects(v values.Values) ([]client.Object, error) {
	image, err := v.ExternalImage(Name)
	if err != nil {
		return nil, err
	}
	colon := strings.LastIndex(image, ":")
	if strings.Contains(image, "@") || colon < strings.LastIndex(image, "/") {
		return nil, fmt.Errorf("image %q of %s must have a tag and no digest, because the operator of VictoriaMetrics adds the tag itself",
			image, Name)
	}
	owner := object.Owner{Namespace: v.Namespace, Labels: observability.LoggingLabels(Name)}
	size := observability.LogVolume(v)
	annotations := object.Union(network.From(network.GardenScrapeTargets, port), istio.Reachable(v, Name))
	return []client.Object{
		observability.Object(Kind, owner, Name, map[string]any{
			"image":           map[string]any{"repository": image[:colon], "tag": image[colon+1:]},
			"retentionPeriod": "15d", "port": strconv.Itoa(port), "useStrictSecurity": true, "priorityClassName": system.Class100,
			"disableAutomountServiceAccountToken": true, "disableSelfServiceScrape": true, "revisionHistoryLimitCount": int64(2),
			"resources": map[string]any{"requests": map[string]any{"cpu": "10m", "memory": "100M"}},
			"storage": map[string]any{
				"accessModes": []any{string(corev1.ReadWriteOnce)},
				"resources":   map[string]any{"requests": map[string]any{"storage": size.String()}},
			},
			"storageMetadata": map[string]any{"annotations": map[string]any{"operator.victoriametrics.com/pvc-allow-volume-expansion": "false"}},
			"podMetadata":     map[string]any{"labels": observability.Texts(owner.Labels)},
			"serviceSpec": map[string]any{
				"metadata": map[string]any{
					"name": observability.VictoriaLogsService, "annotations": observability.Texts(annotations),
					"labels": observability.Texts(owner.Labels),
				},
				"spec": map[string]any{"type": string(corev1.ServiceTypeClusterIP), "ports": []any{
					map[string]any{"name": "http", "port": int64(port), "targetPort": int64(port), "protocol": string(corev1.ProtocolTCP)},
				}},
			},
		}),
		object.Autoscaler{
			Name: Name + "-vpa", Labels: owner.Labels, Target: Workload, Container: "vlsingle", MinAllowed: pods.Memory("100M"),
		}.Object(v, v.Namespace),
		observability.ScrapeConfig(v, observability.Garden, Name, map[string]any{
			"staticConfigs": []any{map[string]any{
				"targets": []any{fmt.Sprintf("%s.%s.svc:%d", observability.VictoriaLogsService, v.Namespace, port)},
				"labels":  map[string]any{"job": Name},
			}},
		}),
	}, nil
}
