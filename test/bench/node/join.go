package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

const (
	ourTaint   = "node.gardener.cloud/critical-components-not-ready"
	floorTaint = "bench.espalier.dev/not-ready"
	critical   = "node.gardener.cloud/critical-component"
	// floorPrefix is the prefix of the names of the Nodes of the bare client.
	floorPrefix = "floor-"
)

// bench is one run.
type bench struct {
	options
	clients kubernetes.Interface
	clock   clock.PassiveClock
	out     io.Writer

	seen *observer
	took time.Duration
}

func (b *bench) say(format string, args ...any) { fmt.Fprintf(b.out, format+"\n", args...) }

// join creates all Nodes and waits until the last taint is removed.
func (b *bench) join(ctx context.Context) error {
	daemonSets, err := b.createDaemonSets(ctx)
	if err != nil {
		return err
	}
	b.seen = newObserver(b.clock, b.daemonSets, b.clients)
	err = b.seen.start(ctx)
	if err != nil {
		return err
	}
	total := b.nodes + (b.nodes+9)/10
	b.say("joining: %d Nodes, %d critical DaemonSets; %d of the Nodes are for the bare client", total, b.daemonSets, total-b.nodes)
	begin := b.clock.Now()
	ticker := time.NewTicker(b.interval())
	defer ticker.Stop()
	for i := range total {
		name := fmt.Sprintf("ours-%d", i)
		if i%11 == 10 || i == total-1 {
			name = fmt.Sprintf("%s%d", floorPrefix, i)
		}
		if b.ownPods { // before the Node, which would otherwise have nothing to wait for
			err = b.createPods(ctx, name, daemonSets)
			if err != nil {
				return err
			}
		}
		err = b.createNode(ctx, name)
		if err != nil {
			return err
		}
		if b.rate > 0 {
			<-ticker.C
		}
	}
	b.say("joined after %s; waiting for the last taint to go", b.clock.Since(begin).Round(time.Second))
	err = wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(context.Context) (bool, error) {
		return b.seen.freed() == total, nil
	})
	b.took = b.clock.Since(begin)
	if err != nil {
		return fmt.Errorf("wait for %d Nodes, %d are free: %w", total, b.seen.freed(), context.Cause(ctx))
	}
	return nil
}

func (b *bench) interval() time.Duration {
	if b.rate == 0 {
		return time.Hour
	}
	return time.Duration(float64(time.Second) / b.rate)
}

// createDaemonSets creates the DaemonSets. If the benchmark creates the Pods itself, the DaemonSet controller must not interfere: no Node
// matches the template then, so that node-controller waits for the Pods, and not for the DaemonSets.
func (b *bench) createDaemonSets(ctx context.Context) ([]*appsv1.DaemonSet, error) {
	var all []*appsv1.DaemonSet
	for i := range b.daemonSets {
		name := fmt.Sprintf("critical-%d", i)
		object := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{critical: "true"}}}
		object.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
		object.Spec.Template = template(name)
		if b.ownPods {
			object.Spec.Template.Spec.NodeSelector = map[string]string{"bench.espalier.dev/no-node": "has-it"}
		}
		created, err := b.clients.AppsV1().DaemonSets(namespace).Create(ctx, object, metav1.CreateOptions{})
		if err != nil {
			return nil, fmt.Errorf("create DaemonSet: %w", err)
		}
		all = append(all, created)
	}
	return all, nil
}

func template(app string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app, critical: "true"}},
		Spec: corev1.PodSpec{
			Containers:                    []corev1.Container{{Name: "c", Image: "none"}},
			Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			AutomountServiceAccountToken:  ptr.To(false),
			TerminationGracePeriodSeconds: ptr.To[int64](0),
		},
	}
}

func (b *bench) createNode(ctx context.Context, name string) error {
	key := ourTaint
	if strings.HasPrefix(name, floorPrefix) {
		key = floorTaint
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
			Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64"},
		},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoSchedule}}},
	}
	if _, err := b.clients.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create Node: %w", err)
	}
	return nil
}

// createPods creates the Pods as the DaemonSet controller would, already assigned to the Node.
func (b *bench) createPods(ctx context.Context, node string, daemonSets []*appsv1.DaemonSet) error {
	for _, each := range daemonSets {
		pod := &corev1.Pod{ObjectMeta: each.Spec.Template.ObjectMeta, Spec: *each.Spec.Template.Spec.DeepCopy()}
		pod.Name, pod.Spec.NodeName, pod.Spec.NodeSelector = each.Name+"-"+node, node, nil
		if _, err := b.clients.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create Pod: %w", err)
		}
	}
	return nil
}
