// Package perses returns the objects of perses-operator 0.5, which runs servers of Perses for dashboards. It also returns the dashboards
// of Espalier, as custom resources of perses-operator. Users create the objects for the servers themselves.
package perses

import (
	"fmt"
	"io/fs"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/deploy"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/network"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/observability"
	"github.com/espalier-dev/espalier/internal/garden/component/pods"
	"github.com/espalier-dev/espalier/internal/garden/component/rights"
	"github.com/espalier-dev/espalier/internal/garden/component/system"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// Name is the name of the component, of its ManagedResource and of most objects.
const Name = component.PersesOperator

const (
	group       = "perses.dev"
	role        = "gardener.cloud:monitoring:perses-operator"
	healthPort  = 8081
	metricsPort = 8082
)

// Objects returns the objects of the ManagedResource.
func Objects(v values.Values) ([]client.Object, error) {
	image, err := v.ExternalImage(Name)
	if err != nil {
		return nil, err
	}
	owner := object.Owner{Namespace: v.Namespace, Labels: observability.Labels(map[string]string{"app": Name})}
	readiness := &corev1.Probe{ProbeHandler: pods.HTTPGet("/readyz", healthPort, ""), PeriodSeconds: 10}
	d := owner.Deployment(Name, 1, owner.Labels, network.Clients(), corev1.PodSpec{
		ServiceAccountName: Name, PriorityClassName: system.Class100,
		Containers: []corev1.Container{{
			Name: Name, Image: image, Resources: pods.Requests("10m", "64Mi"), Env: []corev1.EnvVar{{Name: "ENABLE_WEBHOOKS", Value: "false"}},
			Args: []string{
				fmt.Sprintf("--health-probe-bind-address=:%d", healthPort), fmt.Sprintf("--metrics-bind-address=:%d", metricsPort),
			},
			StartupProbe: pods.StartupProbe(readiness), ReadinessProbe: readiness,
			LivenessProbe: &corev1.Probe{ProbeHandler: pods.HTTPGet("/healthz", healthPort, ""), PeriodSeconds: 20},
		}},
	})
	boards, err := dashboards(v.Namespace)
	return append([]client.Object{
		owner.ServiceAccount(Name),
		owner.ClusterRole(role, rules()...),
		owner.ClusterRoleBinding(role, role, Name),
		d,
		object.Autoscaler{Name: Name, Labels: owner.Labels, Container: Name, MinAllowed: pods.Memory("64Mi")}.Object(v, v.Namespace),
	}, boards...), err
}

// rules returns the rights in all namespaces: a user may create servers and dashboards in any namespace.
func rules() []rbacv1.PolicyRule {
	write := rights.Read("create", "update", "patch", "delete")
	return []rbacv1.PolicyRule{
		rights.Rule("apps", "deployments;statefulsets", write...),
		rights.Rule("", "services;configmaps;secrets", write...),
		rights.Rule("", "pods", rights.Read()...),
		rights.Rule(";events.k8s.io", "events", "create", "patch"),
		rights.Rule(group, "perses;persesdashboards;persesdatasources;persesglobaldatasources", write...),
		rights.Rule(group, "perses/finalizers;persesdashboards/finalizers;persesdatasources/finalizers;persesglobaldatasources/finalizers",
			"update"),
		rights.Rule(group, "perses/status;persesdashboards/status;persesdatasources/status;persesglobaldatasources/status",
			"get", "update", "patch"),
	}
}

func dashboards(namespace string) ([]client.Object, error) {
	files, err := fs.Glob(deploy.Dashboards, deploy.DashboardsFolder+"/*.perses.yaml")
	if err != nil {
		return nil, fmt.Errorf("find dashboards: %w", err)
	}
	all := make([]client.Object, 0, len(files))
	for _, file := range files {
		content, err := deploy.Dashboards.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read dashboard: %w", err)
		}
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(content, &o.Object); err != nil {
			return nil, fmt.Errorf("decode dashboard %s: %w", file, err)
		}
		o.SetNamespace(namespace)
		all = append(all, o)
	}
	return all, nil
}
