package lifecycle_test

import (
	"bufio"
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/keyutil"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/test/binary"
)

const taskProof = "Proving that all servers use the rotated credentials"

// createProbeAccount creates the ServiceAccount of the ManagedResource garden-system-virtual, which nothing applies.
func (s *scene) createProbeAccount() {
	s.t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "rotation-probe"}}
	s.Expect(client.IgnoreAlreadyExists(s.connect(s.virtual, nil).Create(s.t.Context(), account))).To(Succeed())
}

// recreateProbeAccount deletes the ServiceAccount of probes, and creates it again with another UID.
func (s *scene) recreateProbeAccount() {
	s.t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "rotation-probe"}}
	s.Expect(s.connect(s.virtual, nil).Delete(s.t.Context(), account)).To(Succeed())
	s.createProbeAccount()
}

// known are the credentials of a Pod: its certificate, and the clients and tokens that it accepts. Without clients it accepts all requests.
type known struct{ server, clients, keys map[string][]byte }

// servers are the logical names of the certificates of servers, by their ports, but for kube-apiserver.
var servers = map[string]string{"8443": "gardener-apiserver", "2719": "gardener-admission-controller-cert", "2379": "etcd-server-main"}

// knownBy returns the credentials of a Pod that serves at a port: those that its Deployment mounts now, unless the Pod is behind.
func (s *scene) knownBy(ctx context.Context, pod, port string) (known, error) {
	former, _ := s.behind.Load(pod)
	if has, isBehind := former.(known); isBehind {
		return has, nil
	}
	if port != "443" {
		newest := corev1.Secret{}
		all := &corev1.SecretList{}
		err := s.admin.List(ctx, all, client.InNamespace(s.namespace()), client.MatchingLabels{"name": servers[port]})
		for i := range all.Items {
			if all.Items[i].Labels["issued-at-time"] >= newest.Labels["issued-at-time"] {
				newest = all.Items[i]
			}
		}
		return known{server: newest.Data}, err
	}
	deployed := &appsv1.Deployment{}
	if err := s.admin.Get(ctx, client.ObjectKey{Namespace: s.namespace(), Name: apiServer}, deployed); err != nil {
		return known{}, err
	}
	mounted := map[string]map[string][]byte{}
	for _, each := range deployed.Spec.Template.Spec.Volumes {
		if each.Secret == nil {
			continue
		}
		secret := &corev1.Secret{}
		if err := s.admin.Get(ctx, client.ObjectKey{Namespace: s.namespace(), Name: each.Secret.SecretName}, secret); err != nil {
			return known{}, err
		}
		mounted[each.Name] = secret.Data
	}
	return known{mounted["server"], mounted["ca-client"], mounted["service-account-key-bundle"]}, nil
}

// leaveBehind lets a Pod of kube-apiserver keep the credentials that it has now, and returns its name and a function that ends that.
func (s *scene) leaveBehind() (name string, catchUp func()) {
	s.t.Helper()
	pods := &corev1.PodList{}
	s.Expect(s.admin.List(s.t.Context(), pods, client.InNamespace(s.namespace()),
		client.MatchingLabels(s.apiServer().Spec.Selector.MatchLabels))).To(Succeed())
	s.Expect(len(pods.Items)).To(BeNumerically(">", 1), "the other Pods show the difference")
	name = pods.Items[1].Name
	now, err := s.knownBy(s.t.Context(), name, "443")
	s.Expect(err).NotTo(HaveOccurred())
	s.behind.Store(name, now)
	return name, func() { s.behind.Delete(name) }
}

var errNoPod = errors.New("no Pod has this address")

// dialPod connects to a Pod, in place of a network. The Pod accepts and refuses credentials as a server with its Secrets does.
func (s *scene) dialPod(ctx context.Context, _, address string) (net.Conn, error) {
	ip, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	pods := &corev1.PodList{}
	if err := s.admin.List(ctx, pods, client.InNamespace(s.namespace())); err != nil {
		return nil, err
	}
	for i := range pods.Items {
		if pods.Items[i].Status.PodIP != ip {
			continue
		}
		has, err := s.knownBy(ctx, pods.Items[i].Name, port)
		if err != nil {
			return nil, err
		}
		near, far := net.Pipe()
		go has.serve(far)
		return near, nil
	}
	return nil, fmt.Errorf("%s: %w", address, errNoPod)
}

// serve answers one request.
func (k known) serve(connection net.Conn) {
	defer func() { _ = connection.Close() }() // without a farewell, which the client would not read
	pair, err := tls.X509KeyPair(k.server["tls.crt"], k.server["tls.key"])
	if err != nil {
		return
	}
	served := tls.Server(connection, &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS13,
	})
	request, err := http.ReadRequest(bufio.NewReader(served))
	if err != nil {
		return
	}
	status := http.StatusUnauthorized
	token := strings.TrimPrefix(request.Header.Get("Authorization"), "Bearer ")
	if k.clients == nil || k.accepts(served.ConnectionState().PeerCertificates) || k.acceptsToken(token) {
		status = http.StatusForbidden
	}
	_, _ = fmt.Fprintf(served, "HTTP/1.1 %d Status\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", status)
}

func (k known) accepts(chain []*x509.Certificate) bool {
	if len(chain) == 0 {
		return false
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(k.clients["bundle.crt"])
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, CurrentTime: chain[0].NotBefore.Add(time.Minute),
	})
	return err == nil
}

func (k known) acceptsToken(token string) bool {
	signed, encoded, _ := cutLast(token, ".")
	signature, _ := base64.RawURLEncoding.DecodeString(encoded)
	keys, _ := keyutil.ParsePublicKeysPEM(k.keys["bundle.key"])
	sum := sha256.Sum256([]byte(signed))
	for _, each := range keys {
		if public, isRSA := each.(*rsa.PublicKey); isRSA && rsa.VerifyPKCS1v15(public, crypto.SHA256, sum[:], signature) == nil {
			return true
		}
	}
	return false
}

func cutLast(text, separator string) (before, after string, found bool) {
	i := strings.LastIndex(text, separator)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(separator):], true
}

func (s *scene) phases() (authorities, key operatorv1alpha1.RotationPhase) {
	s.t.Helper()
	rotation := s.get().Status.Credentials.Rotation
	return rotation.CertificateAuthorities.Phase, rotation.ServiceAccountKey.Phase
}

// rotate starts or completes the rotations of certificate authorities and of the key for tokens, without a reconciliation.
func (s *scene) rotate(step string) {
	s.t.Helper()
	s.clock.SetTime(s.clock.Now().Add(time.Hour))
	s.edit(annotated("gardener.cloud/operation", "rotate-ca-"+step+";rotate-serviceaccount-key-"+step))
}

// stuck runs a reconciliation that waits for the proof of a phase, and stops it.
func (s *scene) stuck(message gomegatypes.GomegaMatcher) {
	s.t.Helper()
	s.reconciler.Timing.ReportDelay, s.reconciler.Timing.ReportInterval = time.Millisecond, time.Millisecond
	ctx, stop := context.WithCancel(s.t.Context())
	var ended sync.WaitGroup
	defer func() { stop(); ended.Wait() }()
	ended.Go(func() {
		_, _ = s.reconciler.Reconcile(ctx, ctrl.Request{NamespacedName: types.NamespacedName{Name: "garden"}})
	})
	s.task(taskProof, "Running", message)
}

func (s *scene) unproven() *corev1beta1.Condition {
	s.t.Helper()
	return corev1beta1.GetCondition(s.get().Status.Conditions, "RotationUnproven")
}

func TestPhasesEndWhenEachReplicaHasShownItsCredentials(t *testing.T) {
	s := newInstalledScene(t)
	pod, catchUp := s.leaveBehind()
	s.rotate("start")
	s.stuck(HavePrefix(
		"Pod " + pod + " refuses a client certificate of the new key; Pod " + pod + " refuses a token of a ServiceAccount of the new key",
	))
	s.reconciler.Timing.Virtual.Proof = 5 * time.Second
	_, err := s.reconcile()
	s.Expect(err).To(MatchError(And(
		ContainSubstring(`task "`+taskProof+`" failed: not done after 5s: Pod `+pod),
		ContainSubstring("espalier.dev/skipped-checks=rotation-proof/<Pod>"),
	)))
	authorities, key := s.phases()
	s.Expect([]any{authorities, key}).To(HaveEach(BeEquivalentTo("Preparing")))
	s.Expect(s.unproven()).To(And(HaveField("Status", BeEquivalentTo("True")), HaveField("Reason", "ProofMissing"),
		HaveField("Message", And(HavePrefix("Pod "+pod), Not(ContainSubstring("not done after"))))))
	probes := append(s.secrets("rotation-probe-client"), s.secrets("rotation-probe-token")...)
	s.Expect(probes).To(HaveLen(2))

	token := s.secrets("rotation-probe-token")[0]
	s.recreateProbeAccount()
	catchUp()
	s.reconciler.Timing.Virtual.Proof, s.reconciler.Timing.Virtual.TokenUse = time.Second, time.Hour
	_, err = s.reconcile()
	s.Expect(err).To(MatchError(ContainSubstring(
		"not done after 1s: programs may still use tokens of the former key, because they read renewed ones only within 1h0m0s")))
	s.reconciler.Timing.Virtual.Proof, s.reconciler.Timing.Virtual.TokenUse = 5*time.Second, time.Nanosecond
	s.mustReconcile()
	s.Expect(s.secrets("rotation-probe-token")).To(ConsistOf(HaveField("Name", Not(Equal(token.Name)))), "its ServiceAccount is another one")
	probes = append(s.secrets("rotation-probe-client"), s.secrets("rotation-probe-token")...)
	authorities, key = s.phases()
	s.Expect([]any{authorities, key}).To(HaveEach(BeEquivalentTo("Prepared")))
	s.Expect(s.unproven()).To(BeNil())
	s.mustReconcile()
	s.Expect(append(s.secrets("rotation-probe-client"), s.secrets("rotation-probe-token")...)).To(BeComparableTo(probes))

	pod, catchUp = s.leaveBehind()
	s.rotate("complete")
	_, err = s.reconcile()
	s.Expect(err).To(MatchError(And(
		ContainSubstring("Pod "+pod+" still accepts a client certificate of the former key"),
		ContainSubstring("Pod "+pod+" still accepts a token of a ServiceAccount of the former key"),
	)))
	authorities, key = s.phases()
	s.Expect([]any{authorities, key}).To(HaveEach(BeEquivalentTo("Completing")))
	s.Expect(s.secrets("ca-client")).To(HaveLen(2))

	catchUp()
	s.mustReconcile()
	authorities, key = s.phases()
	s.Expect([]any{authorities, key}).To(HaveEach(BeEquivalentTo("Completed")))
	s.Expect(s.unproven()).To(BeNil())
	s.Expect(s.secrets("ca-client")).To(HaveLen(1))
	s.Expect(append(s.secrets("rotation-probe-client"), s.secrets("rotation-probe-token")...)).To(BeEmpty())
}

func TestUserEndsAPhaseWithoutProof(t *testing.T) {
	s := newInstalledScene(t)
	s.rotate("start")
	s.mustReconcile()
	pod, _ := s.leaveBehind()
	s.rotate("complete")
	s.stuck(ContainSubstring("Pod " + pod + " still accepts"))
	s.edit(annotated("espalier.dev/skipped-checks", "rotation-proof/"+pod))
	s.mustReconcile()
	authorities, key := s.phases()
	s.Expect([]any{authorities, key}).To(HaveEach(BeEquivalentTo("Completed")))

	s.reconciler.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, errNoPod }
	s.edit(annotated("espalier.dev/skipped-checks", "rotation-proof"))
	s.rotate("start")
	s.mustReconcile()
	authorities, key = s.phases()
	s.Expect([]any{authorities, key}).To(HaveEach(BeEquivalentTo("Prepared")))
}

// Only the new authority verifies the certificate of a server when a rotation completes.
func TestRotationOfAuthoritiesCompletesWhenAllServersHaveNewCertificates(t *testing.T) {
	s := newInstalledScene(t)
	etcd := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace(), Name: "virtual-garden-etcd-main-0", Labels: map[string]string{
			"gardener.cloud/role": "controlplane", "role": "main", "app": "etcd-statefulset",
		}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "none", Image: "none"}}},
	}
	s.Expect(s.admin.Create(t.Context(), etcd)).To(Succeed())
	s.rotate("start")
	s.stuck(ContainSubstring("Pod virtual-garden-etcd-main-0 has no address yet"))
	etcd.Status.PodIP, etcd.Status.PodIPs = "198.19.0.1", []corev1.PodIP{{IP: "198.19.0.1"}}
	s.Expect(s.admin.Status().Update(t.Context(), etcd)).To(Succeed())
	s.mustReconcile()

	s.behind.Store(etcd.Name, known{server: s.secrets("etcd-server-main")[0].Data})
	s.rotate("complete")
	s.stuck(HavePrefix("Pod virtual-garden-etcd-main-0 does not answer to a client with a certificate of the new authority: tls: failed to " +
		"verify certificate: x509: certificate signed by unknown authority"))
	s.behind.Clear()
	s.mustReconcile()
	authorities, _ := s.phases()
	s.Expect(authorities).To(BeEquivalentTo("Completed"))
}

// The probes survive the former keys, so that a process that stops after these were deleted can repeat the proof.
func TestCrashPointsAtTheEndOfARotation(t *testing.T) {
	s := newInstalledScene(t)
	s.reconciler.Recorder = &events.FakeRecorder{} // it keeps no Events
	s.rotate("start")
	s.mustReconcile()
	s.rotate("complete")
	state, err := prepared.storage.Copy(t.Context())
	s.Expect(err).NotTo(HaveOccurred())
	s.requests.CutOff(binary.Cut{})
	s.mustReconcile()
	sent := len(s.requests.SinceCutOff())
	want := s.state()

	happened := 0 // watches and conflicts make the number of requests vary
	for back := 0; back < 16; back += distance(4) {
		for _, after := range []bool{false, true} {
			at := binary.Cut{Request: sent - back, After: after}
			t.Run(at.String(), func(t *testing.T) {
				s = newSceneIn(t, state)
				s.reconciler.Recorder = &events.FakeRecorder{}
				s.clock.SetTime(start.Add(2 * time.Hour))
				if s.cut(at) {
					happened++
				}
				s.mustReconcile()
				authorities, key := s.phases()
				s.Expect([]any{authorities, key}).To(HaveEach(BeEquivalentTo("Completed")))
				s.Expect(s.state()).To(BeComparableTo(want))
				for _, name := range []string{"ca-client", "service-account-key"} {
					s.Expect(s.secrets(name)).To(HaveLen(1), name)
				}
			})
		}
	}
	NewWithT(t).Expect(happened).To(BeNumerically(">", 0))
}
