package servicehost_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/internal/webhook/podtest"
	"github.com/espalier-dev/espalier/internal/webhook/webhooktest"
	"github.com/espalier-dev/espalier/test/binary"
)

const both = `{spec: {initContainers: [{name: init, image: i}], containers: [{name: main, image: i}]}}`

func served(t *testing.T) *webhooktest.Env {
	t.Helper()
	return webhooktest.New(t, webhooktest.Options{Webhooks: "kubernetesServiceHost: {enabled: true, host: api.example.com}"})
}

// environments are those of all containers, the init containers first.
func environments(pod *corev1.Pod) [][]corev1.EnvVar {
	var all [][]corev1.EnvVar
	for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		all = append(all, c.Env)
	}
	return all
}

func host(value string) corev1.EnvVar {
	return corev1.EnvVar{Name: "KUBERNETES_SERVICE_HOST", Value: value}
}

func TestAcceptance5_1BothContainersGetTheVariable(t *testing.T) {
	t.Parallel()
	e := served(t)
	e.Expect(environments(podtest.Create(e, both))).To(BeComparableTo([][]corev1.EnvVar{{host("api.example.com")}, {host("api.example.com")}}))
}

func TestAcceptance5_2ContainersThatSetTheVariableStay(t *testing.T) {
	t.Parallel()
	e := served(t)
	pod := podtest.Create(e, `{spec: {
  initContainers: [{name: init, image: i, env: [{name: KUBERNETES_SERVICE_HOST, value: already-set}]}],
  containers: [{name: main, image: i, env: [{name: KUBERNETES_SERVICE_HOST, value: already-set}]}]}}`)
	e.Expect(environments(pod)).To(BeComparableTo([][]corev1.EnvVar{{host("already-set")}, {host("already-set")}}))
}

func TestAcceptance5_3OnlyTheOtherContainerIsChanged(t *testing.T) {
	t.Parallel()
	e := served(t)
	pod := podtest.Create(e, `{spec: {
  initContainers: [{name: init, image: i, env: [{name: KUBERNETES_SERVICE_HOST, value: already-set}]}],
  containers: [{name: main, image: i}]}}`)
	e.Expect(environments(pod)).To(BeComparableTo([][]corev1.EnvVar{{host("already-set")}, {host("api.example.com")}}))
	pod = podtest.Create(e, `{spec: {
  initContainers: [{name: init, image: i}],
  containers: [{name: main, image: i, env: [{name: KUBERNETES_SERVICE_HOST}]}]}}`)
	e.Expect(environments(pod)).To(BeComparableTo([][]corev1.EnvVar{{host("api.example.com")}, {host("")}}))
}

func TestAcceptance5_4APodOptsOut(t *testing.T) {
	t.Parallel()
	e := served(t)
	pod := podtest.Create(e, `{metadata: {labels: {apiserver-proxy.networking.gardener.cloud/inject: disable}}, `+both[1:])
	e.Expect(environments(pod)).To(BeComparableTo([][]corev1.EnvVar{nil, nil}))
	pod = podtest.Create(e, `{metadata: {labels: {apiserver-proxy.networking.gardener.cloud/inject: other}}, `+both[1:])
	e.Expect(environments(pod)).To(BeComparableTo([][]corev1.EnvVar{{host("api.example.com")}, {host("api.example.com")}}), "another value does not opt out")
}

func TestAcceptance5_5ANamespaceOptsOut(t *testing.T) {
	t.Parallel()
	e := served(t)
	e.Expect(environments(podtest.Create(e, both))).To(BeComparableTo([][]corev1.EnvVar{{host("api.example.com")}, {host("api.example.com")}}))
	e.LabelNamespace("apiserver-proxy.networking.gardener.cloud/inject", "disable")
	e.Eventually(func() [][]corev1.EnvVar { return environments(podtest.Create(e, both)) }, binary.Patience).Should(BeComparableTo([][]corev1.EnvVar{nil, nil}))
}

func TestAcceptance5_6OtherVariablesPrecede(t *testing.T) {
	t.Parallel()
	e := served(t)
	pod := podtest.Create(e, `{spec: {containers: [{name: main, image: i, env: [{name: A, value: "1"}, {name: B, value: "2"}]}]}}`)
	e.Expect(environments(pod)).To(BeComparableTo([][]corev1.EnvVar{{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}, host("api.example.com")}}))
}
