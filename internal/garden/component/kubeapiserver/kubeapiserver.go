// Package kubeapiserver returns the objects of kube-apiserver of the virtual cluster, for Kubernetes 1.32 to 1.36.
//
// All objects are deployed directly. ConfigMaps and Secrets with configuration files are immutable and named after their content, so that a
// change rolls out; the garbage collector of the resource manager deletes the ones that no workload refers to. The Service is in package
// exposure.
//
// A rotation of the encryption key takes two deployments: see apiserver.NewKeyPopulated.
package kubeapiserver

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/apiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/exposure"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/garden/versions"
)

const (
	// Name is the name of the Deployment, of its PodDisruptionBudget and of its HorizontalPodAutoscaler.
	Name = exposure.Name
	// AutoscalerName is the name of the VerticalPodAutoscaler.
	AutoscalerName = Name + "-vpa"
	// Container is the name of the container.
	Container = "kube-apiserver"
)

// Input is the input for the objects besides the values.
type Input struct {
	Secrets    Secrets
	References References
	// Live is the Deployment in the cluster, nil if there is none. Its replicas and its requests are kept, because autoscalers change them.
	Live *appsv1.Deployment
	// PlainResources are encrypted resources that are still written as plain text: see apiserver.PlainResources.
	PlainResources []string
}

// Objects returns the objects in the order in which they are deployed. The Deployment is the last one.
func Objects(v values.Values, in Input) ([]client.Object, error) {
	image, err := v.ExternalImage(Container)
	if err != nil {
		return nil, err
	}
	parts, err := configuration(v, in)
	if err != nil {
		return nil, err
	}
	return append(apiserver.Objects(parts),
		exposure.Owner(v).DisruptionBudget(Name), horizontalAutoscaler(v), verticalAutoscaler(v), deployment(v, in, image, parts)), nil
}

// defaultPlugins are enabled in addition to the plugins that kube-apiserver enables by default.
var defaultPlugins = []string{"NodeRestriction"}

// plugins returns the admission plugins. Ignored names the plugins that the version does not have.
func plugins(v values.Values) apiserver.Plugins {
	return apiserver.PluginsOf(v.KubeAPIServer.AdmissionPlugins, defaultPlugins, func(name string) bool { return hasPlugin(v, name) })
}

func hasPlugin(v values.Values, name string) bool {
	return kubernetes(v).AdmissionPlugin(name) == versions.Present
}

// AlwaysEncrypted returns the resources that are encrypted in every Garden.
func AlwaysEncrypted() []string { return []string{"secrets"} }

// EncryptedResources returns the resources that kube-apiserver encrypts.
func EncryptedResources(v values.Values) []string {
	return apiserver.Resources(v.KubeAPIServer.EncryptionConfig, AlwaysEncrypted())
}

// CheckProvider fails if the provider of the existing encryption key is not the one that the Garden asks for: see apiserver.CheckProvider.
func CheckProvider(v values.Values, existing *corev1.Secret) error {
	return server(v).CheckProvider(v, existing)
}

// configuration returns the configuration that consists of files.
func configuration(v values.Values, in Input) ([]apiserver.Part, error) {
	common := in.References.References
	admission, err := server(v).AdmissionParts(plugins(v), common)
	if err != nil {
		return nil, err
	}
	authentication, err := authenticationParts(v, in.References)
	if err != nil {
		return nil, err
	}
	authorization, err := authorizationParts(v, in)
	if err != nil {
		return nil, err
	}
	encryption, err := server(v).EncryptionPart(apiserver.Encryption{
		Config: v.KubeAPIServer.EncryptionConfig, Always: AlwaysEncrypted(), Former: apiserver.OfKubernetes(v.EncryptedResources),
		Plain: in.PlainResources, Keys: in.Secrets.EncryptionKeys,
	})
	if err != nil {
		return nil, err
	}
	parts := append(server(v).AuditParts("audit-policy-config", v.KubeAPIServer.AuditWebhook, common), admission...)
	parts = append(append(parts, authentication...), authorization...)
	return append(append(parts, encryption), serverNamesParts(v, in.References)...), nil
}

// server returns the API server that the configuration files are made for.
func server(v values.Values) apiserver.Server {
	return apiserver.Server{Name: Container, Namespace: v.Namespace, Path: settingsPath}
}

// kubernetes returns the version of the virtual cluster, to look up settings in the tables of package versions.
func kubernetes(v values.Values) versions.Kubernetes { return versions.KubernetesOf(v.Kubernetes) }
