package certificates

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func newLock(options Options, identity string) (resourcelock.Interface, error) {
	leases, err := coordinationv1client.NewForConfigAndClient(options.Own.Config, options.Own.HTTPClient)
	if err != nil {
		return nil, err
	}
	return &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: options.Namespace, Name: options.SecretName},
		Client:     leases,
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}, nil
}

// elect runs the loop whenever this replica has the Lease, until the context ends. Losing the Lease is not a failure: another replica gets
// it, and this replica continues to serve.
func (k *Keeper) elect(ctx context.Context) error {
	for ctx.Err() == nil {
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: k.lock, Name: k.options.SecretName, ReleaseOnCancel: true,
			LeaseDuration: k.options.Lease.Duration, RenewDeadline: k.options.Lease.RenewDeadline, RetryPeriod: k.options.Lease.RetryPeriod,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: k.lead,
				OnStoppedLeading: func() {},
				OnNewLeader: func(identity string) {
					k.options.Log.Info("Webhook certificates are kept by a replica", "identity", identity, "self", identity == k.lock.Identity())
				},
			},
		})
		if err != nil {
			return errors.Join(errors.New("keep webhook certificates: use lease"), err)
		}
		elector.Run(ctx)
	}
	k.leading.Lock() // The loop has ended.
	defer k.leading.Unlock()
	return nil
}
