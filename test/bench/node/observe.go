package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// observer detects, with its own watches, when the last Pod of each Node is ready and when its taint is removed. It is also the bare client
// that removes the taints of the Nodes of the floor.
type observer struct {
	clock   clock.PassiveClock
	pods    int
	clients kubernetes.Interface
	// complete receives the Nodes of the floor whose Pods are all ready.
	complete chan string

	mu    sync.Mutex
	ready map[string]map[types.UID]bool
	last  map[string]time.Time
	gone  map[string]time.Time
	fault error
}

func newObserver(c clock.PassiveClock, pods int, clients kubernetes.Interface) *observer {
	return &observer{
		clock: c, pods: pods, clients: clients, complete: make(chan string, 10_000),
		ready: map[string]map[types.UID]bool{}, last: map[string]time.Time{}, gone: map[string]time.Time{},
	}
}

func (o *observer) start(ctx context.Context) error {
	pods := informers.NewSharedInformerFactoryWithOptions(o.clients, 0, informers.WithNamespace(namespace))
	nodes := informers.NewSharedInformerFactory(o.clients, 0)
	_, errPods := pods.Core().V1().Pods().Informer().AddEventHandler(onChange(o.sawPod))
	_, errNodes := nodes.Core().V1().Nodes().Informer().AddEventHandler(onChange(o.sawNode))
	if err := errors.Join(errPods, errNodes); err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	for _, factory := range []informers.SharedInformerFactory{pods, nodes} {
		factory.Start(ctx.Done())
		factory.WaitForCacheSync(ctx.Done())
	}
	for range 5 { // as many workers as node-controller has
		go o.freeFloor(ctx)
	}
	return nil
}

func onChange[T any](do func(T)) cache.ResourceEventHandlerFuncs {
	see := func(object any) {
		if typed, ok := object.(T); ok {
			do(typed)
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: see, UpdateFunc: func(_, after any) { see(after) }}
}

func (o *observer) sawPod(pod *corev1.Pod) {
	isReady := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
	if !isReady || pod.Spec.NodeName == "" {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	on := o.ready[pod.Spec.NodeName]
	if on == nil {
		on = map[types.UID]bool{}
		o.ready[pod.Spec.NodeName] = on
	}
	if on[pod.UID] {
		return
	}
	on[pod.UID] = true
	if len(on) != o.pods {
		return
	}
	o.last[pod.Spec.NodeName] = o.clock.Now()
	if strings.HasPrefix(pod.Spec.NodeName, floorPrefix) {
		o.complete <- pod.Spec.NodeName
	}
}

func (o *observer) sawNode(node *corev1.Node) {
	waits := slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == ourTaint || t.Key == floorTaint })
	ours := strings.HasPrefix(node.Name, "ours-") || strings.HasPrefix(node.Name, floorPrefix)
	if waits || !ours {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.gone[node.Name].IsZero() {
		o.gone[node.Name] = o.clock.Now()
	}
}

// freeFloor removes all taints with one blind write, which is the fastest possible way.
func (o *observer) freeFloor(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case name := <-o.complete:
			_, err := o.clients.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"taints":null}}`), metav1.PatchOptions{})
			if err != nil {
				o.mu.Lock()
				o.fault = fmt.Errorf("bare client: %w", err)
				o.mu.Unlock()
			}
		}
	}
}

func (o *observer) freed() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.gone)
}

// latencies returns the times from the last ready Pod to the removal of the taint; early is how many taints were removed before.
func (o *observer) latencies(prefix string) (sorted []time.Duration, early int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, gone := range o.gone {
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		if o.last[name].IsZero() {
			early++
			continue
		}
		sorted = append(sorted, gone.Sub(o.last[name])) // negative if one watch is ahead of the other
	}
	slices.Sort(sorted)
	return sorted, early
}
