package requestor

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/internal/token/digest"
)

// caPeriod is how often the certificate authority of the target is compared with the last known one.
const caPeriod = time.Minute

// CAOf returns a function that returns the certificate authority of a connection: the data, or the current content of the file, which
// another program may replace.
func CAOf(data []byte, file string, read func(string) ([]byte, error)) func() ([]byte, error) {
	return func() ([]byte, error) {
		if len(data) > 0 || file == "" {
			return data, nil
		}
		content, err := read(file)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		return content, nil
	}
}

// followCA watches the certificate authority of the target. When it changes, followCA enqueues all Secrets that must contain it. It sends
// no requests.
func (r *Reconciler) followCA(ctx context.Context, q process.Queue) error {
	ticker := r.Clock.NewTicker(caPeriod)
	known := r.currentCA("")
	go func() {
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C():
			}
			now := r.currentCA(known)
			if now == known {
				continue
			}
			if err := r.enqueueInjected(ctx, q); err != nil {
				log.FromContext(ctx).Error(err, "Could not tell Secrets of the new certificate authority of the target")
				continue
			}
			known = now
		}
	}()
	return nil
}

// currentCA returns the hash of the certificate authority. If the authority is missing or cannot be read, currentCA returns the known hash:
// the file may be incomplete while it is replaced. If the error lasts, the reconciliation of the Secrets reports it.
func (r *Reconciler) currentCA(known string) string {
	ca, err := r.CA()
	if err != nil || len(ca) == 0 {
		return known
	}
	return digest.Hash(ca)
}

func (r *Reconciler) enqueueInjected(ctx context.Context, q process.Queue) error {
	secrets := &corev1.SecretList{}
	if err := r.Secrets.List(ctx, secrets); err != nil {
		return fmt.Errorf("list Secrets in the cache: %w", err)
	}
	for i := range secrets.Items {
		secret := &secrets.Items[i]
		if inject, err := injectsCA(secret.Annotations); err == nil && inject {
			r.enqueue(q, secret)
		}
	}
	return nil
}
