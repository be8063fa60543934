package lookup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/internal/webhook/highavailability"
	"github.com/espalier-dev/espalier/test/binary"
)

// TestMain starts separate API servers: whether a server serves Hvpas is the same for all tests that use it.
func TestMain(m *testing.M) { os.Exit(binary.WithOwnServers(m)) }

// all enables all look-ups.
var all = Enabled{HighAvailability: true, SystemComponents: true, TokenMount: true}

// env is a namespace on an API server, and Lookups that read from this server.
type env struct {
	*WithT
	t         testing.TB
	admin     client.Client
	namespace string
	requests  *binary.Requests
	*Lookups
	manager manager.Manager
}

// options select the look-ups and the user who sends them.
type options struct {
	// cold is true if the manager is never started, so that the caches stay empty.
	cold bool
	// unmanaged is true if caches run without a manager, which would not end while a cache is not synced.
	unmanaged bool
	// as is the connection of the user whose rights the look-ups have; nil for the administrator.
	as *rest.Config
	// namespaces are the namespaces that the connection is restricted to.
	namespaces []string
}

func scheme(tb testing.TB) *runtime.Scheme {
	tb.Helper()
	known := runtime.NewScheme()
	NewWithT(tb).Expect(clientgoscheme.AddToScheme(known)).To(Succeed())
	NewWithT(tb).Expect(apiextensionsv1.AddToScheme(known)).To(Succeed())
	return known
}

func start(tb testing.TB, o options) *env {
	tb.Helper()
	e := &env{WithT: NewWithT(tb), t: tb, requests: &binary.Requests{}}
	at := binary.Servers(tb).Target
	known := scheme(tb)
	var err error
	e.admin, err = client.New(at.Config, client.Options{Scheme: known})
	e.Expect(err).NotTo(HaveOccurred())
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "lookup-"}}
	e.Expect(e.admin.Create(tb.Context(), namespace)).To(Succeed())
	e.namespace = namespace.Name

	cfg := rest.CopyConfig(at.Config)
	if o.as != nil {
		cfg = rest.CopyConfig(o.as)
	}
	cfg.Wrap(e.requests.Wrap)
	caches := Cache(all)
	for _, each := range o.namespaces {
		caches.DefaultNamespaces = map[string]cache.Config{each: {}}
	}
	e.manager, err = manager.New(cfg, manager.Options{Scheme: known, Cache: caches, Metrics: metricsserver.Options{BindAddress: "0"}})
	e.Expect(err).NotTo(HaveOccurred())
	mapper, err := process.NewMapper(cfg, e.manager.GetHTTPClient(), clock.RealClock{}, 0)
	e.Expect(err).NotTo(HaveOccurred())
	e.Lookups, err = New(tb.Context(), &process.Clusters{
		Source: e.manager, Target: e.manager, TargetConfig: cfg, TargetHTTPClient: e.manager.GetHTTPClient(), TargetMapper: mapper,
	}, all)
	e.Expect(err).NotTo(HaveOccurred())
	if o.cold {
		return e
	}
	ctx, cancel := context.WithCancel(tb.Context())
	runs := []func(context.Context) error{e.manager.Start}
	if o.unmanaged {
		runs = []func(context.Context) error{e.manager.GetCache().Start, e.hvpas.Start}
	}
	done := make(chan error, len(runs))
	for _, run := range runs {
		go func() { done <- run(ctx) }()
	}
	tb.Cleanup(func() {
		cancel()
		for range runs {
			if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
				tb.Errorf("watching ended with: %v", err)
			}
		}
	})
	return e
}

// warm waits until all caches are synced.
func (e *env) warm() {
	e.t.Helper()
	e.Expect(e.informers).To(HaveLen(4))
	for _, each := range e.informers {
		e.eventually(each.HasSynced).Should(BeTrue())
	}
	e.eventually(e.hvpas.definition.HasSynced).Should(BeTrue())
}

func (e *env) eventually(actual any) AsyncAssertion {
	return e.Eventually(actual).WithTimeout(30 * time.Second)
}

func (e *env) create(objects ...client.Object) {
	e.t.Helper()
	for _, object := range objects {
		e.Expect(e.admin.Create(e.t.Context(), object)).To(Succeed())
	}
}

// target returns a Deployment in the namespace as a Target.
func (e *env) target(name string) highavailability.Target {
	return highavailability.Target{Namespace: e.namespace, APIVersion: "apps/v1", Kind: "Deployment", Name: name}
}

// scaling contains the results of MaxReplicas.
type scaling struct {
	limit  int32
	scaled bool
	err    string
}

func (e *env) scalingOf(target highavailability.Target) scaling {
	return newScaling(e.MaxReplicas(e.t.Context(), target))
}

// scalingNow is like scalingOf, with MaxReplicasLive.
func (e *env) scalingNow(target highavailability.Target) scaling {
	return newScaling(e.MaxReplicasLive(e.t.Context(), target))
}

func newScaling(limit int32, scaled bool, err error) scaling {
	if err != nil {
		return scaling{limit, scaled, err.Error()}
	}
	return scaling{limit, scaled, ""}
}

func autoscaler(namespace, name, version, kind, of string, limit int32) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: version, Kind: kind, Name: of}, MinReplicas: ptr.To[int32](1),
			MaxReplicas: limit,
		},
	}
}

// hvpaOf returns an Hvpa that scales a Deployment.
func hvpaOf(namespace, name, of string, deploy bool, limit int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "autoscaling.k8s.io/v1alpha1", "kind": "Hvpa",
		"metadata": map[string]any{"namespace": namespace, "name": name},
		"spec": map[string]any{
			"targetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": of},
			"hpa": map[string]any{
				"deploy": deploy, "template": map[string]any{"spec": map[string]any{"minReplicas": int64(1), "maxReplicas": limit}},
			},
		},
	}}
}

// hvpaDefinition returns a definition that allows any fields in Hvpas.
func hvpaDefinition() *apiextensionsv1.CustomResourceDefinition {
	anything := &apiextensionsv1.CustomResourceValidation{
		OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)},
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{
			Name: "hvpas.autoscaling.k8s.io", Annotations: map[string]string{"api-approved.kubernetes.io": "unapproved, for tests"},
		},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "autoscaling.k8s.io", Scope: apiextensionsv1.NamespaceScoped,
			Names:    apiextensionsv1.CustomResourceDefinitionNames{Kind: "Hvpa", ListKind: "HvpaList", Plural: "hvpas", Singular: "hvpa"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1alpha1", Served: true, Storage: true, Schema: anything}},
		},
	}
}

// serveHvpas creates the definition, and waits until Hvpas can be created.
func (e *env) serveHvpas() {
	e.t.Helper()
	e.create(hvpaDefinition())
	e.t.Cleanup(e.serveNoHvpas)
	list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "autoscaling.k8s.io/v1alpha1", "kind": "HvpaList"}}
	e.eventually(func() error { return e.admin.List(e.t.Context(), list) }).Should(Succeed())
}

// serveNoHvpas deletes the definition, and waits until it is gone.
func (e *env) serveNoHvpas() {
	e.t.Helper()
	ctx := context.WithoutCancel(e.t.Context())
	e.Expect(client.IgnoreNotFound(e.admin.Delete(ctx, hvpaDefinition()))).To(Succeed())
	e.eventually(func() error { return e.admin.Get(ctx, client.ObjectKeyFromObject(hvpaDefinition()), hvpaDefinition()) }).
		Should(MatchError(ContainSubstring("not found")))
}

// user creates a user with these rules, and waits until the API server knows them: it watches roles, and forbids all requests before. It
// returns the connection and the user's name.
func user(tb testing.TB, admin client.Client, rules ...rbacv1.PolicyRule) (cfg *rest.Config, name string) {
	tb.Helper()
	g := NewWithT(tb)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "lookup-"}, Rules: rules}
	g.Expect(admin.Create(tb.Context(), role)).To(Succeed())
	g.Expect(admin.Create(tb.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: role.Name}},
	})).To(Succeed())
	may := authorizationv1.ResourceAttributes{Group: rules[0].APIGroups[0], Resource: rules[0].Resources[0], Verb: rules[0].Verbs[0]}
	if len(rules[0].ResourceNames) > 0 {
		may.Name = rules[0].ResourceNames[0]
	}
	g.Eventually(func(g Gomega) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: role.Name, ResourceAttributes: &may}}
		g.Expect(admin.Create(tb.Context(), review)).To(Succeed())
		g.Expect(review.Status.Allowed).To(BeTrue(), review.Status.Reason)
	}).WithTimeout(binary.Patience).Should(Succeed())
	cfg, err := binary.Servers(tb).Target.UserConfig(role.Name)
	g.Expect(err).NotTo(HaveOccurred())
	return cfg, role.Name
}

// path returns the request that lists a resource in the namespace: method and path.
func (e *env) path(group, resource string) string {
	return fmt.Sprintf("GET %s/namespaces/%s/%s", group, e.namespace, resource)
}
