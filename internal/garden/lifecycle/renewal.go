package lifecycle

import (
	"context"
	"errors"
	"fmt"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/garden/component/etcd"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/rollout"
)

// withRenewal renews certificates although the operator refuses a Garden, or cannot reconcile it, because of an error. It returns the
// error, joined with an error of the renewal.
func (r *Reconciler) withRenewal(ctx context.Context, s *status, err error) error {
	if s.garden.DeletionTimestamp != nil {
		return err
	}
	if failure := r.renewCertificates(ctx, s); failure != nil && !conflict.Only(failure) {
		return errors.Join(err, fmt.Errorf("renew certificates: %w", failure))
	}
	return err
}

// renewCertificates renews the authorities that renew themselves, and the certificates that expire soon or that these authorities sign. It
// reads nothing of the specification of the Garden. Of live objects, only the names of Secrets and the bundles of these authorities change.
// It creates the same Secrets as a reconciliation, which also deletes the old ones. Tokens need no renewal here: the
// token-controllers renew them, whether the Garden is reconciled or not.
func (r *Reconciler) renewCertificates(ctx context.Context, s *status) error {
	secrets, err := r.secretsManager(ctx, s.garden, s.clocks)
	if err != nil {
		return err
	}
	for _, authority := range rotation.Authorities {
		if !authority.RenewsItself || secrets.Newest(authority.Name) == nil {
			continue
		}
		if _, err = secrets.Generate(ctx, authority.Request(nil)); err != nil {
			return err
		}
	}
	replaced, err := secrets.Renew(ctx)
	r.reportCertificates(secrets)
	if err != nil || len(replaced) == 0 {
		return err
	}
	o := &operation{Reconciler: r, cluster: rollout.Cluster{Client: r.Client}, values: values.Values{Operator: r.Operator}}
	for _, role := range etcdRoles() {
		if err := o.replaceInEtcd(ctx, role, replaced); err != nil {
			return err
		}
	}
	return o.cluster.ReplaceTexts(ctx, o.values.Namespace, replaced)
}

// replaceInEtcd replaces texts in the specification of an Etcd, and makes etcd-druid act on that.
func (o *operation) replaceInEtcd(ctx context.Context, role etcd.Role, replaced map[string]string) error {
	live, err := o.readEtcd(ctx, role)
	if err != nil || live == nil {
		return err
	}
	live.SetGroupVersionKind(etcdKind)
	untyped, err := rollout.Unstructured(live)
	if err != nil {
		return err
	}
	changed := &druidcorev1alpha1.Etcd{}
	err = runtime.DefaultUnstructuredConverter.FromUnstructured(rollout.WithTexts(untyped[0], replaced).Object, changed)
	if err != nil {
		return fmt.Errorf("convert Etcd %s: %w", live.Name, err)
	}
	if equality.Semantic.DeepEqual(changed.Spec, live.Spec) {
		return nil
	}
	return o.cluster.DeployTyped(ctx, etcd.Request(changed, live, o.Clock.Now()))
}
