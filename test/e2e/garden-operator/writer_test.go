//go:build e2e

package gardenoperator_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// writerLabel is a label of every object of a writer.
	writerLabel = "e2e.espalier.dev/writer"
	// pauseOfWriter is the pause after each write. writeTimeout is how long the client waits for a response.
	pauseOfWriter = 200 * time.Millisecond
	writeTimeout  = 5 * time.Second
)

// writer creates Secrets in the virtual cluster, which are encrypted in etcd, one after the other. Like a real client it tries again after
// a failure. Read its numbers only after end.
type writer struct {
	client client.Client
	prefix string
	stop   context.CancelFunc
	done   chan struct{}

	// confirmed are the names of the objects whose creation the API server has confirmed. failed is the number of requests that the API
	// server did not answer in time, or answered with an error.
	confirmed []string
	failed    int
	// gap is the longest time between two confirmed writes.
	gap time.Duration
}

// startWriter starts a writer. The names of its objects begin with prefix.
func startWriter(to client.Client, prefix string) *writer {
	ctx, stop := context.WithCancel(context.Background())
	w := &writer{client: to, prefix: prefix, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.run(ctx)
	}()
	return w
}

func (w *writer) run(ctx context.Context) {
	last := time.Now()
	for i := 0; ctx.Err() == nil; i++ {
		name := fmt.Sprintf("%s-%d", w.prefix, i)
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
		err := w.client.Create(limited, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{writerLabel: w.prefix}},
		})
		cancel()
		if err == nil {
			w.gap = max(w.gap, time.Since(last))
			last = time.Now()
			w.confirmed = append(w.confirmed, name)
		} else {
			w.failed++
		}
		pause(ctx, pauseOfWriter)
	}
	w.gap = max(w.gap, time.Since(last))
}

// end stops the writer. It may be called again.
func (w *writer) end() {
	w.stop()
	<-w.done
}

// lost returns the confirmed objects that do not exist.
func (w *writer) lost(ctx context.Context) ([]string, error) {
	found := &corev1.SecretList{}
	if err := w.client.List(ctx, found, client.InNamespace("default"), client.MatchingLabels{writerLabel: w.prefix}); err != nil {
		return nil, fmt.Errorf("list objects of writer: %w", err)
	}
	exist := map[string]bool{}
	for _, each := range found.Items {
		exist[each.Name] = true
	}
	var lost []string
	for _, name := range w.confirmed {
		if !exist[name] {
			lost = append(lost, name)
		}
	}
	return lost, nil
}

// deleteObjects deletes the objects that the writer has created.
func (w *writer) deleteObjects(ctx context.Context) error {
	return w.client.DeleteAllOf(ctx, &corev1.Secret{}, client.InNamespace("default"), client.MatchingLabels{writerLabel: w.prefix})
}

// pause waits for a duration, or until the context ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
