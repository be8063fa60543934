// Package prometheusoperator returns the objects of prometheus-operator 0.93, which runs the instances of Prometheus and Alertmanager.
package prometheusoperator

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
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

// Name is the name of the component, of its ManagedResource and of its objects.
const Name = component.PrometheusOperator

// operatorRole is the name of the ClusterRole and the ClusterRoleBinding of the program. The project's own manifests use the name
// prometheus-operator for both, and a user may have deployed these manifests.
const operatorRole = "gardener.cloud:monitoring:prometheus-operator"

// prometheusRole is the name of the ClusterRole of all instances of Prometheus. It cannot be a name of our own, because gardenlet binds the
// instances of a Seed to this name.
const prometheusRole = "prometheus"

const port = 8080

// Objects returns the objects of the ManagedResource.
func Objects(v values.Values) ([]client.Object, error) {
	image, err := v.ExternalImage(Name)
	if err != nil {
		return nil, err
	}
	reloader, err := v.ExternalImage("prometheus-config-reloader")
	if err != nil {
		return nil, err
	}
	owner := object.Owner{Namespace: v.Namespace, Labels: observability.Labels(map[string]string{"app": Name, object.Role: "monitoring"})}
	service := owner.Service(Name, nil, object.ServicePort("http", port, port))
	service.Spec.ClusterIP = corev1.ClusterIPNone
	return []client.Object{
		owner.ServiceAccount(Name),
		owner.ClusterRole(operatorRole, rules()...),
		owner.ClusterRoleBinding(operatorRole, operatorRole, Name),
		owner.ClusterRole(prometheusRole, prometheusRules()...),
		service,
		deployment(owner, image, reloader),
		object.Autoscaler{
			Name: Name, Labels: owner.Labels, Container: Name, MinAllowed: pods.Memory("100Mi"),
		}.Object(v, v.Namespace),
	}, nil
}

func deployment(owner object.Owner, image, reloader string) *appsv1.Deployment {
	security := pods.PodSecurityContext()
	security.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	return owner.Deployment(Name, 1, owner.Labels, network.Clients(), corev1.PodSpec{
		ServiceAccountName: Name, PriorityClassName: system.Class100, SecurityContext: security,
		Containers: []corev1.Container{{
			Name: Name, Image: image, Resources: pods.Requests("100m", "100Mi"),
			// Without --namespaces the program reconciles the instances in all namespaces. A Seed has an instance in each namespace of a Shoot,
			// and the flag knows only names, not labels.
			Args: []string{
				"--prometheus-config-reloader=" + reloader,
				"--config-reloader-cpu-request=0", "--config-reloader-cpu-limit=0",
				"--config-reloader-memory-request=20M", "--config-reloader-memory-limit=0",
				"--enable-config-reloader-probes=false",
			},
			Env:   []corev1.EnvVar{{Name: "GOGC", Value: "30"}},
			Ports: []corev1.ContainerPort{pods.ContainerPort("http", port)},
		}},
	})
}

func rules() []rbacv1.PolicyRule {
	const all = "*"
	return []rbacv1.PolicyRule{
		rights.Rule(observability.Group, "alertmanagers;alertmanagers/finalizers;alertmanagers/scale;alertmanagers/status;alertmanagerconfigs;"+
			"alertmanagerconfigs/status;prometheuses;prometheuses/finalizers;prometheuses/scale;prometheuses/status;prometheusagents;"+
			"prometheusagents/finalizers;prometheusagents/scale;prometheusagents/status;thanosrulers;thanosrulers/finalizers;"+
			"thanosrulers/scale;thanosrulers/status;scrapeconfigs;scrapeconfigs/status;servicemonitors;servicemonitors/status;podmonitors;"+
			"podmonitors/status;probes;probes/status;prometheusrules;prometheusrules/status", all),
		rights.Rule("apps", "statefulsets", all),
		// prometheus-operator writes the configurations of all instances in the cluster. The role cannot be limited to their namespaces and
		// names, which are not known.
		rights.Rule("", "configmaps;secrets", all),
		rights.Rule("", "pods", "list", "delete"),
		rights.Rule("", "services;endpoints;services/finalizers", "get", "create", "update", "delete"),
		rights.Rule("discovery.k8s.io", "endpointslices", rights.Read("create", "update", "delete")...),
		rights.Rule("", "nodes;namespaces", rights.Read()...),
		rights.Rule("networking.k8s.io", "ingresses", rights.Read()...),
		rights.Rule(";events.k8s.io", "events", "create", "patch"),
		rights.Rule("storage.k8s.io", "storageclasses", "get"),
	}
}

// prometheusRules returns the rules for finding targets, and for metrics of kubelets.
func prometheusRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rights.Rule("", "nodes;services;endpoints;pods", rights.Read()...),
		rights.Rule("discovery.k8s.io", "endpointslices", rights.Read()...),
		rights.Rule("", "nodes/metrics;nodes/proxy", "get"),
		{NonResourceURLs: []string{"/metrics", "/metrics/*"}, Verbs: []string{"get"}},
	}
}
