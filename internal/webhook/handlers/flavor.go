package handlers

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/admission/registration"
	"github.com/espalier-dev/espalier/internal/config"
)

const (
	// namespaceName, a label of namespaces, is set by every API server to the name of the namespace.
	namespaceName = "kubernetes.io/metadata.name"
	// namespacePurpose, a label of namespaces, is set by Gardener; its system namespaces have one of the values below.
	namespacePurpose    = "gardener.cloud/purpose"
	purposeKubeSystem   = "kube-system"
	purposeDashboard    = "kubernetes-dashboard"
	namespaceKubeSystem = "kube-system"
	// staticPod is set, by convention, on Pods that kubelets start without an API server. Their mirrors in the API server
	// cannot be changed.
	staticPod = "static-pod"
	// appLabel names the program that a Pod belongs to.
	appLabel = "app"
)

// StandardNamespaces is the selector of namespaces that most webhooks of a flavour share. The flavour standalone excludes
// kube-system and the named namespaces, such as the one where the server runs; empty names do not count.
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

// StandardObjects is the selector of objects that some webhooks of a flavour share; nil for none.
func StandardObjects(flavor string) *metav1.LabelSelector {
	if flavor == config.FlavorGardenerShoot {
		return &metav1.LabelSelector{MatchLabels: map[string]string{resourcesv1alpha1.ManagedBy: resourcesv1alpha1.GardenerManagedBy}}
	}
	return nil
}

// Cluster is where webhooks are registered.
type Cluster struct {
	// Flavor is the kind of cluster that the webhooks are registered in:
	//
	//   - standalone, any cluster: namespace kube-system and the server's own namespace are excluded, by the label that every API
	//     server sets on namespaces. Nothing else is expected of the cluster.
	//   - gardener-runtime, a seed or garden runtime cluster, and
	//   - gardener-shoot, a shoot or virtual garden: as Gardener registers its resource manager there.
	//
	// An unknown flavour counts as standalone.
	Flavor string
	// Apps are the values of the label app on Pods that no webhook with failure policy Fail is called about: the server's
	// own, which otherwise could not start again once all of them are gone.
	Apps []string
}

// Plain reports whether nothing is known of the cluster.
func (c Cluster) Plain() bool {
	return c.Flavor != config.FlavorGardenerRuntime && c.Flavor != config.FlavorGardenerShoot
}

// Shoot reports whether the cluster is a shoot or a virtual garden.
func (c Cluster) Shoot() bool { return c.Flavor == config.FlavorGardenerShoot }

// NotOwn excludes the server's own Pods.
func (c Cluster) NotOwn() metav1.LabelSelectorRequirement {
	return registration.NotIn(appLabel, slices.Clone(c.Apps)...)
}

// Pods selects the Pods of a webhook. Gardener's registrations include the server's own Pods where the failure policy is
// Ignore, and do not exclude the mirrors of static Pods.
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
