package gardenstatus

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// repaintPeriod is how often a watched screen is painted although no Garden has changed, because its ages grow.
const repaintPeriod = 10 * time.Second

// Watch paints the screen. It paints the screen again in its place whenever a Garden changes, and once per repaintPeriod, until the
// context ends or an error occurs. If out is no terminal, Watch prints the screens one below the other.
func Watch(ctx context.Context, c client.WithWatch, out io.Writer, terminal bool, paint func(ctx context.Context) (string, error)) error {
	lines := 0
	ticker := time.NewTicker(repaintPeriod)
	defer ticker.Stop()
	for {
		text, err := paint(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if terminal && lines > 0 {
			text = fmt.Sprintf("\x1b[%dA\x1b[J", lines) + text
		}
		lines = strings.Count(text, "\n")
		if _, err := io.WriteString(out, text); err != nil {
			return fmt.Errorf("print screen: %w", err)
		}
		if err := UntilChange(ctx, c, ticker.C); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// UntilChange returns when a Garden changes, at the next tick, or when the context ends. For users who may not watch Gardens, it only waits
// for the tick.
func UntilChange(ctx context.Context, c client.WithWatch, tick <-chan time.Time) error {
	list := &operatorv1alpha1.GardenList{}
	if err := c.List(ctx, list); err != nil {
		return fmt.Errorf("list Gardens: %w", err)
	}
	var changed <-chan watch.Event
	changes, err := c.Watch(ctx, list, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	switch {
	case err == nil:
		defer changes.Stop()
		changed = changes.ResultChan()
	case !apierrors.IsForbidden(err) && ctx.Err() == nil:
		return fmt.Errorf("watch Gardens: %w", err)
	}
	select {
	case <-ctx.Done():
	case <-tick:
	case <-changed:
	}
	return nil
}
