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

	"github.com/espalier-dev/espalier/test/bench/gauge"
)

// podCreation creates Pods through the API server, alternately with and without webhooks, and compares the times. The same with floors
// instead of the server shows the cost of the API server itself: only for the calls, if everything is allowed, and also for changing the
// Pods, if the responses are the recorded ones of the server.
func (b *bench) podCreation(ctx context.Context, s size, recorded map[string][]byte) (met bool, err error) {
	called := len(pods(b, nil))
	fmt.Printf("\n%d Pods created through the API server with %d webhooks, %d without\n", s.pods, called, s.pods)
	on, off, err := b.compareCreation(ctx, s, b.ports.webhooks, "created", b.effective)
	if err != nil {
		return false, err
	}
	report.Inform("median without webhooks, in ms", milliseconds(off))
	report.Inform("median with webhooks, in ms", milliseconds(on))
	met = report.Show("added by each webhook, in ms", milliseconds(on-off)/float64(called), 1.5)
	file, err := b.keepAnswers(ctx, pods(b, recorded))
	if err != nil {
		return false, err
	}
	_, err = b.startFloor(ctx, b.ports.patcher, file)
	if err != nil {
		return false, err
	}
	on, off, err = b.compareCreation(ctx, s, b.ports.patcher, "patched", b.effective)
	if err != nil {
		return false, err
	}
	report.Inform("floor: added by each webhook that answers the same patch at once, in ms", milliseconds(on-off)/float64(called))
	on, off, err = b.compareCreation(ctx, s, b.ports.floor, "allowed", func(ctx context.Context, _ string) error { return gauge.Pause(ctx, noticed) })
	if err != nil {
		return false, err
	}
	report.Inform("floor: added by each webhook that allows, in ms", milliseconds(on-off)/float64(called))
	return met, nil
}

// noticed is how long an API server may take to detect that webhooks are registered. There is no way to query that.
const noticed = 3 * time.Second

// compareCreation returns the medians with all webhooks at a port, and without webhooks.
func (b *bench) compareCreation(ctx context.Context, s size, port int, name string, ready func(ctx context.Context, name string) error) (on, off time.Duration, err error) {
	remove, err := b.register(ctx, port)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, remove(ctx)) }()
	err = ready(ctx, name)
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

// effective waits until the API server calls all webhooks. The names of the objects that it creates contain name.
func (b *bench) effective(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for i := range 1000 {
		created, err := b.createPod(ctx, onSpace, fmt.Sprintf("%s-not-yet-%d", name, i))
		if err != nil {
			return err
		}
		volumes, _, _ := unstructured.NestedSlice(created.Object, "spec", "volumes")
		scheduler, _, _ := unstructured.NestedString(created.Object, "spec", "schedulerName")
		if len(volumes) == 1 && scheduler == "bin-packing-scheduler" {
			return nil
		}
		if err := gauge.Pause(ctx, 20*time.Millisecond); err != nil {
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
