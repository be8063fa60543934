// Package webui returns the objects by which the gateway passes requests of users on to web UIs of observability components. The gateway
// asks for a password first: see package basicauth.
package webui

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/basicauth"
	"github.com/espalier-dev/espalier/internal/garden/component/istio"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/observability"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/secrets"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// Name is the name of the component and of its ManagedResource.
const Name = component.Exposure

const namePrefix = "virtual-garden-"

// RouteKind is the kind of the routes.
var RouteKind = schema.GroupVersionKind{Group: "networking.istio.io", Version: "v1beta1", Kind: "VirtualService"}

// RouteNames returns the names of the routes of all web UIs, also of web UIs that are not exposed.
func RouteNames() []string {
	all := observability.UIs()
	names := make([]string, 0, len(all))
	for _, ui := range all {
		names = append(names, namePrefix+ui.Host)
	}
	return names
}

// certificateValidity is how long the certificates of hosts are valid.
const certificateValidity = 730 * 24 * time.Hour

// Objects returns the objects of the ManagedResource. Certificates are the Secrets with the certificates of the web UIs, by their logical
// names, and wildcard is the Secret with a certificate for all hosts, or nil.
func Objects(v values.Values, certificates map[string]*corev1.Secret, wildcard *corev1.Secret) []client.Object {
	var objects []client.Object
	for _, ui := range observability.Exposed(v) {
		from := certificates[ui.Certificate]
		if wildcard != nil {
			from = wildcard
		}
		// The gateway reads certificates only in its own namespace.
		credential := &corev1.Secret{
			TypeMeta: object.Type("v1", "Secret"), Type: corev1.SecretTypeTLS,
			ObjectMeta: object.Owner{Namespace: istio.GatewayNamespace}.Meta(v.Namespace + "-" + ui.Component + "-" + from.Name),
			Data: map[string][]byte{
				corev1.TLSCertKey: from.Data[corev1.TLSCertKey], corev1.TLSPrivateKeyKey: from.Data[corev1.TLSPrivateKeyKey],
			},
		}
		host := istio.ServedHost{
			Owner: object.Owner{Namespace: v.Namespace, Labels: map[string]string{
				"reference.gardener.cloud/basic-auth-secret-name": basicauth.PasswordSecret,
				"reference.gardener.cloud/basic-auth-server-name": basicauth.Name,
			}},
			Name: namePrefix + ui.Host, Service: ui.Service, Port: ui.Port, Hosts: ui.Hosts(v), Credential: credential.Name,
			Allowed: ui.Allowed, Refused: ui.Refused,
		}
		objects = append(append(objects, credential), host.Objects()...)
	}
	return objects
}

// Certificate returns the request for the certificate of a web UI.
func Certificate(v values.Values, ui observability.UI) secrets.Request {
	names := make([]string, 0, len(v.Ingress.Domains))
	for _, domain := range v.Ingress.Domains {
		names = append(names, ui.Host+"."+domain)
	}
	return secrets.Request{
		Config: secretconfig.Certificate{
			Name: ui.Certificate, CommonName: ui.Component, Organization: []string{"gardener.cloud:monitoring:ingress"}, DNSNames: names,
			Type: secretconfig.Server, Validity: ptr.To(certificateValidity), SkipPublishingCACertificate: true,
		},
		SignedBy: rotation.RuntimeAuthority,
	}
}
