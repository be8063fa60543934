package managedresources_test

import (
	"context"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	NewWithT(t).Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	NewWithT(t).Expect(resourcesv1alpha1.AddToScheme(scheme)).To(Succeed())
	return scheme
}

// cluster is an in-memory cluster that records all writes, and refuses the writes that are keys of fail.
type cluster struct {
	client.Client
	writes []string
	fail   map[string]error // by entry of writes
}

func newCluster(t *testing.T, objs ...client.Object) *cluster {
	t.Helper()
	c := &cluster{fail: map[string]error{}}
	c.Client = fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(objs...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, w client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if err := c.write("create", obj); err != nil {
				return err
			}
			return w.Create(ctx, obj, opts...)
		},
		Update: func(ctx context.Context, w client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			if err := c.write("update", obj); err != nil {
				return err
			}
			return w.Update(ctx, obj, opts...)
		},
		Patch: func(ctx context.Context, w client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if err := c.write("patch", obj); err != nil {
				return err
			}
			return w.Patch(ctx, obj, patch, opts...)
		},
		Delete: func(ctx context.Context, w client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			if err := c.write("delete", obj); err != nil {
				return err
			}
			return w.Delete(ctx, obj, opts...)
		},
	}).Build()
	return c
}

func (c *cluster) write(verb string, obj client.Object) error {
	kind := "Secret"
	if _, ok := obj.(*resourcesv1alpha1.ManagedResource); ok {
		kind = "ManagedResource"
	}
	entry := fmt.Sprintf("%s %s %s/%s", verb, kind, obj.GetNamespace(), obj.GetName())
	c.writes = append(c.writes, entry)
	return c.fail[entry]
}

// newWrites returns the writes since the last call.
func (c *cluster) newWrites() []string {
	writes := c.writes
	c.writes = nil
	return writes
}

func (c *cluster) secrets(t *testing.T) map[string]corev1.Secret {
	t.Helper()
	list := &corev1.SecretList{}
	NewWithT(t).Expect(c.List(t.Context(), list)).To(Succeed())
	secrets := map[string]corev1.Secret{}
	for _, secret := range list.Items {
		secret.ResourceVersion = ""
		secrets[secret.Namespace+"/"+secret.Name] = secret
	}
	return secrets
}

func (c *cluster) managedResources(t *testing.T) map[string]resourcesv1alpha1.ManagedResource {
	t.Helper()
	list := &resourcesv1alpha1.ManagedResourceList{}
	NewWithT(t).Expect(c.List(t.Context(), list)).To(Succeed())
	mrs := map[string]resourcesv1alpha1.ManagedResource{}
	for _, mr := range list.Items {
		mr.ResourceVersion = ""
		mrs[mr.Namespace+"/"+mr.Name] = mr
	}
	return mrs
}

func secretNamed(name string, labels map[string]string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: labels}}
}

func refs(names ...string) []corev1.LocalObjectReference {
	list := []corev1.LocalObjectReference{}
	for _, name := range names {
		list = append(list, corev1.LocalObjectReference{Name: name})
	}
	return list
}

func managedResourceNamed(name string, secretNames ...string) *resourcesv1alpha1.ManagedResource {
	return &resourcesv1alpha1.ManagedResource{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec:       resourcesv1alpha1.ManagedResourceSpec{SecretRefs: refs(secretNames...)},
	}
}

var collectable = map[string]string{"resources.gardener.cloud/garbage-collectable-reference": "true"}
