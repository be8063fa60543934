package registration

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Server defines how API servers reach the webhooks of a program, and the name of the webhook configurations.
type Server struct {
	// Name is the name of the webhook configurations.
	Name string
	// Namespace and ServiceName name the Service whose port 443 leads to the server. They are not used if URL is set.
	Namespace, ServiceName string
	// URL is the address of the server: https://host:port, without a path.
	URL string
}

// Client returns the client configurations of the server's webhooks. Without a CA bundle, API servers verify the certificate by their own
// trust roots.
func (s Server) Client(caBundle []byte) ClientConfig {
	return func(path string) admissionregistrationv1.WebhookClientConfig {
		if s.URL != "" {
			return admissionregistrationv1.WebhookClientConfig{URL: ptr.To(s.URL + path), CABundle: caBundle}
		}
		return admissionregistrationv1.WebhookClientConfig{
			Service:  &admissionregistrationv1.ServiceReference{Namespace: s.Namespace, Name: s.ServiceName, Path: &path},
			CABundle: caBundle,
		}
	}
}

// Configurations returns a function that builds both webhook configurations, with the label app. The argument of the function contains the
// certificate authorities, in PEM, that API servers must trust; with nil, the configurations have no CA bundle.
func (s Server) Configurations(app string, declared ...Webhook) func(caBundle []byte) []client.Object {
	return func(caBundle []byte) []client.Object {
		return Configuration{Name: s.Name, Labels: map[string]string{"app": app}, Client: s.Client(caBundle)}.Both(declared...)
	}
}
