// Package fluentoperator returns the objects of fluent-operator 3.7, which makes a DaemonSet of fluent-bit and its configuration out of
// custom resources.
package fluentoperator

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/fluentbit"
	"github.com/espalier-dev/espalier/internal/garden/component/network"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/observability"
	"github.com/espalier-dev/espalier/internal/garden/component/pods"
	"github.com/espalier-dev/espalier/internal/garden/component/rights"
	"github.com/espalier-dev/espalier/internal/garden/component/system"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// Name is the name of the component, of its ManagedResource and of its objects.
const Name = component.FluentOperator

const role = "gardener.cloud:logging:fluent-operator"

// Objects returns the objects of the ManagedResource. The program works only in the namespace of the Garden.
func Objects(v values.Values) ([]client.Object, error) {
	image, err := v.ExternalImage(Name)
	if err != nil {
		return nil, err
	}
	owner := object.Owner{Namespace: v.Namespace, Labels: observability.LoggingLabels(Name)}
	security := pods.PodSecurityContext()
	var m pods.Mounts
	m.Add("env", "/fluent-operator", false, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	d := owner.WithLabels(map[string]string{object.AvailabilityType: object.Controller}).
		Deployment(Name, 1, owner.Labels, network.Clients(), corev1.PodSpec{
			ServiceAccountName: Name, PriorityClassName: system.Class100, SecurityContext: security, Volumes: m.Volumes,
			Containers: []corev1.Container{{
				Name: Name, Image: image, Resources: pods.Requests("4m", "50Mi"), VolumeMounts: m.Paths,
				Args: []string{"--leader-elect=true", "--disable-component-controllers=fluentd", "--watch-namespaces=" + v.Namespace},
				Env:  []corev1.EnvVar{pods.FieldVariable("NAMESPACE", "metadata.namespace")},
			}},
		})
	return []client.Object{
		owner.ServiceAccount(Name),
		owner.ClusterRole(role, clusterRules()...),
		owner.ClusterRoleBinding(Name, role, Name),
		owner.RoleIn(role, namespaceRules()...),
		owner.RoleBinding(role, role, Name),
		d,
		object.Autoscaler{Name: Name, Labels: owner.Labels, Container: Name, MinAllowed: pods.Memory("128Mi")}.Object(v, v.Namespace),
	}, nil
}

const all = "*"

// clusterRules returns the rules for custom resources of fluent-operator, for their definitions, and for namespaces and Pods.
// fluent-operator needs the rules for namespaces and Pods because it grants them to fluent-bit: a program may only grant rights that it
// has.
func clusterRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rights.Rule(fluentbit.Group, "clusterfilters;clusterfluentbitconfigs;clusterinputs;clustermultilineparsers;clusteroutputs;"+
			"clusterparsers;collectors;filters;fluentbitconfigs;fluentbits;multilineparsers;outputs;parsers", all),
		rights.Rule(fluentbit.Group, "fluentbits/finalizers;fluentbits/status;collectors/finalizers;collectors/status", all),
		rights.Rule("", "namespaces;pods", rights.Read()...),
		rights.Rule("apiextensions.k8s.io", "customresourcedefinitions", rights.Read()...),
	}
}

// namespaceRules returns the rules for objects in the namespace of the Garden. As the program watches one namespace only, it creates a Role
// for fluent-bit there, and no ClusterRole.
func namespaceRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rights.Rule("", "secrets;configmaps;serviceaccounts;services", rights.Read("create", "update", "patch", "delete")...),
		rights.Rule(rbacv1.GroupName, "roles;rolebindings", rights.Read("create", "update", "patch", "delete")...),
		rights.Rule("apps", "daemonsets;statefulsets", rights.Read("create", "update", "patch", "delete")...),
		rights.Rule("coordination.k8s.io", "leases", "create", "get", "watch", "update"),
		rights.Rule(";events.k8s.io", "events", "create", "patch"),
	}
}
