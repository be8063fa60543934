package lifecycle

import (
	"context"
	"errors"
	"fmt"

	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// withRenewal renews certificates although an operation failed with err: the operator refuses the Garden, or could not reconcile it. If
// the Garden is being deleted, withRenewal renews nothing. It returns err, joined with the error of the renewal.
func (r *Reconciler) withRenewal(ctx context.Context, s *status, err error) error {
	if s.garden.DeletionTimestamp != nil {
		return err
	}
	if failure := r.renewCertificates(ctx, s); failure != nil && !conflict.Only(failure) {
		return errors.Join(err, fmt.Errorf("renew certificates: %w", failure))
	}
	return err
}

// renewCertificates renews the authorities that the operator renews without a rotation (RenewsItself), the certificates that these
// authorities sign, and the certificates that expire soon. It reads nothing of the specification of the Garden. In live objects, it
// replaces only the names of Secrets, and the bundles of these authorities. It creates the same Secrets as a reconciliation, but it does
// not delete the old Secrets: a later reconciliation deletes them. Tokens need no renewal here: the token-controllers renew them, whether
// the Garden is reconciled or not.
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
	return r.platform(s.garden, secrets, values.Values{Operator: r.Operator}).ReplaceTexts(ctx, replaced)
}
