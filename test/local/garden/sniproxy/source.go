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

// sync waits until the cache contains both kinds.
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
	var gateways struct {
		Items []gatewayObject `json:"items"`
	}
	var services struct {
		Items []virtualService `json:"items"`
	}
	if err := errors.Join(s.list(ctx, "Gateway", &gateways), s.list(ctx, "VirtualService", &services)); err != nil {
		return "", err
	}
	if address := s.gateway.route(host, gateways.Items, services.Items); address != "" {
		return address, nil
	}
	return "", fmt.Errorf("there is no route for host %q", host)
}

func (s *source) list(ctx context.Context, name string, into any) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind(name + "List"))
	if err := s.reader.List(ctx, list); err != nil {
		return fmt.Errorf("list kind %s: %w", name, err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.UnstructuredContent(), into); err != nil {
		return fmt.Errorf("decode kind %s: %w", name, err)
	}
	return nil
}
