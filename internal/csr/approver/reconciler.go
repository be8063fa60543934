// Package approver approves or denies the requests of kubelets for serving certificates.
//
// The approver watches CertificateSigningRequests of signer kubernetes.io/kubelet-serving in the target cluster. It reads Nodes there, and
// the metadata of Machines in the source cluster. All these reads are from caches. If the configuration denies identities of the API
// server, the approver reads the endpoints of the API server live before each decision that depends on them: the endpoints change, and
// with a stale list a node could get a certificate for an address of the API server. The approver writes one final condition into each
// request and, if configured, Events; in observe-only mode it writes no condition. A change of a Node or Machine triggers a reconciliation
// only if requests wait for this object.
//
// If the process dies before the write, the request is undecided, and the next process finds the request when it lists. If the process
// dies after the write, the next process skips the request. If another approver decides at the same time, the first write wins: the write
// carries the version of the request that was judged.
package approver

import (
	"context"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/espalier-dev/espalier/internal/csr/rules"
)

// To find the requests that wait for a decision.
// +kubebuilder:rbac:groups=certificates.k8s.io,resources=certificatesigningrequests,verbs=list;watch,roleName=espalier-csr-approver-target
// To write the decision, which is a separate subresource.
// +kubebuilder:rbac:groups=certificates.k8s.io,resources=certificatesigningrequests/approval,verbs=update,roleName=espalier-csr-approver-target
// The API server accepts decisions only from users that may approve for the signer.
// +kubebuilder:rbac:groups=certificates.k8s.io,resources=signers,resourceNames=kubernetes.io/kubelet-serving,verbs=approve,roleName=espalier-csr-approver-target
// To compare the requested names with the addresses of the node.
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch,roleName=espalier-csr-approver-target
// To check that a node has a machine. In the source, a Role in the namespace of the Machines is enough.
// +kubebuilder:rbac:groups=machine.sapcloud.io,resources=machines,verbs=list;watch,roleName=espalier-csr-approver-source
// Events about requests, which have no namespace, are in namespace default.
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch,namespace=default,roleName=espalier-csr-approver-target-events
// One replica works at a time. The lease is in the source.
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=create,namespace=espalier-system,roleName=espalier-csr-approver-lease
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=gardener-resource-manager-csr-approver,verbs=get;update,namespace=espalier-system,roleName=espalier-csr-approver-lease
// Leader election sends Events.
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch,namespace=espalier-system,roleName=espalier-csr-approver-lease

const (
	// lastPriority is the priority of requests that the quota refuses: all other requests come first.
	lastPriority = -200
	// nextTurn is how soon a refused request is in the queue again, behind all other requests.
	nextTurn = time.Millisecond
)

// Reconciler decides about requests, one at a time. Its fields are set once, before start.
type Reconciler struct {
	// Target reads requests and Nodes from caches, and writes decisions.
	Target client.Client
	// Source reads Machines from a cache. Nil if Rules.Own.WithoutMachines.
	Source client.Reader
	Clock  clock.PassiveClock
	Rules  rules.Rules
	// APIServer returns the names and addresses of the API servers; nil if a request is not denied for containing them.
	APIServer func(context.Context) (rules.Endpoints, error)
	// Quota limits how many requests of one user are decided per period; nil means no limit.
	Quota *Quota
	// Events sends Events about decisions; nil sends none.
	Events  *Events
	Metrics *Metrics
	// Observed, if not nil, enables observe-only mode: decisions are reported and not written.
	Observed *Observed
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	csr := &certificatesv1.CertificateSigningRequest{}
	err := r.Target.Get(ctx, request.NamespacedName, csr)
	if apierrors.IsNotFound(err) {
		r.forget(request.Name)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("read request: %w", err)
	}
	if csr.Spec.SignerName != certificatesv1.KubeletServingSignerName || r.Observed == nil && rules.Decided(csr.Status) {
		r.forget(request.Name)
		return ctrl.Result{}, nil
	}
	if r.Observed.passes(csr) {
		return ctrl.Result{}, nil
	}
	refused, result := r.turn(ctx, csr)
	if !result.IsZero() {
		return result, nil
	}
	age := r.Clock.Since(csr.CreationTimestamp.Time) // computed once, because the verdict and the wait must use the same age
	verdict := rules.Flooding(csr.Spec.Username)
	if !refused {
		if verdict, err = r.judge(ctx, csr, age); err != nil {
			return ctrl.Result{}, err
		}
	}
	if verdict.Outcome == rules.Wait {
		return r.wait(ctx, age, verdict), nil
	}
	return ctrl.Result{}, r.conclude(ctx, csr, verdict)
}

func (r *Reconciler) forget(name string) {
	r.Observed.forget(name)
	r.Quota.forget(name)
}

// turn reports whether the request is refused because its user has sent too many, and when to try again if the request must wait.
func (r *Reconciler) turn(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) (refused bool, result ctrl.Result) {
	if r.Quota == nil {
		return false, ctrl.Result{}
	}
	place := r.Quota.ask(csr.Name, csr.UID, csr.Spec.Username)
	switch {
	case place.refused && place.news:
		return true, ctrl.Result{RequeueAfter: nextTurn, Priority: ptr.To(lastPriority)}
	case place.wait > 0:
		r.Metrics.postponed(rules.RateLimit)
		log.FromContext(ctx).V(1).Info("Postponed, because its user asks for much", "username", csr.Spec.Username, "wait", place.wait.String())
		return false, ctrl.Result{RequeueAfter: place.wait}
	}
	return place.refused, ctrl.Result{}
}

// wait requeues the request for the time at which the request must no longer wait for the missing object. If the object appears earlier,
// its watch triggers a reconciliation. The age must be the age that the verdict used: with a later age, the remaining time could be 0, and
// the request would never be requeued.
func (r *Reconciler) wait(ctx context.Context, age time.Duration, verdict rules.Verdict) ctrl.Result {
	left := min(r.Rules.Patience()-age, r.Rules.Patience())
	r.Metrics.postponed(verdict.Reason)
	log.FromContext(ctx).V(1).Info("Waiting", "reason", verdict.Message, "atMost", left.String())
	return ctrl.Result{RequeueAfter: left}
}

// judge reads the objects that the verdict depends on, and returns the verdict. A request that cannot be decoded is an error, not a denial.
func (r *Reconciler) judge(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, age time.Duration) (rules.Verdict, error) {
	request, err := rules.Read(csr.Spec)
	if err != nil {
		return rules.Verdict{}, fmt.Errorf("unable to parse csr: %w", err)
	}
	if verdict := r.Rules.JudgeRequest(request); verdict.Outcome != rules.Approve {
		return verdict, nil
	}
	objects, err := r.observe(ctx, request.NodeName())
	if err != nil {
		return rules.Verdict{}, fmt.Errorf("failed when checking for approval conditions: %w", err)
	}
	return r.Rules.JudgeObjects(request, objects, age), nil
}

// conclude writes the decision and reports it. In observe-only mode it only reports.
func (r *Reconciler) conclude(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, verdict rules.Verdict) error {
	if r.Observed == nil {
		csr.Status.Conditions = append(csr.Status.Conditions, verdict.Condition())
		if err := r.Target.SubResource("approval").Update(ctx, csr); err != nil {
			return fmt.Errorf("write decision: %w", err)
		}
	} else {
		r.Observed.add(csr)
		r.Quota.forget(csr.Name) // no decision is written, so no event will end the turn of the request
	}
	report := describe(verdict, r.Observed != nil)
	log.FromContext(ctx).Info(report.log, "username", csr.Spec.Username, "reason", verdict.Reason.String(), "message", verdict.Message)
	r.Metrics.decided(report.decision, verdict.Reason)
	r.Events.decided(csr, report, verdict)
	return nil
}
