package binaries

import (
	"context"
	_ "embed" // for the examples
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/test/bench/harness"
	"github.com/espalier-dev/espalier/test/local"
)

// Webhooks are called in onSpace, and not in offSpace: its namespace and its Pods are opted out.
const (
	onSpace  = "with-webhooks"
	offSpace = "kube-system"
)

//go:embed webhook_examples.yaml
var webhookExamples string

// examples returns an object of each kind for which there is a webhook, first a Pod.
func (w *webhook) examples(namespace, name string) []*unstructured.Unstructured {
	objects, err := local.ParseManifests([]byte(strings.ReplaceAll(webhookExamples, "$NAME", name)))
	w.Check(err)
	pod, deployment := objects[0], objects[1]
	w.Check(unstructured.SetNestedField(deployment.Object, pod.Object["spec"], "spec", "template", "spec"))
	for _, each := range objects {
		each.SetNamespace(namespace)
	}
	return objects
}

// podCreation creates Pods through the API server, alternately with and without webhooks, and compares the times. The same measurement with
// the floor instead of the webhook server shows the cost of the calls alone.
func (w *webhook) podCreation(floor, server target) {
	called := float64(len(w.podReviews()))
	on, off := w.compareCreation(server, "created", w.awaitEffect)
	// A client cannot query whether the API server has already detected that webhooks are registered.
	floorOn, floorOff := w.compareCreation(floor, "allowed", func(string) { w.Pause(3 * time.Second) })
	w.Add(harness.On(fmt.Sprintf("%d Pods with %.0f webhooks, %d without", w.pods, called, w.pods),
		harness.AtMost("added by each webhook", "%.3f ms", (on-off)/called, 1.5).WithNote("median of a Pod %.3f ms, without %.3f ms", on, off),
		harness.Inform("floor: added by each webhook that allows", "%.3f ms", (floorOn-floorOff)/called),
	))
}

// compareCreation returns the median times of creating a Pod with all webhooks registered at a server, and without webhooks, in ms.
func (w *webhook) compareCreation(at target, name string, awaitCalls func(name string)) (on, off float64) {
	remove := w.register(at.address())
	awaitCalls(name)
	took := map[string][]time.Duration{}
	for i := range w.pods {
		for _, namespace := range []string{onSpace, offSpace} {
			pod := w.examples(namespace, fmt.Sprintf("%s-%d", name, i))[0]
			begin := time.Now()
			w.cluster.Create(pod)
			took[namespace] = append(took[namespace], time.Since(begin))
		}
	}
	remove()
	return harness.InMilliseconds(harness.Median(took[onSpace])), harness.InMilliseconds(harness.Median(took[offSpace]))
}

// awaitEffect waits until the API server calls all webhooks. The names of the objects that it creates contain name.
func (w *webhook) awaitEffect(name string) {
	attempt := 0
	w.Await(time.Minute, "the API server to call the webhooks", func(ctx context.Context) error {
		attempt++
		created := w.examples(onSpace, fmt.Sprintf("%s-not-yet-%d", name, attempt))[0]
		if err := w.cluster.Client.Create(ctx, created); err != nil {
			return local.GiveUp(err)
		}
		volumes, _, _ := unstructured.NestedSlice(created.Object, "spec", "volumes")
		scheduler, _, _ := unstructured.NestedString(created.Object, "spec", "schedulerName")
		if len(volumes) != 1 || scheduler != "bin-packing-scheduler" {
			return errors.New("it does not call all of them")
		}
		return nil
	})
}
