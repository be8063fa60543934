// Package approver approves or denies the requests of kubelets for serving certificates.
//
// It watches, in the target cluster, CertificateSigningRequests of signer kubernetes.io/kubelet-serving and reads Nodes;
// in the source cluster, it reads the metadata of Machines; all from caches. If identities of the API server are denied, it
// reads the endpoints of the API server live before each decision: they change, and a stale address would be given away. It writes one condition into each request,
// which is final, and on demand Events. Only where requests wait for their Node or Machine, these trigger too.
//
// If the process dies half-way, a request is either decided, and then left alone by the next process, or it is not, and
// then the next one finds it when it lists. Whoever else decides meanwhile wins: the write carries the version that was
// judged.
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

	"github.com/espalier-dev/espalier/internal/csr/quota"
	"github.com/espalier-dev/espalier/internal/csr/rules"
)

// To see the requests that wait for a decision.
// +kubebuilder:rbac:groups=certificates.k8s.io,resources=certificatesigningrequests,verbs=list;watch,roleName=espalier-csr-approver-target
// To write the decision, which is a subresource of its own.
// +kubebuilder:rbac:groups=certificates.k8s.io,resources=certificatesigningrequests/approval,verbs=update,roleName=espalier-csr-approver-target
// The API server lets only those decide who may approve for the signer.
// +kubebuilder:rbac:groups=certificates.k8s.io,resources=signers,resourceNames=kubernetes.io/kubelet-serving,verbs=approve,roleName=espalier-csr-approver-target
// To compare the requested names with the addresses of the node.
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch,roleName=espalier-csr-approver-target
// To see that a node has a machine. In the source, where a Role in the namespace of the Machines is enough.
// +kubebuilder:rbac:groups=machine.sapcloud.io,resources=machines,verbs=list;watch,roleName=espalier-csr-approver-source
// Events about requests, which have no namespace, are in namespace default.
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch,namespace=default,roleName=espalier-csr-approver-target-events
// One replica works at a time. The lease lies in the source.
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=create,namespace=espalier-system,roleName=espalier-csr-approver-lease
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=gardener-resource-manager-csr-approver,verbs=get;update,namespace=espalier-system,roleName=espalier-csr-approver-lease
// Leader election tells of itself.
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch,namespace=espalier-system,roleName=espalier-csr-approver-lease

const (
	// lastPriority is that of refusals: whatever else there is to do comes first.
	lastPriority = -200
	// nextTurn is how soon a refusal is in the queue again, behind all others.
	nextTurn = time.Millisecond
)

// Reconciler decides about one request after the other. Its fields are set once, before start.
type Reconciler struct {
	// Target reads requests and Nodes from caches, and writes decisions.
	Target client.Client
	// Source reads Machines from a cache. Nil if Rules.WithoutMachines.
	Source client.Reader
	Clock  clock.PassiveClock
	Rules  rules.Rules
	// MachineNamespace is where Machines are looked for; empty means wherever the cache has them.
	MachineNamespace string
	// APIServer reads where API servers listen; nil if nodes may get certificates for these names and addresses.
	APIServer func(context.Context) (rules.Endpoints, error)
	// Quota restricts how many requests of one user are decided in a time; nil does not.
	Quota *quota.Quota
	// Events tells of decisions; nil does not.
	Events  *Events
	Metrics *Metrics
	// Observed, if not nil, makes it decide and tell, and write nothing.
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
	age := r.Clock.Since(csr.CreationTimestamp.Time) // of which the verdict and the wait must have the same idea
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
	r.leaveQueue(name)
}

func (r *Reconciler) leaveQueue(name string) {
	if r.Quota != nil {
		r.Quota.Forget(name)
	}
}

// turn tells whether the request is refused for being one of too many, and when to come back if it is not its turn yet.
func (r *Reconciler) turn(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) (refused bool, result ctrl.Result) {
	if r.Quota == nil {
		return false, ctrl.Result{}
	}
	answer := r.Quota.Ask(csr.Name, csr.UID, csr.Spec.Username)
	switch {
	case answer.Refused && answer.News:
		return true, ctrl.Result{RequeueAfter: nextTurn, Priority: ptr.To(lastPriority)}
	case answer.Wait > 0:
		r.Metrics.postponed(rules.RateLimit)
		log.FromContext(ctx).V(1).Info("Postponed, because its user asks for much", "username", csr.Spec.Username, "wait", answer.Wait.String())
		return false, ctrl.Result{RequeueAfter: answer.Wait}
	}
	return answer.Refused, ctrl.Result{}
}

// wait comes back when it is too late for the missing object. Should it come before, its watch triggers. The verdict must
// be about the same age: else nothing might be left, which means never to come back.
func (r *Reconciler) wait(ctx context.Context, age time.Duration, verdict rules.Verdict) ctrl.Result {
	left := min(r.Rules.WaitForObjects-age, r.Rules.WaitForObjects)
	r.Metrics.postponed(verdict.Reason)
	log.FromContext(ctx).V(1).Info("Waiting", "reason", verdict.Message, "atMost", left.String())
	return ctrl.Result{RequeueAfter: left}
}

// judge reads what the verdict depends on. An undecodable request is an error and not a denial.
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

// conclude writes the decision and tells of it, or only tells.
func (r *Reconciler) conclude(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, verdict rules.Verdict) error {
	if r.Observed == nil {
		csr.Status.Conditions = append(csr.Status.Conditions, verdict.Condition())
		if err := r.Target.SubResource("approval").Update(ctx, csr); err != nil {
			return fmt.Errorf("write decision: %w", err)
		}
	} else {
		r.Observed.add(csr)
		r.leaveQueue(csr.Name) // no decision will be seen that ends its turn
	}
	told := describe(verdict, r.Observed != nil)
	log.FromContext(ctx).Info(told.log, "username", csr.Spec.Username, "reason", verdict.Reason, "message", verdict.Message)
	r.Metrics.decided(told.decision, verdict.Reason)
	r.Events.decided(csr, told, verdict)
	return nil
}
