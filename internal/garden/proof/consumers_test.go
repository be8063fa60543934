package proof

import (
	"encoding/base64"
	"encoding/pem"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func TestConsumersHaveExactlyThePresentAuthorities(t *testing.T) {
	certificate := func(content string) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(content)}))
	}
	former, current := certificate("former"), certificate("current")
	bundle := []byte(current + former)
	encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	kubeconfig := func(authorities string) []string {
		config := clientcmdapi.NewConfig()
		config.Clusters["a"] = &clientcmdapi.Cluster{Server: "https://a", CertificateAuthorityData: []byte(authorities)}
		content, err := clientcmd.Write(*config)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		return kubeconfigProblems("gardener", content, bundle)
	}
	service := func(name, authorities, available string) []string {
		return apiServiceProblems(map[string]any{
			"metadata": map[string]any{"name": "v1.a"},
			"spec":     map[string]any{"service": map[string]any{"name": name}, "caBundle": encode(authorities)},
			"status":   map[string]any{"conditions": []any{map[string]any{"type": "Available", "status": available}}},
		}, bundle)
	}
	webhook := func(url, authorities string) []string {
		return webhookProblems(map[string]any{"webhooks": []any{map[string]any{
			"name": "a.b", "clientConfig": map[string]any{"url": url, "caBundle": encode(authorities)},
		}}}, "garden", bundle)
	}
	g := NewWithT(t)
	g.Expect(kubeconfig(former + current)).To(BeEmpty())
	for _, each := range []string{former, current, former + current + certificate("other")} {
		g.Expect(kubeconfig(each)).To(Equal([]string{"the kubeconfig in Secret gardener does not have the present authorities"}))
	}
	g.Expect(kubeconfigProblems("gardener", []byte("{topsecret"), bundle)).To(Equal(
		[]string{"the kubeconfig in Secret gardener cannot be read"},
	))
	g.Expect(service("gardener-apiserver", current+former, "True")).To(BeEmpty())
	g.Expect(service("other", "", "False")).To(BeEmpty())
	g.Expect(service("gardener-apiserver", former, "False")).To(Equal(
		[]string{"APIService v1.a does not have the present authorities", "APIService v1.a is not available"},
	))
	const url = "https://gardener-admission-controller.garden/webhooks/a"
	g.Expect(webhook(url, current+former)).To(BeEmpty())
	g.Expect(webhook("https://other.garden/", former)).To(BeEmpty())
	g.Expect(webhook(url, former)).To(Equal([]string{"webhook a.b does not have the present authorities"}))
}
