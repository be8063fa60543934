package lifecycle_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/crds"
	"github.com/espalier-dev/espalier/internal/garden/defaulting"
)

// Each Garden is installed twice by this release: the second reconciliation accepts its own result.
func TestGardensOfFormerReleasesAreReconciled(t *testing.T) {
	files, err := filepath.Glob("testdata/releases/*.yaml")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(files).NotTo(BeEmpty())
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			s := newScene(t)
			text, err := os.ReadFile(file)
			s.Expect(err).NotTo(HaveOccurred())
			recorded := &operatorv1alpha1.Garden{}
			s.Expect(yaml.UnmarshalStrict(text, recorded)).To(Succeed())
			recorded.Name = "garden"
			defaulting.Garden(recorded) // as the webhook does
			s.provide(recorded)
			s.Expect(s.admin.Create(t.Context(), recorded)).To(Succeed())
			s.mustReconcile()
			s.Expect(s.get().Status.LastOperation.State).To(BeEquivalentTo("Succeeded"))
			s.requests.Reset()
			s.mustReconcile()
			s.Expect(s.requests.Writes()).To(HaveEach(HaveSuffix("/gardens/garden/status")))

			s.delete()
			s.mustReconcile()
			s.Expect(s.isGone()).To(BeTrue())
			namespace := &corev1.Namespace{}
			s.Expect(s.exists(namespace, "", s.namespace())).To(BeTrue())
			s.Expect(namespace.Annotations).NotTo(HaveKey("espalier.dev/runtime-networks"), "the next Garden has other networks")
		})
	}
}

// provide creates the objects that a Garden expects in the runtime cluster.
func (s *scene) provide(g *operatorv1alpha1.Garden) {
	s.t.Helper()
	expected, err := crds.VPA() // some Gardens have an autoscaler of the runtime cluster
	s.Expect(err).NotTo(HaveOccurred())
	for _, each := range expected {
		if slices.Contains(fewDefinitions, each.GetName()) {
			s.Expect(client.IgnoreAlreadyExists(s.admin.Create(s.t.Context(), each))).To(Succeed())
		}
	}
	if etcd := g.Spec.VirtualCluster.ETCD; etcd != nil && etcd.Main != nil && etcd.Main.Backup != nil {
		s.Expect(s.admin.Create(s.t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace(), Name: etcd.Main.Backup.SecretRef.Name},
		})).To(Succeed())
	}
}
