package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// otherClient is the field manager that changes the objects of the example.
	otherClient = "other-client"
	repairLimit = 30 * time.Second
	// eventLimit is how long to wait for Events, which are written asynchronously.
	eventLimit = 2 * time.Second
)

// drifted is one change by another client, and the check that it was repaired.
type drifted struct {
	object   *unstructured.Unstructured
	what     string
	change   func(context.Context, client.Client, *unstructured.Unstructured) error
	repaired func(before, now *unstructured.Unstructured) bool
}

func driftedObjects() []drifted {
	return []drifted{
		{
			object: object("v1", "ConfigMap", exampleNamespace, "harvest", nil),
			what:   "edited ConfigMap harvest (pears: 0)",
			change: func(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
				patch := client.RawPatch(types.MergePatchType, []byte(`{"data":{"pears":"0"}}`))
				return c.Patch(ctx, o, patch, client.FieldOwner(otherClient))
			},
			repaired: func(_, now *unstructured.Unstructured) bool {
				pears, _, _ := unstructured.NestedString(now.Object, "data", "pears")
				return pears == "12"
			},
		},
		deleted(object("v1", "ConfigMap", exampleNamespace, "notes", nil)),
	}
}

func deleted(o *unstructured.Unstructured) drifted {
	return drifted{
		object: o,
		what:   "deleted " + o.GetKind() + " " + o.GetName(),
		change: func(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
			return c.Delete(ctx, o)
		},
		repaired: func(before, now *unstructured.Unstructured) bool { return before.GetUID() != now.GetUID() },
	}
}

// showDriftRepair changes two objects, one after the other, and prints how long each change lasted.
func showDriftRepair(ctx context.Context, r *report, c client.WithWatch) error {
	r.step("drift repair: now another client changes two of these objects")
	known, err := events(ctx, c)
	if err != nil {
		return err
	}
	for _, s := range driftedObjects() {
		if err := showRepair(ctx, r, c, s); err != nil {
			return err
		}
	}
	// The client is shown if Events name it; tests check that they do.
	_ = await(ctx, eventLimit, "Events", func(ctx context.Context) error {
		now, err := events(ctx, c)
		if err != nil {
			return err
		}
		fresh := newEvents(known, now)
		if len(fresh) < len(driftedObjects()) {
			return errors.New("not yet")
		}
		for _, text := range fresh {
			_, _ = fmt.Fprintln(r, "Event "+text)
		}
		return nil
	})
	return ctx.Err()
}

func showRepair(ctx context.Context, r *report, c client.WithWatch, s drifted) error {
	took, err := repair(ctx, r, c, s)
	if err != nil {
		return fmt.Errorf("show drift repair: %s: %w", s.what, err)
	}
	_, _ = fmt.Fprintf(r, "%s: restored after %d ms", s.what, took.Milliseconds())
	return nil
}

// repair measures the time from the response to the change until a watch shows the former state of the object.
func repair(ctx context.Context, r *report, c client.WithWatch, s drifted) (time.Duration, error) {
	if err := c.Get(ctx, client.ObjectKeyFromObject(s.object), s.object); err != nil {
		return 0, err
	}
	before := s.object.DeepCopy()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(before.GroupVersionKind())
	changes, err := c.Watch(ctx, list, &client.ListOptions{
		Namespace:     before.GetNamespace(),
		FieldSelector: fields.OneTermEqualSelector("metadata.name", before.GetName()),
		Raw:           &metav1.ListOptions{ResourceVersion: before.GetResourceVersion()},
	})
	if err != nil {
		return 0, fmt.Errorf("watch: %w", err)
	}
	defer changes.Stop()
	if err := s.change(ctx, c, s.object); err != nil {
		return 0, err
	}
	changedAt := r.clock.Now()
	limit := time.NewTimer(repairLimit)
	defer limit.Stop()
	for {
		select {
		case change, open := <-changes.ResultChan():
			if !open {
				return 0, errors.New("the watch has ended")
			}
			now, ok := change.Object.(*unstructured.Unstructured)
			if ok && change.Type != watch.Deleted && s.repaired(before, now) {
				return r.clock.Since(changedAt), nil
			}
		case <-limit.C:
			return 0, fmt.Errorf("not restored within %s", repairLimit)
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// events returns the text of every Event about the ManagedResource, by a key that changes when the Event occurs again.
func events(ctx context.Context, c client.Client) (map[string]string, error) {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("v1")
	list.SetKind("EventList")
	if err := c.List(ctx, list, client.InNamespace(exampleNamespace)); err != nil {
		return nil, fmt.Errorf("list Events: %w", err)
	}
	texts := map[string]string{}
	for _, event := range list.Items {
		kind, _, _ := unstructured.NestedString(event.Object, "involvedObject", "kind")
		reason, _, _ := unstructured.NestedString(event.Object, "reason")
		message, _, _ := unstructured.NestedString(event.Object, "message")
		if kind == "ManagedResource" {
			texts[string(event.GetUID())+"/"+event.GetResourceVersion()] = reason + ": " + strings.TrimSpace(message)
		}
	}
	return texts, nil
}

// newEvents returns the texts that are not in known.
func newEvents(known, now map[string]string) []string {
	var fresh []string
	for _, key := range slices.Sorted(maps.Keys(now)) {
		if _, old := known[key]; !old {
			fresh = append(fresh, now[key])
		}
	}
	return fresh
}
