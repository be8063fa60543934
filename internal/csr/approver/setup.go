package approver

import (
	"cmp"
	"context"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/csr/rules"
	"github.com/espalier-dev/espalier/internal/process"
)

// ControllerName names the controller in logs and metrics.
const ControllerName = "kubelet-csr-approver"

// userIndex is the name of the index that finds, by user, the requests that may have to be judged.
const userIndex = "spec.username"

// SetupWithManager adds the controller to the manager of the source. Lifetime is the context of the process.
func (r *Reconciler) SetupWithManager(lifetime context.Context, mgr ctrl.Manager, target cluster.Cluster, workers int) error {
	if err := r.prepareCaches(lifetime, mgr, target); err != nil {
		return err
	}
	builder := ctrl.NewControllerManagedBy(mgr).
		Named(ControllerName).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, ReconciliationTimeout: process.Deadline}).
		WatchesRawSource(source.Kind(target.GetCache(), &certificatesv1.CertificateSigningRequest{}, process.OnEvent(r.requestEvent)))
	if r.Rules.Patience() > 0 {
		builder = builder.WatchesRawSource(source.Kind(target.GetCache(), &corev1.Node{}, process.OnEvent(r.nodeEvent)))
		if !r.Rules.Own.WithoutMachines {
			builder = builder.WatchesRawSource(source.Kind(mgr.GetCache(), Machine(), process.OnEvent(r.machineEvent)))
		}
	}
	return builder.Complete(conflict.RetryAtOnce(r))
}

// prepareCaches requests the informers for Nodes and Machines, and the indexes of Machines and requests, before the manager starts, so
// that the caches are filled before the first decision. Otherwise the first decision would have to wait for a list. Without checks of
// Machines, or without a wait for objects, it leaves out the part that is not needed.
func (r *Reconciler) prepareCaches(lifetime context.Context, mgr ctrl.Manager, target cluster.Cluster) error {
	if _, err := target.GetCache().GetInformer(lifetime, &corev1.Node{}, cache.BlockUntilSynced(false)); err != nil {
		return fmt.Errorf("watch Nodes: %w", err)
	}
	if !r.Rules.Own.WithoutMachines {
		if err := mgr.GetFieldIndexer().IndexField(lifetime, Machine(), nodeLabel, nodeOfMachine); err != nil {
			return fmt.Errorf("watch Machines: %w", err)
		}
	}
	if r.Rules.Patience() > 0 {
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

// requestEvent enqueues a request that may need a decision.
func (r *Reconciler) requestEvent(_ context.Context, before, after *certificatesv1.CertificateSigningRequest, queue process.Queue) {
	if r.concerns(before, after) {
		queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(cmp.Or(after, before))})
	}
}

// concerns reports whether an event is about a request to the signer of serving certificates of kubelets. Deletions matter only if the
// approver has state about requests in memory.
func (r *Reconciler) concerns(before, after *certificatesv1.CertificateSigningRequest) bool {
	return cmp.Or(after, before).Spec.SignerName == certificatesv1.KubeletServingSignerName &&
		(after != nil || r.Observed != nil || r.Quota != nil)
}

// nodeEvent enqueues the requests that wait for a new Node.
func (r *Reconciler) nodeEvent(ctx context.Context, before, after *corev1.Node, queue process.Queue) {
	if before == nil {
		r.enqueueUnjudged(ctx, after.Name, queue)
	}
}

// machineEvent enqueues the requests that wait for a Machine, if the Machine is new or its node label has changed.
func (r *Reconciler) machineEvent(ctx context.Context, before, after *metav1.PartialObjectMetadata, queue process.Queue) {
	if after == nil || before != nil && before.Labels[nodeLabel] == after.Labels[nodeLabel] {
		return
	}
	for _, machine := range []*metav1.PartialObjectMetadata{before, after} {
		if machine == nil {
			continue
		}
		if node, labelled := machine.Labels[nodeLabel]; labelled {
			r.enqueueUnjudged(ctx, node, queue)
		}
	}
}

// enqueueUnjudged enqueues those requests of a node that may have to be judged. It finds the requests in the cache.
func (r *Reconciler) enqueueUnjudged(ctx context.Context, node string, queue process.Queue) {
	list := &certificatesv1.CertificateSigningRequestList{}
	err := r.Target.List(ctx, list, client.MatchingFields{userIndex: rules.UserPrefix + node}, client.UnsafeDisableDeepCopy)
	if err != nil {
		log.FromContext(ctx).Error(err, "Could not find the requests of a node; they are decided when their time is over", "node", node)
	}
	for i := range list.Items {
		queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
}
