package binaries

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509/pkix"
	"errors"
	"flag"
	"fmt"
	"net"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	certificatesclient "k8s.io/client-go/kubernetes/typed/certificates/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"github.com/espalier-dev/espalier/test/bench/harness"
	"github.com/espalier-dev/espalier/test/binary"
)

// csr measures csr-approver: the time from a burst of requests until the last one is approved, compared with a bare client that approves
// the same number in the same run, and the number of requests that a decision costs. Both get the same burst, created by the same number of
// clients, and have the same number of concurrent approvals. The bare client is an administrator that approves each request as soon as it
// has been created, without watching, reading or judging anything.
type csr struct {
	requests, rounds int

	*harness.Run
	cluster *harness.Cluster
	admin   certificatesclient.CertificateSigningRequestInterface
	nodes   []csrNode
	program *harness.Program
}

// csrNode is a node with its own client, and its request in PEM.
type csrNode struct {
	name   string
	client certificatesclient.CertificateSigningRequestInterface
	pem    []byte
}

const (
	csrBinary = "csr-approver"
	// csrCreators is how many clients create requests concurrently.
	csrCreators = 16
	// csrApprovals is the number of concurrent approvals, of the approver and of the bare client.
	csrApprovals = 5
	// foreignSigner excludes the requests of the bare client from the approver.
	foreignSigner = "bench.espalier.dev/serving"
)

func csrBenchmark() harness.Benchmark {
	c := &csr{}
	return harness.Benchmark{
		Name: "csr", Summary: "a burst of certificate requests of kubelets, approved by csr-approver",
		Flags: func(flags *flag.FlagSet) {
			flags.IntVar(&c.requests, "requests", 500, "requests in a burst")
			flags.IntVar(&c.rounds, "rounds", 5, "bursts of each kind")
		},
		Smoke: func() { c.requests, c.rounds = 20, 1 },
		Jobs:  job(c.measure, &c.requests, &c.rounds),
	}
}

func (c *csr) measure(r *harness.Run) {
	c.Run = r
	c.prepare()
	c.createNodes()
	c.start()
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

func (c *csr) prepare() {
	c.cluster, c.program = c.StartClusterFor(csrBinary, harness.Setup{})
	c.admin = c.cluster.Typed.CertificatesV1().CertificateSigningRequests()
	_, err := binary.Install(c.Ctx, c.cluster.Client, "internal/csr/approver/testdata/machines.yaml")
	c.Check(err)
	c.cluster.AwaitServed(schema.GroupVersionKind{Group: "machine.sapcloud.io", Version: "v1alpha1", Kind: "Machine"})
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
		machine := object(c.Run, harness.Namespace, strings.ReplaceAll(
			"{apiVersion: machine.sapcloud.io/v1alpha1, kind: Machine, metadata: {name: $NAME, labels: {node: $NAME}}}", "$NAME", n.name))
		c.cluster.Create(node)
		c.cluster.Create(machine)
		as := c.cluster.AdminConfig()
		as.Impersonate = rest.ImpersonationConfig{UserName: "system:node:" + n.name, Groups: []string{"system:nodes"}}
		clients, err := certificatesclient.NewForConfig(as)
		c.Check(err)
		n.client = clients.CertificateSigningRequests()
		subject := &pkix.Name{CommonName: "system:node:" + n.name, Organization: []string{"system:nodes"}}
		n.pem, err = cert.MakeCSR(key, subject, []string{n.name}, []net.IP{ip})
		c.Check(err)
	})
}

// start runs the approver until it has read everything that its decisions need.
func (c *csr) start() {
	c.program.Configure(strings.Replace(harness.Config, "$SOURCE", "$SOURCE, namespaces: ["+harness.Namespace+"]", 1) +
		fmt.Sprintf("controllers: {kubeletCSRApprover: {enabled: true, concurrentSyncs: %d, machineNamespace: %s}}\n",
			csrApprovals, harness.Namespace))
	c.program.Start()
	c.program.Await("csr-approver to work", func(context.Context) error {
		working, err := c.program.LogContains("Starting workers")
		if err == nil && !working {
			err = errors.New("its caches are not filled")
		}
		return err
	})
}

// burst creates all requests and returns the time from the first creation until the last approval was seen. The bare client approves them,
// or the approver.
func (c *csr) burst(round string, bare bool) (took time.Duration) {
	watch, err := c.admin.Watch(c.Ctx, metav1.ListOptions{LabelSelector: "round=" + round})
	c.Check(err)
	defer watch.Stop()
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
			c.seeApprovals(round, watch.ResultChan())
			took = time.Since(begin)
		},
	)
	c.Step("%s: %d requests approved in %s", round, c.requests, harness.Seconds(took))
	return took
}

// create sends one request of each node.
func (c *csr) create(round, signer string, created chan<- *certificatesv1.CertificateSigningRequest) {
	c.Parallel(len(c.nodes), csrCreators, func(i int) {
		request, err := c.nodes[i].client.Create(c.Ctx, &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: round + "-" + c.nodes[i].name, Labels: map[string]string{"round": round}},
			Spec: certificatesv1.CertificateSigningRequestSpec{
				Request: c.nodes[i].pem, SignerName: signer,
				Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
			},
		}, metav1.CreateOptions{})
		c.Checkf(err, "create request")
		created <- request
	})
}

func (c *csr) approve(request *certificatesv1.CertificateSigningRequest) {
	request.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "RequestApproved", Message: "Approved by the bare client",
	}}
	_, err := c.admin.UpdateApproval(c.Ctx, request.Name, request, metav1.UpdateOptions{})
	c.Check(err)
}

// seeApprovals waits until all requests are approved.
func (c *csr) seeApprovals(round string, events <-chan watch.Event) {
	ctx, cancel := context.WithTimeoutCause(c.Ctx, 2*time.Minute, fmt.Errorf("burst %s is not approved", round))
	defer cancel()
	for left := c.requests; left > 0; {
		select {
		case <-ctx.Done():
			c.Checkf(context.Cause(ctx), "%d requests are left", left)
		case event := <-events:
			// The approval is the last event of a request here.
			if request, ok := event.Object.(*certificatesv1.CertificateSigningRequest); ok && len(request.Status.Conditions) == 1 &&
				request.Status.Conditions[0].Type == certificatesv1.CertificateApproved {
				left--
			}
		}
	}
}
