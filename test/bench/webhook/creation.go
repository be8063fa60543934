package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// podCreation creates Pods through the API server, in turn where webhooks are called and where none is, and compares how
// long that takes; the same with the floor in place of the server, which tells what an API server spends on calling alone.
func (b *bench) podCreation(ctx context.Context, s size) (met bool, err error) {
	called := len(pods(b, nil))
	fmt.Printf("\n%d Pods created through the API server with %d webhooks, %d without\n", s.pods, called, s.pods)
	on, off, err := b.compareCreation(ctx, s, b.ports.webhooks, "created", b.effective)
	if err != nil {
		return false, err
	}
	inform("median without webhooks, in ms", milliseconds(off))
	inform("median with webhooks, in ms", milliseconds(on))
	met = show("added by each webhook, in ms", milliseconds(on-off)/float64(called), 1.5)
	on, off, err = b.compareCreation(ctx, s, b.ports.floor, "allowed", func(ctx context.Context) error { return pause(ctx, noticed) })
	if err != nil {
		return false, err
	}
	inform("floor: added by each webhook that allows, in ms", milliseconds(on-off)/float64(called))
	return met, nil
}

// noticed is how long an API server may take to notice that webhooks are registered. It is not told how to find out.
const noticed = 3 * time.Second

// compareCreation returns the medians with all webhooks at a port, and without any.
func (b *bench) compareCreation(ctx context.Context, s size, port int, name string, ready func(context.Context) error) (on, off time.Duration, err error) {
	remove, err := b.register(ctx, port)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, remove(ctx)) }()
	err = ready(ctx)
	if err != nil {
		return 0, 0, err
	}
	took := map[string][]time.Duration{}
	for i := range s.pods {
		for _, namespace := range []string{onSpace, offSpace} {
			begin := time.Now()
			if _, err := b.createPod(ctx, namespace, fmt.Sprintf("%s-%d", name, i)); err != nil {
				return 0, 0, err
			}
			took[namespace] = append(took[namespace], time.Since(begin))
		}
	}
	for _, each := range took {
		slices.Sort(each)
	}
	return took[onSpace][s.pods/2], took[offSpace][s.pods/2], nil
}

// effective waits until the API server calls all webhooks.
func (b *bench) effective(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for i := range 1000 {
		created, err := b.createPod(ctx, onSpace, fmt.Sprintf("tried-%d", i))
		if err != nil {
			return err
		}
		volumes, _, _ := unstructured.NestedSlice(created.Object, "spec", "volumes")
		scheduler, _, _ := unstructured.NestedString(created.Object, "spec", "schedulerName")
		if len(volumes) == 1 && scheduler == "bin-packing-scheduler" {
			return nil
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return errors.New("the API server does not call the webhooks")
}

func (b *bench) createPod(ctx context.Context, namespace, name string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	err := yaml.Unmarshal([]byte(strings.NewReplacer("$NAME", name, "$SPEC", podSpec()).Replace(pod)), &object.Object)
	if err != nil {
		return nil, err
	}
	object.SetNamespace(namespace)
	return object, b.client.Create(ctx, object)
}
