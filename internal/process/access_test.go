package process

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
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
		if r.Method == http.MethodPost { // a review of access
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
