package registration

import "sigs.k8s.io/controller-runtime/pkg/client"

// Own says how API servers reach the webhooks of a program.
type Own struct {
	// Name is the name of the webhook configurations.
	Name string
	// Namespace and ServiceName are the Service whose port 443 leads to the server. They are not used if URL is set.
	Namespace, ServiceName string
	// URL is the address of the server: https://host:port, without a path.
	URL string
}

// Configurations returns a function that builds both webhook configurations, with the label app. Its argument is the certificate
// authority in PEM that API servers shall trust; with nil, the configurations have none.
func (o Own) Configurations(app string, declared ...Webhook) func(caBundle []byte) []client.Object {
	return func(caBundle []byte) []client.Object {
		reach := Service(o.Namespace, o.ServiceName, caBundle)
		if o.URL != "" {
			reach = URL(o.URL, caBundle)
		}
		return Configuration{Name: o.Name, Labels: map[string]string{"app": app}, Client: reach}.Both(declared...)
	}
}
