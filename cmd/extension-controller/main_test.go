package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/deployable"
	"github.com/espalier-dev/espalier/internal/extension"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

// processVariable makes this test binary run as extension-controller: controllers have unique names in a process, so each run needs its
// own.
const processVariable = "ESPALIER_EXTENSION_CONTROLLER_TEST"

// TestMain starts an API server for these tests only, because they create the lease of a gardenlet.
func TestMain(m *testing.M) {
	if os.Getenv(processVariable) != "" || len(os.Args) > 1 && os.Args[1] == extension.Renderer().Name {
		main()
	}
	SetDefaultEventuallyTimeout(binary.Patience)
	os.Exit(binary.WithOwnServer(m))
}

const header = "apiVersion: gardenlet.config.gardener.cloud/v1alpha1\nkind: GardenletConfiguration\n"

func file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	NewWithT(t).Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
	return path
}

// The shipped configuration names no Seed, so a process with it ends before it connects to a cluster.
func TestTheShippedConfigurationServesNoSeed(t *testing.T) {
	g := NewWithT(t)
	shipped, found := deployable.Named("extension-controller")
	g.Expect(found).To(BeTrue())
	g.Expect(run(t.Context(), []string{"--config", file(t, "config.yaml", shipped.Config)}, io.Discard)).To(MatchError(
		"there is nothing to do: set seedConfig.metadata.name to the name of the Seed, or do not run extension-controller"))
}

func TestTheHelpNamesBothClusters(t *testing.T) {
	g, out := NewWithT(t), &bytes.Buffer{}
	g.Expect(run(t.Context(), []string{"--help"}, out)).To(HaveOccurred(), "Main prints nothing further")
	g.Expect(out.String()).To(And(ContainSubstring("used instead of seedClientConnection.kubeconfig"),
		ContainSubstring("GARDEN_KUBECONFIG   path of a kubeconfig file; used instead of gardenClientConnection.kubeconfig")))
	g.Expect(out.String()).NotTo(ContainSubstring(extension.Renderer().Name))
}

// scene has one API server, which is the cluster of the Seed and the garden cluster.
type scene struct {
	t     *testing.T
	admin client.Client
	// kubeconfig is for the shipped ServiceAccount with its shipped roles of both clusters.
	kubeconfig string
	namespace  string
	probes     int
}

func newScene(t *testing.T) *scene {
	t.Helper()
	g := NewWithT(t)
	servers, err := local.ForTests()
	g.Expect(err).NotTo(HaveOccurred())
	admin, err := client.New(servers.Source.Config, client.Options{Scheme: extension.Scheme()})
	g.Expect(err).NotTo(HaveOccurred())
	s := &scene{t: t, admin: admin, probes: freePort(t)}
	for _, name := range []string{"garden", "gardener-system-public", "gardener-system-seed-lease", "espalier-system"} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		g.Expect(admin.Create(t.Context(), namespace)).To(Or(Succeed(), MatchError(ContainSubstring("already exists"))))
	}
	_, err = binary.Install(t.Context(), admin, "deploy/crds/*.yaml", "deploy/project-controller/crds/*.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	own := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "cellar-"}}
	g.Expect(admin.Create(t.Context(), own)).To(Succeed())
	s.namespace = own.Name
	kubeconfig, err := binary.Identity(t.Context(), admin, servers.Source.Config, "extension-controller", s.namespace,
		binary.Source, binary.Target)
	g.Expect(err).NotTo(HaveOccurred())
	s.kubeconfig = file(t, "kubeconfig", string(kubeconfig))
	return s
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	defer func() { NewWithT(t).Expect(listener.Close()).To(Succeed()) }()
	address, _ := listener.Addr().(*net.TCPAddr)
	return address.Port
}

// config writes a configuration file and returns its path. In the file, the Seed has the name of the scene's namespace.
func (s *scene) config(garden string) string {
	return file(s.t, "config.yaml", fmt.Sprintf(`%s
seedClientConnection: {kubeconfig: %q}
gardenClientConnection: %s
leaderElection: {resourceNamespace: %s}
server: {healthProbes: {bindAddress: 127.0.0.1, port: %d}, metrics: {bindAddress: 127.0.0.1, port: %d}}
seedConfig: {metadata: {name: %s}}
espalier: {extension: {gardenerVersion: v1.149.3}}
`, header, s.kubeconfig, garden, "espalier-system", s.probes, freePort(s.t), s.namespace))
}

// started is a process of the binary.
type started struct {
	command *exec.Cmd
	// ended receives the exit code.
	ended chan int
	mu    sync.Mutex
	log   bytes.Buffer
}

// Write implements io.Writer.
func (r *started) Write(line []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(line)
}

func (r *started) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.String()
}

// start runs the binary until the test ends.
func (s *scene) start(config string) *started {
	s.t.Helper()
	r := &started{ended: make(chan int, 1)}
	r.command = exec.CommandContext(context.WithoutCancel(s.t.Context()), os.Args[0], "--config", config)
	r.command.Env = append(os.Environ(), processVariable+"=1")
	r.command.Stdout, r.command.Stderr = r, r
	NewWithT(s.t).Expect(r.command.Start()).To(Succeed())
	go func() {
		_ = r.command.Wait()
		r.ended <- r.command.ProcessState.ExitCode()
	}()
	s.t.Cleanup(func() {
		_ = r.command.Process.Signal(syscall.SIGTERM)
		if s.t.Failed() {
			const most = 4000
			text := r.text()
			s.t.Logf("end of the log of the process:\n%s", text[max(0, len(text)-most):])
		}
	})
	return r
}

// refused waits until the process has ended with an error, and returns its output.
func (s *scene) refused(r *started) string {
	s.t.Helper()
	NewWithT(s.t).Eventually(r.ended).Should(Receive(Equal(1)), "the exit code")
	return r.text()
}

// answers returns the status of a path at the probe port; 0 if no process listens.
func (s *scene) answers(path string) int {
	url := fmt.Sprintf("http://127.0.0.1:%d%s", s.probes, path)
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	return response.StatusCode
}

func TestTheProcessRequestsItsCertificateAndBecomesReady(t *testing.T) {
	g, s := NewWithT(t), newScene(t)
	servers, err := local.ForTests()
	g.Expect(err).NotTo(HaveOccurred())
	// The bootstrap kubeconfig is for a user who may only create and read requests.
	user := "bootstrapper-" + s.namespace
	first, err := servers.Source.UserKubeconfig(user)
	g.Expect(err).NotTo(HaveOccurred())
	s.allow("requests-"+s.namespace, user, rbacv1.PolicyRule{
		APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"}, Verbs: []string{"create", "get"},
	})
	// In a garden of Gardener, the SeedAuthorizer grants the rights of the certificate.
	s.allow("seed-"+s.namespace, "gardener.cloud:system:seed:"+s.namespace, rbacv1.PolicyRule{
		APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"},
	})
	g.Expect(s.admin.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "first"}, Data: map[string][]byte{"kubeconfig": first},
	})).To(Succeed())

	r := s.start(s.config(fmt.Sprintf(
		"{bootstrapKubeconfig: {name: first, namespace: %s}, kubeconfigSecret: {name: second, namespace: %[1]s}}", s.namespace)))
	g.Eventually(s.answers).WithArguments("/healthz/ping").Should(Equal(http.StatusOK), "the kubelet does not end a process that waits")
	g.Expect(s.answers("/readyz")).To(Equal(http.StatusNotFound), "which is not ready")
	s.approve()
	g.Eventually(s.answers).WithArguments("/readyz").Should(Equal(http.StatusOK))
	g.Expect(r.text()).To(And(ContainSubstring("Requested a client certificate"),
		ContainSubstring("Stored the kubeconfig for the garden cluster"), ContainSubstring("Deleted the credentials of the bootstrap")))

	secret := &corev1.Secret{}
	g.Expect(s.admin.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: "second"}, secret)).To(Succeed())
	g.Expect(s.admin.Delete(t.Context(), secret)).To(Succeed())
	g.Eventually(r.ended).Should(Receive(Equal(0)), "the kubelet starts the next process")
	g.Expect(r.text()).To(ContainSubstring("Ended: Secret " + s.namespace + "/second was deleted, and the next process requests a new " +
		"client certificate"))
}

func (s *scene) allow(name, user string, rule rbacv1.PolicyRule) {
	s.t.Helper()
	g := NewWithT(s.t)
	g.Expect(s.admin.Create(s.t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{rule},
	})).To(Succeed())
	g.Expect(s.admin.Create(s.t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: user}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
	})).To(Succeed())
}

// approve approves the only request that is open.
func (s *scene) approve() {
	s.t.Helper()
	g := NewWithT(s.t)
	all := &certificatesv1.CertificateSigningRequestList{}
	g.Eventually(func() ([]certificatesv1.CertificateSigningRequest, error) {
		err := s.admin.List(s.t.Context(), all)
		return all.Items, err
	}).Should(HaveLen(1))
	all.Items[0].Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{
		{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test"},
	}
	g.Expect(s.admin.SubResource("approval").Update(s.t.Context(), &all.Items[0])).To(Succeed())
}

func lease(namespace, name string, renewed time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To("gardenlet-1"), LeaseDurationSeconds: ptr.To[int32](40), RenewTime: ptr.To(metav1.NewMicroTime(renewed)),
	}}
}

func TestTheProcessNeverRunsBesideAGardenlet(t *testing.T) {
	for name, of := range map[string]func(*scene) *coordinationv1.Lease{
		"that is the leader": func(*scene) *coordinationv1.Lease {
			return lease("garden", "gardenlet-leader-election", metav1.Now().Time)
		},
		"that says that the Seed is alive": func(s *scene) *coordinationv1.Lease {
			return lease("gardener-system-seed-lease", s.namespace, metav1.Now().Time)
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, s := NewWithT(t), newScene(t)
			garden := fmt.Sprintf("{kubeconfig: %q}", s.kubeconfig)
			held := of(s)
			g.Expect(s.admin.Create(t.Context(), held)).To(Succeed())
			t.Cleanup(func() { g.Expect(s.admin.Delete(context.WithoutCancel(t.Context()), held)).To(Succeed()) })
			refusal := ContainSubstring(`is renewed by "gardenlet-1"; stop this gardenlet first`)
			g.Expect(s.refused(s.start(s.config(garden)))).To(refusal)

			held.Spec.RenewTime = ptr.To(metav1.NewMicroTime(held.Spec.RenewTime.Add(-time.Hour)))
			g.Expect(s.admin.Update(t.Context(), held)).To(Succeed())
			r := s.start(s.config(garden))
			g.Eventually(s.answers).WithArguments("/readyz").Should(Equal(http.StatusOK), "the gardenlet has ended")
			held.Spec.RenewTime = ptr.To(metav1.NowMicro())
			g.Expect(s.admin.Update(t.Context(), held)).To(Succeed())
			g.Expect(s.refused(r)).To(refusal, "a gardenlet has started")
		})
	}
}

func TestAMissingVersionOfTheGardenIsNamed(t *testing.T) {
	g, s := NewWithT(t), newScene(t)
	config := s.config(fmt.Sprintf("{kubeconfig: %q}", s.kubeconfig))
	content, err := os.ReadFile(config)
	g.Expect(err).NotTo(HaveOccurred())
	without := strings.Replace(string(content), "gardenerVersion: v1.149.3", "", 1)
	g.Expect(s.refused(s.start(file(t, "config.yaml", without)))).To(ContainSubstring("ConfigMap gardener-system-public/gardener-info of " +
		"the garden cluster does not contain the version of Gardener: set espalier.extension.gardenerVersion"))
	g.Expect(s.admin.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "gardener-system-public", Name: "gardener-info"},
		Data:       map[string]string{"gardenerAPIServer": "version: v1.149.3\nworkloadIdentityIssuerURL: https://a\n"},
	})).To(Succeed())
	s.start(file(t, "config.yaml", without))
	g.Eventually(s.answers).WithArguments("/readyz").Should(Equal(http.StatusOK))
}

func TestWithoutCredentialsForTheGardenTheProcessEnds(t *testing.T) {
	g, s := NewWithT(t), newScene(t)
	g.Expect(s.refused(s.start(s.config("{}")))).To(ContainSubstring("Error: no credentials for the garden cluster are named: set " +
		"gardenClientConnection.kubeconfigSecret, or gardenClientConnection.kubeconfig\n"))
}
