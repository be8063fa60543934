package secret_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/config"
	. "github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
)

const (
	own     = "resources.gardener.cloud/gardener-resource-manager"
	ofTest  = "resources.gardener.cloud/gardener-resource-manager-test"
	foreign = "example.org/keep"
)

// createSecret creates a Secret with finalizers, which are removed at the end so that the namespace can be deleted.
func createSecret(e *Env, name string, finalizers ...string) *corev1.Secret {
	e.T.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: name, Finalizers: finalizers},
		Data:       map[string][]byte{"key": []byte("value")},
	}
	e.Expect(e.Source.Create(e.Ctx, secret)).To(Succeed())
	return secret
}

func read(e *Env, name string) *corev1.Secret {
	e.T.Helper()
	secret := &corev1.Secret{}
	e.Expect(e.Source.Get(e.Ctx, client.ObjectKey{Namespace: e.Namespace, Name: name}, secret)).To(Succeed())
	return secret
}

// awaitFinalizers waits until a Secret has exactly these finalizers, and checks that nothing else was changed.
func awaitFinalizers(e *Env, name string, want ...string) {
	e.T.Helper()
	e.Eventually(func() []string { return read(e, name).Finalizers }).WithTimeout(Patience).Should(Equal(want))
	e.Expect(read(e, name).Data).To(Equal(map[string][]byte{"key": []byte("value")}))
}

// secretWrites lists the writes of the controller to Secrets.
func secretWrites(e *Env) []string {
	return slices.DeleteFunc(e.Requests.Writes(), func(each string) bool { return !strings.Contains(each, "/secrets") })
}

func class(name string) func(*config.ResourceManagerConfiguration) {
	return func(cfg *config.ResourceManagerConfiguration) { cfg.Controllers.ResourceClass = ptr.To(name) }
}

func TestFinalizersAreRemovedFromSecrets(t *testing.T) {
	t.Parallel()
	e := New(t, Options{Stopped: true})
	createSecret(e, "before", own)
	untouched := []*corev1.Secret{createSecret(e, "plain"), createSecret(e, "foreign", foreign, ofTest)}
	e.Start()
	awaitFinalizers(e, "before")
	createSecret(e, "after", foreign, own, ofTest)
	awaitFinalizers(e, "after", foreign, ofTest)

	later := read(e, "before")
	later.Finalizers = []string{own}
	e.Expect(e.Source.Update(e.Ctx, later)).To(Succeed())
	e.Eventually(func() []string { return secretWrites(e) }).WithTimeout(Patience).Should(HaveLen(3))
	awaitFinalizers(e, "before")

	deleted := createSecret(e, "deleted", foreign, own)
	e.Expect(e.Source.Delete(e.Ctx, deleted)).To(Succeed())
	awaitFinalizers(e, "deleted", foreign)
	e.Fence()
	for _, each := range untouched {
		e.Expect(read(e, each.Name)).To(BeComparableTo(each))
	}
	path := "PATCH /api/v1/namespaces/" + e.Namespace + "/secrets/"
	// The deletion may conflict with the removal, which is then retried.
	e.Expect(slices.Compact(secretWrites(e))).To(ConsistOf(path+"before", path+"after", path+"before", path+"deleted"))
	release(e, "foreign", "after", "deleted")
}

// release removes the remaining finalizers of Secrets.
func release(e *Env, names ...string) {
	e.T.Helper()
	for _, name := range names {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: name}}
		e.Expect(e.Source.Patch(e.Ctx, secret, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))).
			To(Succeed())
	}
}

func TestEachClassRemovesItsOwnFinalizer(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		class string
		want  []string
	}{
		"the default class": {class: "resources", want: []string{ofTest}},
		"all classes":       {class: "*", want: []string{ofTest}},
		"another class":     {class: "test", want: []string{own}},
		"a third class":     {class: "third", want: []string{own, ofTest}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := New(t, Options{Configure: class(tc.class)})
			createSecret(e, "both", own, ofTest)
			mr := e.ManagedResource("fence")
			mr.Spec.Class = &tc.class
			e.Expect(e.Source.Create(e.Ctx, mr)).To(Succeed())
			e.AwaitApplied("fence", "True/ApplySucceeded")
			awaitFinalizers(e, "both", tc.want...)
			if len(tc.want) == 2 {
				e.Expect(secretWrites(e)).To(BeEmpty())
			}
			release(e, "both")
			e.Delete("fence")
			e.AwaitGone("fence")
		})
	}
}

func TestTwoInstancesShareASecret(t *testing.T) {
	t.Parallel()
	e := New(t, Options{})
	other := e.StartAnother(class("test"))
	createSecret(e, "both", own, foreign, ofTest)
	awaitFinalizers(e, "both", foreign)
	e.Expect(append(secretWrites(e), secretWrites(other)...)).NotTo(BeEmpty())
	release(e, "both")
}

// After a conflict, the change of the other client is kept.
func TestAConflictIsRetried(t *testing.T) {
	t.Parallel()
	e := New(t, Options{Stopped: true})
	createSecret(e, "contested", own)
	var interfere sync.Once
	e.Requests.SetHook(func(request *http.Request) error {
		if patches(request) {
			interfere.Do(func() {
				secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "contested"}}
				patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":["`+own+`","`+foreign+`"]}}`))
				e.Expect(e.Source.Patch(e.Ctx, secret, patch)).To(Succeed())
			})
		}
		return nil
	})
	e.Start()
	awaitFinalizers(e, "contested", foreign)
	path := "PATCH /api/v1/namespaces/" + e.Namespace + "/secrets/contested"
	e.Expect(secretWrites(e)).To(Equal([]string{path, path}))
	release(e, "contested")
}

func patches(request *http.Request) bool {
	return request.Method == http.MethodPatch && strings.Contains(request.URL.Path, "/secrets/")
}

func TestASecretThatIsDeletedMeanwhileIsNoFault(t *testing.T) {
	t.Parallel()
	for name, meets := range map[string]func(*http.Request) bool{
		"before it is read": func(request *http.Request) bool {
			return request.Method == http.MethodGet && strings.HasSuffix(request.URL.Path, "/secrets/gone")
		},
		"before it is written": patches,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := New(t, Options{Stopped: true})
			secret := createSecret(e, "gone", own)
			var interfere sync.Once
			e.Requests.SetHook(func(request *http.Request) error {
				if meets(request) {
					interfere.Do(func() {
						release(e, "gone")
						e.Expect(client.IgnoreNotFound(e.Source.Delete(e.Ctx, secret))).To(Succeed())
					})
				}
				return nil
			})
			e.Start()
			e.Eventually(func() []string { return requestsFor(e, "gone") }).WithTimeout(Patience).ShouldNot(BeEmpty())
			e.Fence()
			e.Expect(len(requestsFor(e, "gone"))).To(BeNumerically("<=", 2), "a read, perhaps a write, and no second attempt")
		})
	}
}

func requestsFor(e *Env, name string) []string {
	return slices.DeleteFunc(e.Requests.Seen(), func(each string) bool { return !strings.HasSuffix(each, "/secrets/"+name) })
}

func TestAFinalizerThatAnotherClientRemovedIsNotWritten(t *testing.T) {
	t.Parallel()
	e := New(t, Options{Stopped: true})
	createSecret(e, "freed", own)
	var interfere sync.Once
	e.Requests.SetHook(func(request *http.Request) error {
		if request.Method == http.MethodGet && strings.HasSuffix(request.URL.Path, "/secrets/freed") {
			interfere.Do(func() { release(e, "freed") })
		}
		return nil
	})
	e.Start()
	awaitFinalizers(e, "freed")
	e.Fence()
	e.Expect(secretWrites(e)).To(BeEmpty())
}

var errRefused = errors.New("refused by the test")

func TestAFailedRemovalIsRetried(t *testing.T) {
	t.Parallel()
	e := New(t, Options{Stopped: true})
	createSecret(e, "stubborn", own)
	var attempts atomic.Int64
	e.Requests.SetHook(func(request *http.Request) error {
		if patches(request) && attempts.Add(1) <= 3 {
			return errRefused
		}
		return nil
	})
	e.Start()
	awaitFinalizers(e, "stubborn")
	e.Expect(attempts.Load()).To(Equal(int64(4)))
}

func TestARestartedControllerFindsRemainingFinalizers(t *testing.T) {
	t.Parallel()
	e := New(t, Options{})
	e.Restart(func() { createSecret(e, "left", own) })
	awaitFinalizers(e, "left")
	e.Restart(func() { e.Requests.Reset() })
	e.Fence()
	e.Expect(requestsFor(e, "left")).To(BeEmpty(), "nothing is left to do")
}

// The contents of Secrets are never read.
func TestOnlyMetadataIsRead(t *testing.T) {
	t.Parallel()
	e := New(t, Options{Stopped: true})
	createSecret(e, "s", own)
	var mu sync.Mutex
	var accepted []string
	e.Requests.SetHook(func(request *http.Request) error {
		if strings.Contains(request.URL.Path, "/secrets") && !strings.HasSuffix(request.URL.Path, "/secrets/set") {
			mu.Lock()
			defer mu.Unlock()
			accepted = append(accepted, request.Header.Get("Accept"))
		}
		return nil
	})
	e.Start()
	awaitFinalizers(e, "s")
	mu.Lock()
	defer mu.Unlock()
	e.Expect(accepted).NotTo(BeEmpty())
	for _, each := range accepted {
		e.Expect(each).To(ContainSubstring("as=PartialObjectMetadata"))
		e.Expect(each).To(HavePrefix("application/vnd.kubernetes.protobuf;as=PartialObjectMetadata"))
	}
}

// A set that references a Secret works with and without the finalizer on it.
func TestASetWorksWithAndWithoutTheFinalizer(t *testing.T) {
	t.Parallel()
	e := New(t, Options{Stopped: true})
	e.Set("mr", e.ConfigMap("one", "1"))
	e.Expect(e.Source.Patch(e.Ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "mr"}},
		client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":["`+own+`"]}}`)))).To(Succeed())
	e.Start()
	e.AwaitApplied("mr", "True/ApplySucceeded")
	e.Eventually(func() []string { return read(e, "mr").Finalizers }).WithTimeout(Patience).Should(BeEmpty())
	e.Change("mr", func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.InjectLabels = map[string]string{"a": "b"} })
	e.AwaitApplied("mr", "True/ApplySucceeded")
	e.Expect(secretWrites(e)).To(HaveLen(1))
}
