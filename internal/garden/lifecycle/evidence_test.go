package lifecycle_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/garden/components"
	"github.com/espalier-dev/espalier/internal/secrets"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
	"github.com/espalier-dev/espalier/test/binary"
)

const confirmLostKeys = "espalier.dev/confirm-lost-keys"

// lose deletes the Secret with the current key of a logical name, and returns it as a backup has it.
func (s *scene) lose(logicalName string) *corev1.Secret {
	s.t.Helper()
	all := s.secrets(logicalName)
	lost := all[len(all)-1].DeepCopy()
	for i := range all {
		if all[i].Labels["last-rotation-initiation-time"] > lost.Labels["last-rotation-initiation-time"] {
			lost = all[i].DeepCopy()
		}
	}
	s.Expect(s.admin.Delete(s.t.Context(), lost)).To(Succeed())
	lost.ResourceVersion, lost.UID, lost.ManagedFields = "", "", nil
	return lost
}

// stopsAt expects that a reconciliation neither succeeds nor generates a lost key again.
func (s *scene) stopsAt(lost *corev1.Secret) {
	s.t.Helper()
	_, err := s.reconcile()
	s.Expect(err).To(MatchError(And(
		ContainSubstring("Secret garden/"+lost.Name+" is missing"),
		HaveSuffix("restore the Secret from a backup, or, if it is lost for ever, annotate the Garden with "+confirmLostKeys+": "+lost.Name),
	)))
	s.Expect(s.get().Status.LastOperation.Description).To(ContainSubstring(lost.Name))
	s.Expect(s.exists(&corev1.Secret{}, s.namespace(), lost.Name)).To(BeFalse())
}

func TestLostKeyIsNotGeneratedAgain(t *testing.T) {
	s := newInstalledScene(t)
	for _, name := range []string{
		"ca", "service-account-key", "kube-apiserver-etcd-encryption-key", "gardener-apiserver-etcd-encryption-key",
		"gardener-apiserver-workload-identity-signing-key",
	} {
		lost := s.lose(name)
		s.stopsAt(lost)
		s.edit(annotated(confirmLostKeys, lost.Name+"0, "+name))
		s.stopsAt(lost)
		s.Expect(s.admin.Create(t.Context(), lost)).To(Succeed(), "restored")
		s.mustReconcile()
		s.Expect(s.secrets(name)).To(HaveLen(1))
	}

	const name = "kube-apiserver-etcd-encryption-key"
	lost := s.lose(name)
	s.Expect(s.get().Annotations).NotTo(HaveKey(confirmLostKeys), "it confirms what was lost before a reconciliation that succeeds")
	s.edit(annotated(confirmLostKeys, "other, "+lost.Name))
	s.mustReconcile()
	generated := s.secrets(name)
	s.Expect(generated).To(HaveLen(1))
	s.Expect(generated[0].Name).To(Equal(lost.Name))
	s.Expect(bytes.Equal(generated[0].Data["secret"], lost.Data["secret"])).To(BeFalse())
	s.Expect(s.get().Annotations).NotTo(HaveKey(confirmLostKeys))

	former, err := secretconfig.ParseEncryptionKey(lost.Data)
	s.Expect(err).NotTo(HaveOccurred())
	// Only the encryption configuration has the lost key, with which data in etcd may be encrypted.
	s.delete()
	s.mustReconcile()
	s.Expect(s.isGone()).To(BeTrue())
	s.expectNothingLeft()
	s.Expect(s.kept()).To(ContainElement(And(
		HaveField("Labels", And(
			HaveKeyWithValue("espalier.dev/kept-credential", name), HaveKeyWithValue("espalier.dev/kept-generation", "earlier"),
		)),
		HaveField("Data", HaveKeyWithValue("encryption-configuration.yaml", ContainSubstring(former.Secret))),
	)))
}

func TestLostKeyOfARotationIsNotGeneratedAgain(t *testing.T) {
	const name = "kube-apiserver-etcd-encryption-key"
	s := newInstalledScene(t)
	s.serve(s.connect(s.virtual, nil), alwaysEncrypted())
	before := s.get().Status.Credentials
	s.clock.SetTime(start.Add(time.Hour))
	s.edit(annotated("gardener.cloud/operation", "rotate-etcd-encryption-key-start"))
	s.mustReconcile()
	s.Expect(s.secrets(name)).To(HaveLen(2))
	second := s.lose(name)
	s.stopsAt(second)
	s.Expect(s.admin.Create(t.Context(), second)).To(Succeed())

	first := s.secrets(name)[0].DeepCopy()
	if first.Name == second.Name {
		first = s.secrets(name)[1].DeepCopy()
	}
	s.Expect(s.admin.Delete(t.Context(), first)).To(Succeed())
	s.mustReconcile()
	configuration := &corev1.Secret{}
	s.Expect(s.exists(configuration, s.namespace(), s.mounted("etcd-encryption-secret"))).To(BeTrue())
	text := string(configuration.Data["encryption-configuration.yaml"])
	s.Expect(text).To(And(ContainSubstring("- name: "+string(first.Data["key"])), ContainSubstring("- name: "+string(second.Data["key"]))),
		"the configuration has the last copy of the first key")
	s.Expect(configuration.Annotations).To(HaveKeyWithValue("resources.gardener.cloud/keep-object", "true"))

	s.edit(annotated("gardener.cloud/operation", "rotate-etcd-encryption-key-complete"))
	s.mustReconcile()
	s.Expect(s.exists(configuration, s.namespace(), configuration.Name)).To(BeTrue())
	s.Expect(configuration.Annotations).NotTo(HaveKey("resources.gardener.cloud/keep-object"), "nothing needs the first key any more")
	completed := s.get().Status.Credentials

	// The user also restores the status of the Garden, from a backup from before the rotation.
	s.clock.SetTime(start.Add(2 * time.Hour))
	s.edit(annotated("gardener.cloud/operation", "rotate-etcd-encryption-key"))
	s.mustReconcile()
	s.mustReconcile()
	s.Expect(s.get().Status.Credentials.Rotation.ETCDEncryptionKey.Phase).To(BeEquivalentTo("Completed"))
	s.restoreStatus(completed)
	s.stopsAt(second)
	s.restoreStatus(before)
	s.mustReconcile()
	s.Expect(s.secrets(name)).To(HaveLen(1))
	s.Expect(s.secrets(name)[0].Name).NotTo(Or(Equal(first.Name), Equal(second.Name)), "its label says from which rotation it is")
}

// The status is restored from a backup from before a rotation, and the Secret of that rotation is lost, while the one before still exists.
func TestLostKeyInUseIsNotReplacedByAnEarlierOne(t *testing.T) {
	const name = "service-account-key"
	s := newInstalledScene(t)
	s.expectKnownUsersOfKeys()
	before, first := s.get().Status.Credentials, s.secrets(name)[0].Name
	s.edit(annotated("gardener.cloud/operation", "rotate-serviceaccount-key-start"))
	s.mustReconcile()
	second := s.lose(name)
	s.restoreStatus(before)
	s.stopsAt(second)
	s.Expect(s.mounted(name)).To(Equal(second.Name))
	restored := second.DeepCopy()
	s.Expect(s.admin.Create(t.Context(), restored)).To(Succeed())
	s.mustReconcile()
	s.Expect(s.mounted(name)).To(Equal(second.Name))

	s.Expect(s.admin.Delete(t.Context(), restored)).To(Succeed())
	bundle := s.mounted(name + "-bundle")
	s.edit(annotated(confirmLostKeys, second.Name))
	_, err := s.reconcile()
	s.Expect(err).To(MatchError(HaveSuffix("annotate the Garden with "+confirmLostKeys+": "+second.Name+", "+bundle)),
		"the first confirmation stays necessary")
	s.edit(annotated(confirmLostKeys, second.Name+", "+bundle))
	s.mustReconcile()
	s.Expect(s.mounted(name)).To(Equal(first))
	s.Expect(s.get().Annotations).NotTo(HaveKey(confirmLostKeys))
	s.mustReconcile()
}

// expectKnownUsersOfKeys expects that the operator deploys names of keys only in objects whose keys it never replaces by earlier ones.
func (s *scene) expectKnownUsersOfKeys() {
	s.t.Helper()
	deployments, sets := &appsv1.DeploymentList{}, &resourcesv1alpha1.ManagedResourceList{}
	s.Expect(s.admin.List(s.t.Context(), deployments, client.InNamespace(s.namespace()))).To(Succeed())
	s.Expect(s.admin.List(s.t.Context(), sets, client.InNamespace(s.namespace()))).To(Succeed())
	manifests := map[string][]byte{}
	for i := range deployments.Items {
		manifest, err := json.Marshal(deployments.Items[i])
		s.Expect(err).NotTo(HaveOccurred())
		manifests[deployments.Items[i].Name] = manifest
	}
	for i := range sets.Items {
		for _, each := range sets.Items[i].Spec.SecretRefs {
			content := &corev1.Secret{}
			s.Expect(s.exists(content, s.namespace(), each.Name)).To(BeTrue())
			manifests[sets.Items[i].Name] = slices.Concat(slices.Collect(maps.Values(content.Data))...)
		}
	}
	found := map[string]bool{}
	for object, manifest := range manifests {
		for _, secret := range secrets.NamesIn(manifest) {
			for _, key := range components.RotatedSecrets().Kept() {
				if is, isBundle := secrets.IsNameOf(key, secret); is && !isBundle {
					found[object] = true
				}
			}
		}
	}
	s.Expect(slices.Sorted(maps.Keys(found))).To(Equal([]string{
		"gardener-apiserver-runtime", "virtual-garden-kube-apiserver", "virtual-garden-kube-controller-manager",
	}))
}

// restoreStatus replaces the credentials in the status.
func (s *scene) restoreStatus(credentials *operatorv1alpha1.Credentials) {
	s.t.Helper()
	g := s.get()
	g.Status.Credentials = credentials
	s.Expect(s.admin.Status().Update(s.t.Context(), g)).To(Succeed())
}

func TestVolumesThatAreOlderThanTheGardenKeepItsKeysFromBeingGenerated(t *testing.T) {
	s := newScene(t)
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace(), Name: "main-virtual-garden-etcd-virtual-garden-etcd-main-0"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	createClaim := func() {
		claim.ResourceVersion, claim.UID = "", ""
		s.Expect(s.admin.Create(t.Context(), claim)).To(Succeed())
	}
	deleteClaim := func() {
		s.Expect(client.IgnoreNotFound(s.admin.Delete(t.Context(), claim))).To(Succeed())
		without := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		s.Expect(client.IgnoreNotFound(s.admin.Patch(t.Context(), claim, without))).To(Succeed())
	}
	createClaim()
	defer deleteClaim()
	s.Eventually(func() time.Time { // creation timestamps have a resolution of one second
		tried := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace(), Name: "time"}}
		s.Expect(s.admin.Create(t.Context(), tried, client.DryRunAll)).To(Succeed())
		return tried.CreationTimestamp.Time
	}, binary.Patience).Should(BeTemporally(">", claim.CreationTimestamp.Time))
	s.create()
	_, err := s.reconcile()
	s.Expect(err).To(MatchError(ContainSubstring("is not generated again because PersistentVolumeClaim garden/" + claim.Name + " is older")))
	s.Expect(s.secrets("ca-etcd")).To(BeEmpty())

	deleteClaim()
	createClaim()
	s.mustReconcile()
	s.Expect(s.secrets("ca-etcd")).To(HaveLen(1))
}

// The operator reads the Garden, and removes the annotation from it. Between these two requests, the user changes annotations.
func TestChangesOfAnnotationsDuringTheRemovalOfAConfirmationStay(t *testing.T) {
	s := newScene(t)
	s.create()
	s.mustReconcile()
	for sentence, tc := range map[string]struct {
		edit func(*operatorv1alpha1.Garden)
		// during and after are annotations after the attempt of the operator that conflicts, and after the next one.
		during, after gomegatypes.GomegaMatcher
	}{
		"the user removes the confirmation": {
			func(g *operatorv1alpha1.Garden) { delete(g.Annotations, confirmLostKeys) },
			Not(HaveKey(confirmLostKeys)), Not(HaveKey(confirmLostKeys)),
		},
		"the user confirms another loss": {
			annotated(confirmLostKeys, "other"), HaveKeyWithValue(confirmLostKeys, "other"), Not(HaveKey(confirmLostKeys)),
		},
		"the user adds an annotation": {
			annotated("team", "a"), And(HaveKeyWithValue(confirmLostKeys, "lost"), HaveKeyWithValue("team", "a")),
			And(Not(HaveKey(confirmLostKeys)), HaveKeyWithValue("team", "a")),
		},
	} {
		s.edit(annotated(confirmLostKeys, "lost"))
		removals := 0
		s.requests.SetHook(func(r *http.Request) error {
			if r.Method == http.MethodPatch && r.URL.Path == "/apis/operator.gardener.cloud/v1alpha1/gardens/garden" {
				removals++
				if removals == 1 {
					s.edit(tc.edit)
				}
			}
			return nil
		})
		_, err := s.reconcile()
		s.Expect(removals).To(Equal(1), sentence)
		s.Expect(conflict.Only(err)).To(BeTrue(), "%s: %v", sentence, err)
		s.Expect(s.get().Annotations).To(tc.during, sentence)
		s.mustReconcile()
		s.requests.SetHook(nil)
		s.Expect(s.get().Annotations).To(tc.after, sentence)
		s.Expect(s.get().Status.LastOperation.State).To(BeEquivalentTo("Succeeded"), sentence)
	}
}
