// Package identity chooses the ServiceAccount with whose rights a set is applied. A set is a ManagedResource.
package identity

import (
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/client-go/transport"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/config"
)

// Rules are the configured rules; nil if the feature is off.
type Rules struct {
	*config.EspalierAccounts
}

// setting is the path of the rules in the configuration file.
const setting = "espalier.managedResource.serviceAccounts"

// Name returns the name of the ServiceAccount of a set, in the namespace of the set. It is "" if no ServiceAccount is chosen. The name may
// be invalid: see Refusal.
func (r Rules) Name(mr *resourcesv1alpha1.ManagedResource) string {
	if name, found := mr.Annotations[resourcesv1alpha1.ServiceAccount]; found || r.EspalierAccounts == nil {
		return name
	}
	if name := r.ByNamespace[mr.Namespace]; name != "" {
		return name
	}
	return r.Default
}

// User returns the name of the user with whose rights a set is applied, "" if the set is applied with the rights of the controller. If
// Refusal returns a reason for a set, User returns a user without rights or the user of a ServiceAccount, and never "".
func (r Rules) User(mr *resourcesv1alpha1.ManagedResource) string {
	name := r.Name(mr)
	if _, annotated := mr.Annotations[resourcesv1alpha1.ServiceAccount]; name == "" && !annotated && !r.lockdown() {
		return ""
	}
	return fmt.Sprintf("system:serviceaccount:%s:%s", mr.Namespace, name)
}

// Watcher returns the name of the user with whose rights the objects of a set are watched; "" if the controller watches them with its own
// rights.
func (r Rules) Watcher(mr *resourcesv1alpha1.ManagedResource) string {
	if !r.lockdown() {
		return ""
	}
	return r.User(mr)
}

func (r Rules) lockdown() bool {
	return r.EspalierAccounts != nil && ptr.Deref(r.Lockdown, false)
}

// Refusal returns why a set must not be applied, "" if it may. It does not check whether the ServiceAccount exists.
func (r Rules) Refusal(mr *resourcesv1alpha1.ManagedResource) string {
	name := r.Name(mr)
	_, annotated := mr.Annotations[resourcesv1alpha1.ServiceAccount]
	switch {
	case annotated && r.EspalierAccounts == nil:
		return fmt.Sprintf("refused: the set has the annotation %s, but the controller applies sets with its own rights; an administrator "+
			"changes that with %s", resourcesv1alpha1.ServiceAccount, setting)
	case annotated && len(validation.ValidateServiceAccountName(name, false)) > 0:
		return fmt.Sprintf("refused: the annotation %s has the value %q, which is not the name of a ServiceAccount",
			resourcesv1alpha1.ServiceAccount, name)
	case name == "" && r.lockdown():
		return fmt.Sprintf("refused: the set has no ServiceAccount; name one of namespace %q in the annotation %s (%s.lockdown)",
			mr.Namespace, resourcesv1alpha1.ServiceAccount, setting)
	}
	return ""
}

// Live reads a cluster without a cache.
type Live struct{ cluster.Cluster }

// As returns a reader with the rights of a user, or with the rights of the controller if user is "". Each call returns a new reader; all
// readers share the connections of the cluster.
func (l Live) As(user string) (client.Reader, error) {
	if user == "" {
		return l.GetAPIReader(), nil
	}
	connection := Connection(l.GetHTTPClient(), user)
	reader, err := client.New(l.GetConfig(), client.Options{HTTPClient: connection, Scheme: l.GetScheme(), Mapper: l.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("create client of user %q: %w", user, err)
	}
	return reader, nil
}

// Connection returns a client that shares the connections of another one, and sends requests with the rights of a user.
func Connection(shared *http.Client, user string) *http.Client {
	return &http.Client{
		Transport: transport.NewImpersonatingRoundTripper(transport.ImpersonationConfig{UserName: user}, shared.Transport),
		Timeout:   shared.Timeout,
	}
}
