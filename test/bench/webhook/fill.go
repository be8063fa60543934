package main

import (
	"context"
	"fmt"
	"strconv"

	"golang.org/x/sync/errgroup"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fill creates the objects for the caches of the server.
func (b *bench) fill(ctx context.Context, s size) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(32)
	for i := range s.nodes {
		group.Go(func() error {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i), Labels: map[string]string{
				"worker.gardener.cloud/system-components": "true", "topology.kubernetes.io/zone": fmt.Sprintf("zone-%d", i%3), "worker.gardener.cloud/pool": "one",
			}}}
			node.Spec.Taints = []corev1.Taint{{Key: "pool", Value: strconv.Itoa(i % 5), Effect: corev1.TaintEffectNoSchedule}}
			_, err := b.admin.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
			return err
		})
	}
	for i := range s.namespaces {
		group.Go(func() error {
			name := fmt.Sprintf("space-%d", i)
			if err := b.namespace(ctx, name, nil, nil); err != nil {
				return err
			}
			for j := range s.autoscalers / s.namespaces {
				_, err := b.admin.AutoscalingV2().HorizontalPodAutoscalers(name).Create(ctx, autoscaler(fmt.Sprintf("hpa-%d", j)), metav1.CreateOptions{})
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

func autoscaler(name string) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: name}, MaxReplicas: 4,
		},
	}
}

func (b *bench) namespace(ctx context.Context, name string, labels, annotations map[string]string) error {
	_, err := b.admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: annotations}}, metav1.CreateOptions{})
	return err
}
