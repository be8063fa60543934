package handlers

import (
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/admission/reviewtest"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/webhook/objecttest"
)

func TestServiceHostPlan(t *testing.T) {
	for name, tc := range map[string]struct{ spec, host, want string }{
		"no containers":            {spec: `{}`},
		"containers are null":      {spec: `{"initContainers":null,"containers":null}`},
		"a container that is null": {spec: `{"containers":[null]}`},
		"an absent list of variables is set": {
			spec: `{"containers":[{"name":"a"}]}`,
			want: `[{"op":"add","path":"/spec/containers/0/env","value":[{"name":"KUBERNETES_SERVICE_HOST","value":"api.example.com"}]}]`,
		},
		"so is one that is null": {
			spec: `{"containers":[{"env":null}]}`,
			want: `[{"op":"add","path":"/spec/containers/0/env","value":[{"name":"KUBERNETES_SERVICE_HOST","value":"api.example.com"}]}]`,
		},
		"and an empty one": {
			spec: `{"containers":[{"env":[]}]}`,
			want: `[{"op":"add","path":"/spec/containers/0/env","value":[{"name":"KUBERNETES_SERVICE_HOST","value":"api.example.com"}]}]`,
		},
		"other variables precede": {
			spec: `{"containers":[{"env":[{"name":"A","value":"1"}]}]}`,
			want: `[{"op":"add","path":"/spec/containers/0/env/-","value":{"name":"KUBERNETES_SERVICE_HOST","value":"api.example.com"}}]`,
		},
		"init containers come first": {
			spec: `{"containers":[{}],"initContainers":[{}]}`,
			want: `[{"op":"add","path":"/spec/initContainers/0/env","value":[{"name":"KUBERNETES_SERVICE_HOST","value":"api.example.com"}]},` +
				`{"op":"add","path":"/spec/containers/0/env","value":[{"name":"KUBERNETES_SERVICE_HOST","value":"api.example.com"}]}]`,
		},
		"a value is kept": {
			spec: `{"containers":[{"env":[{"name":"KUBERNETES_SERVICE_HOST","value":"already-set"}]}]}`,
		},
		"an empty value is kept": {spec: `{"containers":[{"env":[{"name":"KUBERNETES_SERVICE_HOST"}]}]}`},
		"a value from elsewhere is kept": {
			spec: `{"containers":[{"env":[{"name":"KUBERNETES_SERVICE_HOST","valueFrom":{"fieldRef":{"fieldPath":"status.hostIP"}}}]}]}`,
		},
		"each container is decided on by itself": {
			spec: `{"containers":[{"env":[{"name":"KUBERNETES_SERVICE_HOST"}]},{}]}`,
			want: `[{"op":"add","path":"/spec/containers/1/env","value":[{"name":"KUBERNETES_SERVICE_HOST","value":"api.example.com"}]}]`,
		},
		"ephemeral containers stay": {spec: `{"ephemeralContainers":[{"name":"debug"}]}`},
		"an empty host is set": {
			spec: `{"containers":[{}]}`, host: "-",
			want: `[{"op":"add","path":"/spec/containers/0/env","value":[{"name":"KUBERNETES_SERVICE_HOST"}]}]`,
		},
		"the name of the port's variable is another": {
			spec: `{"containers":[{"env":[{"name":"KUBERNETES_SERVICE_PORT","value":"443"}]}]}`,
			want: `[{"op":"add","path":"/spec/containers/0/env/-","value":{"name":"KUBERNETES_SERVICE_HOST","value":"api.example.com"}}]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			host := map[string]string{"": "api.example.com", "-": ""}[tc.host]
			found := hostPod{}
			g.Expect(review.Decode([]byte(`{"spec":`+tc.spec+`}`), &found)).To(Succeed())
			document, err := planServiceHost(found, host).Encode()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(document)).To(Equal(tc.want))
		})
	}
}

// TestServiceHostTooManyChangesEndEarly judges a Pod that would need more changes than one patch may have.
func TestServiceHostTooManyChangesEndEarly(t *testing.T) {
	found := hostPod{}
	g := NewWithT(t)
	g.Expect(review.Decode([]byte(`{"spec":{"initContainers":[`+strings.Repeat(`{},`, 30_000)+`{}],"containers":[`+
		strings.Repeat(`{},`, 30_000)+`{}]}}`), &found)).To(Succeed())
	changes := planServiceHost(found, "api.example.com")
	g.Expect(changes).To(HaveLen(10_001))
	_, err := changes.Encode()
	g.Expect(err).To(MatchError("the object needs too many changes: 10001, at most 10000 are made"))
}

var serviceHostHandler = kubernetesServiceHost().Review(Settings{
	Webhooks: config.Webhooks{KubernetesServiceHost: config.KubernetesServiceHostWebhook{Host: "api.example.com"}},
})

func TestServiceHostGivesTheVariableToAllContainers(t *testing.T) {
	g := NewWithT(t)
	response, after := reviewtest.Handle(t, serviceHostHandler, reviewtest.Request(t, review.Create,
		corev1.SchemeGroupVersion.WithResource("pods"), `
apiVersion: v1
kind: Pod
metadata: {name: web, unknown: {kept: true}}
spec:
  initContainers: [{name: init}]
  containers: [{name: web, env: [{name: A, value: "1", unknown: kept}]}]
  ephemeralContainers: [{name: debug}]
`))
	g.Expect(response.Message).To(BeEmpty())
	reviewtest.Same(t, after, `
apiVersion: v1
kind: Pod
metadata: {name: web, unknown: {kept: true}}
spec:
  initContainers: [{name: init, env: [{name: KUBERNETES_SERVICE_HOST, value: api.example.com}]}]
  containers: [{name: web, env: [{name: A, value: "1", unknown: kept}, {name: KUBERNETES_SERVICE_HOST, value: api.example.com}]}]
  ephemeralContainers: [{name: debug}]
`)
}

func TestServiceHostNamesTheFieldOfAWrongType(t *testing.T) {
	g := NewWithT(t)
	response, _ := reviewtest.Handle(t, serviceHostHandler,
		reviewtest.Request(t, review.Create, corev1.SchemeGroupVersion.WithResource("pods"),
			`{apiVersion: v1, kind: Pod, spec: {containers: {}}}`))
	g.Expect(response.Code).To(BeEquivalentTo(400))
	g.Expect(response.Message).To(Equal(`spec.containers: must not be an object`))
}

func TestServiceHostAllowsDeletion(t *testing.T) {
	response, _ := reviewtest.Handle(t, serviceHostHandler,
		reviewtest.Request(t, review.Delete, corev1.SchemeGroupVersion.WithResource("pods"),
			`{apiVersion: v1, kind: Pod, spec: {containers: [{}]}}`))
	NewWithT(t).Expect(response).To(BeComparableTo(review.Response{Allowed: true, Code: 200}))
}

func FuzzServiceHost(f *testing.F) {
	for _, seed := range objecttest.Seeds() {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		objecttest.Case[corev1.Pod]{
			Handler: serviceHostHandler, Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Object: randomPod(),
			Touched: []string{"/spec/initContainers/*/env", "/spec/containers/*/env"},
			Want: func(pod *corev1.Pod) bool {
				for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
					for i := range containers {
						env := &containers[i].Env
						if !slices.ContainsFunc(*env, func(v corev1.EnvVar) bool { return v.Name == "KUBERNETES_SERVICE_HOST" }) {
							*env = append(*env, corev1.EnvVar{Name: "KUBERNETES_SERVICE_HOST", Value: "api.example.com"})
						}
					}
				}
				return true
			},
		}.CheckRules(t, bytes)
	})
}

func BenchmarkServiceHost(b *testing.B) {
	benchmark(b, serviceHostHandler, &review.Request{
		Operation: review.Create, Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Namespace: "shop", Object: largePod(b),
	})
}
