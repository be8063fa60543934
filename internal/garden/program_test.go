package garden_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/admission/admissiontest"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/test/bench/harness"
	"github.com/espalier-dev/espalier/test/local"
	"github.com/espalier-dev/espalier/test/local/child"
)

// program is the operator as a process of its own, which the test kills.
type program struct {
	*operator
	dir, binary string
	process     *child.Process
	// midway is the number of kills before the work was done.
	midway int
}

// newProgram builds the operator, and writes its configuration file. There is one replica, so that no start waits for a lease to expire.
func newProgram(o *operator) *program {
	o.t.Helper()
	p := &program{operator: o, dir: o.t.ArtifactDir(), binary: filepath.Join(o.t.TempDir(), "garden-operator")}
	o.Expect(local.Compile(o.t.Context(), p.binary, "./cmd/garden-operator")).To(Succeed())

	o.Config.LeaderElection.LeaderElect = ptr.To(false)
	o.Config.Server.Metrics = &config.Endpoint{BindAddress: "127.0.0.1", Port: admissiontest.FreePort(o.t)}
	o.Config.Server.HealthProbes = &config.Endpoint{BindAddress: "127.0.0.1", Port: admissiontest.FreePort(o.t)}
	file, err := yaml.Marshal(o.Config)
	o.Expect(err).NotTo(HaveOccurred())
	o.Expect(os.WriteFile(filepath.Join(p.dir, "config.yaml"), file, 0o600)).To(Succeed())
	o.t.Cleanup(p.kill)
	return p
}

func (p *program) start() {
	p.t.Helper()
	var err error
	p.process, err = child.Start(child.Spec{
		Name: "garden-operator", Path: p.binary, Args: []string{"--config=" + filepath.Join(p.dir, "config.yaml")},
		LogFile: filepath.Join(p.dir, "operator.log"), RecordFile: filepath.Join(p.dir, "record.json"),
	})
	p.Expect(err).NotTo(HaveOccurred())
}

// kill sends SIGKILL to the process, if there is one.
func (p *program) kill() {
	p.t.Helper()
	if p.process != nil {
		p.Expect(p.process.Failure()).To(Succeed(), "the process has not ended by itself")
		p.Expect(p.process.Stop(0)).To(Succeed())
		p.process = nil
	}
}

// create creates the Garden as soon as the webhooks are served.
func (p *program) create() {
	p.t.Helper()
	p.Eventually(func() error { return p.admin.Create(p.t.Context(), p.garden()) }, patience).Should(Succeed())
}

// remove confirms the deletion of the Garden, and deletes it.
func (p *program) remove() {
	p.t.Helper()
	garden := p.garden()
	p.Eventually(func() error {
		return p.change(garden, confirmDeletion)
	}, patience).Should(Succeed())
	p.Expect(p.admin.Delete(p.t.Context(), garden)).To(Succeed())
}

func (p *program) succeeded() bool {
	garden := &operatorv1alpha1.Garden{}
	err := p.admin.Get(p.t.Context(), client.ObjectKey{Name: "garden"}, garden)
	return err == nil && garden.Status.LastOperation != nil && garden.Status.LastOperation.State == "Succeeded"
}

func (p *program) isGone() bool {
	return apierrors.IsNotFound(p.admin.Get(p.t.Context(), client.ObjectKey{Name: "garden"}, &operatorv1alpha1.Garden{}))
}

// requestsSent returns the number of requests that the process has sent.
func (p *program) requestsSent() (sent int) {
	p.t.Helper()
	request, err := http.NewRequestWithContext(
		p.t.Context(), http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/metrics", p.Config.Server.Metrics.Port), http.NoBody,
	)
	p.Expect(err).NotTo(HaveOccurred())
	response, err := http.DefaultClient.Do(request)
	p.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "rest_client_requests_total{") {
			count, err := strconv.Atoi(lines.Text()[strings.LastIndexByte(lines.Text(), ' ')+1:])
			p.Expect(err).NotTo(HaveOccurred())
			sent += count
		}
	}
	return sent
}

// killDuring makes a change, and waits until the work on it is done. If typical is not zero, it kills the operator at a random moment
// before that time, and starts it again. It returns how long the work took, or, if it killed the operator, the rest of the work after the
// new start.
func (p *program) killDuring(random *rand.Rand, typical time.Duration, change func(), done func() bool) time.Duration {
	p.t.Helper()
	change()
	if typical > 0 {
		moment := time.Duration(random.Int64N(int64(typical)))
		<-time.After(moment)
		p.kill()
		isDone := done()
		if !isDone {
			p.midway++
		}
		p.t.Logf("killed after %s of %s, done: %t", moment.Round(time.Millisecond), typical.Round(time.Millisecond), isDone)
		p.start()
	}
	start := time.Now()
	p.Eventually(done, patience).Should(BeTrue())
	return time.Since(start)
}

var unique = regexp.MustCompile("-[0-9a-f]{8}(-[0-9a-f]{5})?$")

// inventory lists the objects in namespace garden, and the cluster-scoped objects of the operator, without the random parts of names.
func (p *program) inventory() []string {
	p.t.Helper()
	all := []string{}
	list := func(kind schema.GroupVersionKind, options ...client.ListOption) {
		found := &metav1.PartialObjectMetadataList{}
		found.SetGroupVersionKind(kind)
		err := p.admin.List(p.t.Context(), found, options...)
		if !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) { // ManagedResources are not served after the deletion
			p.Expect(err).NotTo(HaveOccurred())
		}
		for i := range found.Items {
			if _, kept := found.Items[i].Labels["espalier.dev/kept-credential"]; !kept { // deleted Gardens leave them
				all = append(all, kind.Kind+" "+unique.ReplaceAllString(found.Items[i].Name, ""))
			}
		}
	}
	rbac := schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: "v1"}
	for _, kind := range []schema.GroupVersionKind{
		{Group: "apps", Version: "v1", Kind: "Deployment"},
		{Version: "v1", Kind: "Service"},
		{Version: "v1", Kind: "ConfigMap"},
		{Version: "v1", Kind: "Secret"},
		{Version: "v1", Kind: "ServiceAccount"},
		rbac.WithKind("Role"), rbac.WithKind("RoleBinding"),
		{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
		{Group: "resources.gardener.cloud", Version: "v1alpha1", Kind: "ManagedResource"},
		{Group: "druid.gardener.cloud", Version: "v1alpha1", Kind: "Etcd"},
	} {
		list(kind, client.InNamespace("garden"))
	}
	for _, kind := range []schema.GroupVersionKind{
		rbac.WithKind("ClusterRole"), rbac.WithKind("ClusterRoleBinding"),
		{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
	} {
		list(kind, client.MatchingLabels{"espalier.dev/created-by": "garden-operator"})
	}
	slices.Sort(all)
	return all
}

func number(t *testing.T, variable string, fallback int) int {
	t.Helper()
	if os.Getenv(variable) == "" {
		return fallback
	}
	value, err := strconv.Atoi(os.Getenv(variable))
	NewWithT(t).Expect(err).NotTo(HaveOccurred(), variable)
	return value
}

// CRASH_KILLS is the number of kills (default 2): half of them are during the first reconciliation, the others during the deletion.
// CRASH_SEED repeats the moments of an earlier run, as far as the machine allows.
func TestCrashKillsOfTheOperatorReachTheSameEnd(t *testing.T) {
	o := stoppedOperator(t, reconciling)
	kills, seed := number(t, "CRASH_KILLS", 2), number(t, "CRASH_SEED", int(time.Now().UnixNano()%1_000_000))
	t.Logf("CRASH_SEED=%d repeats the choices of this run", seed)
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	o.playKubelet()
	p := newProgram(o)
	p.start()
	o.awaitWebhooks()

	reconciliation := p.killDuring(random, 0, p.create, p.succeeded)
	want := p.inventory()
	deletion := p.killDuring(random, 0, p.remove, p.isGone)
	empty := p.inventory()
	o.Expect(len(want)).To(BeNumerically(">", len(empty)+50))
	for range kills / 2 {
		p.killDuring(random, reconciliation, p.create, p.succeeded)
		o.Expect(p.inventory()).To(Equal(want))
		p.killDuring(random, deletion, p.remove, p.isGone)
		o.Expect(p.inventory()).To(Equal(empty))
	}
	if kills >= 10 {
		o.Expect(p.midway).To(BeNumerically(">=", kills/2), "kills before the work was done")
	}
	log, err := os.ReadFile(filepath.Join(p.dir, "operator.log"))
	o.Expect(err).NotTo(HaveOccurred())
	o.Expect(string(log)).NotTo(ContainSubstring("panic"))
}

// LOAD_SECRETS is the number of Secrets (default 500), which have 50 MB in all; there are 25 times fewer ManagedResources. None of them is
// the operator's.
func TestObjectsOfOthersInTheNamespaceCostLittleMemory(t *testing.T) {
	o := stoppedOperator(t, reconciling)
	o.playKubelet()
	p := newProgram(o)
	p.start()
	o.awaitWebhooks()
	p.create()
	o.Eventually(p.succeeded, patience).Should(BeTrue()) // ManagedResources are served now
	alone, err := harness.UsageOf(p.process.ID)
	o.Expect(err).NotTo(HaveOccurred())
	p.kill()

	secrets := number(t, "LOAD_SECRETS", 500)
	var writers errgroup.Group
	writers.SetLimit(8)
	labels := map[string]string{"created-for": "load"}
	for i := range secrets {
		meta := metav1.ObjectMeta{Namespace: "garden", Name: fmt.Sprintf("load-%d", i), Labels: labels}
		writers.Go(func() error {
			content := map[string][]byte{"content": make([]byte, 50_000_000/secrets)}
			return o.admin.Create(t.Context(), &corev1.Secret{ObjectMeta: meta, Data: content})
		})
		if i%25 == 0 {
			spec := resourcesv1alpha1.ManagedResourceSpec{SecretRefs: []corev1.LocalObjectReference{{Name: meta.Name}}}
			writers.Go(func() error {
				return o.admin.Create(t.Context(), &resourcesv1alpha1.ManagedResource{ObjectMeta: meta, Spec: spec})
			})
		}
	}
	o.Expect(writers.Wait()).To(Succeed())

	start := time.Now()
	p.start()
	o.Eventually(func() error {
		return o.change(o.garden(), "{metadata: {annotations: {gardener.cloud/operation: reconcile}}}")
	}, patience).Should(Succeed())
	ready := time.Since(start)
	o.Eventually(func() (map[string]string, error) {
		garden := o.garden()
		readErr := o.admin.Get(t.Context(), client.ObjectKey{Name: "garden"}, garden)
		return garden.GetAnnotations(), readErr
	}, patience).ShouldNot(HaveKey("gardener.cloud/operation"))
	o.Eventually(p.succeeded, patience).Should(BeTrue())
	// About 50 MiB of it are pages of the binary, which the library for charts has made 20 MiB larger. Child processes share these pages. The
	// runtime returns the memory of the start within seconds.
	var beside harness.Usage
	o.Eventually(func() (int64, error) {
		beside, err = harness.UsageOf(p.process.ID)
		return beside.Resident, err
	}, patience).Should(BeNumerically("<=", min(130<<20, alone.Resident+30<<20)), "at most 30 MiB more than without them")
	t.Logf("with %d Secrets: webhooks served after %s, %d requests until reconciled, resident memory %d MiB (maximum %d; without them %d)",
		secrets, ready.Round(time.Millisecond), p.requestsSent(), beside.Resident>>20, beside.Peak>>20, alone.Resident>>20)
	o.Expect(beside.Peak).To(BeNumerically("<=", 170<<20))

	for _, kind := range []client.Object{&corev1.Secret{}, &resourcesv1alpha1.ManagedResource{}} {
		// On a slow machine it takes longer than API servers allow for a request. A further request deletes the rest.
		o.Eventually(func() error {
			return o.admin.DeleteAllOf(t.Context(), kind, client.InNamespace("garden"), client.MatchingLabels(labels))
		}, patience).Should(Succeed())
	}
	p.remove()
	o.Eventually(p.isGone, patience).Should(BeTrue())
}
