package process

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/config"
)

// If the server of an aggregated API is down, the error does not name the kubeconfig.
func TestErrorForAGroupThatAnotherServerServes(t *testing.T) {
	const remedy = "kubectl apply -f deploy/trees/crds"
	bonsai := schema.GroupVersionKind{Group: "trees.example.com", Version: "v1", Kind: "Bonsai"}
	for name, tc := range map[string]struct {
		answer      func(http.ResponseWriter)
		requirement Requirement
		want        string
	}{
		"its server is down": {
			answer:      func(w http.ResponseWriter) { http.Error(w, "service unavailable", http.StatusServiceUnavailable) },
			requirement: Requirement{Kind: bonsai, Remedy: remedy},
			want: `kind Bonsai (trees.example.com/v1) cannot be discovered: the server of APIService v1.trees.example.com does not answer ` +
				`(the server is currently unable to handle the request): bring it back ("kubectl get apiservice v1.trees.example.com" says ` +
				`what is wrong)`,
		},
		"it is not served": {
			answer:      func(w http.ResponseWriter) { http.Error(w, "404 page not found", http.StatusNotFound) },
			requirement: Requirement{Kind: bonsai, Remedy: remedy},
			want:        `kind Bonsai (trees.example.com/v1) is not served: run "kubectl apply -f deploy/trees/crds"`,
		},
		"it is not served, and the remedy is not for every cluster": {
			answer:      func(w http.ResponseWriter) { http.Error(w, "404 page not found", http.StatusNotFound) },
			requirement: Requirement{Kind: bonsai, Remedy: remedy, Unless: "a forester serves it: call him"},
			want: `kind Bonsai (trees.example.com/v1) is not served: run "kubectl apply -f deploy/trees/crds", unless a forester serves ` +
				`it: call him`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/api/v1" {
					w.Header().Set("Content-Type", "application/json")
					_, _ = w.Write([]byte(`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[]}`))
					return
				}
				tc.answer(w)
			}))
			t.Cleanup(server.Close)
			err := checkAccess(t.Context(), side{name: "garden", field: "gardenClientConnection"}, "gardener", &rest.Config{Host: server.URL},
				server.Client(), []Requirement{tc.requirement}, nil, time.Minute)
			g.Expect(err).To(MatchError("garden cluster at " + server.URL + ": " + tc.want))
		})
	}
}

func TestEachKindIsCheckedOnce(t *testing.T) {
	bonsai, moss := schema.GroupVersionKind{Version: "v1", Kind: "Bonsai"}, schema.GroupVersionKind{Version: "v1", Kind: "Moss"}
	given := []Requirement{
		{Kind: bonsai, Verbs: []string{"get", "list"}, Remedy: "plant one"},
		{Kind: moss, Verbs: []string{"list"}},
		{Kind: bonsai, Verbs: []string{"list", "watch"}, Remedy: "buy one"},
		{Kind: bonsai, Verbs: []string{"create"}, Namespace: "garden"},
	}
	NewWithT(t).Expect(merge(given)).To(Equal([]Requirement{
		{Kind: bonsai, Verbs: []string{"get", "list", "watch"}, Remedy: "plant one"},
		{Kind: moss, Verbs: []string{"list"}},
		{Kind: bonsai, Verbs: []string{"create"}, Namespace: "garden"},
	}))
	NewWithT(t).Expect(given[0].Verbs).To(Equal([]string{"get", "list"}), "what was given stays as it was")
}

func TestMissingVerbsAreReportedWithTheAlternative(t *testing.T) {
	g := NewWithT(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodPost { // a SelfSubjectAccessReview
			w.WriteHeader(http.StatusCreated)
			_, _ = w.Write([]byte(`{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "status": {"allowed": false}}`))
			return
		}
		_, _ = w.Write([]byte(`{"apiVersion": "v1", "kind": "APIResourceList", "groupVersion": "v1", "resources": [{"name": "namespaces", ` +
			`"kind": "Namespace"}]}`))
	}))
	defer server.Close()
	required := []Requirement{
		{Kind: schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, Verbs: []string{"list", "watch"}, Otherwise: "remove the selector"},
	}
	err := checkAccess(t.Context(), side{name: "source", field: "sourceClientConnection"}, "gardener", &rest.Config{Host: server.URL},
		server.Client(), required, nil, time.Minute)
	g.Expect(err).To(MatchError(HaveSuffix(
		"not allowed to list, watch namespaces in all namespaces: grant it, for example with the roles in deploy/gardener, or remove " +
			"the selector")))
}

// The right to either of two names is enough.
func TestRightToAnotherNameIsEnough(t *testing.T) {
	for granted, want := range map[string]string{
		"elm": "", "tree/*": "",
		"oak": `not allowed to water trees.example.com/roots named "elm" in namespace "park": grant it, for example with the roles in ` +
			`deploy/gardener`,
	} {
		t.Run(granted, func(t *testing.T) {
			g := NewWithT(t)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if r.Method != http.MethodPost {
					_, _ = w.Write([]byte(`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[]}`))
					return
				}
				review := &authorizationv1.SelfSubjectAccessReview{}
				if json.NewDecoder(r.Body).Decode(review) == nil {
					asked := review.Spec.ResourceAttributes
					review.Status.Allowed = asked.Name == granted && asked.Subresource == "roots"
				}
				_ = json.NewEncoder(w).Encode(review)
			}))
			defer server.Close()
			rights := []Right{{
				Verb: "water", Group: "example.com", Resource: "trees", Subresource: "roots", Namespace: "park", Name: "elm", OrName: "tree/*",
			}}
			cfg := &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
			err := checkAccess(t.Context(), side{name: "source"}, "gardener", cfg, server.Client(), nil, rights, time.Minute)
			if want == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(HaveSuffix(want)))
		})
	}
}

// reviewing is an API server that serves the namespaced kind Bonsai of version v1, and access reviews. It accepts only JSON.
type reviewing struct {
	*httptest.Server
	mu    sync.Mutex
	asked []authorizationv1.ResourceAttributes
}

// newReviewing starts such a server. The function status returns the answer to a review of a right: OK if the right is granted,
// InternalServerError if the review fails.
func newReviewing(t *testing.T, status func(authorizationv1.ResourceAttributes) int) *reviewing {
	t.Helper()
	s := &reviewing{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method != http.MethodPost {
			_, _ = w.Write([]byte(`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[` +
				`{"name":"bonsais","kind":"Bonsai","namespaced":true}]}`))
			return
		}
		review := &authorizationv1.SelfSubjectAccessReview{}
		if err := json.NewDecoder(r.Body).Decode(review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.mu.Lock()
		s.asked = append(s.asked, *review.Spec.ResourceAttributes)
		s.mu.Unlock()
		code := status(*review.Spec.ResourceAttributes)
		if code == http.StatusInternalServerError {
			http.Error(w, "broken", code)
			return
		}
		review.Status.Allowed = code == http.StatusOK
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(s.Close)
	return s
}

// reviews returns the attributes of all access reviews that the server has received.
func (s *reviewing) reviews() []authorizationv1.ResourceAttributes {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func (s *reviewing) check(t *testing.T, at side, required []Requirement, rights []Right) error {
	t.Helper()
	cfg := &rest.Config{Host: s.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	return checkAccess(t.Context(), at, "gardener", cfg, s.Client(), required, rights, time.Minute)
}

func TestNamespaceOfARequirement(t *testing.T) {
	for name, tc := range map[string]struct {
		namespace  string
		restricted []string
		want       []string
	}{
		"no restriction":                      {"", nil, []string{""}},
		"the connection is restricted":        {"", []string{"park", "wood"}, []string{"park", "wood"}},
		"only one namespace":                  {"garden", nil, []string{"garden"}},
		"one namespace, restricted to others": {"garden", []string{"park", "wood"}, []string{"garden"}},
		"one namespace, restricted to it too": {"park", []string{"park", "wood"}, []string{"park"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newReviewing(t, func(authorizationv1.ResourceAttributes) int { return http.StatusOK })
			at := side{name: "source", connection: config.ClientConnection{Namespaces: tc.restricted}}
			required := []Requirement{
				{Kind: schema.GroupVersionKind{Version: "v1", Kind: "Bonsai"}, Verbs: []string{"list"}, Namespace: tc.namespace},
			}
			g.Expect(s.check(t, at, required, nil)).To(Succeed())
			var want []authorizationv1.ResourceAttributes
			for _, namespace := range tc.want {
				want = append(want, authorizationv1.ResourceAttributes{Verb: "list", Resource: "bonsais", Namespace: namespace})
			}
			g.Expect(s.reviews()).To(Equal(want))
		})
	}
}

// The error names the right that could not be reviewed.
func TestAFailedReviewNamesTheRight(t *testing.T) {
	for failing, object := range map[string]string{
		"elm":    `trees.example.com/roots named "elm" in namespace "park"`,
		"tree/*": `trees.example.com/roots named "tree/*" in namespace "park"`,
	} {
		t.Run(failing, func(t *testing.T) {
			s := newReviewing(t, func(asked authorizationv1.ResourceAttributes) int {
				if asked.Name == failing {
					return http.StatusInternalServerError
				}
				return http.StatusForbidden
			})
			err := s.check(t, side{name: "source"}, nil, []Right{{
				Verb: "water", Group: "example.com", Resource: "trees", Subresource: "roots", Namespace: "park", Name: "elm", OrName: "tree/*",
			}})
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring("ask whether we may water " + object + ": an error on the server")))
		})
	}
}

func TestTargetRightsAreCheckedInTheTarget(t *testing.T) {
	water := Right{Verb: "water", Group: "example.com", Resource: "trees", Subresource: "roots"}
	const denial = `: not allowed to water trees.example.com/roots in all namespaces: grant it, for example with the roles in deploy/gardener`
	asked := authorizationv1.ResourceAttributes{Verb: "water", Group: "example.com", Resource: "trees", Subresource: "roots"}
	connection := func(s *reviewing) string { // a connection in the configuration, as YAML
		return "{contentType: application/json, kubeconfig: " + writeFile(t, "kubeconfig", `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "`+s.URL+`"}}]
users: [{name: c, user: {token: t}}]
contexts: [{name: c, context: {cluster: c, user: c}}]
current-context: c
`) + "}\n"
	}
	connectTo := func(t *testing.T, more string) error {
		t.Helper()
		address := func() string { return fmt.Sprintf("{bindAddress: 127.0.0.1, port: %d}", freePort(t)) }
		loaded, _, err := config.ResourceManager([]byte("apiVersion: resourcemanager.config.gardener.cloud/v1alpha1\n" +
			"kind: ResourceManagerConfiguration\nleaderElection: {leaderElect: false}\n" +
			"server: {healthProbes: " + address() + ", metrics: " + address() + "}\n" + more))
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		setup := &Setup{Program: gardener(), Config: loaded.Process(), Log: logr.Discard()}
		_, err = setup.Connect(t.Context(), Needs{Scheme: runtime.NewScheme(), TargetRights: []Right{water}})
		return err
	}
	deny := func(authorizationv1.ResourceAttributes) int { return http.StatusForbidden }

	t.Run("a separate target", func(t *testing.T) {
		g := NewWithT(t)
		source, target := newReviewing(t, deny), newReviewing(t, deny)
		err := connectTo(t, "sourceClientConnection: "+connection(source)+"targetClientConnection: "+connection(target))
		g.Expect(err).To(MatchError("target cluster at " + target.URL + denial))
		g.Expect(source.reviews()).To(BeEmpty())
		g.Expect(target.reviews()).To(ConsistOf(asked))
	})
	t.Run("the source is the target", func(t *testing.T) {
		g := NewWithT(t)
		source := newReviewing(t, deny)
		g.Expect(connectTo(t, "sourceClientConnection: "+connection(source))).To(MatchError("source cluster at " + source.URL + denial))
		g.Expect(source.reviews()).To(ConsistOf(asked))
	})
}
