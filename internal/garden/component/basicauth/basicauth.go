// Package basicauth returns the objects of the server that checks passwords for the gateway, and of the filter that makes the gateway ask
// the server. Web UIs are exposed only after the server is ready.
package basicauth

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/istio"
	"github.com/espalier-dev/espalier/internal/garden/component/network"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/observability"
	"github.com/espalier-dev/espalier/internal/garden/component/pods"
	"github.com/espalier-dev/espalier/internal/garden/component/system"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/garden/values"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// Name is the name of the component, of its ManagedResource and of its objects.
const Name = component.BasicAuthServer

// Credentials are the Secrets of the server.
type Credentials struct {
	// Server is the name of the Secret with its certificate, and Bundle are the authorities that may have signed the certificate.
	Server string
	Bundle []byte
	// Password is the name of the Secret with the user and the hash of the password.
	Password string
}

const (
	container   = "istio-basic-auth-server"
	secretsPath = "/secrets"
	tlsPath     = "/tls"
	// bundleName is the name of the Secret with the authorities, in the namespace of the gateway.
	bundleName = Name + "-ca"
)

// CredentialsOf returns the Secrets of the server out of the Secrets of the row.
func CredentialsOf(s component.Secrets) Credentials {
	return Credentials{
		Server: s.Generated[serverSecret].Name, Password: s.Generated[PasswordSecret].Name,
		Bundle: s.Bundles[rotation.BasicAuthAuthority].Data[secretconfig.DataKeyCertificateBundle],
	}
}

// Hosts returns the hosts for which the gateway asks for a password: the hosts of web UIs, and the hosts of the routes in the cluster. The
// operator changes the filter of the gateway before it removes routes. So the filter must cover the hosts of a route until the route is
// gone, even if the Garden no longer has these hosts.
func Hosts(v values.Values, routes []*unstructured.Unstructured) []any {
	var hosts []any
	for _, ui := range observability.Exposed(v) {
		hosts = append(hosts, ui.Hosts(v)...)
	}
	for _, route := range routes {
		// A value of another type cannot come from the API server.
		live, _, _ := unstructured.NestedStringSlice(route.Object, "spec", "hosts")
		for _, host := range live {
			if !slices.Contains(hosts, any(host)) {
				hosts = append(hosts, host)
			}
		}
	}
	return hosts
}

// Objects returns the objects of the ManagedResource. Routes are the VirtualServices of web UIs that are in the cluster.
func Objects(v values.Values, c Credentials, routes []*unstructured.Unstructured) ([]client.Object, error) {
	image, err := v.ExternalImage("ext-authz-server")
	if err != nil {
		return nil, err
	}
	owner := object.Owner{Namespace: v.Namespace, Labels: map[string]string{"app": Name}}
	service := owner.Service(Name, object.Union(
		network.FromNamespaces(istio.GatewayNamespaceSelector), map[string]string{istio.ExportTo: istio.GatewayNamespace},
	), object.ServicePort("grpc-authz", istio.PasswordPort, istio.PasswordPort))
	host := object.ServiceHost(v.Namespace, Name) + ".cluster.local"
	return []client.Object{
		service, deployment(owner, image, observability.Exposed(v), c), owner.DisruptionBudget(Name),
		object.Autoscaler{Name: Name, Labels: owner.Labels, Container: container, MinAllowed: pods.Memory("16Mi")}.Object(v, v.Namespace),
		bundle(owner, c.Bundle), destination(owner, host), istio.AskPassword(Name, host, Hosts(v, routes)...),
	}, nil
}

func deployment(owner object.Owner, image string, exposed []observability.UI, c Credentials) *appsv1.Deployment {
	var m pods.Mounts
	m.AddSecret("tls", tlsPath, c.Server, true)
	password := pods.SecretSource(c.Password, true)
	password.Secret.Items = []corev1.KeyToPath{{Key: secretconfig.DataKeyAuth, Path: secretconfig.DataKeyAuth}}
	m.Volumes = append(m.Volumes, corev1.Volume{Name: "password", VolumeSource: password})
	for _, ui := range exposed {
		m.Paths = append(m.Paths, corev1.VolumeMount{Name: "password", MountPath: secretsPath + "/" + ui.Host, ReadOnly: true})
	}
	readiness := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
		TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(istio.PasswordPort)},
	}}
	d := owner.WithLabels(map[string]string{object.AvailabilityType: object.Server}).
		Deployment(Name, 1, owner.Labels, nil, corev1.PodSpec{
			PriorityClassName: system.Class100, AutomountServiceAccountToken: ptr.To(false), Volumes: m.Volumes,
			Containers: []corev1.Container{{
				Name: container, Image: image, Args: []string{"--grpc-reflection"}, VolumeMounts: m.Paths, Resources: pods.Requests("5m", "16Mi"),
				Ports:        []corev1.ContainerPort{pods.ContainerPort("grpc-authz", istio.PasswordPort)},
				StartupProbe: pods.StartupProbe(readiness), LivenessProbe: readiness.DeepCopy(), ReadinessProbe: readiness,
			}},
		})
	object.AnnotateReferences(d)
	return d
}

// bundle returns the Secret with the authorities, by which the gateway checks the certificate of the server.
func bundle(owner object.Owner, authorities []byte) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta: object.Type("v1", "Secret"), Type: corev1.SecretTypeOpaque,
		ObjectMeta: object.Owner{Namespace: istio.GatewayNamespace, Labels: owner.Labels}.Meta(bundleName),
		Data:       map[string][]byte{secretconfig.DataKeyCACertificate: authorities},
	}
}

// destination makes the gateway connect to the server by TLS, and check its certificate.
func destination(owner object.Owner, host string) client.Object {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "networking.istio.io/v1beta1", "kind": "DestinationRule", "spec": map[string]any{
			"exportTo": []any{istio.GatewayNamespace}, "host": host,
			"trafficPolicy": map[string]any{"tls": map[string]any{
				"mode": "SIMPLE", "credentialName": bundleName, "sni": host, "subjectAltNames": []any{host},
			}},
		},
	}}
	o.SetNamespace(owner.Namespace)
	o.SetName(Name)
	o.SetLabels(owner.Labels)
	return o
}
