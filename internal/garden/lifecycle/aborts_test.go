package lifecycle_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/test/binary"
)

// abort aborts the rotations of certificate authorities and of the key for tokens, without a reconciliation.
func (s *scene) abort() {
	s.t.Helper()
	s.clock.SetTime(s.clock.Now().Add(time.Hour))
	s.edit(annotated("espalier.dev/abort-rotation", "certificate-authorities, service-account-key"))
}

// rotatedData returns the data of the Secrets with authorities for clients and with the key for tokens.
func (s *scene) rotatedData() (all []map[string][]byte) {
	s.t.Helper()
	for _, name := range []string{"ca-client", "service-account-key"} {
		for _, each := range s.secrets(name) {
			all = append(all, each.Data)
		}
	}
	return all
}

func TestAbortedRotationLeadsBackToTheFormerCredentials(t *testing.T) {
	s := newInstalledScene(t)
	former, server := s.rotatedData(), s.secrets("kube-apiserver")
	s.Expect(former).To(HaveLen(2))
	s.edit(annotated("espalier.dev/abort-rotation", "certificate-authorities,ca"))
	s.mustReconcile()
	s.event(And(ContainSubstring("OperationRefused"), ContainSubstring(`No rotation of "ca" is aborted`)))
	s.event(And(
		ContainSubstring("OperationRefused"), ContainSubstring("The rotation of the certificate authorities is not aborted: none is going on"),
	))
	s.Expect(s.get().Annotations).NotTo(HaveKey("espalier.dev/abort-rotation"))
	s.Expect(s.get().Status.LastOperation.Description).To(ContainSubstring("is not aborted: none is going on."))

	// A Pod that cannot use the new generation is the reason for an abort. It ends the wait.
	_, catchUp := s.leaveBehind()
	s.rotate("start")
	done := s.begin()
	s.task(taskProof, operatorv1alpha1.TaskRunning, ContainSubstring("refuses a client certificate of the new key"))
	s.abort()
	s.Eventually(done, binary.Patience).Should(Receive(BeNil()))
	s.Expect(s.mustReconcile().RequeueAfter).To(Equal(time.Millisecond), "it completes by itself")
	authorities, key := s.phases()
	s.Expect([]any{authorities, key}).To(HaveEach(BeEquivalentTo("Prepared")))
	s.Expect(s.secrets("kube-apiserver")).To(BeComparableTo(server), "not all clients trust the aborted authority")
	s.mustReconcile()
	authorities, key = s.phases()
	s.Expect([]any{authorities, key}).To(HaveEach(BeEquivalentTo("Completed")))
	s.Expect(s.rotatedData()).To(Equal(former))
	s.Expect(s.secrets("kube-apiserver")).To(BeComparableTo(server))
	catchUp()

	// The aborted generation is dropped only when each Pod refuses it.
	s.rotate("start")
	s.mustReconcile()
	pod, catchUp := s.leaveBehind()
	began := s.get().Status.Credentials.Rotation.CertificateAuthorities.LastInitiationTime
	s.abort()
	s.mustReconcile()
	s.Expect(s.get().Status.Credentials.Rotation.CertificateAuthorities).To(And(
		HaveField("Phase", BeEquivalentTo("Prepared")), HaveField("AbortedInitiationTime", Equal(began)),
	))
	s.reconciler.Timing.Virtual.Proof = 2 * time.Second
	_, err := s.reconcile()
	s.Expect(err).To(MatchError(And(
		ContainSubstring("Pod "+pod+" still accepts a client certificate of the former key"),
		ContainSubstring("Pod "+pod+" still accepts a token of a ServiceAccount of the former key"),
	)))
	s.edit(annotated("espalier.dev/abort-rotation", "service-account-key"))
	s.reconciler.Timing.Virtual.Proof = 0
	catchUp()
	s.mustReconcile()
	s.event(And(ContainSubstring("OperationRefused"), ContainSubstring("it is in phase Completing")))
	authorities, key = s.phases()
	s.Expect([]any{authorities, key}).To(HaveEach(BeEquivalentTo("Completed")))
	s.Expect(s.rotatedData()).To(Equal(former))
	s.Expect(append(s.secrets("rotation-probe-client"), s.secrets("rotation-probe-token")...)).To(BeEmpty())
}

// An abort needs the former credential.
func TestRotationIsNotAbortedWithoutTheFormerKey(t *testing.T) {
	s := newInstalledScene(t)
	former := s.secrets("service-account-key")[0]
	s.rotate("start")
	s.mustReconcile()
	s.Expect(s.admin.Delete(t.Context(), &former)).To(Succeed())
	s.abort()
	_, err := s.reconcile()
	s.Expect(err).To(MatchError(ContainSubstring("service-account-key")), "the bundle has the only copy")
	s.event(And(
		ContainSubstring("OperationRefused"), ContainSubstring("no Secret has service-account-key from before the rotation; restore it"),
	))
	authorities, key := s.phases()
	s.Expect([]any{authorities, key}).To(Equal([]any{operatorv1alpha1.RotationPreparing, operatorv1alpha1.RotationPrepared}))
}

func TestAbortedEncryptionKeyIsDroppedWhenNoObjectNeedsIt(t *testing.T) {
	const keyName = "credentials.gardener.cloud/key-name"
	s := newInstalledScene(t)
	virtual := s.connect(s.virtual, nil)
	s.serve(virtual, alwaysEncrypted())
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "encrypted"}}
	s.Expect(virtual.Create(t.Context(), secret)).To(Succeed())
	defer func() { s.Expect(virtual.Delete(t.Context(), secret)).To(Succeed()) }()
	labelOf := func() string {
		s.Expect(virtual.Get(t.Context(), client.ObjectKeyFromObject(secret), secret)).To(Succeed())
		return secret.Labels[keyName]
	}
	// keys returns the names of the keys that Pods of kube-apiserver have, in their order.
	keys := func() (names []string) {
		configuration := &corev1.Secret{}
		s.Expect(s.exists(configuration, s.namespace(), s.mounted("etcd-encryption-secret"))).To(BeTrue())
		for line := range strings.Lines(string(configuration.Data["encryption-configuration.yaml"])) {
			if name, isKey := strings.CutPrefix(strings.TrimSpace(line), "- name: "); isKey {
				names = append(names, name)
			}
		}
		return names
	}
	former, data := keys(), s.secrets("kube-apiserver-etcd-encryption-key")[0].Data
	s.clock.SetTime(start.Add(time.Hour))
	s.edit(annotated("gardener.cloud/operation", "rotate-etcd-encryption-key-start"))
	s.mustReconcile()
	aborted := keys()[0]
	s.Expect(keys()).To(Equal([]string{aborted, former[0]}))
	written := labelOf()

	s.clock.SetTime(start.Add(2 * time.Hour))
	s.edit(annotated("espalier.dev/abort-rotation", "encryption-key"))
	s.Expect(s.mustReconcile().RequeueAfter).To(Equal(time.Millisecond))
	s.Expect(keys()).To(Equal([]string{former[0], aborted}), "objects that are not written again need the aborted key")
	s.Expect(labelOf()).To(And(Not(BeEmpty()), Not(Equal(written))), "it was written with the former key")
	s.mustReconcile()
	s.Expect(keys()).To(Equal(former))
	s.Expect(labelOf()).To(BeEmpty())
	s.Expect(s.get().Status.Credentials.Rotation.ETCDEncryptionKey.Phase).To(BeEquivalentTo("Completed"))
	s.Expect(s.secrets("kube-apiserver-etcd-encryption-key")).To(ConsistOf(HaveField("Data", Equal(data))))
}

// The state after an abort does not depend on where the process stopped.
func TestCrashPointsOfAnAbort(t *testing.T) {
	s := newInstalledScene(t)
	former := s.rotatedData()
	s.reconciler.Recorder = &events.FakeRecorder{} // it keeps no Events
	s.rotate("start")
	s.mustReconcile()
	s.abort()
	state, err := prepared.storage.Copy(t.Context())
	s.Expect(err).NotTo(HaveOccurred())
	s.requests.CutOff(binary.Cut{})
	s.mustReconcile()
	sent := len(s.requests.SinceCutOff())
	s.mustReconcile()
	s.mustReconcile()
	want := s.state()
	for at := distance(40); at < sent; at += distance(sent / 3) {
		cut := binary.Cut{Request: at, After: at%2 == 0}
		t.Run(cut.String(), func(t *testing.T) {
			s = newSceneIn(t, state)
			s.reconciler.Recorder = &events.FakeRecorder{}
			s.clock.SetTime(start.Add(2 * time.Hour))
			s.cut(cut)
			s.mustReconcile()
			s.mustReconcile()
			authorities, key := s.phases()
			s.Expect([]any{authorities, key}).To(HaveEach(BeEquivalentTo("Completed")))
			s.Expect(s.rotatedData()).To(Equal(former))
			s.Expect(s.state()).To(BeComparableTo(want))
		})
	}
}
