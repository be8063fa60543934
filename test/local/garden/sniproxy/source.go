package main

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// source reads Gateways and VirtualServices from a cache.
type source struct {
	reader  cache.Cache
	gateway gateway
}

func kind(name string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "networking.istio.io", Version: "v1beta1", Kind: name}
}

// sync waits until the cache has both kinds.
func (s *source) sync(ctx context.Context) error {
	for _, name := range []string{"Gateway", "VirtualService"} {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(kind(name))
		if _, err := s.reader.GetInformer(ctx, o); err != nil {
			return fmt.Errorf("watch kind %s: %w", name, err)
		}
	}
	if !s.reader.WaitForCacheSync(ctx) {
		return errors.New("stopped before all objects were read")
	}
	return nil
}

// destination returns the address for a host.
func (s *source) destination(ctx context.Context, host string) (string, error) {
	var gateways []gatewayObject
	var services []virtualService
	err := errors.Join(
		s.each(ctx, "Gateway", func(o *unstructured.Unstructured, spec map[string]any) error {
			each := gatewayObject{namespace: o.GetNamespace(), name: o.GetName()}
			err := runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &each.gatewaySpec)
			gateways = append(gateways, each)
			return err
		}),
		s.each(ctx, "VirtualService", func(o *unstructured.Unstructured, spec map[string]any) error {
			each := virtualService{namespace: o.GetNamespace(), created: o.GetCreationTimestamp().Time}
			err := runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &each.virtualServiceSpec)
			services = append(services, each)
			return err
		}),
	)
	if err != nil {
		return "", err
	}
	if address := s.gateway.route(host, gateways, services); address != "" {
		return address, nil
	}
	return "", fmt.Errorf("there is no route for host %q", host)
}

func (s *source) each(ctx context.Context, name string, do func(o *unstructured.Unstructured, spec map[string]any) error) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind(name + "List"))
	if err := s.reader.List(ctx, list); err != nil {
		return fmt.Errorf("list kind %s: %w", name, err)
	}
	for i := range list.Items {
		spec, _, _ := unstructured.NestedMap(list.Items[i].Object, "spec")
		if err := do(&list.Items[i], spec); err != nil {
			return fmt.Errorf("decode %s %s: %w", name, list.Items[i].GetName(), err)
		}
	}
	return nil
}
