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

	"golang.org/x/sync/errgroup"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certificatesclient "k8s.io/client-go/kubernetes/typed/certificates/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"github.com/espalier-dev/espalier/test/bench/harness"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
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

func (c *csr) measure(ctx context.Context, r *harness.Run) ([]harness.Row, error) {
	c.Run = r
	if err := harness.InOrder(ctx, c.prepare, c.createNodes, c.start); err != nil {
		return nil, err
	}
	if _, err := c.burst(ctx, "warm", c.approve); err != nil {
		return nil, err
	}
	before, err := c.program.Metrics(ctx)
	if err != nil {
		return nil, err
	}
	var bare, ours []time.Duration
	for round := range c.rounds {
		floor, errBare := c.burst(ctx, fmt.Sprintf("bare-%d", round), c.approve)
		took, errOurs := c.burst(ctx, fmt.Sprintf("ours-%d", round), nil)
		err = errors.Join(errBare, errOurs)
		if err != nil {
			return nil, err
		}
		bare, ours = append(bare, floor), append(ours, took)
	}
	after, err := c.program.Metrics(ctx)
	if err != nil {
		return nil, err
	}
	const sent = "rest_client_requests_total"
	perDecision := (after.Sum(sent) - before.Sum(sent)) / float64(c.requests*c.rounds)
	return harness.On(fmt.Sprintf("burst of %d", c.requests),
		harness.Ratio("last request approved ÷ bare client", 1.3, harness.Median(ours), harness.Median(bare)).
			WithNote("medians of %s ÷ %s", harness.Spread(ours), harness.Spread(bare)),
		harness.AtMost("requests to the API server per decision", "%.2f", perDecision, 1),
	), nil
}

func (c *csr) prepare(ctx context.Context) (err error) {
	if c.cluster, c.program, err = c.StartClusterFor(ctx, csrBinary, harness.Setup{}); err != nil {
		return err
	}
	c.admin = c.cluster.Typed.CertificatesV1().CertificateSigningRequests()
	_, err = binary.Install(ctx, c.cluster.Client, "internal/csr/approver/testdata/machines.yaml")
	return err
}

// createNodes creates the nodes, their Machines and their requests.
func (c *csr) createNodes(ctx context.Context) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	c.nodes = make([]csrNode, c.requests)
	return harness.Parallel(ctx, c.requests, csrCreators, func(ctx context.Context, i int) error {
		n := &c.nodes[i]
		n.name = fmt.Sprintf("node-%04d", i)
		ip := net.IPv4(10, 250, byte(i/250), byte(i%250+1))
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name}}
		node.Status.Addresses = []corev1.NodeAddress{
			{Type: corev1.NodeHostName, Address: n.name}, {Type: corev1.NodeInternalIP, Address: ip.String()},
		}
		machine, err := object(harness.Namespace, strings.ReplaceAll(
			"{apiVersion: machine.sapcloud.io/v1alpha1, kind: Machine, metadata: {name: $NAME, labels: {node: $NAME}}}", "$NAME", n.name))
		if err != nil {
			return err
		}
		err = c.cluster.Client.Create(ctx, node)
		if err != nil {
			return err
		}
		served := func(ctx context.Context) error { return c.cluster.Client.Create(ctx, machine) }
		err = local.Await(ctx, time.Minute, "the kind Machine to be served", served)
		if err != nil {
			return err
		}
		as := c.cluster.AdminConfig()
		as.Impersonate = rest.ImpersonationConfig{UserName: "system:node:" + n.name, Groups: []string{"system:nodes"}}
		clients, err := certificatesclient.NewForConfig(as)
		if err != nil {
			return err
		}
		n.client = clients.CertificateSigningRequests()
		subject := &pkix.Name{CommonName: "system:node:" + n.name, Organization: []string{"system:nodes"}}
		n.pem, err = cert.MakeCSR(key, subject, []string{n.name}, []net.IP{ip})
		return err
	})
}

// start runs the approver until it has read everything that its decisions need.
func (c *csr) start(ctx context.Context) error {
	config := strings.Replace(harness.Config, "$SOURCE", "$SOURCE, namespaces: ["+harness.Namespace+"]", 1) +
		fmt.Sprintf("controllers: {kubeletCSRApprover: {enabled: true, concurrentSyncs: %d, machineNamespace: %s}}\n",
			csrApprovals, harness.Namespace)
	if err := errors.Join(c.program.Configure(config, c.Profiles != ""), c.program.Start()); err != nil {
		return err
	}
	return c.program.Await(ctx, "csr-approver to work", func(context.Context) error {
		working, err := c.program.LogContains("Starting workers")
		if err == nil && !working {
			err = errors.New("its caches are not filled")
		}
		return err
	})
}

// burst creates all requests and returns the time from the first creation until the last approval was seen. Without an approval by a bare
// client, the approver decides.
func (c *csr) burst(
	ctx context.Context, round string, approve func(context.Context, *certificatesv1.CertificateSigningRequest) error,
) (time.Duration, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*time.Minute, fmt.Errorf("burst %s is not approved", round))
	defer cancel()
	watch, err := c.admin.Watch(ctx, metav1.ListOptions{LabelSelector: "round=" + round})
	if err != nil {
		return 0, err
	}
	defer watch.Stop()
	begin := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	created := make(chan *certificatesv1.CertificateSigningRequest, c.requests)
	group.Go(func() error { return c.create(ctx, round, approve == nil, created) })
	if approve != nil {
		for range csrApprovals {
			group.Go(func() error {
				for request := range created {
					if err := approve(ctx, request); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	for left := c.requests; left > 0; {
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("%d requests are left: %w (%w)", left, context.Cause(ctx), group.Wait())
		case event := <-watch.ResultChan():
			// The approval is the last event of a request here.
			if request, ok := event.Object.(*certificatesv1.CertificateSigningRequest); ok && len(request.Status.Conditions) == 1 &&
				request.Status.Conditions[0].Type == certificatesv1.CertificateApproved {
				left--
			}
		}
	}
	took := time.Since(begin)
	c.Step("%s: %d requests approved in %s", round, c.requests, harness.Seconds(took))
	return took, group.Wait()
}

// create sends one request of each node.
func (c *csr) create(ctx context.Context, round string, forApprover bool, created chan<- *certificatesv1.CertificateSigningRequest) error {
	defer close(created)
	signer := foreignSigner
	if forApprover {
		signer = certificatesv1.KubeletServingSignerName
	}
	return harness.Parallel(ctx, len(c.nodes), csrCreators, func(ctx context.Context, i int) error {
		request, err := c.nodes[i].client.Create(ctx, &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: round + "-" + c.nodes[i].name, Labels: map[string]string{"round": round}},
			Spec: certificatesv1.CertificateSigningRequestSpec{
				Request: c.nodes[i].pem, SignerName: signer,
				Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("create request: %w", err)
		}
		created <- request
		return nil
	})
}

func (c *csr) approve(ctx context.Context, request *certificatesv1.CertificateSigningRequest) error {
	request.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "RequestApproved", Message: "Approved by the bare client",
	}}
	_, err := c.admin.UpdateApproval(ctx, request.Name, request, metav1.UpdateOptions{})
	return err
}
