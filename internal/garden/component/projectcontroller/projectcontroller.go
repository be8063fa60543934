// Package projectcontroller returns the objects of project-controller, which reconciles the Projects of the virtual cluster in place of
// gardener-controller-manager: see package gardenercontrollermanager.
//
// The Pods run in the runtime cluster, where they have no rights and no ServiceAccount of their own. The ServiceAccount, the roles and the
// lease are in the namespace kube-system of the virtual cluster. The process serves no webhooks: gardener-apiserver checks Projects itself.
package projectcontroller

import (
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/deploy"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/deployable"
	"github.com/espalier-dev/espalier/internal/garden/component/gardener"
	"github.com/espalier-dev/espalier/internal/garden/component/network"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/pods"
	"github.com/espalier-dev/espalier/internal/garden/component/system"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/gardenaccess"
)

// Name is the name of the binary, of its Deployment, and of its ServiceAccount in the virtual cluster.
const Name = "project-controller"

// webhooksRole is the role that only a process with webhooks needs.
const webhooksRole = Name + "-selfmanaged"

// Objects returns the objects in the runtime cluster. Kubeconfig is the name of the Secret with the generic token kubeconfig.
func Objects(v values.Values, kubeconfig string) (gardener.Objects, error) {
	binary, err := binary()
	if err != nil {
		return gardener.Objects{}, err
	}
	file, err := file(v)
	if err != nil {
		return gardener.Objects{}, err
	}
	binary.Roles, binary.WebhookPort = nil, 0
	place := deployable.Place{Namespace: v.Namespace, Name: Name, Selector: gardener.Labels(Name), Config: file}
	var set []client.Object
	for _, each := range binary.At(place).Objects(v.Image(Name)) {
		switch o := each.(type) {
		case *corev1.ServiceAccount:
			continue // the process connects to the virtual cluster only
		case *corev1.Service:
			o.Annotations = network.From(network.GardenScrapeTargets, binary.MetricsPort)
		case *appsv1.Deployment:
			adapt(o, kubeconfig)
		}
		set = append(set, each)
	}
	autoscaler := object.Autoscaler{
		Name: Name + "-vpa", Target: Name, Labels: gardener.Labels(Name), Container: Name, MinAllowed: pods.Memory("64Mi"),
	}
	return gardener.Objects{
		Direct: []client.Object{gardenaccess.Secret(v.Namespace, gardener.AccessPrefix+Name, Name)},
		Set:    append(set, autoscaler.Object(v, v.Namespace)),
	}, nil
}

func binary() (deployable.Binary, error) {
	found, ok := deployable.Named(Name)
	if !ok {
		return deployable.Binary{}, fmt.Errorf("there is no binary %s", Name)
	}
	return found, nil
}

// adapt changes the Deployment so that the process connects to the virtual cluster instead of the runtime cluster.
func adapt(d *appsv1.Deployment, kubeconfig string) {
	d.Labels[object.AvailabilityType] = object.Controller
	template := &d.Spec.Template
	template.Labels = object.Union(gardener.Labels(Name), network.VirtualClients())
	pod := &template.Spec
	pod.ServiceAccountName, pod.AutomountServiceAccountToken = "", ptr.To(false)
	pod.PriorityClassName = system.Class200
	pod.TopologySpreadConstraints = nil // the webhook that spreads Pods sets them
	gardenaccess.MountKubeconfig(pod, kubeconfig, gardener.AccessPrefix+Name)
	object.AnnotateReferences(d)
}

type section = map[string]any

// file returns the configuration file. It contains the same quotas as the configuration of gardener-controller-manager, because
// gardener-controller-manager compares its quotas with the quotas of Projects. The file contains no settings for stale Projects, because a
// Garden has none: both programs have the same defaults, and delete stale Projects.
func file(v values.Values) (string, error) {
	project := section{"concurrentSyncs": 20}
	if quotas := v.GardenerControllerManager.DefaultProjectQuotas; len(quotas) > 0 {
		project["quotas"] = quotas
	}
	text, err := object.ConfigFile(v, section{
		"apiVersion": config.ControllerManagerAPIVersion, "kind": config.ControllerManagerKind,
		"gardenClientConnection": gardener.Connection(),
		"leaderElection":         section{"resourceNamespace": metav1.NamespaceSystem},
		"controllers":            section{"project": project},
	})
	if err != nil {
		return "", err
	}
	return text, check(text)
}

// check returns an error for quotas with which the process would not start. gardener-controller-manager accepts some of them.
func check(text string) error {
	decoded, _, err := config.ControllerManager([]byte(text))
	if err == nil {
		err = decoded.Validate().ToAggregate()
	}
	if err == nil {
		return nil
	}
	const read, shown = "controllers.project.quotas", "spec.virtualCluster.gardener.gardenerControllerManager.defaultProjectQuotas"
	return errors.New("project-controller cannot start with the settings of the Garden: " + strings.ReplaceAll(err.Error(), read, shown))
}

// VirtualObjects returns the objects in the virtual cluster: the roles that the binary needs without webhooks.
func VirtualObjects() ([]client.Object, error) {
	binary, err := binary()
	if err != nil {
		return nil, err
	}
	generated, err := deploy.Roles(binary.Name)
	if err != nil {
		return nil, err
	}
	place, owner := deployable.Place{Namespace: metav1.NamespaceSystem, Name: Name}, gardener.VirtualOwner(Name)
	var objects []client.Object
	for _, role := range generated {
		name := binary.AtPlace(place, role.Name)
		switch {
		case name == webhooksRole:
		case role.Namespace == "":
			objects = append(objects, owner.ClusterRole(name, role.Rules...), owner.ClusterRoleBinding(name, name, Name))
		default:
			objects = append(objects, owner.RoleIn(name, role.Rules...), owner.RoleBinding(name, name, Name))
		}
	}
	return objects, nil
}
