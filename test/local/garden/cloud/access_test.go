package cloud

import (
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

func TestKubeconfigFollowsTheSecret(t *testing.T) {
	g := NewWithT(t)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	keeper := &access{file: file}
	withToken := func(token string) *corev1.Secret {
		content, err := clientcmd.Write(api.Config{
			Clusters:  map[string]*api.Cluster{"garden": {Server: "https://api.example.com", CertificateAuthorityData: []byte("authority")}},
			AuthInfos: map[string]*api.AuthInfo{"garden": {Token: token}},
			Contexts:  map[string]*api.Context{"garden": {Cluster: "garden", AuthInfo: "garden"}}, CurrentContext: "garden",
		})
		g.Expect(err).NotTo(HaveOccurred())
		return &corev1.Secret{Data: map[string][]byte{"kubeconfig": content}}
	}
	_, err := keeper.Reconcile(t.Context(), withToken(""))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(file).NotTo(BeAnExistingFile())
	for _, token := range []string{"first", "second"} {
		_, err = keeper.Reconcile(t.Context(), withToken(token))
		g.Expect(err).NotTo(HaveOccurred())
		config, problem := clientcmd.BuildConfigFromFlags("", file)
		g.Expect(problem).NotTo(HaveOccurred())
		g.Expect([]string{config.Host, config.ServerName, config.BearerToken, string(config.CAData)}).
			To(Equal([]string{"https://127.0.0.1:26653", "api.example.com", token, "authority"}))
	}
	for _, wrong := range []string{"{", "{}"} {
		_, err = keeper.Reconcile(t.Context(), &corev1.Secret{Data: map[string][]byte{"kubeconfig": []byte(wrong)}})
		g.Expect(err).To(HaveOccurred(), wrong)
	}
}
