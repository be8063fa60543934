package certificates

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// watchSecret adopts every readable version of the Secret and wakes the loop, until the context ends.
func (k *Keeper) watchSecret(ctx context.Context) {
	read := func(object any) {
		if secret, ok := object.(*corev1.Secret); ok {
			k.read(secret)
		}
		k.signal()
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: k.options.Namespace, Name: k.options.SecretName}}
	watchObject(ctx, k.own, secret, &corev1.SecretList{}, toolscache.ResourceEventHandlerFuncs{
		AddFunc: read, UpdateFunc: func(_, object any) { read(object) }, DeleteFunc: func(any) { k.signal() },
	})
}

// watchConfiguration wakes the loop whenever a configuration changes, until the context ends.
func (k *Keeper) watchConfiguration(ctx context.Context, object client.Object) {
	kind := object.GetObjectKind().GroupVersionKind()
	one, list := &metav1.PartialObjectMetadata{}, &metav1.PartialObjectMetadataList{}
	one.SetName(object.GetName())
	one.SetGroupVersionKind(kind)
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	watchObject(ctx, k.called, one, list, toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { k.signal() }, UpdateFunc: func(any, any) { k.signal() }, DeleteFunc: func(any) { k.signal() },
	})
}

// watchObject watches the object of one name, so a role can restrict the rights to this name. emptyList has the type of the object's lists.
func watchObject(
	ctx context.Context, c client.WithWatch, object client.Object, emptyList client.ObjectList, handler toolscache.ResourceEventHandler,
) {
	only := []client.ListOption{
		client.InNamespace(object.GetNamespace()),
		client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector(metav1.ObjectNameField, object.GetName())},
	}
	_, controller := toolscache.NewInformerWithOptions(toolscache.InformerOptions{
		ListerWatcher: &toolscache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				list := emptyList.DeepCopyObject().(client.ObjectList) //nolint:errcheck // it is a copy of one
				return list, c.List(ctx, list, append(only, &client.ListOptions{Raw: &options})...)
			},
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				return c.Watch(ctx, emptyList, append(only, &client.ListOptions{Raw: &options})...)
			},
		},
		ObjectType: object,
		Handler:    handler,
	})
	controller.RunWithContext(ctx)
}
