package approver

import (
	"context"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/csr/rules"
)

// ControllerName names the controller in logs and metrics.
const ControllerName = "kubelet-csr-approver"

// timeout limits the time for the decision about one request.
const timeout = 3 * time.Minute

// userIndex finds requests that may have to be judged by their user.
const userIndex = "spec.username"

// SetupWithManager adds the controller to the manager of the source. Lifetime is the context of the process.
func (r *Reconciler) SetupWithManager(lifetime context.Context, mgr ctrl.Manager, target cluster.Cluster, workers int) error {
	if err := r.prepareCaches(lifetime, mgr, target); err != nil {
		return err
	}
	builder := ctrl.NewControllerManagedBy(mgr).
		Named(ControllerName).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, ReconciliationTimeout: timeout}).
		WatchesRawSource(source.Kind(target.GetCache(), &certificatesv1.CertificateSigningRequest{},
			&handler.TypedEnqueueRequestForObject[*certificatesv1.CertificateSigningRequest]{}, r.requestEvents()))
	if r.Rules.WaitForObjects > 0 {
		builder = builder.WatchesRawSource(source.Kind(target.GetCache(), &corev1.Node{},
			handler.TypedEnqueueRequestsFromMapFunc(r.requestsOfNode), nodeEvents()))
		if !r.Rules.WithoutMachines {
			builder = builder.WatchesRawSource(source.Kind(mgr.GetCache(), Machine(),
				handler.TypedEnqueueRequestsFromMapFunc(r.requestsOfMachine), machineEvents()))
		}
	}
	return builder.Complete(conflict.RetryAtOnce(r))
}

// prepareCaches requests all informers before the start, so that decisions find filled caches. Otherwise the first decision would have to
// wait for a listing.
func (r *Reconciler) prepareCaches(lifetime context.Context, mgr ctrl.Manager, target cluster.Cluster) error {
	if _, err := target.GetCache().GetInformer(lifetime, &corev1.Node{}, cache.BlockUntilSynced(false)); err != nil {
		return fmt.Errorf("watch Nodes: %w", err)
	}
	if !r.Rules.WithoutMachines {
		if err := mgr.GetFieldIndexer().IndexField(lifetime, Machine(), nodeLabel, nodeOfMachine); err != nil {
			return fmt.Errorf("watch Machines: %w", err)
		}
	}
	if r.Rules.WaitForObjects > 0 {
		if err := target.GetFieldIndexer().
			IndexField(lifetime, &certificatesv1.CertificateSigningRequest{}, userIndex, r.userOfUnjudged); err != nil {
			return fmt.Errorf("watch CertificateSigningRequests: %w", err)
		}
	}
	return nil
}

func nodeOfMachine(machine client.Object) []string {
	if node, labelled := machine.GetLabels()[nodeLabel]; labelled {
		return []string{node}
	}
	return nil
}

func (r *Reconciler) userOfUnjudged(object client.Object) []string {
	csr, ok := object.(*certificatesv1.CertificateSigningRequest)
	if !ok || r.Observed == nil && rules.Decided(csr.Status) {
		return nil
	}
	return []string{csr.Spec.Username}
}

// requestEvents passes changes that may need a decision. It passes deletions only if the approver remembers requests.
func (r *Reconciler) requestEvents() predicate.TypedPredicate[*certificatesv1.CertificateSigningRequest] {
	remembered := r.Observed != nil || r.Quota != nil
	ours := func(csr *certificatesv1.CertificateSigningRequest) bool {
		return csr.Spec.SignerName == certificatesv1.KubeletServingSignerName
	}
	type csr = *certificatesv1.CertificateSigningRequest
	return predicate.TypedFuncs[csr]{
		CreateFunc: func(e event.TypedCreateEvent[csr]) bool { return ours(e.Object) },
		UpdateFunc: func(e event.TypedUpdateEvent[csr]) bool { return ours(e.ObjectNew) },
		DeleteFunc: func(e event.TypedDeleteEvent[csr]) bool { return remembered && ours(e.Object) },
	}
}

// nodeEvents passes new Nodes only, because requests wait for them.
func nodeEvents() predicate.TypedPredicate[*corev1.Node] {
	return predicate.TypedFuncs[*corev1.Node]{
		UpdateFunc: func(event.TypedUpdateEvent[*corev1.Node]) bool { return false },
		DeleteFunc: func(event.TypedDeleteEvent[*corev1.Node]) bool { return false },
	}
}

// machineEvents passes new Machines and Machines whose node label has changed.
func machineEvents() predicate.TypedPredicate[*metav1.PartialObjectMetadata] {
	type machine = *metav1.PartialObjectMetadata
	return predicate.TypedFuncs[machine]{
		UpdateFunc: func(e event.TypedUpdateEvent[machine]) bool {
			return e.ObjectOld.Labels[nodeLabel] != e.ObjectNew.Labels[nodeLabel]
		},
		DeleteFunc: func(event.TypedDeleteEvent[machine]) bool { return false },
	}
}

func (r *Reconciler) requestsOfNode(ctx context.Context, node *corev1.Node) []reconcile.Request {
	return r.unjudgedOf(ctx, node.Name)
}

func (r *Reconciler) requestsOfMachine(ctx context.Context, machine *metav1.PartialObjectMetadata) []reconcile.Request {
	if node, labelled := machine.Labels[nodeLabel]; labelled {
		return r.unjudgedOf(ctx, node)
	}
	return nil
}

// unjudgedOf lists, from the cache, the requests of a node that may wait for it.
func (r *Reconciler) unjudgedOf(ctx context.Context, node string) []reconcile.Request {
	list := &certificatesv1.CertificateSigningRequestList{}
	err := r.Target.List(ctx, list, client.MatchingFields{userIndex: rules.UserPrefix + node}, client.UnsafeDisableDeepCopy)
	if err != nil {
		log.FromContext(ctx).Error(err, "Could not find the requests of a node; they are decided when their time is over", "node", node)
		return nil
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}
