// Package gardeneradmission returns the objects of gardener-admission-controller of Gardener 1.149. The program serves webhooks of the
// virtual cluster: webhooks for admission, and authorizers, which are webhooks that authorize requests of seeds and of self-hosted shoots.
//
// kube-apiserver of the virtual cluster asks the authorizers from its first start on, before gardener-admission-controller runs. Gardener
// 1.84 needed a second reconciliation for that; here, one reconciliation is enough. Because of match conditions, kube-apiserver asks the
// authorizers only about the requests of seeds and shoots, so the requests of other clients do not depend on the authorizers, and there
// are no seeds before gardener-admission-controller runs. The conditions are in Authorizers; package kubeapiserver writes them into the
// configuration of kube-apiserver.
//
// A flow does the following steps after gardener-apiserver is ready, because gardener-admission-controller reads the API of
// gardener-apiserver:
//   - It generates ServerCertificate, and deploys the ManagedResource VirtualManagedResource with VirtualObjects. If CallsWebhooks is
//     false for VirtualManagedResource, VirtualObjects leaves out the webhooks, which would fail while gardener-admission-controller does
//     not run. The flow waits until VirtualManagedResource is ready, so that clients trust a new authority before
//     gardener-admission-controller gets a certificate that this authority has signed.
//   - It deploys Objects.Direct and the ManagedResource RuntimeManagedResource with Objects.Set, and waits until RuntimeManagedResource is
//     ready.
//   - If CallsWebhooks was false, it deploys VirtualManagedResource with webhooks, and waits until VirtualManagedResource is ready.
//
// A deletion deletes VirtualManagedResource first, because its webhooks would fail without gardener-admission-controller.
package gardeneradmission

import (
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/gardener"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/system"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/secrets"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

const (
	// Name is the name of the Deployment and of its Service.
	Name = "gardener-admission-controller"
	// RuntimeManagedResource is the name of the ManagedResource with objects in the runtime cluster.
	RuntimeManagedResource = Name + gardener.RuntimeSuffix
	// VirtualManagedResource is the name of the ManagedResource with objects in the virtual cluster.
	VirtualManagedResource = Name + gardener.VirtualSuffix
	// Port is the port of the Pods for webhooks.
	Port = 2719
)

const (
	role              = "admission-controller"
	healthPort        = 2722
	metricsPort       = 2723
	serverCertificate = Name + "-cert" // the logical name of the Secret of ServerCertificate
	certificateFolder = "/etc/" + Name + "/srv"
)

// Input is the input for the objects besides the values: names of Secrets.
type Input struct {
	// Kubeconfig contains the generic token kubeconfig.
	Kubeconfig string
	// Server contains the certificate of ServerCertificate.
	Server string
}

// ServerCertificate returns the request for the serving certificate. The current authority signs the certificate. So the bundles of all
// clients must contain this authority before gardener-admission-controller gets the certificate.
func ServerCertificate(v values.Values) secrets.Request {
	return secrets.Request{SignedBy: gardener.Authority, Signer: secrets.CurrentSigner, Config: secretconfig.Certificate{
		Name: serverCertificate, CommonName: Name, DNSNames: object.DNSNames(v.Namespace, Name), Type: secretconfig.Server,
		SkipPublishingCACertificate: true,
	}}
}

// Labels returns the labels of the Pods.
func Labels() map[string]string { return gardener.Labels(role) }

// Objects returns the objects in the runtime cluster.
func Objects(v values.Values, in Input) (gardener.Objects, error) {
	settings := v.GardenerAdmissionController
	server := gardener.Ports(healthPort, metricsPort)
	server["webhooks"] = map[string]any{
		"bindAddress": "", "port": Port, "tls": map[string]any{"serverCertDir": certificateFolder},
	}
	if limits := settings.ResourceAdmissionConfiguration; limits != nil {
		server["resourceAdmissionConfiguration"] = limits
	}
	p := gardener.Program{
		Name: Name, Role: role, PriorityClass: system.Class400, Availability: object.Server,
		CPU: "100m", Memory: "200Mi", LeastMemory: "25Mi",
		ConfigMap: Name, File: "config.yaml", LogLevel: settings.LogLevel,
		Config: map[string]any{
			"apiVersion": "admissioncontroller.config.gardener.cloud/v1alpha1", "kind": "AdmissionControllerConfiguration",
			"gardenClientConnection": gardener.Connection(), "server": server,
		},
		HealthPort: healthPort, MetricsPort: metricsPort, WebhookPort: Port,
	}
	p.Volumes.AddSecret("gardener-admission-controller-cert", certificateFolder, in.Server, true)
	return p.Objects(v, in.Kubeconfig)
}

// CallsWebhooks reports whether the webhooks of VirtualManagedResource exist in the virtual cluster. The ManagedResource is nil if it does
// not exist. Once the webhooks exist, they stay, also while gardener-admission-controller does not run, because they restrict the rights of
// seeds.
func CallsWebhooks(set *resourcesv1alpha1.ManagedResource) bool {
	return gardener.Has(set, validatingKind)
}
