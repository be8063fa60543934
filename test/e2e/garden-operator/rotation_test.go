//go:build e2e

package gardenoperator_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/keyutil"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/test/local/node"
)

const (
	// certifiedUser is the user of client certificates of the test.
	certifiedUser = "e2e-certified"
	// rotationLimit is the time limit of an operation of a rotation. With three members per etcd, twelve Pods of etcds restart one after the
	// other while an operation prepares new certificate authorities.
	rotationLimit = 2 * limit
	// refusalPatience is how long API servers may accept former credentials after a rotation.
	refusalPatience = time.Minute
)

// step is an operation of a rotation, and the phases of credentials at its end, by their fields in the status. A rotation without phases
// has the phase "".
type step struct {
	operation string
	phases    map[string]operatorv1alpha1.RotationPhase
}

const (
	authorities   = "certificateAuthorities"
	accountKey    = "serviceAccountKey"
	encryptionKey = "etcdEncryptionKey"
	identityKey   = "workloadIdentityKey"

	prepared  = operatorv1alpha1.RotationPrepared
	completed = operatorv1alpha1.RotationCompleted
)

// rotations are all rotations, first each by itself, and then all at once. The rotations of the encryption key and of the credentials for
// observability have one step.
var rotations = [][]step{
	{
		{"rotate-ca-start", map[string]operatorv1alpha1.RotationPhase{authorities: prepared}},
		{"rotate-ca-complete", map[string]operatorv1alpha1.RotationPhase{authorities: completed}},
	},
	{
		{"rotate-serviceaccount-key-start", map[string]operatorv1alpha1.RotationPhase{accountKey: prepared}},
		{"rotate-serviceaccount-key-complete", map[string]operatorv1alpha1.RotationPhase{accountKey: completed}},
	},
	{
		{"rotate-workload-identity-key-start", map[string]operatorv1alpha1.RotationPhase{identityKey: prepared}},
		{"rotate-workload-identity-key-complete", map[string]operatorv1alpha1.RotationPhase{identityKey: completed}},
	},
	{{"rotate-etcd-encryption-key", map[string]operatorv1alpha1.RotationPhase{encryptionKey: completed}}},
	{{"rotate-observability-credentials", nil}},
	{
		{"rotate-credentials-start", map[string]operatorv1alpha1.RotationPhase{
			authorities: prepared, accountKey: prepared, identityKey: prepared, encryptionKey: completed,
		}},
		{"rotate-credentials-complete", map[string]operatorv1alpha1.RotationPhase{
			authorities: completed, accountKey: completed, identityKey: completed, encryptionKey: completed,
		}},
	},
}

// While certificate authorities and keys are rotated, clients use the virtual cluster: none of their requests may fail, except while the
// only member of an etcd restarts.
var _ = Describe("rotations of the Garden of make up-garden", Ordered, ContinueOnFailure, Label("garden", "rotation"), func() {
	var (
		l       localGarden
		results []probed
	)

	BeforeAll(func(ctx SpecContext) {
		l = requireLocalGarden(ctx)
		l.prepareProbes(ctx)
		DeferCleanup(func() { AddReportEntry("requests during rotations", probedTable(results)) })
	}, NodeTimeout(limit))

	for _, steps := range rotations {
		It("serve clients, and end by proof: "+steps[0].operation, func(ctx SpecContext) {
			Eventually(ctx, l.well).WithTimeout(recoveryPatience).Should(Succeed())
			Eventually(ctx, l.backedUp).WithTimeout(recoveryPatience).Should(Succeed())
			former := l.credentials(ctx)
			certificate := former.certificate
			begin := len(results)
			for _, each := range steps {
				results = append(results, l.probeDuring(ctx, each, certificate))
				Expect(saveProbed(l.machine.Root, "rotations.md", results)).To(Succeed())
				certificate = l.certify(ctx) // users get new certificates before they request the completion
			}
			l.expectRefused(ctx, steps, former)
			Eventually(ctx, l.well).WithTimeout(recoveryPatience).Should(Succeed())
			Eventually(ctx, l.healthy).WithTimeout(recoveryPatience).Should(Succeed())
			if l.hasSeed(ctx) {
				l.awaitSeed(ctx)
			}
			for i := range results[begin:] {
				result := &results[begin+i]
				Expect(result.outside()).To(BeEmpty())
				Expect(result.lost).To(BeZero(), "events of a watch")
				Expect(result.problems).To(BeEmpty())
			}
		}, SpecTimeout(3*rotationLimit))
	}
})

// prepareProbes gives the user of client certificates its rights, and creates the namespace of the probe that needs a webhook.
func (l localGarden) prepareProbes(ctx context.Context) {
	GinkgoHelper()
	_, err := l.kubectl(ctx, "create", "clusterrolebinding", certifiedUser, "--clusterrole=cluster-admin", "--user="+certifiedUser)
	Expect(err).NotTo(HaveOccurred())
	virtual, err := l.virtual()
	Expect(err).NotTo(HaveOccurred())
	Expect(virtual.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: calledNamespace, Labels: map[string]string{"gardener.cloud/role": "project"},
	}})).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		_, err := l.kubectl(ctx, "delete", "clusterrolebinding/"+certifiedUser, "namespace/"+calledNamespace)
		Expect(err).NotTo(HaveOccurred())
	}, NodeTimeout(limit))
}

// isHighlyAvailable reports whether the etcds of the Garden have three members.
func (l localGarden) isHighlyAvailable(ctx context.Context) bool {
	GinkgoHelper()
	found := &operatorv1alpha1.Garden{}
	Expect(c.Client.Get(ctx, client.ObjectKeyFromObject(l.garden), found)).To(Succeed())
	plane := found.Spec.VirtualCluster.ControlPlane
	return plane != nil && plane.HighAvailability != nil
}

// hasSeed reports whether the local garden has a Seed.
func (l localGarden) hasSeed(ctx context.Context) bool {
	GinkgoHelper()
	seeds, err := l.kubectl(ctx, "get", "seeds", "-o", "name")
	Expect(err).NotTo(HaveOccurred())
	return strings.Contains(seeds, "seed.core.gardener.cloud/orchards")
}

// probeDuring requests an operation while clients use the virtual cluster, and waits until it has succeeded.
func (l localGarden) probeDuring(ctx context.Context, s step, certificate *tls.Certificate) probed {
	GinkgoHelper()
	between := pauseOfProber
	if strings.Contains(s.operation, "serviceaccount-key") || strings.Contains(s.operation, "encryption-key") {
		between = shortPause
	}
	return l.probeWhile(ctx, s.operation, certificate, between, func(ctx context.Context) {
		GinkgoHelper()
		Expect(c.Kubectl(ctx, "annotate", "--overwrite", "garden", l.garden.Name, "gardener.cloud/operation="+s.operation)).
			Error().NotTo(HaveOccurred())
		Eventually(ctx, l.ended).WithArguments(s).WithTimeout(rotationLimit).Should(Succeed())
	})
}

// probeWhile acts while clients use the virtual cluster, and waits until all parts of the Garden run.
func (l localGarden) probeWhile(
	ctx context.Context, name string, certificate *tls.Certificate, between time.Duration, act func(context.Context),
) probed {
	GinkgoHelper()
	p := l.startProber(ctx, certificate, between)
	defer p.end()
	pause(ctx, 3*time.Second)
	begin := time.Now()
	act(ctx)
	took := time.Since(begin)
	Eventually(ctx, l.well).WithTimeout(recoveryPatience).Should(Succeed())
	last := time.Now()
	pause(ctx, 3*time.Second)
	p.end()
	lost, longest := p.watched.lost(last)
	return probed{
		step: name, took: took, probes: p.probes, windows: *p.windows, lost: lost, longest: longest,
		watches: p.watched.connections, problems: p.watched.problems,
	}
}

// backedUp returns an error unless etcd-druid reports a recent backup of the main etcd. Until then the operator refuses to start rotations.
// A new Garden has its first incremental snapshot about five minutes after its creation.
func (l localGarden) backedUp(ctx context.Context) error {
	const condition = `jsonpath={.status.conditions[?(@.type=="BackupReady")].status}`
	status, err := c.Kubectl(ctx, "-n", namespace, "get", "etcd", etcdMain, "-o", condition)
	if err == nil && status != "True" {
		err = fmt.Errorf("condition BackupReady of Etcd %s is %q", etcdMain, status)
	}
	return err
}

// ended returns an error unless an operation has succeeded. It stops the wait if the operator has refused a rotation.
func (l localGarden) ended(ctx context.Context, s step) error {
	found := &operatorv1alpha1.Garden{}
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(l.garden), found); err != nil {
		return err
	}
	operation := found.Status.LastOperation
	if found.Annotations["gardener.cloud/operation"] != "" || operation.State != operatorv1alpha1.LastOperationSucceeded {
		return fmt.Errorf("the operation is %s: %s", operation.State, operation.Description)
	}
	if strings.Contains(operation.Description, s.operation+" is refused") {
		return StopTrying(operation.Description)
	}
	if len(s.phases) == 0 {
		return nil
	}
	if found.Status.Credentials == nil || found.Status.Credentials.Rotation == nil {
		return fmt.Errorf("no rotation has begun: %s", operation.Description)
	}
	rotation := found.Status.Credentials.Rotation
	for credential, want := range s.phases {
		states := map[string]*operatorv1alpha1.Rotation{
			authorities: rotation.CertificateAuthorities, accountKey: rotation.ServiceAccountKey, identityKey: rotation.WorkloadIdentityKey,
		}
		if rotation.ETCDEncryptionKey != nil {
			states[encryptionKey] = &rotation.ETCDEncryptionKey.Rotation
		}
		if state := states[credential]; state == nil || state.Phase != want {
			return fmt.Errorf("the rotation of %s is not %s: %s", credential, want, operation.Description)
		}
	}
	return nil
}

// credentials are the credentials of a user.
type credentials struct {
	certificate *tls.Certificate
	token       string
}

// credentials returns the present credentials of users.
func (l localGarden) credentials(ctx context.Context) credentials {
	GinkgoHelper()
	config, err := clientcmd.BuildConfigFromFlags("", l.kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	return credentials{certificate: l.certify(ctx), token: config.BearerToken}
}

// certify requests a client certificate in the virtual cluster, as an administrator.
func (l localGarden) certify(ctx context.Context) *tls.Certificate {
	GinkgoHelper()
	config, err := clientcmd.BuildConfigFromFlags("", l.kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	clients, err := kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	encoded, err := keyutil.MarshalPrivateKeyToPEM(key)
	Expect(err).NotTo(HaveOccurred())
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: certifiedUser}}, key)
	Expect(err).NotTo(HaveOccurred())
	requests := clients.CertificatesV1().CertificateSigningRequests()
	made, err := requests.Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: certifiedUser + "-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request}),
			SignerName: certificatesv1.KubeAPIServerClientSignerName, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
		},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	made.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{
		{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test"},
	}
	_, err = requests.UpdateApproval(ctx, made.Name, made, metav1.UpdateOptions{})
	Expect(err).NotTo(HaveOccurred())
	Eventually(ctx, func(ctx context.Context) ([]byte, error) {
		made, err = requests.Get(ctx, made.Name, metav1.GetOptions{})
		return made.Status.Certificate, err
	}).ShouldNot(BeEmpty())
	pair, err := tls.X509KeyPair(made.Status.Certificate, encoded)
	Expect(err).NotTo(HaveOccurred())
	return &pair
}

// expectRefused requires that each Pod of kube-apiserver refuses former credentials that the steps have rotated, and accepts all others.
func (l localGarden) expectRefused(ctx context.Context, steps []step, former credentials) {
	GinkgoHelper()
	rotated := steps[len(steps)-1].phases
	for credential, request := range map[string]func(ctx context.Context, ip string) (int, error){
		authorities: func(ctx context.Context, ip string) (int, error) {
			return l.statusOf(ctx, ip, credentials{certificate: former.certificate})
		},
		accountKey: func(ctx context.Context, ip string) (int, error) {
			return l.statusOf(ctx, ip, credentials{token: former.token})
		},
	} {
		want := http.StatusOK
		if rotated[credential] == completed {
			want = http.StatusUnauthorized
		}
		for _, pod := range apiServers(ctx) {
			Eventually(ctx, request).WithArguments(pod.Status.PodIP).WithTimeout(refusalPatience).
				Should(Equal(want), "%s: %s", pod.Name, credential)
		}
	}
}

// apiServers returns the Pods of kube-apiserver.
func apiServers(ctx context.Context) []corev1.Pod {
	GinkgoHelper()
	pods := &corev1.PodList{}
	labels := client.MatchingLabels{"app": "kubernetes", "role": "apiserver"}
	Expect(c.Client.List(ctx, pods, client.InNamespace(namespace), labels)).To(Succeed())
	Expect(pods.Items).NotTo(BeEmpty())
	return pods.Items
}

// statusOf returns the status with which a Pod of kube-apiserver answers to a credential.
func (l localGarden) statusOf(ctx context.Context, ip string, of credentials) (int, error) {
	config, err := clientcmd.BuildConfigFromFlags("", l.kubeconfig)
	if err != nil {
		return 0, err
	}
	settings, err := rest.TLSConfigFor(config)
	if err != nil {
		return 0, err
	}
	if of.certificate != nil {
		// The server does not ask for certificates of former authorities.
		settings.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return of.certificate, nil }
	}
	address := "https://" + net.JoinHostPort(ip, "443") + "/api/v1/namespaces/default"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return 0, err
	}
	if of.token != "" {
		request.Header.Set("Authorization", "Bearer "+of.token)
	}
	transport := &http.Transport{TLSClientConfig: settings, DialContext: node.Dial, DisableKeepAlives: true}
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return 0, err
	}
	return answer.StatusCode, answer.Body.Close()
}

// saveProbed writes the current table to a file in .local/e2e.
func saveProbed(root, file string, all []probed) error {
	folder := filepath.Join(root, ".local", "e2e")
	return errors.Join(os.MkdirAll(folder, 0o755), os.WriteFile(filepath.Join(folder, file), []byte(probedTable(all)), 0o600))
}
