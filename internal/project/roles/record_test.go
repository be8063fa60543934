package roles

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/binary"
)

// recordedEvents is a call of a handler.
type recordedEvents struct {
	verb          string
	before, after any
}

// lister stands for an API server that does not stream lists.
type lister struct{}

// IsWatchListSemanticsUnSupported makes a reflector use plain lists.
func (lister) IsWatchListSemanticsUnSupported() bool { return true }

// shown returns the object that a client gets from the cache.
func shown(cached any) any { return cached.(client.Object).DeepCopyObject() } //nolint:errcheck // it is one

func allShown(cached []any) []any {
	all := make([]any, 0, len(cached))
	for _, each := range cached {
		all = append(all, shown(each))
	}
	return all
}

// recorder is a handler that forwards its calls to a channel.
func recorder(into chan<- recordedEvents) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(object any, _ bool) { into <- recordedEvents{"add", nil, shown(object)} },
		UpdateFunc: func(before, after any) { into <- recordedEvents{"update", shown(before), shown(after)} },
		DeleteFunc: func(object any) { into <- recordedEvents{"delete", shown(object), nil} },
	}
}

func TestInformersStoreRecordsOfTrimmedObjects(t *testing.T) {
	p := project(nil, member(user("e"), "extension:foo"))
	for name, object := range map[string]client.Object{
		"a ClusterRole":                 desired(t, p)[0],
		"a ClusterRoleBinding":          desired(t, p)[1],
		"a RoleBinding":                 desired(t, p)[8],
		"the ClusterRole of extensions": desired(t, p)[11],
		"the RoleBinding of extensions": desired(t, p)[12],
		"a role without a project":      &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "x"}},
		"a binding with a finalizer": &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "garden-alpha", Name: "x", Finalizers: []string{"f"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.SetDefaultEventuallyTimeout(binary.Patience)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			first, second := stored(object), stored(object, func(o client.Object) { o.SetResourceVersion("8") })
			events := watch.NewFakeWithChanSize(2, false)
			source := &cache.ListWatch{
				ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
					return &metav1.List{Items: []runtime.RawExtension{{Object: first.DeepCopyObject()}}}, nil
				},
				WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return events, nil },
			}
			i := NewInformer(cache.ToListWatcherWithWatchListSemantics(source, lister{}), object, 0, cache.Indexers{
				"namespace": cache.MetaNamespaceIndexFunc,
			})
			g.Expect(i.SetTransform(Trim)).To(Succeed())
			g.Expect(i.AddIndexers(cache.Indexers{"extension": func(object any) ([]string, error) {
				return ExtensionOf(object.(client.Object)), nil //nolint:errcheck // it is always one
			}})).To(Succeed())
			news := make(chan recordedEvents, 4)
			_, err := i.AddEventHandlerWithOptions(recorder(news), cache.HandlerOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			go i.RunWithContext(ctx)

			was, is := shown(cached(t, first)), shown(cached(t, second))
			g.Eventually(news).Should(Receive(Equal(recordedEvents{"add", nil, was})))
			record, want := i.GetStore().List()[0].(client.Object), was.(client.Object) //nolint:errcheck // both are
			g.Expect([]any{record.GetName(), record.GetUID(), record.GetLabels(), record.GetFinalizers(), record.GetOwnerReferences()}).
				To(Equal([]any{want.GetName(), want.GetUID(), want.GetLabels(), want.GetFinalizers(), want.GetOwnerReferences()}))
			g.Expect(allShown(i.GetStore().List())).To(Equal([]any{was}))
			events.Modify(second.DeepCopyObject())
			g.Eventually(news).Should(Receive(Equal(recordedEvents{"update", was, is})))
			key := client.ObjectKeyFromObject(object)
			found, exists, err := i.GetIndexer().GetByKey(cache.ObjectName(key).String())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(exists).To(BeTrue())
			g.Expect(shown(found)).To(Equal(is))
			if key.Namespace != "" {
				var inNamespace []any
				inNamespace, err = i.GetIndexer().ByIndex("namespace", key.Namespace)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(allShown(inNamespace)).To(Equal([]any{is}))
			}
			var extensions []any
			if len(ExtensionOf(object)) > 0 {
				extensions = []any{is}
			}
			indexed, err := i.GetIndexer().ByIndex("extension", "alpha")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(allShown(indexed)).To(ConsistOf(extensions...))
			events.Delete(second.DeepCopyObject())
			g.Eventually(news).Should(Receive(Equal(recordedEvents{"delete", is, nil})))
			g.Expect(i.GetStore().List()).To(BeEmpty())
		})
	}
}
