package highavailability

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/admission/reviewtest"
)

// cluster returns fixed answers to look-ups, and records them.
type cluster struct {
	annotations    map[string]string
	annotationsErr error
	limit          int32
	scaled         bool
	scalingErr     error
	// live answers MaxReplicasLive; nil if the answer is that of MaxReplicas.
	live *cluster

	namespaces []string
	targets    []Target
}

func (c *cluster) Annotations(_ context.Context, name string) (map[string]string, error) {
	c.namespaces = append(c.namespaces, name)
	return c.annotations, c.annotationsErr
}

func (c *cluster) MaxReplicas(_ context.Context, target Target) (limit int32, scaled bool, err error) {
	c.targets = append(c.targets, target)
	return c.limit, c.scaled, c.scalingErr
}

func (c *cluster) MaxReplicasLive(ctx context.Context, target Target) (limit int32, scaled bool, err error) {
	if c.live == nil {
		c.live = &cluster{limit: c.limit, scaled: c.scaled, scalingErr: c.scalingErr}
	}
	return c.live.MaxReplicas(ctx, target)
}

// in returns a handler for a cluster whose namespace has these annotations. Their keys lack the common prefix.
func in(annotations map[string]string) *Handler {
	full := map[string]string{"other": "annotation"}
	for key, value := range annotations {
		full["high-availability-config.resources.gardener.cloud/"+key] = value
	}
	c := &cluster{annotations: full}
	return &Handler{Namespaces: c, Scaling: c}
}

// found returns the cluster that the look-ups of a handler use.
func (h *Handler) found() *cluster {
	c, _ := h.Scaling.(*cluster)
	return c
}

func (h *Handler) scaledTo(limit int32) *Handler {
	c := *h.found()
	c.limit, c.scaled = limit, true
	return &Handler{Namespaces: &c, Scaling: &c, LegacyReplicaCriteria: h.LegacyReplicaCriteria}
}

func (h *Handler) inLegacyMode() *Handler {
	h.LegacyReplicaCriteria = true
	return h
}

// judge lets the handler judge the creation of an object.
func judge(t *testing.T, h *Handler, object string) (response review.Response, after []byte) {
	t.Helper()
	return reviewtest.Handle(t, h, reviewtest.Request(t, review.Create, schema.GroupVersionResource{}, object))
}

func TestLookupsComeFirst(t *testing.T) {
	notFound := apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "shop")
	for name, tc := range map[string]struct {
		cluster cluster
		object  string
		want    review.Response
	}{
		"a namespace that is not there": {
			cluster: cluster{annotationsErr: notFound},
			object:  "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}}",
			want:    review.Response{Code: 500, Message: `namespaces "shop" not found`},
		},
		"a namespace that cannot be read, for a kind that is not handled": {
			cluster: cluster{annotationsErr: errors.New("no connection")},
			object:  "{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: web, namespace: shop}}",
			want:    review.Response{Code: 500, Message: "no connection"},
		},
		"autoscalers that cannot be listed": {
			cluster: cluster{scalingErr: errors.New("failed to list all HPAs: no connection")},
			object:  "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}}",
			want:    review.Response{Code: 500, Message: "failed to list all HPAs: no connection"},
		},
		"autoscalers that cannot be listed, for an autoscaler": {
			cluster: cluster{scalingErr: errors.New("failed to list all HVPAs: no connection")},
			object:  "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: web, namespace: shop}}",
			want:    review.Response{Code: 500, Message: "failed to list all HVPAs: no connection"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			h := &Handler{Namespaces: &tc.cluster, Scaling: &tc.cluster}
			response, _ := judge(t, h, tc.object)
			g.Expect(response).To(Equal(tc.want))
		})
	}
}

func TestLookupsAreAboutTheRequest(t *testing.T) {
	g := NewWithT(t)
	c := &cluster{}
	request := reviewtest.Request(t, review.Create, schema.GroupVersionResource{},
		"{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db}}")
	request.Namespace = "shop"
	(&Handler{Namespaces: c, Scaling: c}).Handle(t.Context(), request)
	g.Expect(c.namespaces).To(Equal([]string{"shop"}))
	g.Expect(c.targets).To(Equal([]Target{{Namespace: "shop", APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db"}}))
}

func TestVerdictsWithoutAPatch(t *testing.T) {
	for name, tc := range map[string]struct {
		object string
		want   review.Response
	}{
		"a kind that is not handled": {
			object: "{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: web}}",
			want:   review.Response{Allowed: true, Code: 200, Message: "unexpected resource: DaemonSet.apps"},
		},
		"a kind of the core group": {
			object: "{apiVersion: v1, kind: Pod, metadata: {name: web}}",
			want:   review.Response{Allowed: true, Code: 200, Message: "unexpected resource: Pod"},
		},
		"a Deployment of another group": {
			object: "{apiVersion: extensions/v1beta1, kind: Deployment, metadata: {name: web}}",
			want:   review.Response{Allowed: true, Code: 200, Message: "unexpected resource: Deployment.extensions"},
		},
		"a version of autoscalers that is not handled": {
			object: "{apiVersion: autoscaling/v1, kind: HorizontalPodAutoscaler, metadata: {name: web}, spec: {minReplicas: 1}}",
			want: review.Response{
				Code: 403, Reason: metav1.StatusReasonForbidden, Message: `autoscaling version "v1" in request is not supported`,
			},
		},
		"replicas that are no number": {
			object: "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: many}}",
			want:   review.Response{Code: 403, Reason: metav1.StatusReasonForbidden, Message: `spec.replicas: must not be a string`},
		},
		"an empty Deployment": {
			object: "{apiVersion: apps/v1, kind: Deployment}",
			want:   review.Response{Allowed: true, Code: 200},
		},
		"a Deployment of nothing but nulls": {
			object: "{apiVersion: apps/v1, kind: Deployment, metadata: null, spec: {replicas: null, template: null}, status: null}",
			want:   review.Response{Allowed: true, Code: 200},
		},
		"an Hvpa of nothing but nulls": {
			object: "{apiVersion: autoscaling.k8s.io/v1alpha1, kind: Hvpa, metadata: {labels: null}, spec: {hpa: null}}",
			want:   review.Response{Allowed: true, Code: 200},
		},
	} {
		t.Run(name, func(t *testing.T) {
			response, _ := judge(t, in(nil), tc.object)
			NewWithT(t).Expect(response).To(Equal(tc.want))
		})
	}
}

func TestNothingToDecodeIsDenied(t *testing.T) {
	request := reviewtest.Request(t, review.Delete, schema.GroupVersionResource{},
		"{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}}")
	response, _ := reviewtest.Handle(t, in(nil), request)
	NewWithT(t).Expect(response).
		To(Equal(review.Response{Code: 403, Reason: metav1.StatusReasonForbidden, Message: "there is no content to decode"}))
}

func TestAVersionOfAppsDoesNotMatter(t *testing.T) {
	_, after := judge(t, in(nil), `{apiVersion: apps/v2, kind: Deployment, metadata: {labels: `+
		`{high-availability-config.resources.gardener.cloud/type: server}}, spec: {replicas: 1}}`)
	NewWithT(t).Expect(string(after)).To(ContainSubstring(`"replicas":2`))
}

func TestAnUpdateIsJudgedLikeACreation(t *testing.T) {
	object := `{apiVersion: apps/v1, kind: Deployment, metadata: {labels: {high-availability-config.resources.gardener.cloud/type: ` +
		`server}}, spec: {replicas: 1}}`
	h := in(map[string]string{"zones": "a,b", "failure-tolerance-type": "zone"})
	_, created := judge(t, h, object)
	_, updated := reviewtest.Handle(t, h, reviewtest.Request(t, review.Update, schema.GroupVersionResource{}, object))
	g := NewWithT(t)
	g.Expect(created).To(MatchJSON(updated))
	g.Expect(string(created)).To(ContainSubstring(`"minDomains":2`))
}

func TestEverythingElseSurvives(t *testing.T) {
	h := in(map[string]string{"zones": "a,b", "failure-tolerance-type": "zone"})
	h.DefaultNotReadyTolerationSeconds = ptr.To[int64](60)
	_, after := judge(t, h, `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: shop, labels: {high-availability-config.resources.gardener.cloud/type: server, other: label}, unknown: [1, null]}
spec:
  replicas: 1
  unknown: {a: b}
  template:
    metadata: {labels: {app: db, "quoted\"/~": "<&>"}, unknown: 1}
    spec:
      unknown: null
      affinity:
        unknown: 1
        podAffinity: {unknown: 2}
        nodeAffinity:
          unknown: 3
          preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: topology.kubernetes.io/zone, operator: Exists}]}}]
          requiredDuringSchedulingIgnoredDuringExecution:
            unknown: 4
            nodeSelectorTerms:
            - unknown: 5
              matchFields: [{key: metadata.name, operator: In, values: [n1]}]
              matchExpressions: [{key: kubernetes.io/hostname, operator: Exists, unknown: 6}, {key: topology.kubernetes.io/zone, operator: Exists}]
            - null
      tolerations: [{key: other, unknown: 7}]
      topologySpreadConstraints:
      - {topologyKey: kubernetes.io/hostname, maxSkew: 3, whenUnsatisfiable: DoNotSchedule, matchLabelKeys: [x]}
      - {topologyKey: rack, maxSkew: 12, whenUnsatisfiable: ScheduleAnyway, unknown: {deep: "<&>"}, matchLabelKeys: [pod-template-hash], labelSelector: null}
      containers: [{name: db, image: "db:1", unknown: 8}]
status: {replicas: 1}
`)
	reviewtest.Same(t, after, `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: shop, labels: {high-availability-config.resources.gardener.cloud/type: server, other: label}, unknown: [1, null]}
spec:
  replicas: 2
  unknown: {a: b}
  template:
    metadata: {labels: {app: db, "quoted\"/~": "<&>"}, unknown: 1}
    spec:
      unknown: null
      affinity:
        unknown: 1
        podAffinity: {unknown: 2}
        nodeAffinity:
          unknown: 3
          preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: topology.kubernetes.io/zone, operator: Exists}]}}]
          requiredDuringSchedulingIgnoredDuringExecution:
            unknown: 4
            nodeSelectorTerms:
            - unknown: 5
              matchFields: [{key: metadata.name, operator: In, values: [n1]}]
              matchExpressions: [{key: kubernetes.io/hostname, operator: Exists, unknown: 6}, {key: topology.kubernetes.io/zone, operator: In, values: [a, b]}]
            - matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [a, b]}]
      tolerations: [{key: other, unknown: 7}, {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 60}]
      topologySpreadConstraints:
      - {topologyKey: rack, maxSkew: 12, whenUnsatisfiable: ScheduleAnyway, unknown: {deep: "<&>"}, matchLabelKeys: [pod-template-hash], labelSelector: null}
      - {topologyKey: kubernetes.io/hostname, maxSkew: 1, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: db, "quoted\"/~": "<&>"}}}
      - {topologyKey: topology.kubernetes.io/zone, maxSkew: 1, minDomains: 2, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: db, "quoted\"/~": "<&>"}}}
      containers: [{name: db, image: "db:1", unknown: 8}]
status: {replicas: 1}
`)
}

// The labels of the Pods of a StatefulSet may change in a rollout; its selector cannot change.
func TestPodsOfAStatefulSetAreSpreadByItsSelector(t *testing.T) {
	h := in(map[string]string{"zones": "a,b", "failure-tolerance-type": "zone"})
	const object = `{apiVersion: apps/v1, kind: KIND, metadata: {name: db}, spec: {replicas: 2, selector: {matchLabels: {app: db},
		matchExpressions: [{key: role, operator: In, values: [main]}]}, template: {metadata: {labels: {app: db, role: main, release: "7"}}}}}`
	for kind, want := range map[string]string{
		"StatefulSet": `{"matchLabels":{"app":"db"},"matchExpressions":[{"key":"role","operator":"In","values":["main"]}]}`,
		"Deployment":  `{"matchLabels":{"app":"db","role":"main","release":"7"}}`,
	} {
		t.Run(kind, func(t *testing.T) {
			g := NewWithT(t)
			_, after := judge(t, h, strings.Replace(object, "KIND", kind, 1))
			var spread struct {
				Spec struct {
					Template struct {
						Spec struct {
							TopologySpreadConstraints []struct{ LabelSelector json.RawMessage }
						}
					}
				}
			}
			g.Expect(json.Unmarshal(after, &spread)).To(Succeed())
			g.Expect(spread.Spec.Template.Spec.TopologySpreadConstraints).To(HaveLen(2))
			for _, each := range spread.Spec.Template.Spec.TopologySpreadConstraints {
				g.Expect(each.LabelSelector).To(MatchJSON(want))
			}
			response, _ := judge(t, h, string(after))
			g.Expect(response.Patch).To(BeEmpty(), "a second request changes nothing")
		})
	}
}

func TestMissingParentsAreMade(t *testing.T) {
	for name, tc := range map[string]struct{ object, want string }{
		"spec": {
			"{apiVersion: apps/v1, kind: Deployment}",
			"{apiVersion: apps/v1, kind: Deployment, spec: {template: {spec: {tolerations: [TOLERATION]}}}}",
		},
		"template": {
			"{apiVersion: apps/v1, kind: Deployment, spec: {paused: true}}",
			"{apiVersion: apps/v1, kind: Deployment, spec: {paused: true, template: {spec: {tolerations: [TOLERATION]}}}}",
		},
		"spec of Pods": {
			"{apiVersion: apps/v1, kind: Deployment, spec: {template: {metadata: {}}}}",
			"{apiVersion: apps/v1, kind: Deployment, spec: {template: {metadata: {}, spec: {tolerations: [TOLERATION]}}}}",
		},
		"null for that": {
			"{apiVersion: apps/v1, kind: Deployment, spec: {template: {spec: null}}}",
			"{apiVersion: apps/v1, kind: Deployment, spec: {template: {spec: {tolerations: [TOLERATION]}}}}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := in(nil)
			h.DefaultUnreachableTolerationSeconds = ptr.To[int64](0)
			_, after := judge(t, h, tc.object)
			reviewtest.Same(t, after,
				replaceAll(tc.want, "TOLERATION", "{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 0}"))
		})
	}
}

func TestRemovedReplicasAreReported(t *testing.T) {
	for name, tc := range map[string]struct {
		replicas string
		want     []string
	}{
		"fewer": {
			"2147483647",
			[]string{"spec.replicas: 2, not 2147483647; annotation high-availability-config.resources.gardener.cloud/replicas sets another"},
		},
		"more": {"1", nil},
		"same": {"2", nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			response, _ := judge(t, in(nil),
				"{apiVersion: apps/v1, kind: Deployment, metadata: {labels: {high-availability-config.resources.gardener.cloud/type: server}}, "+
					"spec: {replicas: "+tc.replicas+"}}")
			g.Expect(response.Warnings).To(Equal(tc.want))
			for _, warning := range response.Warnings {
				g.Expect(len(warning)).To(BeNumerically("<=", 120), "API servers shorten longer ones")
			}
		})
	}
}

func TestNoReplicasAreTakenAwayBeforeALookAtWhatIsThereNow(t *testing.T) {
	const object = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop, labels: " +
		"{high-availability-config.resources.gardener.cloud/type: TYPE}}, spec: {replicas: REPLICAS, template: {spec: {}}}}"
	web := Target{Namespace: "shop", APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	for name, tc := range map[string]struct {
		known, live    cluster
		kind, replicas string
		asked          []Target
		want           string
	}{
		"it is not scaled": {kind: "server", replicas: "5", asked: []Target{web}, want: `"replicas":2`},
		"it is scaled now": {
			live: cluster{scaled: true, limit: 9}, kind: "server", replicas: "5", asked: []Target{web}, want: `"replicas":5`,
		},
		"it is known to be scaled":          {known: cluster{scaled: true, limit: 9}, kind: "server", replicas: "5", want: `"replicas":5`},
		"there are as many as there should": {live: cluster{scaled: true, limit: 9}, kind: "server", replicas: "2", want: `"replicas":2`},
		"there are fewer":                   {live: cluster{scaled: true, limit: 9}, kind: "server", replicas: "1", want: `"replicas":2`},
		"it is hibernated":                  {live: cluster{scaled: true, limit: 9}, kind: "server", replicas: "0", want: `"replicas":0`},
		"it has no type":                    {live: cluster{scaled: true, limit: 9}, kind: "''", replicas: "5", want: `"replicas":5`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			tc.known.live = &tc.live
			request := reviewtest.Request(t, review.Create, schema.GroupVersionResource{},
				replaceAll(replaceAll(object, "TYPE", tc.kind), "REPLICAS", tc.replicas))
			response := (&Handler{Namespaces: &tc.known, Scaling: &tc.known}).Handle(t.Context(), request)
			g.Expect(response.Allowed).To(BeTrue())
			after := request.Object
			if len(response.Patch) > 0 {
				after = reviewtest.Apply(t, request.Object, response.Patch)
			}
			g.Expect(string(after)).To(ContainSubstring(tc.want))
			g.Expect(tc.live.targets).To(Equal(tc.asked))
		})
	}
	t.Run("what is there now counts for the spread too", func(t *testing.T) {
		h := in(map[string]string{"zones": "a,b,c"})
		h.found().live = &cluster{scaled: true, limit: 6}
		_, after := judge(t, h, replaceAll(replaceAll(object, "TYPE", "server"), "REPLICAS", "5"))
		NewWithT(t).Expect(string(after)).To(ContainSubstring(`"maxSkew":2`))
	})
	t.Run("an autoscaler that was created a moment before counts for the spread of a new workload", func(t *testing.T) {
		h := in(map[string]string{"zones": "a,b,c"})
		h.found().live = &cluster{scaled: true, limit: 6}
		_, after := judge(t, h, replaceAll(replaceAll(object, "TYPE", "server"), "REPLICAS", "2"))
		NewWithT(t).Expect(string(after)).To(ContainSubstring(`"maxSkew":2`))
	})
	t.Run("it cannot be reported", func(t *testing.T) {
		h := in(nil)
		h.found().live = &cluster{scalingErr: errors.New("failed to list all HPAs: no connection")}
		response, _ := judge(t, h, replaceAll(replaceAll(object, "TYPE", "server"), "REPLICAS", "5"))
		NewWithT(t).Expect(response).To(Equal(review.Response{Code: 500, Message: "failed to list all HPAs: no connection"}))
	})
}

// The handler reads autoscalers live only if the result depends on them.
func TestAutoscalersAreReadLiveOnlyIfTheSpreadDependsOnThem(t *testing.T) {
	const object = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop, labels: " +
		"{high-availability-config.resources.gardener.cloud/type: server}}, spec: {replicas: REPLICAS, template: {spec: {}}}}"
	three, none := map[string]string{"zones": "a,b,c"}, map[string]string(nil)
	for name, tc := range map[string]struct {
		annotations   map[string]string
		before, after string
		known         bool
		live          bool
	}{
		"a new workload": {annotations: three, after: "2", live: true},
		"a new workload that an autoscaler scales": {annotations: three, after: "2", known: true},
		"a new workload without zones":             {annotations: none, after: "2"},
		"an update that takes replicas away":       {annotations: none, before: "4", after: "4", live: true},
		"an update of something else":              {annotations: three, before: "2", after: "2"},
		"an update of the number of replicas":      {annotations: three, before: "1", after: "2", live: true},
		"a hibernated workload":                    {annotations: three, after: "0"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			h := in(tc.annotations)
			h.found().live = &cluster{}
			if tc.known {
				h.found().scaled, h.found().limit = true, 6
			}
			request := reviewtest.Request(t, review.Create, schema.GroupVersionResource{}, replaceAll(object, "REPLICAS", tc.after))
			if tc.before != "" {
				request.Operation = review.Update
				before := replaceAll(object, "REPLICAS", tc.before)
				request.OldObject = reviewtest.Request(t, review.Create, schema.GroupVersionResource{}, before).Object
			}
			h.Handle(t.Context(), request)
			want := 0
			if tc.live {
				want = 1
			}
			g.Expect(h.found().live.targets).To(HaveLen(want))
		})
	}
}
