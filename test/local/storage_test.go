package local

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func TestStorageRestoresTheObjectsThatItHolds(t *testing.T) {
	if testing.Short() {
		t.Skip("needs an API server")
	}
	g, ctx := NewWithT(t), t.Context()
	servers, err := ForTests()
	g.Expect(err).NotTo(HaveOccurred())
	clients, err := kubernetes.NewForConfig(servers.Target.Config)
	g.Expect(err).NotTo(HaveOccurred())
	namespace, err := clients.CoreV1().Namespaces().Create(
		ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	objects, secrets := clients.CoreV1().ConfigMaps(namespace.Name), clients.CoreV1().Secrets(namespace.Name)
	create := func(name string) *corev1.ConfigMap {
		t.Helper()
		created, failure := objects.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		g.Expect(failure).NotTo(HaveOccurred())
		return created
	}
	deleted, changed, unchanged := create("deleted"), create("changed"), create("unchanged")
	storage, err := servers.Target.Storage(func(key string) bool {
		return strings.HasPrefix(key, "/registry/configmaps/"+namespace.Name+"/")
	})
	g.Expect(err).NotTo(HaveOccurred())
	stored, err := storage.Copy(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(stored).To(HaveLen(3))

	var versions []string
	for range 2 { // in the second round, the Storage knows the revisions that it has written itself
		g.Expect(objects.Delete(ctx, deleted.Name, metav1.DeleteOptions{})).To(Succeed())
		other := changed.DeepCopy()
		other.ResourceVersion, other.Data = "", map[string]string{"a": "b"}
		_, err = objects.Update(ctx, other, metav1.UpdateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		create("created")
		_, err = secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "other-"}}, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(storage.Restore(ctx, stored)).To(Succeed())

		list, failure := objects.List(ctx, metav1.ListOptions{})
		g.Expect(failure).NotTo(HaveOccurred())
		versions = nil
		for i := range list.Items {
			versions = append(versions, list.Items[i].ResourceVersion)
			list.Items[i].ResourceVersion = ""
		}
		want := []corev1.ConfigMap{*changed.DeepCopy(), *deleted.DeepCopy(), *unchanged.DeepCopy()}
		for i := range want {
			want[i].ResourceVersion = ""
		}
		g.Expect(list.Items).To(BeComparableTo(want), "with their UIDs")
		g.Expect(versions[2]).To(Equal(unchanged.ResourceVersion), "it is not written again")
		g.Expect(versions[0]).NotTo(Equal(versions[1]), "a watch that ends between the changes continues with the second one")
		_, err = objects.Get(ctx, "created", metav1.GetOptions{})
		g.Expect(err).To(Satisfy(apierrors.IsNotFound))
	}
	others, err := secrets.List(ctx, metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(others.Items).To(HaveLen(2), "it does not hold them")

	g.Expect(storage.Restore(ctx, stored)).To(Succeed())
	list, err := objects.List(ctx, metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	for i := range list.Items {
		g.Expect(list.Items[i].ResourceVersion).To(Equal(versions[i]), "nothing differs")
	}
}
