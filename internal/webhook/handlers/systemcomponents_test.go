package handlers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/admission/reviewtest"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/webhook/object"
	"github.com/espalier-dev/espalier/internal/webhook/objecttest"
)

func TestPodsOfDaemonSetsAreRecognized(t *testing.T) {
	for name, tc := range map[string]struct {
		owners string
		want   bool
	}{
		"no owner":     {owners: `null`},
		"a ReplicaSet": {owners: `[{"apiVersion":"apps/v1","kind":"ReplicaSet","controller":true}]`},
		"a DaemonSet": {
			owners: `[{"apiVersion":"apps/v1","kind":"DaemonSet","name":"proxy","controller":true}]`, want: true,
		},
		"a DaemonSet that does not control it": {owners: `[{"apiVersion":"apps/v1","kind":"DaemonSet","controller":false}]`},
		"a DaemonSet that says nothing":        {owners: `[{"apiVersion":"apps/v1","kind":"DaemonSet"}]`},
		"a DaemonSet that says null":           {owners: `[{"apiVersion":"apps/v1","kind":"DaemonSet","controller":null}]`},
		"a DaemonSet of another group":         {owners: `[{"apiVersion":"apps.kruise.io/v1alpha1","kind":"DaemonSet","controller":true}]`},
		"a DaemonSet among others": {
			owners: `[null,{"apiVersion":"v1","kind":"Node"},{"apiVersion":"apps/v1","kind":"DaemonSet","controller":true}]`, want: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(ofDaemonSet(systemDecoded(t, `{"metadata":{"ownerReferences":`+tc.owners+`}}`))).To(Equal(tc.want))
		})
	}
}

func TestSystemComponentsPlanSelectsNodes(t *testing.T) {
	for name, tc := range map[string]struct {
		object    string
		configure map[string]string
		want      string
	}{
		"nothing is configured":                   {object: `{"spec":{"nodeSelector":{"a":"b"}}}`},
		"nothing is configured, nothing is there": {object: `{"spec":{}}`},
		"nothing but an empty map is configured":  {object: `{"spec":{}}`, configure: map[string]string{}},
		"no spec": {
			object: `{}`, configure: map[string]string{"a": "1"},
			want: `[{"op":"add","path":"/spec","value":{}},{"op":"add","path":"/spec/nodeSelector","value":{"a":"1"}}]`,
		},
		"no spec, nothing is configured": {object: `{}`},
		"no selector": {
			object: `{"spec":{}}`, configure: map[string]string{"b": "2", "a": "1"},
			want: `[{"op":"add","path":"/spec/nodeSelector","value":{"a":"1","b":"2"}}]`,
		},
		"a selector that is null": {
			object: `{"spec":{"nodeSelector":null}}`, configure: map[string]string{"a": "1"},
			want: `[{"op":"add","path":"/spec/nodeSelector","value":{"a":"1"}}]`,
		},
		"an empty selector": {
			object: `{"spec":{"nodeSelector":{}}}`, configure: map[string]string{"b": "2", "a": "1"},
			want: `[{"op":"add","path":"/spec/nodeSelector/a","value":"1"},{"op":"add","path":"/spec/nodeSelector/b","value":"2"}]`,
		},
		"other labels are kept": {
			object:    `{"spec":{"nodeSelector":{"other":"label"}}}`,
			configure: map[string]string{"worker.gardener.cloud/system-components": "true"},
			want:      `[{"op":"add","path":"/spec/nodeSelector/worker.gardener.cloud~1system-components","value":"true"}]`,
		},
		"the configured value wins": {
			object: `{"spec":{"nodeSelector":{"a":"0"}}}`, configure: map[string]string{"a": "1"},
			want: `[{"op":"add","path":"/spec/nodeSelector/a","value":"1"}]`,
		},
		"an empty value is added": {
			object: `{"spec":{"nodeSelector":{}}}`, configure: map[string]string{"a": ""},
			want: `[{"op":"add","path":"/spec/nodeSelector/a","value":""}]`,
		},
		"the same value": {
			object: `{"spec":{"nodeSelector":{"a":"1","other":"label"}}}`, configure: map[string]string{"a": "1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			document, err := planSystemComponents(systemDecoded(t, tc.object), config.SystemComponentsConfigWebhook{PodNodeSelector: tc.configure},
				nil).Encode()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(document)).To(Equal(tc.want))
		})
	}
}

func TestReplacedNodeSelectorIsWarnedOf(t *testing.T) {
	want := map[string]string{"b": "2", "a": "1", "c": "3"}
	for name, tc := range map[string]struct {
		object string
		want   []string
	}{
		"no spec":         {object: `{}`},
		"no selector":     {object: `{"spec":{}}`},
		"other labels":    {object: `{"spec":{"nodeSelector":{"other":"label"}}}`},
		"the same values": {object: `{"spec":{"nodeSelector":{"a":"1","b":"2"}}}`},
		"different values": {
			object: `{"spec":{"nodeSelector":{"b":"","a":"0","c":"3"}}}`,
			want:   []string{`spec.nodeSelector: "a" is set to "1" instead of "0"`, `spec.nodeSelector: "b" is set to "2" instead of ""`},
		},
		"a long value": {
			object: `{"spec":{"nodeSelector":{"a":"` + strings.Repeat("é", 200) + `"}}}`,
			want:   []string{`spec.nodeSelector: "a" is set to "1" instead of "` + strings.Repeat("é", 126) + `…"`},
		},
		"a value of ours":    {object: `{"spec":{"nodeSelector":{"c":"3"}}}`},
		"a selector is null": {object: `{"spec":{"nodeSelector":null}}`},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(overruledLabels(systemDecoded(t, tc.object), want)).To(Equal(tc.want))
		})
	}
}

func TestSystemComponentsPlanTolerates(t *testing.T) {
	configured := corev1.Toleration{Key: "c", Operator: "Equal", Value: "v", Effect: "NoExecute"}
	const wanted = `{"key":"c","operator":"Equal","value":"v","effect":"NoExecute"}`
	for name, tc := range map[string]struct {
		tolerations string
		configured  []corev1.Toleration
		taints      []corev1.Taint
		want        string
	}{
		"nothing":          {tolerations: `null`},
		"nothing is added": {tolerations: `[{"key":"a"}]`},
		"none is there": {
			tolerations: `null`, configured: []corev1.Toleration{configured},
			want: `[{"op":"add","path":"/spec/tolerations","value":[` + wanted + `]}]`,
		},
		"an empty list": {
			tolerations: `[]`, configured: []corev1.Toleration{configured},
			want: `[{"op":"add","path":"/spec/tolerations","value":[` + wanted + `]}]`,
		},
		"others precede": {
			tolerations: `[{"key":"a"}]`, configured: []corev1.Toleration{configured},
			want: `[{"op":"add","path":"/spec/tolerations/-","value":` + wanted + `}]`,
		},
		"it is there": {tolerations: `[` + wanted + `]`, configured: []corev1.Toleration{configured}},
		"it is configured twice": {
			tolerations: `null`, configured: []corev1.Toleration{configured, configured},
			want: `[{"op":"add","path":"/spec/tolerations","value":[` + wanted + `]}]`,
		},
		"it is there for a time only": {
			tolerations: `[{"key":"c","operator":"Equal","value":"v","effect":"NoExecute","tolerationSeconds":10}]`,
			configured:  []corev1.Toleration{configured}, want: `[{"op":"add","path":"/spec/tolerations/-","value":` + wanted + `}]`,
		},
		"it is there for another time": {
			tolerations: `[{"key":"c","tolerationSeconds":10}]`, configured: []corev1.Toleration{{Key: "c", TolerationSeconds: ptr.To[int64](0)}},
			want: `[{"op":"add","path":"/spec/tolerations/-","value":{"key":"c","tolerationSeconds":0}}]`,
		},
		"no operator is another than Equal": {
			tolerations: `[{"key":"c","value":"v","effect":"NoExecute"}]`, configured: []corev1.Toleration{configured},
			want: `[{"op":"add","path":"/spec/tolerations/-","value":` + wanted + `}]`,
		},
		"another effect": {
			tolerations: `[{"key":"c","operator":"Equal","value":"v","effect":"NoSchedule"}]`, configured: []corev1.Toleration{configured},
			want: `[{"op":"add","path":"/spec/tolerations/-","value":` + wanted + `}]`,
		},
		"an absent field is empty": {
			tolerations: `[{"key":"a","value":""},{"key":"a","tolerationSeconds":null}]`,
			want:        `[{"op":"add","path":"/spec/tolerations","value":[{"key":"a","value":""}]}]`,
		},
		"the Pod has it twice": {
			tolerations: `[{"key":"a","tolerationSeconds":10},{"key":"b"},{"tolerationSeconds":10,"key":"a"}]`,
			want:        `[{"op":"add","path":"/spec/tolerations","value":[{"key":"a","tolerationSeconds":10},{"key":"b"}]}]`,
		},
		"the Pod has it three times, and others": {
			tolerations: `[{"key":"a"},{"key":"a"},{"key":"b"},{"key":"a"},{"key":"b"}]`, configured: []corev1.Toleration{configured},
			want: `[{"op":"add","path":"/spec/tolerations","value":[{"key":"a"},{"key":"b"},` + wanted + `]}]`,
		},
		"tolerations that differ in a newer field": {tolerations: `[{"key":"a","newer":1},{"key":"a","newer":2},{"key":"a"}]`},
		"tolerations that are equal in a newer one": {
			tolerations: `[{"key":"a","newer":1},{"newer":1,"key":"a"}]`,
			want:        `[{"op":"add","path":"/spec/tolerations","value":[{"key":"a","newer":1}]}]`,
		},
		"others stay as they were sent": {
			tolerations: `[null,{"newer":{"deep":[1,null]},"key":"a","effect":""},{"key":"b"},{"key":"b"}]`,
			configured:  []corev1.Toleration{configured},
			want: `[{"op":"add","path":"/spec/tolerations","value":[null,{"newer":{"deep":[1,null]},"key":"a","effect":""},{"key":"b"},` + wanted +
				`]}]`,
		},
		"taints, sorted": {
			tolerations: `[]`,
			taints: []corev1.Taint{
				{Key: "b", Value: "2", Effect: "NoSchedule"},
				{Key: "b", Value: "1", Effect: "PreferNoSchedule"},
				{Key: "a", Effect: "NoExecute"},
				{Key: "b", Value: "1", Effect: "NoExecute"},
				{Key: "b", Value: "2", Effect: "NoSchedule"},
			},
			want: `[{"op":"add","path":"/spec/tolerations","value":[` +
				`{"key":"a","operator":"Exists","effect":"NoExecute"},{"key":"b","operator":"Equal","value":"1","effect":"NoExecute"},` +
				`{"key":"b","operator":"Equal","value":"1","effect":"PreferNoSchedule"},{"key":"b","operator":"Equal","value":"2",` +
				`"effect":"NoSchedule"}]}]`,
		},
		"taints that come and go": {
			tolerations: `[]`,
			taints: []corev1.Taint{
				{Key: "node.kubernetes.io/not-ready", Effect: "NoExecute"},
				{Key: "node.cloudprovider.kubernetes.io/uninitialized", Effect: "NoSchedule"},
				{Key: "kubernetes.io/arch", Effect: "NoSchedule"},
				{Key: "ToBeDeletedByClusterAutoscaler", Effect: "NoSchedule"},
			},
		},
		"taints with similar keys": {
			tolerations: `[]`,
			taints: []corev1.Taint{
				{Key: "kubernetes.io", Effect: "NoSchedule"}, {Key: "ToBeDeletedByClusterAutoscaler2", Effect: "NoSchedule"},
			},
			want: `[{"op":"add","path":"/spec/tolerations","value":[{"key":"ToBeDeletedByClusterAutoscaler2","operator":"Exists",` +
				`"effect":"NoSchedule"},{"key":"kubernetes.io","operator":"Exists","effect":"NoSchedule"}]}]`,
		},
		"a taint that is tolerated": {
			tolerations: `[{"key":"a","operator":"Exists","effect":"NoExecute"}]`, taints: []corev1.Taint{{Key: "a", Effect: "NoExecute"}},
		},
		"a taint that is configured": {
			tolerations: `[]`, configured: []corev1.Toleration{configured},
			taints: []corev1.Taint{{Key: "c", Value: "v", Effect: "NoExecute"}, {Key: "a", Effect: "NoExecute"}},
			want:   `[{"op":"add","path":"/spec/tolerations","value":[` + wanted + `,{"key":"a","operator":"Exists","effect":"NoExecute"}]}]`,
		},
		"configured and existing ones are not filtered": {
			tolerations: `[{"key":"node.kubernetes.io/not-ready","operator":"Exists"}]`,
			configured:  []corev1.Toleration{{Key: "node.kubernetes.io/unreachable", Operator: "Exists"}},
			want:        `[{"op":"add","path":"/spec/tolerations/-","value":{"key":"node.kubernetes.io/unreachable","operator":"Exists"}}]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			document, err := planSystemComponents(systemDecoded(t, `{"spec":{"tolerations":`+tc.tolerations+`}}`),
				config.SystemComponentsConfigWebhook{PodTolerations: tc.configured}, tc.taints).Encode()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(document)).To(Equal(tc.want))
		})
	}
}

// TestSystemComponentsManyDuplicatesAreOneChange judges a Pod with as many duplicates as fit into a request. API servers would be busy for
// seconds with one removal for each.
func TestSystemComponentsManyDuplicatesAreOneChange(t *testing.T) {
	duplicates := strings.TrimSuffix(strings.Repeat(`{"key":"a"},`, 20_000), ",")
	g := NewWithT(t)
	document, err := planSystemComponents(systemDecoded(t, `{"spec":{"tolerations":[`+duplicates+`]}}`),
		config.SystemComponentsConfigWebhook{}, nil).Encode()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(document)).To(Equal(`[{"op":"add","path":"/spec/tolerations","value":[{"key":"a"}]}]`))
}

func TestSystemComponentsPlanLeavesTheConfigurationAlone(t *testing.T) {
	g := NewWithT(t)
	tolerations := make([]corev1.Toleration, 1, 8)
	tolerations[0] = corev1.Toleration{Key: "c"}
	section := config.SystemComponentsConfigWebhook{PodTolerations: tolerations}
	g.Expect(planSystemComponents(systemDecoded(t, `{"spec":{}}`), section, []corev1.Taint{{Key: "a"}})).To(HaveLen(1))
	g.Expect(tolerations[:2]).To(BeComparableTo([]corev1.Toleration{{Key: "c"}, {}}))
}

func systemDecoded(t *testing.T, object string) systemPod {
	t.Helper()
	found := systemPod{}
	NewWithT(t).Expect(review.Decode([]byte(object), &found)).To(Succeed())
	return found
}

// systemNodes is a look-up that returns these taints if it is called with the expected selector.
type systemNodes []corev1.Taint

func (n systemNodes) taints(_ context.Context, selector map[string]string) ([]corev1.Taint, error) {
	if !equality.Semantic.DeepEqual(selector, map[string]string{"nodes": "selector"}) {
		return nil, fmt.Errorf("asked for nodes with %v", selector)
	}
	return n, nil
}

// failingNodes returns a look-up that fails.
func failingNodes(err error) object.Lookup[map[string]string, []corev1.Taint] {
	return func(context.Context, map[string]string) ([]corev1.Taint, error) { return nil, err }
}

func systemHandler(taints object.Lookup[map[string]string, []corev1.Taint]) review.Handler {
	return systemComponents().Review(Settings{
		Webhooks: config.Webhooks{SystemComponentsConfig: config.SystemComponentsConfigWebhook{
			NodeSelector:    map[string]string{"nodes": "selector"},
			PodNodeSelector: map[string]string{"additional": "selector"},
			PodTolerations:  []corev1.Toleration{{Key: "configured", Operator: "Equal", Value: "v1", Effect: "NoExecute"}},
		}},
		Taints: taints,
	})
}

func systemCreate(t *testing.T, object string) *review.Request {
	t.Helper()
	return reviewtest.Request(t, review.Create, corev1.SchemeGroupVersion.WithResource("pods"), object)
}

func TestSystemComponentsSelectsAndTolerates(t *testing.T) {
	response, after := reviewtest.Handle(t,
		systemHandler(systemNodes{{Key: "k3", Effect: "NoSchedule"}, {Key: "k1", Value: "v1", Effect: "NoExecute"}}.taints), systemCreate(t, `
apiVersion: v1
kind: Pod
metadata: {generateName: web-}
spec:
  nodeSelector: {other: label}
  tolerations: [{key: a, operator: Exists, unknown: kept}, {key: b, tolerationSeconds: 10}, {key: b, tolerationSeconds: 10}]
  unknown: kept
`))
	NewWithT(t).Expect(response.Allowed).To(BeTrue())
	reviewtest.Same(t, after, `
apiVersion: v1
kind: Pod
metadata: {generateName: web-}
spec:
  nodeSelector: {other: label, additional: selector}
  tolerations:
  - {key: a, operator: Exists, unknown: kept}
  - {key: b, tolerationSeconds: 10}
  - {key: configured, operator: Equal, value: v1, effect: NoExecute}
  - {key: k1, operator: Equal, value: v1, effect: NoExecute}
  - {key: k3, operator: Exists, effect: NoSchedule}
  unknown: kept
`)
}

func TestSystemComponentsWarnsOfWhatItReplaces(t *testing.T) {
	response, after := reviewtest.Handle(t, systemHandler(systemNodes{}.taints),
		systemCreate(t, `{apiVersion: v1, kind: Pod, spec: {nodeSelector: {additional: other}}}`))
	NewWithT(t).Expect(response.Warnings).To(Equal([]string{`spec.nodeSelector: "additional" is set to "selector" instead of "other"`}))
	reviewtest.Same(t, after, `{apiVersion: v1, kind: Pod, spec: {nodeSelector: {additional: selector}, tolerations: [{key: configured, `+
		`operator: Equal, value: v1, effect: NoExecute}]}}`)
}

func TestPodsOfDaemonSetsStayWithoutReadingNodes(t *testing.T) {
	response, _ := reviewtest.Handle(t, systemHandler(failingNodes(errors.New("nodes were read"))),
		systemCreate(t, `{apiVersion: v1, kind: Pod, metadata: {ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, controller: `+
			`true}]}, spec: {}}`))
	NewWithT(t).Expect(response).To(BeComparableTo(review.Response{Allowed: true, Code: 200}))
}

func TestSystemComponentsRefusesIfNodesCannotBeRead(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want review.Response
	}{
		"as the API server does": {
			err: apierrors.NewTimeoutError("too slow", 1),
			want: review.Response{
				Code: 504, Reason: "Timeout", Message: "Timeout: too slow", Details: &metav1.StatusDetails{RetryAfterSeconds: 1}, Failed: true,
			},
		},
		"for any other reason": {
			err:  errors.New("list nodes: broken"),
			want: review.Response{Code: 403, Reason: "Forbidden", Message: "list nodes: broken", Failed: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			response, _ := reviewtest.Handle(t, systemHandler(failingNodes(tc.err)), systemCreate(t, `{apiVersion: v1, kind: Pod, spec: {}}`))
			NewWithT(t).Expect(response).To(BeComparableTo(tc.want))
		})
	}
}

func TestSystemComponentsNamesTheFieldOfAWrongType(t *testing.T) {
	g := NewWithT(t)
	response, _ := reviewtest.Handle(t, systemHandler(systemNodes{}.taints),
		systemCreate(t, `{apiVersion: v1, kind: Pod, spec: {tolerations: [{tolerationSeconds: "10"}]}}`))
	g.Expect(response.Code).To(BeEquivalentTo(400))
	g.Expect(response.Message).To(Equal(`spec.tolerations[0].tolerationSeconds: must not be a string`))
}

func TestSystemComponentsAllowsDeletion(t *testing.T) {
	response, _ := reviewtest.Handle(t, systemHandler(systemNodes{}.taints),
		reviewtest.Request(t, review.Delete, corev1.SchemeGroupVersion.WithResource("pods"), `{apiVersion: v1, kind: Pod, spec: {}}`))
	NewWithT(t).Expect(response).To(BeComparableTo(review.Response{Allowed: true, Code: 200}))
}

func FuzzSystemComponents(f *testing.F) {
	for _, seed := range objecttest.Seeds() {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		objecttest.Case[corev1.Pod]{
			Handler: systemHandler(systemNodes{
				{Key: "k3", Effect: "NoSchedule"},
				{Key: "node.kubernetes.io/not-ready", Effect: "NoExecute"},
				{Key: "k1", Value: "v1", Effect: "NoExecute"},
			}.taints),
			Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Object: randomPod(),
			Touched: []string{"/spec/nodeSelector/additional", "/spec/tolerations"},
			Want:    systemPlaced,
		}.CheckRules(t, bytes)
	})
}

// systemPlaced makes the expected change in a Pod.
func systemPlaced(pod *corev1.Pod) bool {
	for _, owner := range pod.OwnerReferences {
		if owner.APIVersion == "apps/v1" && owner.Kind == "DaemonSet" && ptr.Deref(owner.Controller, false) {
			return true
		}
	}
	if pod.Spec.NodeSelector == nil {
		pod.Spec.NodeSelector = map[string]string{}
	}
	pod.Spec.NodeSelector["additional"] = "selector"
	var all []corev1.Toleration
	for _, each := range slices.Concat(pod.Spec.Tolerations, []corev1.Toleration{
		{Key: "configured", Operator: "Equal", Value: "v1", Effect: "NoExecute"},
		{Key: "k1", Operator: "Equal", Value: "v1", Effect: "NoExecute"},
		{Key: "k3", Operator: "Exists", Effect: "NoSchedule"},
	}) {
		if !slices.ContainsFunc(all, func(other corev1.Toleration) bool { return equality.Semantic.DeepEqual(each, other) }) {
			all = append(all, each)
		}
	}
	pod.Spec.Tolerations = all
	return true
}

// BenchmarkSystemComponents judges a Pod; the look-up returns three taints.
func BenchmarkSystemComponents(b *testing.B) {
	taints := systemNodes{
		{Key: "node.kubernetes.io/not-ready", Effect: "NoExecute"},
		{Key: "pool", Value: "system", Effect: "NoSchedule"},
		{Key: "pool", Value: "web", Effect: "NoSchedule"},
	}
	benchmark(b, systemHandler(taints.taints), &review.Request{
		Operation: review.Create, Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Namespace: "shop", Object: largePod(b),
	})
}
