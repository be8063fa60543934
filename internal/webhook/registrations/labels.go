package registrations

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Labels of namespaces.
const (
	// namespaceName is set by every API server to the name of the namespace.
	namespaceName = "kubernetes.io/metadata.name"
	// namespacePurpose is set by Gardener; its namespaces of the system have one of the values below.
	namespacePurpose    = "gardener.cloud/purpose"
	purposeKubeSystem   = "kube-system"
	purposeDashboard    = "kubernetes-dashboard"
	namespaceKubeSystem = "kube-system"
)

// Labels by which users opt in and out. Those that end in skip count by their presence, whatever the value.
const (
	injectServiceHost  = "apiserver-proxy.networking.gardener.cloud/inject"
	considerHA         = "high-availability-config.resources.gardener.cloud/consider"
	considerHints      = "endpoint-slice-hints.resources.gardener.cloud/consider"
	skipHA             = "high-availability-config.resources.gardener.cloud/skip"
	skipTokenMount     = "projected-token-mount.resources.gardener.cloud/skip"
	skipSeccomp        = "seccompprofile.resources.gardener.cloud/skip"
	skipSystem         = "system-components-config.resources.gardener.cloud/skip"
	skipSpread         = "topology-spread-constraints.resources.gardener.cloud/skip"
	deletionProtected  = "gardener.cloud/deletion-protected"
	excludeRemediation = "remediation.webhook.shoot.gardener.cloud/exclude"
	// staticPod is set, by convention, on Pods that kubelets start without an API server: what they tell it about them
	// cannot be changed any more.
	staticPod = "static-pod"
	// podTemplateHash is set by the Deployment controller on Pods of Deployments.
	podTemplateHash = "pod-template-hash"
	// appLabel names the program that a Pod belongs to.
	appLabel = "app"
)

func in(key string, values ...string) metav1.LabelSelectorRequirement {
	return metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: values}
}

func notIn(key string, values ...string) metav1.LabelSelectorRequirement {
	return metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpNotIn, Values: values}
}

func exists(key string) metav1.LabelSelectorRequirement {
	return metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpExists}
}

func absent(key string) metav1.LabelSelectorRequirement {
	return metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpDoesNotExist}
}

func expressions(all ...metav1.LabelSelectorRequirement) metav1.LabelSelector {
	return metav1.LabelSelector{MatchExpressions: all}
}
