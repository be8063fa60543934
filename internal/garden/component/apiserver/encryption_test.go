package apiserver_test

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/apiserver"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/garden/values"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

func TestEachAPIServerEncryptsWhatItServes(t *testing.T) {
	g := NewWithT(t)
	all := []string{"secrets", "shootstates.core.gardener.cloud", "terminals.dashboard.gardener.cloud", "deployments.apps"}
	g.Expect(apiserver.OfGardener(all)).To(Equal([]string{"shootstates.core.gardener.cloud"}))
	g.Expect(apiserver.OfKubernetes(all)).To(Equal([]string{"secrets", "terminals.dashboard.gardener.cloud", "deployments.apps"}))
}

// Each deployment starts from the configuration of the previous deployment, at whatever point the process was stopped.
func TestResourceIsReadableBeforeItIsEncrypted(t *testing.T) {
	g := NewWithT(t)
	server := apiserver.Server{Name: "server", Namespace: "garden"}
	e := apiserver.Encryption{
		Always: []string{"secrets"}, Former: []string{"configmaps"},
		Keys: []secretconfig.UsableEncryptionKey{{Provider: secretconfig.AESCBC, Name: "key", Secret: "hidden"}},
	}
	deploy := func(e apiserver.Encryption) *corev1.Secret {
		part, err := server.EncryptionPart(e)
		g.Expect(err).NotTo(HaveOccurred())
		secret, is := part.Object.(*corev1.Secret)
		g.Expect(is).To(BeTrue())
		return secret
	}
	live := deploy(e)
	e.Config = &operatorv1alpha1.EncryptionConfig{Resources: []string{"pods", "a.b"}}
	resources := apiserver.Resources(e.Config, e.Always)
	g.Expect(resources).To(ConsistOf("pods", "a.b", "secrets"))
	for range 2 { // the second time after a crash
		var err error
		e.Plain, err = apiserver.PlainResources(resources, live)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(e.Plain).To(Equal([]string{"pods", "a.b"}))
		live = deploy(e)
	}
	g.Expect(string(live.Data["encryption-configuration.yaml"])).To(And(
		ContainSubstring("  - identity: {}\n  resources:\n  - secrets\n"), HaveSuffix("  resources:\n  - a.b\n  - configmaps\n  - pods\n"),
	))
	e.Plain = nil
	live = deploy(e)
	g.Expect(string(live.Data["encryption-configuration.yaml"])).To(And(
		ContainSubstring("  - identity: {}\n  resources:\n  - pods\n  - a.b\n  - secrets\n"), HaveSuffix("  resources:\n  - configmaps\n"),
	))
	g.Expect(apiserver.PlainResources(resources, live)).To(BeEmpty())

	g.Expect(apiserver.PlainResources(resources, nil)).To(BeEmpty())
	_, err := apiserver.PlainResources(resources, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "empty"}})
	g.Expect(err).To(MatchError("read key encryption-configuration.yaml of Secret garden/empty: it is not an EncryptionConfiguration; " +
		"restore the Secret, or delete it together with its Deployment"))
}

func TestSecretWithTheEncryptionConfigurationOfADeployment(t *testing.T) {
	g := NewWithT(t)
	g.Expect(apiserver.EncryptionSecret(nil)).To(BeEmpty())
	live := &appsv1.Deployment{}
	g.Expect(apiserver.EncryptionSecret(live)).To(BeEmpty())
	live.Spec.Template.Spec.Volumes = []corev1.Volume{
		{Name: "other", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "other"}}},
		{Name: "etcd-encryption-secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "wanted"}}},
	}
	g.Expect(apiserver.EncryptionSecret(live)).To(Equal("wanted"))
}

// The phase in the status alone does not prove that nothing needs the old key.
func TestOldKeyIsDroppedOnlyFromDeploymentsThatWriteWithTheNewKey(t *testing.T) {
	const populated, encryptionKey = "credentials.gardener.cloud/new-encryption-key-populated", "espalier.dev/encryption-key"
	current := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "current"}, Data: map[string][]byte{"key": []byte("key2"), "secret": []byte("two")},
	}
	two := secretconfig.UsableEncryptionKey{Provider: secretconfig.AESCBC, Name: "key2", Secret: "two"}
	one := secretconfig.UsableEncryptionKey{Provider: secretconfig.AESCBC, Name: "key1", Secret: "one"}
	marked := map[string]string{populated: "true"}
	const notFirst = "is not the key in Secret current"
	for sentence, tc := range map[string]struct {
		marks map[string]string
		keys  []secretconfig.UsableEncryptionKey
		want  string
	}{
		"all Pods write with the new key": {marks: map[string]string{populated: "true", encryptionKey: "current"}, keys: keys(two, one)},
		"Gardener's operator began":       {marks: marked, keys: keys(two, one)},
		"the configuration is gone":       {marks: marked},
		"no mark":                         {keys: keys(two, one), want: populated + ` of Deployment garden/server is not "true"`},
		"a mark of another key": {
			marks: map[string]string{populated: "true", encryptionKey: "other"}, want: "Secret other instead of",
		},
		"the old key is the first":            {marks: marked, keys: keys(one, two), want: notFirst},
		"the current key is not among others": {marks: marked, keys: keys(one), want: notFirst},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			live := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "server", Annotations: tc.marks}}
			err := apiserver.CheckNewKeyUsed(live, current, tc.keys)
			if tc.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(ContainSubstring(tc.want)))
		})
	}
	g := NewWithT(t)
	g.Expect(apiserver.OnlyCurrent(current, keys(two))).To(BeTrue())
	g.Expect(apiserver.OnlyCurrent(current, keys(two, one))).To(BeFalse())
	g.Expect(apiserver.OnlyCurrent(current, nil)).To(BeFalse(), "the keys are not known")
	empty := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "empty"}}
	g.Expect(apiserver.CheckNewKeyUsed(&appsv1.Deployment{}, empty, nil)).To(MatchError(ContainSubstring("in Secret empty")))
}

func TestAbortLeadsBackOnlyToAKeyThatPodsHave(t *testing.T) {
	g := NewWithT(t)
	former := secretconfig.UsableEncryptionKey{Provider: secretconfig.AESCBC, Name: "key1", Secret: "one"}
	aborted := secretconfig.UsableEncryptionKey{Provider: secretconfig.AESCBC, Name: "key2", Secret: "two"}
	secretOf := func(key secretconfig.UsableEncryptionKey, issued, rotated string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Name: "key", Labels: map[string]string{"issued-at-time": issued, "last-rotation-initiation-time": rotated},
			},
			Data: map[string][]byte{"key": []byte(key.Name), "secret": []byte(key.Secret)},
		}
	}
	v := values.Values{
		Phases:   rotation.Phases{rotation.ETCDEncryptionKey: operatorv1alpha1.RotationPreparing},
		Aborting: sets.New(rotation.ETCDEncryptionKey),
	}
	live := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "server"}}
	old, copied := secretOf(aborted, "20", "20"), secretOf(former, "10", "30")
	g.Expect(apiserver.EncryptionKeys(v, copied, old, live, keys(aborted, former))).To(Equal(keys(aborted, former)), "Pods may not have both")
	live.Annotations = map[string]string{"credentials.gardener.cloud/new-encryption-key-populated": "true"}
	g.Expect(apiserver.EncryptionKeys(v, copied, old, live, keys(aborted, former))).To(Equal(keys(former, aborted)))
	_, err := apiserver.EncryptionKeys(v, copied, old, live, keys(aborted))
	g.Expect(err).To(MatchError(ContainSubstring("Deployment garden/server does not have it: it is from an earlier rotation")))
	confirmed := secretOf(former, "30", "30") // its loss was confirmed, and it was generated again
	g.Expect(apiserver.EncryptionKeys(v, confirmed, old, live, keys(aborted))).To(Equal(keys(former, aborted)))
}

func keys(all ...secretconfig.UsableEncryptionKey) []secretconfig.UsableEncryptionKey { return all }

func TestDeploymentIsMarkedIfItsPodsWriteWithANewKey(t *testing.T) {
	const populated, encryptionKey = "credentials.gardener.cloud/new-encryption-key-populated", "espalier.dev/encryption-key"
	marked := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{populated: "true"}}}
	for sentence, tc := range map[string]struct {
		phase operatorv1alpha1.RotationPhase
		live  *appsv1.Deployment
		want  bool
	}{
		"no rotation": {live: &appsv1.Deployment{}},
		"Preparing, and Pods do not know the new key": {phase: "Preparing", live: &appsv1.Deployment{}},
		"Preparing, and all Pods know the new key":    {phase: "Preparing", live: marked, want: true},
		"Preparing, without Pods":                     {phase: "Preparing", want: true},
		"Prepared":                                    {phase: "Prepared", live: marked, want: true},
		"Prepared, and a user has removed the mark":   {phase: "Prepared", live: &appsv1.Deployment{}},
		"Prepared, and the Deployment was deleted":    {phase: "Prepared", want: true},
		"Completing, and the Deployment was deleted":  {phase: "Completing"},
		"Completing": {phase: "Completing", live: marked, want: true},
	} {
		t.Run(sentence, func(t *testing.T) {
			deployment := &appsv1.Deployment{}
			apiserver.SetMarks(values.Values{Phases: rotation.Phases{rotation.ETCDEncryptionKey: tc.phase}}, deployment, tc.live, "key")
			if tc.want {
				NewWithT(t).Expect(deployment.Annotations).To(Equal(map[string]string{populated: "true", encryptionKey: "key"}))
			} else {
				NewWithT(t).Expect(deployment.Annotations).To(BeEmpty())
			}
		})
	}
}
