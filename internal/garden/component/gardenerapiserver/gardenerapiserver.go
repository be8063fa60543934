// Package gardenerapiserver returns the objects of gardener-apiserver of Gardener 1.149, which serves the API of Gardener in the virtual
// cluster. kube-apiserver there passes requests on to the Service in the runtime cluster, whose address is in an EndpointSlice.
//
// A flow does the following steps after the etcds, kube-apiserver and the resource manager of the virtual cluster are ready:
//   - It reads the objects of Names for Resolve. If Resolve returns an error, the flow changes nothing.
//   - It deploys AccessObjects in VirtualManagedResource, if ServesAPIs is false for this ManagedResource. Without these rights,
//     gardener-apiserver does not become ready.
//   - It deploys Objects, and waits until RuntimeManagedResource is rolled out. If apiserver.AddsKey was true, it repeats this step with
//     the annotation apiserver.NewKeyPopulated.
//   - It reads the Service for Address, deploys VirtualObjects and Info in VirtualManagedResource, and waits until VirtualManagedResource
//     is ready. This step is the last one: when the APIServices no longer trust the former authority, no Pod may still have a certificate
//     of that authority.
package gardenerapiserver

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/apiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/flags"
	"github.com/espalier-dev/espalier/internal/garden/component/gardener"
	"github.com/espalier-dev/espalier/internal/garden/component/network"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/pods"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/garden/versions"
	"github.com/espalier-dev/espalier/internal/gardenaccess"
	"github.com/espalier-dev/espalier/internal/secrets"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

const (
	// Name is the name of the Deployment, and of its Services in both clusters.
	Name = "gardener-apiserver"
	// RuntimeManagedResource is the name of the ManagedResource with objects in the runtime cluster.
	RuntimeManagedResource = Name + gardener.RuntimeSuffix
	// VirtualManagedResource is the name of the ManagedResource with objects in the virtual cluster.
	VirtualManagedResource = Name + gardener.VirtualSuffix
	// AccessSecret is the name of the Secret with the token for the virtual cluster.
	AccessSecret = gardener.AccessPrefix + Name
	// Port is the port of the Pods.
	Port = 8443
)

const (
	role         = "apiserver"
	servicePort  = 443
	settingsPath = "spec.virtualCluster.gardener.gardenerAPIServer"
)

// Input is the input for the objects besides the values. The first group are names of Secrets.
type Input struct {
	// Kubeconfig contains the generic token kubeconfig.
	Kubeconfig string
	// ETCDAuthority contains the bundle of the authority of etcds, and ETCDClient the client certificate for etcds.
	ETCDAuthority, ETCDClient string
	// Server contains the certificate of ServerCertificate.
	Server string
	// WorkloadIdentityKey contains the current key for tokens of workload identities.
	WorkloadIdentityKey string

	// EncryptionKeys are the keys that encrypt data in etcd, in the order of apiserver.EncryptionKeys.
	EncryptionKeys []secretconfig.UsableEncryptionKey
	// EncryptionKey is the name of the Secret with the current encryption key.
	EncryptionKey string
	// PlainResources are encrypted resources that are still written as plain text: see apiserver.PlainResources.
	PlainResources []string
	// Live is the Deployment in the cluster, without the annotations of apiserver.OutdatedMarks. It is nil if there is none.
	Live       *appsv1.Deployment
	References apiserver.References
}

// ServerCertificate returns the request for the serving certificate, for the Services in both clusters.
func ServerCertificate(v values.Values) secrets.Request {
	return secrets.Request{SignedBy: gardener.Authority, Config: secretconfig.Certificate{
		Name: Name, CommonName: Name, Type: secretconfig.Server, SkipPublishingCACertificate: true,
		DNSNames: slices.Concat(object.DNSNames(v.Namespace, Name), object.DNSNames(metav1.NamespaceSystem, Name)),
	}}
}

// Labels returns the labels of the Pods.
func Labels() map[string]string { return gardener.Labels(role) }

// EncryptionKey returns the request for the key that encrypts data in etcd.
func EncryptionKey(v values.Values) secrets.Request { return server(v).EncryptionKey(v) }

// Logical names of Secrets.
const (
	// EncryptionKeyName is the name of the key of EncryptionKey.
	EncryptionKeyName = "gardener-apiserver-etcd-encryption-key"
	// WorkloadIdentityKeyName is the name of the key of WorkloadIdentityKey.
	WorkloadIdentityKeyName = "gardener-apiserver-workload-identity-signing-key"
)

// WorkloadIdentityKey returns the request for the key that signs tokens of workload identities.
func WorkloadIdentityKey(v values.Values) secrets.Request {
	return secrets.Request{
		Config:  secretconfig.RSAKey{Name: WorkloadIdentityKeyName, Bits: 4096},
		KeepOld: true, IgnoreOld: rotation.ForgetsOld(v.Phases[rotation.WorkloadIdentityKey]),
	}
}

// Objects returns the objects in the runtime cluster.
func Objects(v values.Values, in Input) (gardener.Objects, error) {
	image, err := v.ExternalImage(Name)
	if err != nil {
		return gardener.Objects{}, err
	}
	parts, err := configuration(v, in)
	if err != nil {
		return gardener.Objects{}, err
	}
	d, err := deployment(v, in, image, parts)
	if err != nil {
		return gardener.Objects{}, err
	}
	owner := gardener.Owner(v, role)
	service := owner.Service(Name, network.From(network.GardenScrapeTargets, Port), object.ServicePort("", servicePort, Port))
	gardener.CalledByServers(v, service, Port)
	return gardener.Objects{
		Direct: append([]client.Object{gardenaccess.Secret(v.Namespace, AccessSecret, Name)}, apiserver.Objects(parts)...),
		Set: []client.Object{
			owner.DisruptionBudget(Name), service,
			object.Autoscaler{
				Name: Name + "-vpa", Target: Name, Labels: owner.Labels, Container: Name,
				MinAllowed: pods.Memory("200M"), MaxAllowed: pods.Amounts("12", "48G"),
			}.Object(v, v.Namespace),
			d,
		},
	}, nil
}

// server returns the API server that the configuration files are made for.
func server(v values.Values) apiserver.Server {
	return apiserver.Server{Name: Name, Namespace: v.Namespace, Path: settingsPath}
}

// plugins returns the admission plugins that the Garden enables or disables. Ignored names the plugins that gardener-apiserver does not
// have.
func plugins(v values.Values) apiserver.Plugins {
	return apiserver.PluginsOf(v.GardenerAPIServer.AdmissionPlugins, nil, hasPlugin)
}

func hasPlugin(name string) bool { return slices.Contains(versions.GardenerAdmissionPlugins(), name) }

// AlwaysEncrypted returns the resources that are encrypted in every Garden.
func AlwaysEncrypted() []string {
	return []string{
		"controllerdeployments.core.gardener.cloud", "controllerregistrations.core.gardener.cloud", "internalsecrets.core.gardener.cloud",
		"shootstates.core.gardener.cloud",
	}
}

// EncryptedResources returns the resources that gardener-apiserver encrypts.
func EncryptedResources(v values.Values) []string {
	return apiserver.Resources(v.GardenerAPIServer.EncryptionConfig, AlwaysEncrypted())
}

// configuration returns the configuration that consists of files.
func configuration(v values.Values, in Input) ([]apiserver.Part, error) {
	own, settings := server(v), v.GardenerAPIServer
	parts := own.AuditParts(Name+"-audit-policy-config", settings.AuditWebhook, in.References)
	admission, err := own.AdmissionParts(plugins(v), in.References)
	if err != nil {
		return nil, err
	}
	encryption, err := own.EncryptionPart(apiserver.Encryption{
		Config: settings.EncryptionConfig, Always: AlwaysEncrypted(), Former: apiserver.OfGardener(v.EncryptedResources),
		Plain: in.PlainResources, Keys: in.EncryptionKeys,
	})
	if err != nil {
		return nil, err
	}
	return append(append(parts, admission...), encryption), nil
}

// Ignored returns the settings that gardener-apiserver does not get because it would not start with them. Only an earlier version had these
// settings; the webhook accepts them as long as they do not change. The list is sorted.
func Ignored(v values.Values) []string {
	settings := v.GardenerAPIServer
	all := flags.IgnoredGates(settings.FeatureGates, versions.GardenerAPIServer.TakesGate)
	for _, each := range settings.AdmissionPlugins {
		if !hasPlugin(each.Name) {
			all = append(all, "admission plugin "+each.Name)
		}
	}
	if settings.WatchCacheSizes != nil && settings.WatchCacheSizes.Default != nil {
		all = append(all, "default size of watch caches")
	}
	slices.Sort(all)
	return slices.Compact(all)
}
