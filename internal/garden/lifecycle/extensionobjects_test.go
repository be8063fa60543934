package lifecycle_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	extensionsv1alpha1 "github.com/espalier-dev/espalier/api/extensions/v1alpha1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/defaulting"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local/standin"
)

// newSceneOfToday returns a scene with the definitions of objects of extensions, with an Extension that offers all of them, and with its
// controllers. It has the Secrets of testdata/today.yaml, whose Garden it returns.
func newSceneOfToday(t *testing.T) (*scene, *operatorv1alpha1.Garden) {
	t.Helper()
	s := newScene(t)
	few := s.reconciler.OmitsDefinition
	s.reconciler.OmitsDefinition = func(name string) bool { return few(name) && !strings.HasSuffix(name, ".extensions.gardener.cloud") }
	s.reconciler.Operator.BackupEntry = true
	offering := &operatorv1alpha1.Extension{}
	s.Expect(yaml.UnmarshalStrict([]byte(`{metadata: {name: local}, spec: {resources: [{kind: BackupBucket, type: local},
		{kind: BackupEntry, type: local}, {kind: DNSRecord, type: local}, {kind: Extension, type: early, clusterCompatibility: [garden],
		lifecycle: {reconcile: BeforeKubeAPIServer, delete: AfterKubeAPIServer}}, {kind: Extension, type: late, autoEnable: [garden],
		clusterCompatibility: [garden]}]}}`), offering)).To(Succeed())
	s.Expect(s.admin.Create(t.Context(), offering)).To(Succeed())
	s.playExtension()

	text, err := os.ReadFile("testdata/today.yaml")
	s.Expect(err).NotTo(HaveOccurred())
	documents := strings.Split(string(text), "\n---\n")
	for _, each := range documents[:len(documents)-1] {
		secret := &unstructured.Unstructured{}
		s.Expect(yaml.Unmarshal([]byte(each), &secret.Object)).To(Succeed())
		s.Expect(s.admin.Create(t.Context(), secret)).To(Succeed())
	}
	today := &operatorv1alpha1.Garden{}
	s.Expect(yaml.UnmarshalStrict([]byte(documents[len(documents)-1]), today)).To(Succeed())
	today.Name = "garden"
	defaulting.Garden(today) // as the webhook does
	return s, today
}

// playExtension plays the controllers of an extension until the test ends.
func (s *scene) playExtension() {
	player := standin.Player{
		Client: s.admin, Idle: s.player.Idle, Failed: s.player.Failed,
		Parts: []standin.Part{
			standin.ExtensionObjects("BackupBucket", map[string]any{
				"generatedSecretRef": map[string]any{"namespace": s.namespace(), "name": "generated"},
				"providerStatus":     map[string]any{"kind": "BackupBucketStatus"},
			}),
			standin.ExtensionObjects("BackupEntry", nil), standin.ExtensionObjects("DNSRecord", nil),
			standin.ExtensionObjects("Extension", nil),
		},
	}
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() { player.Play(ctx) })
	s.t.Cleanup(func() { cancel(); ended.Wait() })
}

// extensionObjects returns the objects of extensions, as <kind>/<name>.
func (s *scene) extensionObjects() []string {
	s.t.Helper()
	all := []string{}
	for _, kind := range []string{"BackupBucket", "BackupEntry", "DNSRecord", "Extension"} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(extensionsv1alpha1.SchemeGroupVersion.WithKind(kind + "List"))
		s.Expect(s.admin.List(s.t.Context(), list)).To(Succeed())
		for i := range list.Items {
			all = append(all, kind+"/"+list.Items[i].GetName())
		}
	}
	return all
}

func (s *scene) extensionObject(kind, namespace, name string) map[string]any {
	s.t.Helper()
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(extensionsv1alpha1.SchemeGroupVersion.WithKind(kind))
	s.Expect(s.admin.Get(s.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, o)).To(Succeed())
	spec, _, err := unstructured.NestedMap(o.Object, "spec")
	s.Expect(err).NotTo(HaveOccurred())
	return spec
}

func TestGardenOfTodayGetsTheObjectsOfItsExtensions(t *testing.T) {
	s, today := newSceneOfToday(t)
	today.Spec.Extensions = []operatorv1alpha1.GardenExtension{{Type: "early"}}
	s.Expect(s.admin.Create(t.Context(), today)).To(Succeed())
	uid := string(s.get().UID)
	bucket, entry := "garden-"+uid, "garden--"+uid

	s.stop("BackupBucket")
	done := s.begin()
	s.task("Reconciling main ETCD backup bucket", "Running",
		Equal("BackupBucket "+bucket+" is not ready: no controller has begun to reconcile it"))
	s.Expect(s.exists(s.unstructuredEtcd(), s.namespace(), etcdMain)).To(BeFalse())
	s.idle.Delete("BackupBucket")
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(extensionsv1alpha1.SchemeGroupVersion.WithKind("BackupBucket"))
	object.SetName(bucket)
	s.Expect(s.admin.Patch(t.Context(), object, client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"annotations":{"example.com/again":""}}}`)))).To(Succeed(), "wakes its controller")
	s.Eventually(done, binary.Patience).Should(Receive(BeNil()))

	s.Expect(s.extensionObjects()).To(ConsistOf(
		"BackupBucket/"+bucket, "BackupEntry/"+entry, "DNSRecord/api-virtual-cases-example-com-local",
		"DNSRecord/gardener-virtual-cases-example-com-local", "DNSRecord/wildcard-runtime-cases-example-com-local",
		"Extension/garden-early", "Extension/garden-late",
	))
	s.Expect(s.extensionObject("DNSRecord", "garden", "wildcard-runtime-cases-example-com-local")).To(Equal(map[string]any{
		"type": "local", "class": "garden", "name": "*.runtime.cases.example.com", "recordType": "A", "values": []any{"192.0.2.2"},
		"secretRef": map[string]any{"namespace": "garden", "name": "cases-dns"},
	}))
	s.Expect(s.extensionObject("BackupBucket", "", bucket)).To(Equal(map[string]any{
		"type": "local", "class": "garden", "region": "here", "secretRef": map[string]any{"namespace": "garden", "name": "cases-backup"},
	}))
	s.Expect(s.extensionObject("BackupEntry", "", entry)).To(Equal(map[string]any{
		"type": "local", "class": "garden", "region": "here", "bucketName": bucket,
		"secretRef":                  map[string]any{"namespace": "garden", "name": "generated"},
		"backupBucketProviderStatus": map[string]any{"kind": "BackupBucketStatus"},
	}))
	store := s.etcd(etcdMain).Spec.Backup.Store
	s.Expect(*store.Container).To(Equal(bucket))
	s.Expect(store.SecretRef.Name).To(Equal("etcd-backup"))

	s.requests.Reset()
	s.mustReconcile()
	s.Expect(s.requests.Writes()).To(HaveEach(HaveSuffix("/gardens/garden/status")))

	s.requests.Reset()
	s.delete()
	_, err := s.reconcile()
	s.Expect(err).To(MatchError(ContainSubstring("BackupEntry " + entry + " has the backups of the Garden; to delete all of them, set the " +
		"annotation espalier.dev/confirm-lost-backups=" + bucket + " of the Garden")))
	s.Expect(s.extensionObjects()).To(ContainElements("BackupBucket/"+bucket, "BackupEntry/"+entry))
	s.confirmLostBackups()
	s.mustReconcile()
	s.Expect(s.isGone()).To(BeTrue())
	writes := s.requests.Writes()
	const api = "/apis/extensions.gardener.cloud/v1alpha1/"
	for _, each := range []string{
		"PATCH " + api + "backupentries/" + entry, "DELETE " + api + "backupentries/" + entry,
		"PATCH " + api + "backupbuckets/" + bucket, "DELETE " + api + "backupbuckets/" + bucket,
		"DELETE /apis/resources.gardener.cloud/v1alpha1/namespaces/garden/managedresources/garden-system",
	} {
		at := slices.Index(writes, each)
		s.Expect(at).To(BeNumerically(">=", 0), each)
		writes = writes[at:] // the next one comes later
	}
}

// confirmLostBackups confirms that the bucket of the Garden may be deleted.
func (s *scene) confirmLostBackups() {
	s.t.Helper()
	s.edit(annotated("espalier.dev/confirm-lost-backups", "garden-"+string(s.get().UID)))
}

func (s *scene) unstructuredEtcd() *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("druid.gardener.cloud/v1alpha1")
	o.SetKind("Etcd")
	return o
}

func TestObjectsOfExtensionsFollowTheGarden(t *testing.T) {
	s, today := newSceneOfToday(t)
	s.Expect(s.admin.Create(t.Context(), today)).To(Succeed())
	s.mustReconcile()
	records := s.extensionObjects()
	s.edit(func(g *operatorv1alpha1.Garden) { g.Spec.DNS.Providers[0].SecretRef.Name = "other" })
	_, err := s.reconcile()
	s.Expect(err).To(MatchError(ContainSubstring("secret garden/other of DNSRecord ")))
	s.Expect(s.extensionObjects()).To(Equal(records))
	other := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace(), Name: "other"}}
	s.Expect(s.admin.Create(t.Context(), other)).To(Succeed())
	s.edit(func(g *operatorv1alpha1.Garden) {
		config := &runtime.RawExtension{Raw: []byte(`{"kind":"Config"}`)}
		g.Spec.VirtualCluster.ETCD.Main.Backup.ProviderConfig = config
		g.Spec.Extensions = []operatorv1alpha1.GardenExtension{{Type: "late", ProviderConfig: config}}
	})
	s.mustReconcile()
	uid := string(s.get().UID)
	s.Expect(s.extensionObject("DNSRecord", "garden", "wildcard-runtime-cases-example-com-local")).To(
		HaveKeyWithValue("secretRef", HaveKeyWithValue("name", "other")))
	for kind, key := range map[string]client.ObjectKey{
		"BackupBucket": {Name: "garden-" + uid}, "BackupEntry": {Name: "garden--" + uid},
		"Extension": {Namespace: "garden", Name: "garden-late"},
	} {
		config := HaveKeyWithValue("providerConfig", HaveKeyWithValue("kind", "Config"))
		s.Expect(s.extensionObject(kind, key.Namespace, key.Name)).To(config, kind)
	}

	other.Data = map[string][]byte{"password": []byte("new")}
	s.Expect(s.admin.Update(t.Context(), other)).To(Succeed())
	s.requests.Reset()
	s.mustReconcile()
	const written = "PATCH /apis/extensions.gardener.cloud/v1alpha1/namespaces/garden/dnsrecords/"
	s.Expect(s.requests.Writes()).To(ContainElement(HavePrefix(written)), "its controller does not follow the Secret")
	s.requests.Reset()
	s.mustReconcile()
	s.Expect(s.requests.Writes()).NotTo(ContainElement(HavePrefix(written)))

	const more = "DNSRecord/wildcard-more-example-com-local"
	s.edit(func(g *operatorv1alpha1.Garden) {
		provider := g.Spec.VirtualCluster.DNS.Domains[0].Provider
		g.Spec.RuntimeCluster.Ingress.Domains = append(
			g.Spec.RuntimeCluster.Ingress.Domains, operatorv1alpha1.Domain{Name: "more.example.com", Provider: provider})
	})
	s.mustReconcile()
	s.Expect(s.extensionObjects()).To(ContainElement(more))
	s.edit(func(g *operatorv1alpha1.Garden) {
		g.Spec.RuntimeCluster.Ingress.Domains = g.Spec.RuntimeCluster.Ingress.Domains[:1]
	})
	s.mustReconcile()
	s.Expect(s.extensionObjects()).NotTo(ContainElement(more))
	before := s.extensionObjects()
	s.edit(func(g *operatorv1alpha1.Garden) { g.Spec.DNS = nil })
	s.mustReconcile()
	s.Expect(s.extensionObjects()).To(Equal(before), "the domains stay reachable when the user takes over the records")
	s.confirmLostBackups()
	s.delete()
	s.mustReconcile()
	s.Expect(s.isGone()).To(BeTrue())
}

func TestCrashPointsOfExtensionObjects(t *testing.T) {
	s, today := newSceneOfToday(t)
	binary.EveryCut(t, distance(900), func(t *testing.T, at binary.Cut) bool {
		t.Helper()
		s.Expect(s.admin.Create(t.Context(), today.DeepCopy())).To(Succeed())
		uid := string(s.get().UID)
		first := s.cut(at)
		s.Expect(s.extensionObjects()).To(ContainElements("BackupBucket/garden-"+uid, "BackupEntry/garden--"+uid,
			"DNSRecord/wildcard-runtime-cases-example-com-local", "Extension/garden-late"))
		s.Expect(s.extensionObjects()).To(HaveLen(6))
		s.requests.Reset()
		s.mustReconcile()
		s.Expect(s.requests.Writes()).To(HaveEach(HaveSuffix("/gardens/garden/status")))
		s.confirmLostBackups()
		s.delete()
		second := s.cut(at)
		s.Expect(s.isGone()).To(BeTrue())
		s.Expect(s.definitions("extensions.gardener.cloud")).To(BeEmpty(), "no object is left that keeps its definition")
		return first || second
	})
}
