package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	authorizationv1client "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/config"
)

// accessTimeout is the usual time limit for all checks of one cluster together. It is short, so that a wrong address is reported soon.
const accessTimeout = 15 * time.Second

// Requirement is a kind that a binary needs.
type Requirement struct {
	// Kind is the kind that the API server must serve.
	Kind schema.GroupVersionKind
	// Verbs are the verbs that must be allowed, cluster-wide or in each namespace that the connection is restricted to.
	Verbs []string
	// Namespace is the only namespace in which the verbs must be allowed; empty: see Verbs.
	Namespace string
	// Remedy is the command to run if the kind is not served. Empty: kubectl apply -f deploy/crds.
	Remedy string
	// Unless is a clause for the error text that names the case in which the remedy would be wrong, and the right action in that case.
	// Empty: the remedy is always right.
	Unless string
	// Otherwise is a clause for the error text that names an alternative to granting missing verbs. Empty: there is none.
	Otherwise string
}

// merge combines the requirements for the same kind and namespace, so that several parts of a binary can each state their requirements. A
// combined requirement has the verbs of all of them. Its position and its texts for errors come from the first of them.
func merge(required []Requirement) []Requirement {
	var merged []Requirement
	for _, each := range required {
		at := slices.IndexFunc(merged, func(r Requirement) bool { return r.Kind == each.Kind && r.Namespace == each.Namespace })
		if at < 0 {
			at = len(merged)
			merged = append(merged, each)
			merged[at].Verbs = nil
		}
		for _, verb := range each.Verbs {
			if !slices.Contains(merged[at].Verbs, verb) {
				merged[at].Verbs = append(merged[at].Verbs, verb)
			}
		}
	}
	return merged
}

// side is one of the two clusters of a process, with the names that messages use for it.
type side struct {
	name       string // "target", "source", or the name of the source in Program
	field      string // the configuration field of its connection
	variable   string // the environment variable that overrides it
	connection config.ClientConnection
	// credentials are used if the connection names no kubeconfig; nil: the in-cluster configuration.
	credentials *Credentials
}

func sourceSide(program Program, cfg config.Process) side {
	return side{name: program.sourceName(), field: program.sourceField(), variable: "KUBECONFIG", connection: cfg.Source}
}

func (s *Setup) targetSide() side {
	return side{
		name: s.Program.targetName(), field: s.Program.targetField(), variable: s.Program.targetVariable(), connection: *s.Config.Target,
		credentials: s.TargetCredentials,
	}
}

// restConfig returns the client configuration of a side.
func (s side) restConfig(userAgent string) (*rest.Config, error) {
	if s.connection.Kubeconfig == "" && s.credentials != nil {
		return tuneConfig(s.credentials.Config, s.connection, userAgent), nil
	}
	return restConfig(s.connection, userAgent)
}

// origin describes where the credentials of a side come from, for messages.
func (s side) origin() string {
	if s.connection.Kubeconfig == "" && s.credentials != nil {
		return s.credentials.Origin
	}
	if s.connection.Kubeconfig == "" {
		return fmt.Sprintf("the in-cluster configuration, or name a kubeconfig in %s.kubeconfig or %s", s.field, s.variable)
	}
	return fmt.Sprintf("kubeconfig %q (%s.kubeconfig or %s)", s.connection.Kubeconfig, s.field, s.variable)
}

// explain adds to an error the name of the cluster, and where its connection is configured.
func (s side) explain(err error) error {
	return fmt.Errorf("connect to %s cluster: %w; check %s", s.name, err, s.origin())
}

// Right is one permission. Needs lists Rights for subresources and named objects, which a Requirement cannot express.
type Right struct {
	Verb, Group, Resource, Subresource string
	// Namespace is empty for all namespaces, and Name for all objects.
	Namespace, Name string
	// OrName is the name of another object: the right to that object is enough, too. Empty: there is none.
	OrName string
}

// accessChecker checks the requirements of a side.
type accessChecker struct {
	side      side
	binary    string
	discovery discovery.DiscoveryInterfaceWithContext
	reviews   authorizationv1client.SelfSubjectAccessReviewInterface
	// away is true if the server behind an aggregated API did not answer.
	away bool
}

// checkAccess returns an error of one line that names the faults of a side, with their remedies. If the API server does not answer or does
// not accept our credentials, the error names only this fault. Otherwise, it names each kind that is not served and each right that is not
// granted.
func checkAccess(
	ctx context.Context, s side, binary string, cfg *rest.Config, httpClient *http.Client, required []Requirement, rights []Right,
	limit time.Duration,
) error {
	discoverer, err := discovery.NewDiscoveryClientForConfigAndClient(cfg, httpClient)
	if err != nil {
		return s.explain(fmt.Errorf("create discovery client: %w", err))
	}
	authorization, err := authorizationv1client.NewForConfigAndClient(cfg, httpClient)
	if err != nil {
		return s.explain(fmt.Errorf("create authorization client: %w", err))
	}
	checker := &accessChecker{side: s, binary: binary, discovery: discoverer, reviews: authorization.SelfSubjectAccessReviews()}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err = checker.reach(ctx, cfg.Host); err != nil {
		return s.explain(err)
	}
	missing, err := checker.missing(ctx, merge(required), rights)
	if err != nil {
		return s.explain(err)
	}
	if len(missing) == 0 {
		return nil
	}
	err = fmt.Errorf("%s cluster at %s: %s", s.name, cfg.Host, strings.Join(missing, "; "))
	if checker.away {
		return absence{err}
	}
	return err
}

// reach checks the address and the credentials. It reads the kinds of the core API group: by default, Kubernetes allows this to every
// authenticated client.
func (a *accessChecker) reach(ctx context.Context, host string) error {
	_, err := a.discovery.ServerResourcesForGroupVersionWithContext(ctx, "v1")
	switch {
	case err == nil:
		return nil
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("API server at %s does not accept our credentials", host)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("API server at %s does not allow us to discover the kinds that it serves: %w", host, err)
	default:
		return fmt.Errorf("cannot reach API server at %s: %w", host, err)
	}
}

// missing returns a message for each kind that is not served and each right that is not granted.
func (a *accessChecker) missing(ctx context.Context, required []Requirement, rights []Right) ([]string, error) {
	var missing []string
	for _, requirement := range required {
		problems, err := a.requirement(ctx, requirement)
		if err != nil {
			return nil, err
		}
		missing = append(missing, problems...)
	}
	problems, err := a.deny(ctx, rights)
	return append(missing, problems...), err
}

func (a *accessChecker) requirement(ctx context.Context, r Requirement) ([]string, error) {
	resource, err := a.resourceOf(ctx, r.Kind)
	if apierrors.IsServiceUnavailable(err) {
		a.away = true
		return []string{unavailable(r.Kind, err)}, nil
	}
	if err != nil {
		return nil, err
	}
	if resource == nil {
		return []string{r.absent()}, nil
	}
	namespaces := a.side.connection.Namespaces
	if r.Namespace != "" || len(namespaces) == 0 || !resource.Namespaced {
		namespaces = []string{r.Namespace}
	}
	var rights []Right
	for _, namespace := range namespaces {
		for _, verb := range r.Verbs {
			rights = append(rights, Right{Verb: verb, Group: r.Kind.Group, Resource: resource.Name, Namespace: namespace})
		}
	}
	denied, err := a.deny(ctx, rights)
	if r.Otherwise != "" {
		for i := range denied {
			denied[i] += ", or " + r.Otherwise
		}
	}
	return denied, err
}

// absent returns the message for a kind that is not served, with the remedy.
func (r Requirement) absent() string {
	remedy := cmp.Or(r.Remedy, "kubectl apply -f deploy/crds")
	message := fmt.Sprintf("kind %s (%s) is not served: run %q", r.Kind.Kind, r.Kind.GroupVersion(), remedy)
	if r.Unless != "" {
		message += ", unless " + r.Unless
	}
	return message
}

// unavailable returns the message for a kind of an aggregated API whose server does not answer. The API server itself has just answered.
func unavailable(gvk schema.GroupVersionKind, err error) string {
	service := gvk.Version + "." + gvk.Group
	var status apierrors.APIStatus
	reason := err.Error()
	if errors.As(err, &status) {
		reason = status.Status().Message
	}
	return fmt.Sprintf("kind %s (%s) cannot be discovered: the server of APIService %s does not answer (%s): bring it back (%q says "+
		"what is wrong)",
		gvk.Kind, gvk.GroupVersion(), service, reason, "kubectl get apiservice "+service)
}

// resourceOf returns the resource of a kind; nil if it is not served.
func (a *accessChecker) resourceOf(ctx context.Context, gvk schema.GroupVersionKind) (*metav1.APIResource, error) {
	list, err := a.discovery.ServerResourcesForGroupVersionWithContext(ctx, gvk.GroupVersion().String())
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("discover %s: %w", gvk.GroupVersion(), err)
	}
	for i := range list.APIResources {
		if r := &list.APIResources[i]; r.Kind == gvk.Kind && !strings.Contains(r.Name, "/") {
			return r, nil
		}
	}
	return nil, nil
}

// deny returns one message for each resource and namespace, with the verbs that are not allowed.
func (a *accessChecker) deny(ctx context.Context, rights []Right) ([]string, error) {
	denied := map[string][]string{}
	var order []string
	for _, r := range rights {
		allowed, err := a.allowed(ctx, r)
		if err != nil {
			return nil, err
		}
		if allowed {
			continue
		}
		object := r.object()
		if denied[object] == nil {
			order = append(order, object)
		}
		if !slices.Contains(denied[object], r.Verb) {
			denied[object] = append(denied[object], r.Verb)
		}
	}
	var messages []string
	for _, object := range order {
		messages = append(messages,
			fmt.Sprintf("not allowed to %s %s: grant it, for example with the roles in deploy/%s", strings.Join(denied[object], ", "), object,
				a.binary))
	}
	return messages, nil
}

func (r Right) object() string {
	object := schema.GroupResource{Group: r.Group, Resource: r.Resource}.String()
	if r.Subresource != "" {
		object += "/" + r.Subresource
	}
	if r.Name != "" {
		object += fmt.Sprintf(" named %q", r.Name)
	}
	if r.Namespace == "" {
		return object + " in all namespaces"
	}
	return fmt.Sprintf("%s in namespace %q", object, r.Namespace)
}

func (a *accessChecker) allowed(ctx context.Context, r Right) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: r.Verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name,
		},
	}}
	answer, err := a.reviews.Create(ctx, review, metav1.CreateOptions{})
	if apierrors.IsForbidden(err) {
		return true, nil // The process may not create reviews, so its rights are unknown; later requests will show them.
	}
	if err != nil {
		return false, fmt.Errorf("ask whether we may %s %s: %w", r.Verb, r.object(), err)
	}
	if !answer.Status.Allowed && r.OrName != "" {
		r.Name, r.OrName = r.OrName, ""
		return a.allowed(ctx, r)
	}
	return answer.Status.Allowed, nil
}

// leaseRights returns the rights that leader election needs.
func leaseRights(namespace, name string) []Right {
	const group, resource = "coordination.k8s.io", "leases"
	return []Right{
		{Verb: "create", Group: group, Resource: resource, Namespace: namespace},
		{Verb: "get", Group: group, Resource: resource, Namespace: namespace, Name: name},
		{Verb: "update", Group: group, Resource: resource, Namespace: namespace, Name: name},
	}
}
