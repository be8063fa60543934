package registration

import "sigs.k8s.io/controller-runtime/pkg/client"

// Server says how API servers reach the webhooks of a program, and names their configurations.
type Server struct {
	// Name is the name of the webhook configurations.
	Name string
	// Namespace and ServiceName are the Service whose port 443 leads to the server. They are not used if URL is set.
	Namespace, ServiceName string
	// URL is the address of the server: https://host:port, without a path.
	URL string
}

// Configurations returns a function that builds both webhook configurations, with the label app. Its argument is the certificate
// authority in PEM that API servers shall trust; with nil, the configurations have none.
func (s Server) Configurations(app string, declared ...Webhook) func(caBundle []byte) []client.Object {
	return func(caBundle []byte) []client.Object {
		reach := Service(s.Namespace, s.ServiceName, caBundle)
		if s.URL != "" {
			reach = URL(s.URL, caBundle)
		}
		return Configuration{Name: s.Name, Labels: map[string]string{"app": app}, Client: reach}.Both(declared...)
	}
}
