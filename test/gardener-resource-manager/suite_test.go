package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/admission/admissiontest"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

// binaries is the folder with this program and its children, built by the first test that needs them.
var binaries string

func TestMain(m *testing.M) {
	code := binary.WithOwnServers(m)
	if binaries != "" {
		_ = os.RemoveAll(binaries)
	}
	os.Exit(code)
}

var build = sync.OnceValue(func() error {
	var err error
	if binaries, err = os.MkdirTemp("", "gardener-resource-manager-"); err != nil {
		return err
	}
	packages := []string{"./test/gardener-resource-manager"}
	for _, each := range programs() {
		packages = append(packages, "./cmd/"+each.name)
	}
	return local.Compile(context.Background(), binaries, packages...)
})

// shoot is the control plane of a Shoot in the namespace of a seed, as far as its resource manager needs it. Its objects are as gardenlet
// v1.149.3 writes them. The source is the seed, and the target is the Shoot.
type shoot struct {
	*WithT
	t              *testing.T
	servers        local.Servers
	source, target client.Client
	namespace      string
	// seedKubeconfig is the file with the credentials of the resource manager's ServiceAccount in the seed.
	seedKubeconfig string
	// certificates is the folder of the server certificate, and authority its authority.
	certificates string
	authority    []byte
}

func newShoot(t *testing.T, namespace string) *shoot {
	t.Helper()
	servers := binary.Servers(t)
	s := &shoot{WithT: NewWithT(t), t: t, servers: servers, namespace: namespace, certificates: t.TempDir()}
	s.Expect(build()).To(Succeed())
	scheme := runtime.NewScheme()
	s.Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	s.Expect(resourcesv1alpha1.AddToScheme(scheme)).To(Succeed())
	var err error
	s.source, err = client.New(servers.Source.Config, client.Options{Scheme: scheme})
	s.Expect(err).NotTo(HaveOccurred())
	s.target, err = client.New(servers.Target.Config, client.Options{Scheme: scheme})
	s.Expect(err).NotTo(HaveOccurred())
	_, err = binary.Install(t.Context(), s.source, "deploy/crds/*.yaml", "internal/csr/approver/testdata/machines.yaml")
	s.Expect(err).NotTo(HaveOccurred())
	s.Eventually(func() error {
		return s.source.List(t.Context(), &resourcesv1alpha1.ManagedResourceList{})
	}).WithTimeout(binary.Patience).Should(Succeed())
	s.authority = admissiontest.Certify(t, s.certificates)
	s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	s.grant()
	kubeconfig, err := local.ServiceAccountKubeconfig(t.Context(), servers.Source.Config, namespace, "gardener-resource-manager", time.Hour)
	s.Expect(err).NotTo(HaveOccurred())
	s.seedKubeconfig = binary.WriteKubeconfig(t, kubeconfig)
	return s
}

func (s *shoot) create(objects ...client.Object) {
	s.t.Helper()
	for _, each := range objects {
		s.Expect(s.source.Create(s.t.Context(), each)).To(Succeed())
	}
}

func (s *shoot) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.namespace, Name: name}
}

// grant creates the ServiceAccount of the resource manager with the Role that gardenlet gives it.
func (s *shoot) grant() {
	s.t.Helper()
	const name = "gardener-resource-manager"
	all := []string{"get", "list", "watch", "update", "patch"}
	s.create(
		&corev1.ServiceAccount{ObjectMeta: s.meta(name), AutomountServiceAccountToken: ptr.To(false)},
		&rbacv1.Role{ObjectMeta: s.meta(name), Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"resources.gardener.cloud"}, Resources: []string{"managedresources", "managedresources/status"}, Verbs: all},
			{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: all},
			{APIGroups: []string{""}, Resources: []string{"configmaps", "events"}, Verbs: []string{"create"}},
			{
				APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{name},
				Verbs: []string{"get", "watch", "update", "patch"},
			},
			{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create"}},
			{
				APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{name},
				Verbs: []string{"get", "watch", "update"},
			},
			{APIGroups: []string{"machine.sapcloud.io"}, Resources: []string{"machines"}, Verbs: []string{"get", "list", "watch"}},
		}},
		&rbacv1.RoleBinding{
			ObjectMeta: s.meta(name), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: s.namespace}},
		},
	)
	right := &authorizationv1.ResourceAttributes{Verb: "list", Resource: "secrets", Namespace: s.namespace}
	s.Eventually(func() (bool, error) {
		return binary.Allowed(s.t.Context(), s.source, "system:serviceaccount:"+s.namespace+":"+name, right)
	}).WithTimeout(binary.Patience).Should(BeTrue())
}

// accessSecret creates a Secret that asks for a token of a ServiceAccount in kube-system, from the token requestor of the class.
func (s *shoot) accessSecret(name, account, class string) *corev1.Secret {
	s.t.Helper()
	secret := &corev1.Secret{ObjectMeta: s.meta(name), Type: corev1.SecretTypeOpaque}
	secret.Labels = map[string]string{"resources.gardener.cloud/purpose": "token-requestor", "resources.gardener.cloud/class": class}
	secret.Annotations = map[string]string{
		"serviceaccount.resources.gardener.cloud/name":                      account,
		"serviceaccount.resources.gardener.cloud/namespace":                 "kube-system",
		"serviceaccount.resources.gardener.cloud/token-expiration-duration": "24h",
	}
	s.create(secret)
	return secret
}

// renewal is the annotation for which gardenlet waits.
const renewal = "serviceaccount.resources.gardener.cloud/token-renew-timestamp"

// awaitToken waits until a Secret has a token, and returns the token.
func (s *shoot) awaitToken(secret *corev1.Secret) []byte {
	s.t.Helper()
	s.Eventually(func(g Gomega) {
		g.Expect(s.source.Get(s.t.Context(), client.ObjectKeyFromObject(secret), secret)).To(Succeed())
		g.Expect(secret.Annotations).To(HaveKey(renewal))
		g.Expect(secret.Data).To(HaveKey("token"))
	}).WithTimeout(binary.Patience).Should(Succeed())
	return secret.Data["token"]
}

// managedResource creates a ManagedResource for the Shoot with one compressed Secret.
func (s *shoot) managedResource(name, manifests string) *resourcesv1alpha1.ManagedResource {
	s.t.Helper()
	var compressed bytes.Buffer
	writer := brotli.NewWriter(&compressed)
	_, err := writer.Write([]byte(manifests))
	s.Expect(errors.Join(err, writer.Close())).To(Succeed())
	secret := &corev1.Secret{ObjectMeta: s.meta("managedresource-" + name + "-0a1b2c3d")}
	secret.Data = map[string][]byte{"data.yaml.br": compressed.Bytes()}
	secret.Immutable = ptr.To(true)
	secret.Labels = map[string]string{"resources.gardener.cloud/garbage-collectable-reference": "true"}
	mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: s.meta(name)}
	mr.Labels = map[string]string{"origin": "gardener"}
	mr.Spec.SecretRefs = []corev1.LocalObjectReference{{Name: secret.Name}}
	mr.Spec.InjectLabels = map[string]string{"shoot.gardener.cloud/no-cleanup": "true"}
	mr.Spec.KeepObjects = ptr.To(false)
	s.create(secret, mr)
	return mr
}

// awaitHealthy waits until gardenlet would accept the ManagedResource.
func (s *shoot) awaitHealthy(mr *resourcesv1alpha1.ManagedResource) {
	s.t.Helper()
	s.Eventually(func(g Gomega) {
		g.Expect(s.source.Get(s.t.Context(), client.ObjectKeyFromObject(mr), mr)).To(Succeed())
		conditions := map[string]string{}
		for _, each := range mr.Status.Conditions {
			conditions[string(each.Type)] = string(each.Status)
		}
		g.Expect(conditions).To(Equal(map[string]string{"ResourcesApplied": "True", "ResourcesHealthy": "True", "ResourcesProgressing": "False"}))
		g.Expect(mr.Status.ObservedGeneration).To(Equal(mr.Generation))
	}).WithTimeout(binary.Patience).Should(Succeed())
}

// bootstrapKubeconfig returns a kubeconfig for the Shoot with the certificate of an administrator, as gardenlet gives it to a resource
// manager that has no token yet.
func (s *shoot) bootstrapKubeconfig() string {
	s.t.Helper()
	content, err := s.servers.Target.UserKubeconfig("gardener.cloud:system:gardener-resource-manager", "system:masters")
	s.Expect(err).NotTo(HaveOccurred())
	return binary.WriteKubeconfig(s.t, content)
}

// genericKubeconfig returns a kubeconfig for the Shoot that names a file with the token in the same folder.
func (s *shoot) genericKubeconfig(token []byte) string {
	s.t.Helper()
	loaded, err := clientcmd.Load(s.servers.Target.Kubeconfig)
	s.Expect(err).NotTo(HaveOccurred())
	folder := s.t.TempDir()
	for name := range loaded.AuthInfos {
		loaded.AuthInfos[name] = &clientcmdapi.AuthInfo{TokenFile: filepath.Join(folder, "token")}
	}
	s.Expect(os.WriteFile(filepath.Join(folder, "token"), token, 0o600)).To(Succeed())
	file := filepath.Join(folder, "kubeconfig")
	s.Expect(clientcmd.WriteToFile(*loaded, file)).To(Succeed())
	return file
}

// replica is a running process.
type replica struct {
	*shoot
	command                  *exec.Cmd
	out                      *output
	ended                    chan struct{}
	probes, metrics, webhook string // addresses
}

// start runs this program with a file, in which only the kubeconfig of the Shoot, the name of the namespace, the certificate folder and the
// ports are changed.
func (s *shoot) start(file, targetKubeconfig string) *replica {
	s.t.Helper()
	r := &replica{shoot: s, out: &output{}, ended: make(chan struct{})}
	text := strings.ReplaceAll(read(s.t, file), "shoot--cellar--tiny", s.namespace)
	text = strings.ReplaceAll(text, "/var/run/secrets/gardener.cloud/shoot/generic-kubeconfig/kubeconfig", targetKubeconfig)
	text = strings.ReplaceAll(text, "/etc/gardener-resource-manager-tls", s.certificates)
	for port, at := range map[string]*string{"8081": &r.probes, "8080": &r.metrics, "10250": &r.webhook} {
		free := admissiontest.FreePort(s.t)
		*at = address(free)
		text = strings.ReplaceAll(text, "port: "+port, fmt.Sprintf("port: %d", free))
	}
	configuration := filepath.Join(s.t.TempDir(), "config.yaml")
	s.Expect(os.WriteFile(configuration, []byte(text), 0o600)).To(Succeed())
	r.command = exec.Command(filepath.Join(binaries, "gardener-resource-manager"), "--config="+configuration)
	r.command.Env = []string{"KUBECONFIG=" + s.seedKubeconfig}
	r.command.Stdout, r.command.Stderr = r.out, r.out
	s.Expect(r.command.Start()).To(Succeed())
	go func() {
		defer close(r.ended)
		_ = r.command.Wait()
	}()
	s.t.Cleanup(func() {
		_ = r.command.Process.Kill()
		<-r.ended
		if s.t.Failed() {
			s.t.Logf("output of process %d:\n%s", r.command.Process.Pid, r.out)
		}
	})
	return r
}

// get returns the status and the body of an answer; 0 if there is none.
func (s *shoot) get(url string) (status int, body string) {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, url, http.NoBody)
	s.Expect(err).NotTo(HaveOccurred())
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	var content bytes.Buffer
	_, err = content.ReadFrom(response.Body)
	s.Expect(err).NotTo(HaveOccurred())
	return response.StatusCode, content.String()
}

// awaitStatus waits for the status of a probe.
func (r *replica) awaitStatus(path string, status int) {
	r.t.Helper()
	r.Eventually(func(g Gomega) {
		got, body := r.get("http://" + r.probes + path)
		g.Expect(got).To(Equal(status), body)
	}).WithTimeout(binary.Patience).Should(Succeed())
}

// awaitEnd waits until the process has ended, and returns its exit code.
func (r *replica) awaitEnd() int {
	r.t.Helper()
	r.Eventually(r.ended).WithTimeout(binary.Patience).Should(BeClosed())
	return r.command.ProcessState.ExitCode()
}

func (r *replica) signal(signal syscall.Signal) {
	r.t.Helper()
	r.Expect(r.command.Process.Signal(signal)).To(Succeed())
}

// children returns the process numbers of the children, by their names.
func (r *replica) children() map[string]int {
	r.t.Helper()
	entries, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", r.command.Process.Pid))
	r.Expect(err).NotTo(HaveOccurred())
	found := map[string]int{}
	for _, entry := range entries {
		content, err := os.ReadFile(entry)
		if err != nil { // the thread has ended
			continue
		}
		for number := range strings.FieldsSeq(string(content)) {
			program, err := os.Readlink("/proc/" + number + "/exe")
			if err != nil { // the child has ended
				continue
			}
			var id int
			_, err = fmt.Sscan(number, &id)
			r.Expect(err).NotTo(HaveOccurred())
			found[filepath.Base(program)] = id
		}
	}
	return found
}

// output is a buffer that a process may write while a test reads it.
type output struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buffer.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buffer.String()
}

// leases returns the names of all leases in the namespace of the Shoot.
func (s *shoot) leases() []string {
	s.t.Helper()
	list := &coordinationv1.LeaseList{}
	s.Expect(s.source.List(s.t.Context(), list, client.InNamespace(s.namespace))).To(Succeed())
	var names []string
	for _, each := range list.Items {
		names = append(names, each.Name)
	}
	return names
}
