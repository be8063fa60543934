package installations_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/espalier-dev/espalier/internal/garden/extension/installations"
)

func TestTheEndOfTheConnectionRequestsExtensions(t *testing.T) {
	g := NewWithT(t)
	installation := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "shop-1"}, "spec": map[string]any{"registrationRef": map[string]any{"name": "shop"}},
	}}
	version := schema.GroupVersion{Group: "core.gardener.cloud", Version: "v1beta1"}
	installation.SetGroupVersionKind(version.WithKind("ControllerInstallation"))
	scheme := runtime.NewScheme()
	objects := fake.NewClientBuilder().WithScheme(scheme).WithObjects(installation).Build()
	virtual := &struct{ client.WithWatch }{interceptor.NewClient(objects, interceptor.Funcs{
		Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) (apiwatch.Interface, error) {
			asked := (&client.ListOptions{}).ApplyOptions(opts)
			if asked.Raw != nil && asked.Raw.SendInitialEvents != nil {
				return nil, errors.New("the fake client has no initial events")
			}
			return c.Watch(ctx, list, opts...)
		},
	})} // comparable, as Connect must return
	var gone atomic.Bool
	watch := installations.NewWatch(time.Millisecond, func(context.Context) (client.WithWatch, error) {
		if gone.Load() {
			return nil, errors.New("there is no virtual cluster")
		}
		return virtual, nil
	})
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	g.Expect(watch.Source().Start(t.Context(), queue)).To(Succeed())
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- watch.Start(ctx) }()
	t.Cleanup(func() { stop(); g.Expect(<-done).To(Succeed()) })

	known := func() bool {
		_, is := watch.Of("shop")
		return is
	}
	requested := func() {
		g.Eventually(queue.Len, "1m").Should(Equal(1))
		request, _ := queue.Get()
		g.Expect(request.Name).To(Equal("shop"))
		queue.Done(request)
	}
	g.Eventually(known, "1m").Should(BeTrue())
	requested()
	gone.Store(true)
	requested()
	g.Expect(known()).To(BeFalse())
}
