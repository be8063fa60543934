package handlers_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/internal/webhook/webhooktest"
	"github.com/espalier-dev/espalier/test/binary"
)

const serviceHostBoth = `{spec: {initContainers: [{name: init, image: i}], containers: [{name: main, image: i}]}}`

func serviceHostServed(t *testing.T) *webhooktest.Env {
	t.Helper()
	return webhooktest.New(t, webhooktest.Options{Webhooks: "kubernetesServiceHost: {enabled: true, host: api.example.com}"})
}

// serviceHostEnvironments returns the environments of all containers, the init containers first.
func serviceHostEnvironments(pod *corev1.Pod) [][]corev1.EnvVar {
	var all [][]corev1.EnvVar
	for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		all = append(all, c.Env)
	}
	return all
}

func serviceHostHost(value string) corev1.EnvVar {
	return corev1.EnvVar{Name: "KUBERNETES_SERVICE_HOST", Value: value}
}

func TestAllContainersGetTheServiceHost(t *testing.T) {
	t.Parallel()
	e := serviceHostServed(t)
	e.Expect(serviceHostEnvironments(e.CreatePod(serviceHostBoth))).
		To(BeComparableTo([][]corev1.EnvVar{{serviceHostHost("api.example.com")}, {serviceHostHost("api.example.com")}}))
}

func TestContainersThatSetTheServiceHostStay(t *testing.T) {
	t.Parallel()
	e := serviceHostServed(t)
	pod := e.CreatePod(`{spec: {
  initContainers: [{name: init, image: i, env: [{name: KUBERNETES_SERVICE_HOST, value: already-set}]}],
  containers: [{name: main, image: i, env: [{name: KUBERNETES_SERVICE_HOST, value: already-set}]}]}}`)
	e.Expect(serviceHostEnvironments(pod)).
		To(BeComparableTo([][]corev1.EnvVar{{serviceHostHost("already-set")}, {serviceHostHost("already-set")}}))
}

func TestOnlyContainersWithoutTheServiceHostGetIt(t *testing.T) {
	t.Parallel()
	e := serviceHostServed(t)
	pod := e.CreatePod(`{spec: {
  initContainers: [{name: init, image: i, env: [{name: KUBERNETES_SERVICE_HOST, value: already-set}]}],
  containers: [{name: main, image: i}]}}`)
	e.Expect(serviceHostEnvironments(pod)).
		To(BeComparableTo([][]corev1.EnvVar{{serviceHostHost("already-set")}, {serviceHostHost("api.example.com")}}))
	pod = e.CreatePod(`{spec: {
  initContainers: [{name: init, image: i}],
  containers: [{name: main, image: i, env: [{name: KUBERNETES_SERVICE_HOST}]}]}}`)
	e.Expect(serviceHostEnvironments(pod)).To(BeComparableTo([][]corev1.EnvVar{{serviceHostHost("api.example.com")}, {serviceHostHost("")}}))
}

func TestServiceHostIsDisabledByTheLabelOfAPod(t *testing.T) {
	t.Parallel()
	e := serviceHostServed(t)
	pod := e.CreatePod(`{metadata: {labels: {apiserver-proxy.networking.gardener.cloud/inject: disable}}, ` + serviceHostBoth[1:])
	e.Expect(serviceHostEnvironments(pod)).To(BeComparableTo([][]corev1.EnvVar{nil, nil}))
	pod = e.CreatePod(`{metadata: {labels: {apiserver-proxy.networking.gardener.cloud/inject: other}}, ` + serviceHostBoth[1:])
	e.Expect(serviceHostEnvironments(pod)).
		To(BeComparableTo([][]corev1.EnvVar{{serviceHostHost("api.example.com")}, {serviceHostHost("api.example.com")}}),
			"another value does not opt out")
}

func TestServiceHostIsDisabledByTheLabelOfANamespace(t *testing.T) {
	t.Parallel()
	e := serviceHostServed(t)
	e.Expect(serviceHostEnvironments(e.CreatePod(serviceHostBoth))).
		To(BeComparableTo([][]corev1.EnvVar{{serviceHostHost("api.example.com")}, {serviceHostHost("api.example.com")}}))
	e.LabelNamespace("apiserver-proxy.networking.gardener.cloud/inject", "disable")
	e.Eventually(func() [][]corev1.EnvVar { return serviceHostEnvironments(e.CreatePod(serviceHostBoth)) }, binary.Patience).
		Should(BeComparableTo([][]corev1.EnvVar{nil, nil}))
}

func TestServiceHostIsAppendedToOtherVariables(t *testing.T) {
	t.Parallel()
	e := serviceHostServed(t)
	pod := e.CreatePod(`{spec: {containers: [{name: main, image: i, env: [{name: A, value: "1"}, {name: B, value: "2"}]}]}}`)
	e.Expect(serviceHostEnvironments(pod)).
		To(BeComparableTo([][]corev1.EnvVar{{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}, serviceHostHost("api.example.com")}}))
}
