package binaries

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/bench/harness"
	"github.com/espalier-dev/espalier/test/local"
)

// csr measures csr-approver: the time from a burst of requests until the last one is approved, compared with a bare client that approves
// the same number in the same run, and the number of requests that a decision costs. Both get the same burst, which the same number of
// clients create, and make the same number of concurrent approvals. The bare client has the permissions of an administrator and approves
// each request as soon as it has been created, without watching, reading or checking anything.
type csr struct {
	bench
	requests, rounds int

	nodes []csrNode
}

// csrNode is a node with a client of its own, and its certificate request in PEM.
type csrNode struct {
	name   string
	client client.Client
	pem    []byte
}

const (
	csrBinary = "csr-approver"
	// csrCreators is how many clients create requests concurrently.
	csrCreators = 16
	// csrApprovals is the number of concurrent approvals, of the approver and of the bare client.
	csrApprovals = 5
	// foreignSigner is the signer of the requests for the bare client. The approver does not process requests for this signer.
	foreignSigner = "bench.espalier.dev/serving"
)

func csrBenchmark() harness.Benchmark {
	c := &csr{}
	return harness.Benchmark{
		Name: "csr", Summary: "a burst of certificate requests of kubelets, approved by csr-approver",
		Sizes: []harness.Size{
			harness.Sized(&c.requests, "requests", 500, 20, "requests in a burst"),
			harness.Sized(&c.rounds, "rounds", 5, 1, "bursts of each kind"),
		},
		Jobs: harness.One(c.measure),
	}
}

func (c *csr) measure(r *harness.Run) {
	c.bench = open(r, csrBinary, local.Options{})
	c.cluster.Install("internal/csr/approver/testdata/machines.yaml",
		schema.GroupVersionKind{Group: "machine.sapcloud.io", Version: "v1alpha1", Kind: "Machine"})
	c.createNodes()
	c.program.Configure(strings.Replace(harness.Config, "$SOURCE", "$SOURCE, namespaces: ["+harness.Namespace+"]", 1) +
		fmt.Sprintf("controllers: {kubeletCSRApprover: {enabled: true, concurrentSyncs: %d, machineNamespace: %s}}\n",
			csrApprovals, harness.Namespace))
	c.program.StartReady()
	c.burst("warm", true)
	const sent = "rest_client_requests_total"
	before := c.program.Metrics().Sum(sent)
	bare, ours := make([]time.Duration, 0, c.rounds), make([]time.Duration, 0, c.rounds)
	for round := range c.rounds {
		bare = append(bare, c.burst(fmt.Sprintf("bare-%d", round), true))
		ours = append(ours, c.burst(fmt.Sprintf("ours-%d", round), false))
	}
	perDecision := (c.program.Metrics().Sum(sent) - before) / float64(c.requests*c.rounds)
	c.Add(harness.On(fmt.Sprintf("burst of %d", c.requests),
		harness.Ratio("last request approved ÷ bare client", 1.3, harness.Median(ours), harness.Median(bare)).
			WithNote("medians of %s ÷ %s", harness.Spread(ours), harness.Spread(bare)),
		harness.AtMost("requests to the API server per decision", "%.2f", perDecision, 1),
	))
}

// createNodes creates the nodes, their Machines and their requests.
func (c *csr) createNodes() {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	c.Check(err)
	c.nodes = make([]csrNode, c.requests)
	c.Parallel(c.requests, csrCreators, func(i int) {
		n := &c.nodes[i]
		n.name = fmt.Sprintf("node-%04d", i)
		ip := net.IPv4(10, 250, byte(i/250), byte(i%250+1))
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name}}
		node.Status.Addresses = []corev1.NodeAddress{
			{Type: corev1.NodeHostName, Address: n.name}, {Type: corev1.NodeInternalIP, Address: ip.String()},
		}
		machine := local.NewObject("machine.sapcloud.io/v1alpha1", "Machine", harness.Namespace, n.name, map[string]any{})
		machine.SetLabels(map[string]string{"node": n.name})
		c.cluster.Create(node)
		c.cluster.Create(machine)
		as := c.cluster.AdminConfig()
		as.Impersonate = rest.ImpersonationConfig{UserName: "system:node:" + n.name, Groups: []string{"system:nodes"}}
		n.client = c.NewClient(as)
		subject := &pkix.Name{CommonName: "system:node:" + n.name, Organization: []string{"system:nodes"}}
		request, failure := cert.MakeCSR(key, subject, []string{n.name}, []net.IP{ip})
		c.Check(failure)
		n.pem = request
	})
}

// burst creates all requests and returns the time from the first creation until the last approval was seen. If bare is true, the bare
// client approves them, otherwise the approver.
func (c *csr) burst(round string, bare bool) (took time.Duration) {
	follower := c.Follow(harness.Subject{
		Cluster: c.cluster, Kind: certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"),
		Labels: map[string]string{"round": round}, Full: true,
	})
	defer follower.Stop()
	begin := time.Now()
	created := make(chan *certificatesv1.CertificateSigningRequest, c.requests)
	signer, approvals := certificatesv1.KubeletServingSignerName, 0
	if bare {
		signer, approvals = foreignSigner, csrApprovals
	}
	c.Together(
		func() {
			defer close(created)
			c.create(round, signer, created)
		},
		func() {
			c.Parallel(approvals, csrApprovals, func(int) {
				for request := range created {
					c.approve(request)
				}
			})
		},
		func() {
			took = follower.Until(2*time.Minute, "approval of burst "+round, harness.UntilAll(c.requests, approvedRequest)).Sub(begin)
		},
	)
	c.Step("%s: %d requests approved in %s", round, c.requests, harness.Seconds(took))
	return took
}

// create creates one certificate request of each node.
func (c *csr) create(round, signer string, created chan<- *certificatesv1.CertificateSigningRequest) {
	c.Parallel(len(c.nodes), csrCreators, func(i int) {
		request := &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: round + "-" + c.nodes[i].name, Labels: map[string]string{"round": round}},
			Spec: certificatesv1.CertificateSigningRequestSpec{
				Request: c.nodes[i].pem, SignerName: signer,
				Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
			},
		}
		c.Checkf(c.nodes[i].client.Create(c.Ctx, request), "create request")
		created <- request
	})
}

func (c *csr) approve(request *certificatesv1.CertificateSigningRequest) {
	request.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "RequestApproved", Message: "Approved by the bare client",
	}}
	c.Check(c.cluster.Client.SubResource("approval").Update(c.Ctx, request))
}

// approvedRequest returns the name of a request that an event shows as approved, or "".
func approvedRequest(e harness.Event) string {
	request, ok := e.Object.(*certificatesv1.CertificateSigningRequest)
	if !ok || len(request.Status.Conditions) != 1 || request.Status.Conditions[0].Type != certificatesv1.CertificateApproved {
		return ""
	}
	return request.Name
}
