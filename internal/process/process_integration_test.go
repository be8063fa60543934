package process

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/local"
)

// adminFile writes the administrator's kubeconfig of a server.
func adminFile(t *testing.T, server local.Server) string {
	t.Helper()
	return writeFile(t, "kubeconfig", string(server.Kubeconfig))
}

// userFile writes a kubeconfig for a server with another user.
func userFile(t *testing.T, server local.Server, user *clientcmdapi.AuthInfo) string {
	t.Helper()
	g := NewWithT(t)
	loaded, err := clientcmd.Load(server.Kubeconfig)
	g.Expect(err).NotTo(HaveOccurred())
	for name := range loaded.AuthInfos {
		loaded.AuthInfos[name] = user
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	g.Expect(clientcmd.WriteToFile(*loaded, file)).To(Succeed())
	return file
}

func TestOnlyTheLeaderWorksAndReleasesTheLeaseAtItsEnd(t *testing.T) {
	s := servers(t)
	g := NewWithT(t)
	c := admin(t, s.Source)
	namespace := newNamespace(t, c)
	env := "KUBECONFIG=" + adminFile(t, s.Source)

	first := start(t, roleGardener, configIn(namespace, ""), env)
	first.awaitOutput(t, `"msg":"Leading"`)
	second := start(t, roleGardener, configIn(namespace, ""), env)
	get(t, second.probes+"/readyz", http.StatusOK)
	g.Consistently(second.out.String).WithTimeout(3*time.Second).ShouldNot(ContainSubstring(`"msg":"Leading"`), "the lease is taken")

	lease := &coordinationv1.Lease{}
	g.Expect(c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "gardener-resource-manager-gardener"}, lease)).To(Succeed())
	g.Expect(lease.Spec.LeaseDurationSeconds).To(Equal(ptr.To[int32](60)))

	first.signal(t)
	code, _ := first.ends(t)
	g.Expect(code).To(Equal(0))
	second.awaitOutput(t, `"msg":"Leading"`) // Within half of the lease's duration.
}

func TestEndpointsAndNamespacesFollowTheConfiguration(t *testing.T) {
	s := servers(t)
	g := NewWithT(t)
	c := admin(t, s.Source)
	namespace, other := newNamespace(t, c), newNamespace(t, c)
	for _, ns := range []string{namespace, other} {
		g.Expect(c.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "seedling"}})).To(Succeed())
	}

	p := start(t, roleGardener, configIn(namespace, ""), "KUBECONFIG="+adminFile(t, s.Source), "POD_NAMESPACE=garden")
	p.awaitOutput(t,
		`"msg":"Connected","source":"`+s.Source.Config.Host+`","target":"`+s.Source.Config.Host+
			`","shared":true,"same":true,"namespace":"garden"`)
	p.awaitOutput(t, `"object":"`+namespace+`/seedling"`)
	g.Expect(p.out.String()).NotTo(ContainSubstring(other + "/seedling"))

	get(t, p.probes+"/healthz", http.StatusOK)
	get(t, p.probes+"/healthz/ping", http.StatusOK)
	get(t, p.probes+"/healthz/apiserver-healthz", http.StatusOK)
	get(t, p.probes+"/healthz/source-informer-sync", http.StatusOK)
	get(t, p.probes+"/readyz", http.StatusOK)
	get(t, p.probes+"/readyz/source-informer-sync", http.StatusOK)
	get(t, p.probes+"/readyz/target-informer-sync", http.StatusNotFound)
	g.Expect(get(t, p.metrics+"/metrics", http.StatusOK)).To(ContainSubstring("rest_client_requests_total"))
	get(t, p.metrics+"/debug/pprof/", http.StatusNotFound)
}

func TestProfilesAreServedWhenEnabled(t *testing.T) {
	s := servers(t)
	namespace := newNamespace(t, admin(t, s.Source))
	p := start(t, roleGardener, configIn(namespace, "debugging: {enableProfiling: true}\n"), "KUBECONFIG="+adminFile(t, s.Source))
	NewWithT(t).Expect(get(t, p.metrics+"/debug/pprof/", http.StatusOK)).To(ContainSubstring("goroutine"))
	get(t, p.metrics+"/debug/pprof/symbol", http.StatusOK)
	get(t, p.metrics+"/metrics", http.StatusOK)
}

func TestEnvironmentSelectsTwoClusters(t *testing.T) {
	s := servers(t)
	namespace := newNamespace(t, admin(t, s.Source))
	p := start(t, roleGardener, configIn(namespace, "targetClientConnection: {kubeconfig: /only/the/environment/counts}\n"),
		"KUBECONFIG="+adminFile(t, s.Source), "TARGET_KUBECONFIG="+adminFile(t, s.Target))
	p.awaitOutput(t,
		`"msg":"Connected","source":"`+s.Source.Config.Host+`","target":"`+s.Target.Config.Host+`","shared":false,"same":false,"namespace":"`+
			namespace+`"`)
	p.awaitOutput(t, `"msg":"Leading"`)
	get(t, p.probes+"/readyz/target-informer-sync", http.StatusOK)
	get(t, p.probes+"/readyz", http.StatusOK)
}

func TestTargetVariableIsIgnoredWithoutATargetConnection(t *testing.T) {
	s := servers(t)
	namespace := newNamespace(t, admin(t, s.Source))
	p := start(t, roleGardener, configIn(namespace, ""), "KUBECONFIG="+adminFile(t, s.Source), "TARGET_KUBECONFIG=/does/not/exist")
	p.awaitOutput(t, `"shared":true`)
}

func TestOneClusterByTwoAddressesIsRecognised(t *testing.T) {
	s := servers(t)
	g := NewWithT(t)
	namespace := newNamespace(t, admin(t, s.Source))
	loaded, err := clientcmd.Load(s.Source.Kubeconfig)
	g.Expect(err).NotTo(HaveOccurred())
	for _, cluster := range loaded.Clusters {
		cluster.Server = strings.Replace(cluster.Server, "127.0.0.1", "localhost", 1)
		cluster.TLSServerName = "127.0.0.1"
	}
	target := filepath.Join(t.TempDir(), "kubeconfig")
	g.Expect(clientcmd.WriteToFile(*loaded, target)).To(Succeed())
	p := start(t, roleGardener, configIn(namespace, "targetClientConnection: {}\n"), "KUBECONFIG="+adminFile(t, s.Source),
		"TARGET_KUBECONFIG="+target)
	p.awaitOutput(t, `"shared":false,"same":true`)
}

func TestExecPluginIsRejected(t *testing.T) {
	s := servers(t)
	g := NewWithT(t)
	marker := filepath.Join(t.TempDir(), "ran")
	file := userFile(t, s.Source, &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
		APIVersion: "client.authentication.k8s.io/v1", Command: "touch", Args: []string{marker},
		InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
	}})
	p := start(t, roleGardener, configIn("garden", ""), "KUBECONFIG="+file)
	code, last := p.ends(t)
	g.Expect(code).To(Equal(1))
	g.Expect(last).To(And(HavePrefix("Error: connect to source cluster: read kubeconfig "), ContainSubstring(" has exec, "+allowed)))
	g.Expect(marker).NotTo(BeAnExistingFile())
}

func TestTokenFileIsUsedAndMissingRightsAreReported(t *testing.T) {
	s := servers(t)
	g := NewWithT(t)
	c := admin(t, s.Source)
	namespace := newNamespace(t, c)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "gardener"}}
	g.Expect(c.Create(t.Context(), account)).To(Succeed())
	token := &authenticationv1.TokenRequest{}
	g.Expect(c.SubResource("token").Create(t.Context(), account, token)).To(Succeed())
	kubeconfig := userFile(t, s.Source, &clientcmdapi.AuthInfo{TokenFile: writeFile(t, "token", token.Status.Token)})

	p := start(t, roleGardener, configIn(namespace, ""), "KUBECONFIG="+kubeconfig)
	code, last := p.ends(t)
	g.Expect(code).To(Equal(1))
	g.Expect(last).To(Equal(`Error: source cluster at ` + s.Source.Config.Host + `: ` +
		`not allowed to list, watch configmaps in namespace "` + namespace + `": grant it, for example with the roles in deploy/gardener; ` +
		`not allowed to create leases.coordination.k8s.io in namespace "` + namespace +
		`": grant it, for example with the roles in deploy/gardener; ` +
		`not allowed to get, update leases.coordination.k8s.io named "gardener-resource-manager-gardener" in namespace "` + namespace +
		`": grant it, for example with the roles in deploy/gardener`))

	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "gardener"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create"}},
		{
			APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"},
			ResourceNames: []string{"gardener-resource-manager-gardener"}, Verbs: []string{"get", "update"},
		},
	}}
	g.Expect(c.Create(t.Context(), role)).To(Succeed())
	g.Expect(c.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "gardener"},
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: "gardener"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: "gardener"}},
	})).To(Succeed())
	start(t, roleGardener, configIn(namespace, ""), "KUBECONFIG="+kubeconfig).awaitOutput(t, `"msg":"Leading"`)
}

func TestErrorAtStartIsReportedInOneLine(t *testing.T) {
	s := servers(t)
	namespace := newNamespace(t, admin(t, s.Source))
	good := adminFile(t, s.Source)
	closed := "127.0.0.1:" + strconv.Itoa(freePort(t))
	unreachable := writeFile(t, "kubeconfig", strings.ReplaceAll(kubeconfigWith("{token: abc}"), "127.0.0.1:1", closed))
	unknownUser := userFile(t, s.Source, &clientcmdapi.AuthInfo{Token: "very-secret"})
	for name, tc := range map[string]struct {
		role, config, kubeconfig string
		want                     string
	}{
		"an API server that does not answer": {
			role: roleGardener, config: configIn(namespace, ""), kubeconfig: unreachable,
			want: `Error: connect to source cluster: cannot reach API server at https://` + closed + `: Get "https://` + closed +
				`/api/v1": dial tcp ` + closed +
				`: connect: connection refused; check kubeconfig "` + unreachable + `" (sourceClientConnection.kubeconfig or KUBECONFIG)`,
		},
		"an API server that does not know us": {
			role: roleGardener, config: configIn(namespace, ""), kubeconfig: unknownUser,
			want: `Error: connect to source cluster: API server at ` + s.Source.Config.Host +
				` does not accept our credentials; check kubeconfig "` + unknownUser + `" (sourceClientConnection.kubeconfig or KUBECONFIG)`,
		},
		"no kubeconfig for the target": {
			role: roleGardener, config: configIn(namespace, "targetClientConnection: {}\n"), kubeconfig: good,
			want: `Error: connect to target cluster: no kubeconfig is named and this process does not run in a cluster; check the in-cluster ` +
				`configuration, or name a kubeconfig in targetClientConnection.kubeconfig or TARGET_KUBECONFIG`,
		},
		"a kind that is not served": {
			role: roleNeedsBonsai, config: configIn(namespace, ""), kubeconfig: good,
			want: `Error: source cluster at ` + s.Source.Config.Host +
				`: kind Bonsai (trees.example.com/v1) is not served: run "kubectl apply -f deploy/crds"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			code, last := start(t, tc.role, tc.config, "KUBECONFIG="+tc.kubeconfig).ends(t)
			g.Expect(code).To(Equal(1))
			g.Expect(last).To(Equal(tc.want))
		})
	}
}

// The server behind an APIService does not answer. The kubeconfig is correct. A message with the remedy to apply CRDs would be wrong: the
// CRDs would replace the group of that server.
func TestAnAggregatedAPIThatIsDownIsNamedAtStart(t *testing.T) {
	s := servers(t)
	g := NewWithT(t)
	c := admin(t, s.Source)
	service := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": "v1.trees.example.com"},
		"spec": map[string]any{
			"group": "trees.example.com", "version": "v1", "groupPriorityMinimum": int64(100), "versionPriority": int64(100),
			"insecureSkipTLSVerify": true, "service": map[string]any{"namespace": "default", "name": "felled"},
		},
	}}
	discover, err := discovery.NewDiscoveryClientForConfig(s.Source.Config)
	g.Expect(err).NotTo(HaveOccurred())
	asked := func() error {
		_, err := discover.ServerResourcesForGroupVersionWithContext(context.WithoutCancel(t.Context()), "trees.example.com/v1")
		return err
	}
	g.Expect(c.Create(t.Context(), service)).To(Succeed())
	t.Cleanup(func() {
		g.Expect(c.Delete(context.WithoutCancel(t.Context()), service)).To(Succeed())
		g.Eventually(asked).WithTimeout(30 * time.Second).Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
	})
	g.Eventually(asked).WithTimeout(30 * time.Second).Should(MatchError(apierrors.IsServiceUnavailable, "IsServiceUnavailable"))

	code, last := start(t, roleNeedsBonsai, configIn(newNamespace(t, c), ""), "KUBECONFIG="+adminFile(t, s.Source)).ends(t)
	g.Expect(code).To(Equal(1))
	g.Expect(last).To(Equal(`Error: source cluster at ` + s.Source.Config.Host +
		`: kind Bonsai (trees.example.com/v1) cannot be discovered: ` +
		`the server of APIService v1.trees.example.com does not answer (the server is currently unable to handle the request): ` +
		`bring it back ("kubectl get apiservice v1.trees.example.com" says what is wrong)`))
}

func TestTakenPortIsReportedWithTheRemedy(t *testing.T) {
	s := servers(t)
	g := NewWithT(t)
	namespace := newNamespace(t, admin(t, s.Source))
	p := start(t, roleGardener, configIn(namespace, ""), "KUBECONFIG="+adminFile(t, s.Source))
	get(t, p.probes+"/readyz", http.StatusOK)
	taken := strings.TrimPrefix(p.metrics, "http://127.0.0.1:")
	file := writeFile(t, "config.yaml", configIn(namespace, "server: {healthProbes: {bindAddress: 127.0.0.1, port: "+taken+"}}\n"))
	second := startFile(t, roleGardener, file, "KUBECONFIG="+adminFile(t, s.Source))
	code, last := second.ends(t)
	g.Expect(code).To(Equal(1))
	g.Expect(last).To(Equal(`Error: create manager: error listening on 127.0.0.1:` + taken + `: listen tcp 127.0.0.1:` + taken +
		`: bind: address already in use; another process listens there: stop it, or change server.metrics, server.healthProbes or the port ` +
		`of webhooks`))
}

// A signal to the process group reaches a process twice if its parent forwards signals.
func TestSignalThatArrivesTwiceGivesTheLeaseBack(t *testing.T) {
	s := servers(t)
	g := NewWithT(t)
	c := admin(t, s.Source)
	namespace := newNamespace(t, c)
	p := start(t, roleGardener, configIn(namespace, ""), "KUBECONFIG="+adminFile(t, s.Source))
	p.awaitOutput(t, `"msg":"Leading"`)
	p.signal(t)
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	code, _ := p.ends(t)
	g.Expect(code).To(Equal(0))
	lease := &coordinationv1.Lease{}
	g.Expect(c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "gardener-resource-manager-gardener"}, lease)).To(Succeed())
	g.Expect(lease.Spec.HolderIdentity).To(HaveValue(BeEmpty()))
}

// Libraries report errors when a signal interrupts them. These are not faults.
func TestASignalInTheMiddleOfWorkIsNoError(t *testing.T) {
	s := servers(t)
	c := admin(t, s.Source)
	for role, working := range map[string]string{roleBusy: "Reconciling", roleUnsynced: "Listing"} {
		t.Run(role, func(t *testing.T) {
			g := NewWithT(t)
			namespace := newNamespace(t, c)
			seedling := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "seedling"}}
			g.Expect(c.Create(t.Context(), seedling)).To(Succeed())
			p := start(t, role, configIn(namespace, ""), "KUBECONFIG="+adminFile(t, s.Source))
			p.awaitOutput(t, `"msg":"`+working+`"`)
			p.signal(t)
			code, _ := p.ends(t)
			g.Expect(code).To(Equal(0))
			g.Expect(strings.Split(p.out.String(), "\n")).NotTo(ContainElement(Or(ContainSubstring(`"level":"error"`), HavePrefix("Error: "))))
		})
	}
}

func TestSignalsEndAStubbornProcess(t *testing.T) {
	g := NewWithT(t)
	p := start(t, roleStubborn, configIn("garden", ""))
	p.awaitOutput(t, `"msg":"Staying"`)
	p.signal(t)
	g.Consistently(p.done).WithTimeout(300 * time.Millisecond).ShouldNot(BeClosed())
	g.Eventually(func() <-chan struct{} { // repeated, because a signal that arrives while the first one is being handled is ignored
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		return p.done
	}).WithTimeout(testPatience).WithPolling(100 * time.Millisecond).Should(BeClosed())
	code, last := p.ends(t)
	g.Expect(code).To(Equal(1))
	g.Expect(last).To(Equal("Error: stopped at once by a second signal"))
}

func TestOneClusterOrTwoClientsReadSecretsLive(t *testing.T) {
	s := servers(t)
	g := NewWithT(t)
	t.Setenv("KUBECONFIG", adminFile(t, s.Source))
	t.Setenv("TARGET_KUBECONFIG", adminFile(t, s.Target))
	namespace := newNamespace(t, admin(t, s.Source))
	clusters := connect(t, configIn(namespace, "targetClientConnection: {}\n"))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- clusters.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		g.Expect(<-ended).To(Succeed())
	})

	for _, side := range []struct {
		writer client.Client
		reader client.Client
	}{{admin(t, s.Source), clusters.Source.GetClient()}, {admin(t, s.Target), clusters.Target.GetClient()}} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "process-"}}
		g.Expect(side.writer.Create(t.Context(), secret)).To(Succeed())
		t.Cleanup(func() { _ = side.writer.Delete(context.WithoutCancel(t.Context()), secret) })
		g.Expect(side.reader.Get(t.Context(), client.ObjectKeyFromObject(secret), &corev1.Secret{})).To(Succeed())
		g.Expect(side.reader.Get(t.Context(), client.ObjectKeyFromObject(secret), ptr.To(metav1.PartialObjectMetadata{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		}))).To(Succeed())
	}
	var notCached *cache.ErrResourceNotCached
	g.Eventually(func() bool {
		err := clusters.Source.GetClient().Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "x"}, &corev1.ConfigMap{})
		return errors.As(err, &notCached)
	}).WithTimeout(testPatience).Should(BeTrue(), "other kinds come from the cache, once that has started")
	_, err := clusters.TargetMapper.RESTMapping(corev1.SchemeGroupVersion.WithKind("Secret").GroupKind(), "v1")
	g.Expect(err).NotTo(HaveOccurred())
}
