package certificates

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// distribution records a bundle that every configuration contains, and since when.
type distribution struct {
	bundle []byte
	since  time.Time
}

// startOf returns the time since which the bundle is distributed, or zero if it is not distributed.
func (d distribution) startOf(bundle []byte) time.Time {
	if !bytes.Equal(d.bundle, bundle) {
		return time.Time{}
	}
	return d.since
}

// readConfigurations reads the configurations that Options.Configurations declares. For a configuration that does not exist, it returns an
// object without a resource version.
func (k *Keeper) readConfigurations(ctx context.Context) ([]*unstructured.Unstructured, error) {
	wanted := k.options.Configurations(nil)
	live := make([]*unstructured.Unstructured, len(wanted))
	for i, want := range wanted {
		live[i] = &unstructured.Unstructured{}
		live[i].SetGroupVersionKind(want.GetObjectKind().GroupVersionKind())
		if err := k.called.Get(ctx, client.ObjectKeyFromObject(want), live[i]); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("read webhook configuration %q: %w", want.GetName(), err)
		}
	}
	return live, nil
}

// distribute writes the configurations that differ from the declared ones, and returns how many it wrote. The parameter live contains the
// configurations as readConfigurations returned them; a write fails if the configuration has changed since then. A configuration gets its
// first webhooks only when the server can be reached; until then the error wraps errUnreachable.
func (k *Keeper) distribute(ctx context.Context, bundle []byte, live []*unstructured.Unstructured) (written int, err error) {
	reach := sync.OnceValue(func() error { return k.reach(ctx, bundle) })
	var waiting error
	for i, object := range k.options.Configurations(bundle) {
		want, err := newConfiguration(object)
		if err != nil {
			return written, err
		}
		have, err := newConfiguration(live[i])
		if err != nil {
			return written, err
		}
		if len(want.Webhooks) > 0 && len(have.Webhooks) == 0 {
			if unreachable := reach(); unreachable != nil {
				waiting = unreachable
				continue
			}
		}
		changed, err := k.write(ctx, want, have, live[i])
		if changed {
			written++
		}
		if err != nil {
			return written, fmt.Errorf("write %s %q: %w", want.Kind, want.Name, err)
		}
	}
	return written, waiting
}

// write creates or changes one configuration. It fails with a conflict if another client has changed the configuration since it was read.
func (k *Keeper) write(ctx context.Context, want, have *configuration, live *unstructured.Unstructured) (changed bool, _ error) {
	if live.GetResourceVersion() == "" {
		if len(want.Webhooks) == 0 {
			return false, nil
		}
		// Create it empty first: applying cannot require that no other client has created it in the meantime.
		live.SetName(want.Name)
		if err := k.called.Create(ctx, live, client.FieldOwner(k.options.FieldManager)); err != nil {
			return false, err
		}
	} else if want.isContainedIn(have) {
		return false, nil
	}
	applied, err := want.applyRequest(live.GetResourceVersion())
	if err != nil {
		return false, fmt.Errorf("encode webhook configuration: %w", err)
	}
	err = k.called.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner(k.options.FieldManager),
		client.ForceOwnership)
	if err != nil {
		return true, err
	}
	k.options.Log.Info("Wrote webhook configuration", "kind", want.Kind, "name", want.Name, "webhooks", len(want.Webhooks))
	return true, k.removeForeign(ctx, want, applied)
}

// removeForeign replaces the list of webhooks if the answer to the apply request still contains webhooks that are not declared. These
// webhooks belong to other field managers. For instance, a user applied a webhook from a file, and now its handler is disabled; or an
// earlier version of this server applied a webhook under another name.
func (k *Keeper) removeForeign(ctx context.Context, want *configuration, live client.Object) error {
	have, err := newConfiguration(live)
	if err != nil || want.sameWebhooks(have) {
		return err
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": live.GetResourceVersion()},
		"webhooks": append([]admissionregistrationv1.MutatingWebhook{}, want.Webhooks...), // an empty list, never null
	})
	if err != nil {
		return fmt.Errorf("encode webhooks: %w", err)
	}
	if err := k.called.Patch(ctx, live, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(k.options.FieldManager)); err != nil {
		return err
	}
	k.options.Log.Info("Removed webhooks of other clients", "kind", want.Kind, "name", want.Name)
	return nil
}

func isConflict(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
