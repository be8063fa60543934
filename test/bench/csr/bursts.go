package main

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
)

const (
	// creators is how many clients create requests concurrently.
	creators = 16
	// approvals is the number of concurrent approvals, of the approver and of the bare client.
	approvals = 5
	// foreignSigner excludes the requests of the bare client from the approver.
	foreignSigner = "bench.espalier.dev/serving"
	burstLimit    = 2 * time.Minute
)

type bursts struct {
	*world
	clock clock.PassiveClock
	out   io.Writer
}

// approver measures a burst that the approver decides.
func (b *bursts) approver(ctx context.Context, round string) (time.Duration, error) {
	return b.burst(ctx, round, certificatesv1.KubeletServingSignerName, nil)
}

// bare measures a burst that a bare client approves.
func (b *bursts) bare(ctx context.Context, round string) (time.Duration, error) {
	return b.burst(ctx, round, foreignSigner, b.approve)
}

// burst creates all requests and returns the time from the first creation until the last approval was seen.
func (b *bursts) burst(ctx context.Context, round, signer string, approve func(context.Context, *certificatesv1.CertificateSigningRequest) error) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, burstLimit)
	defer cancel()
	watch, err := b.admin.CertificateSigningRequests().Watch(ctx, metav1.ListOptions{LabelSelector: "round=" + round})
	if err != nil {
		return 0, err
	}
	defer watch.Stop()
	begin := b.clock.Now()
	group, ctx := errgroup.WithContext(ctx)
	created := make(chan *certificatesv1.CertificateSigningRequest, len(b.nodes))
	group.Go(func() error { return b.create(ctx, round, signer, created) })
	if approve != nil {
		for range approvals {
			group.Go(func() error {
				for csr := range created {
					if err := approve(ctx, csr); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	for left := len(b.nodes); left > 0; {
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("%s: %d requests are not approved: %w (%w)", round, left, context.Cause(ctx), group.Wait())
		case event := <-watch.ResultChan():
			if csr, ok := event.Object.(*certificatesv1.CertificateSigningRequest); ok && approvedNow(csr) {
				left--
			}
		}
	}
	took := b.clock.Since(begin)
	fmt.Fprintf(b.out, "%-10s %d requests approved in %.3fs\n", round, len(b.nodes), took.Seconds())
	return took, group.Wait()
}

// approvedNow reports whether an event is the approval; in this benchmark, it is the last event of a request.
func approvedNow(csr *certificatesv1.CertificateSigningRequest) bool {
	return len(csr.Status.Conditions) == 1 && csr.Status.Conditions[0].Type == certificatesv1.CertificateApproved
}

// create sends one request of each node.
func (b *bursts) create(ctx context.Context, round, signer string, created chan<- *certificatesv1.CertificateSigningRequest) error {
	defer close(created)
	group, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range creators {
		group.Go(func() error {
			for i := int(next.Add(1)) - 1; i < len(b.nodes); i = int(next.Add(1)) - 1 {
				csr, err := b.nodes[i].client.CertificateSigningRequests().Create(ctx, &certificatesv1.CertificateSigningRequest{
					ObjectMeta: metav1.ObjectMeta{Name: round + "-" + b.nodes[i].name, Labels: map[string]string{"round": round}},
					Spec: certificatesv1.CertificateSigningRequestSpec{
						Request: b.nodes[i].pem, SignerName: signer,
						Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
					},
				}, metav1.CreateOptions{})
				if err != nil {
					return fmt.Errorf("create request: %w", err)
				}
				created <- csr
			}
			return nil
		})
	}
	return group.Wait()
}

func (b *bursts) approve(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) error {
	csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "RequestApproved", Message: "Approved without a look",
	}}
	_, err := b.admin.CertificateSigningRequests().UpdateApproval(ctx, csr.Name, csr, metav1.UpdateOptions{})
	return err
}
