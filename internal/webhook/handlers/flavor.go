package handlers

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/admission/registration"
	"github.com/espalier-dev/espalier/internal/config"
)

const (
	// namespaceName is a label of namespaces. Every API server sets it to the name of the namespace.
	namespaceName = "kubernetes.io/metadata.name"
	// namespacePurpose is a label of namespaces that Gardener sets. Its system namespaces have one of the values below.
	namespacePurpose    = "gardener.cloud/purpose"
	purposeKubeSystem   = "kube-system"
	purposeDashboard    = "kubernetes-dashboard"
	namespaceKubeSystem = "kube-system"
	// staticPod is a label that, by convention, static Pods have: Pods that kubelets start without an API server. Their mirror Pods in the
	// API server cannot be changed.
	staticPod = "static-pod"
	// appLabel is the label that names the program that a Pod belongs to.
	appLabel = "app"
)

// StandardNamespaces returns the selector of namespaces that most webhooks of a flavour share. The flavour standalone excludes kube-system
// and the given namespaces, such as the namespace of the server; empty names do not count.
func StandardNamespaces(flavor string, excluded ...string) *metav1.LabelSelector {
	var required metav1.LabelSelectorRequirement
	switch flavor {
	case config.FlavorGardenerRuntime:
		required = registration.NotIn(namespacePurpose, purposeKubeSystem, purposeDashboard)
	case config.FlavorGardenerShoot:
		required = registration.In(namespacePurpose, purposeKubeSystem, purposeDashboard)
	default:
		all := []string{namespaceKubeSystem}
		for _, each := range excluded {
			if each != "" && !slices.Contains(all, each) {
				all = append(all, each)
			}
		}
		required = registration.NotIn(namespaceName, all...)
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{required}}
}

// StandardObjects returns the selector of objects that some webhooks of a flavour share; nil for none.
func StandardObjects(flavor string) *metav1.LabelSelector {
	if flavor == config.FlavorGardenerShoot {
		return &metav1.LabelSelector{MatchLabels: map[string]string{resourcesv1alpha1.ManagedBy: resourcesv1alpha1.GardenerManagedBy}}
	}
	return nil
}

// Cluster describes the cluster in which webhooks are registered.
type Cluster struct {
	// Flavor is the type of the cluster:
	//
	//   - standalone, any cluster: namespace kube-system, the server's own namespace and the configured namespaces are excluded, by the label
	//     that every API server sets on namespaces. The webhooks need no other property of the cluster.
	//   - gardener-runtime, a seed or garden runtime cluster, and
	//   - gardener-shoot, a shoot or virtual garden: the webhooks are registered like those that Gardener's resource manager registers there.
	//
	// An unknown flavour counts as standalone.
	Flavor string
	// Apps are values of the label app. API servers call no webhook with failure policy Fail for Pods that have one of these values. Apps
	// must contain the value on the server's own Pods: otherwise, when all Pods of the server are gone, no Pod of the server could start
	// again.
	Apps []string
}

// Plain reports whether the flavour is standalone: nothing is known about the cluster.
func (c Cluster) Plain() bool {
	return c.Flavor != config.FlavorGardenerRuntime && c.Flavor != config.FlavorGardenerShoot
}

// Shoot reports whether the cluster is a shoot or a virtual garden.
func (c Cluster) Shoot() bool { return c.Flavor == config.FlavorGardenerShoot }

// NotOwn returns the requirement that excludes Pods whose label app has one of the values in Apps.
func (c Cluster) NotOwn() metav1.LabelSelectorRequirement {
	return registration.NotIn(appLabel, slices.Clone(c.Apps)...)
}

// Pods returns the selector of the Pods for which API servers call a webhook. In the flavour standalone it adds two requirements: it
// excludes the server's own Pods and mirror Pods. In the flavours of Gardener it adds none, like the registrations of Gardener: a webhook
// with failure policy Ignore is called for the server's own Pods, and all webhooks are called for mirror Pods.
func (c Cluster) Pods(required ...metav1.LabelSelectorRequirement) metav1.LabelSelector {
	if !c.Plain() {
		return registration.Expressions(required...)
	}
	own := c.NotOwn()
	if !slices.ContainsFunc(required, func(r metav1.LabelSelectorRequirement) bool { return r.Key == own.Key }) {
		required = append(required, own)
	}
	return registration.Expressions(append(required, registration.NotIn(staticPod, "true"))...)
}
