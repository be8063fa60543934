package install_test

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/components"
	"github.com/espalier-dev/espalier/internal/garden/install"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/rollout"
)

const namespace = "garden"

// installer returns an Installer for a cluster with these objects, and the names of the objects that it deletes.
// created is the label of the objects that the operator created.
var created = rollout.Label{Key: "created-by", Value: "operator"}

func installer(t *testing.T, objects ...client.Object) (of install.Installer, deleted *[]string) {
	t.Helper()
	known := runtime.NewScheme()
	NewWithT(t).Expect(errors.Join(scheme.AddToScheme(known), resourcesv1alpha1.AddToScheme(known))).To(Succeed())
	deleted = &[]string{}
	cluster := fake.NewClientBuilder().WithScheme(known).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			*deleted = append(*deleted, o.GetName())
			return c.Delete(ctx, o, options...)
		},
	}).Build()
	return install.Installer{
		Cluster: rollout.Cluster{Client: cluster, FieldManager: "operator", CreatedBy: created},
		Values:  values.Values{Operator: values.Operator{Namespace: namespace}},
		WayOut:  func(_ context.Context, err error) error { return err },
	}, deleted
}

// ours marks an object as one that the operator created.
func ours(o client.Object, name string) client.Object {
	o.SetNamespace(namespace)
	o.SetName(name)
	o.SetLabels(map[string]string{created.Key: created.Value})
	return o
}

func configMap(name string) []client.Object {
	return []client.Object{&corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
	}}
}

// row is a component with an object that is deployed directly, and two ManagedResources.
var row = component.Component{
	Name: "fruit", Plane: component.Runtime, Sets: []component.Set{{Name: "apple"}, {Name: "pear", Virtual: true}},
	Objects: func(values.Values, component.Secrets) (component.Objects, error) {
		return component.Objects{Direct: configMap("basket"), Sets: [][]client.Object{configMap("a"), configMap("p")}}, nil
	},
	Leftovers:     []component.Object{{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Name: "basket"}},
	AccessSecrets: []string{"token"},
}

func TestDeployedObjects(t *testing.T) {
	g := NewWithT(t)
	i, _ := installer(t)
	g.Expect(i.Deploy(t.Context(), row)).To(Succeed())
	g.Expect(i.Cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "basket"}, &corev1.ConfigMap{})).To(Succeed())
	for name, class := range map[string]string{"apple": "seed", "pear": ""} {
		set := &resourcesv1alpha1.ManagedResource{}
		g.Expect(i.Cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, set)).To(Succeed())
		g.Expect(set.Spec.Class).To(Or(BeNil(), HaveValue(Equal(class))), name)
		g.Expect(set.Spec.Class == nil).To(Equal(class == ""), name)
	}
}

func TestComponentThatIsNotWantedIsRemoved(t *testing.T) {
	g := NewWithT(t)
	unwanted := row
	unwanted.Unless = func(values.Values) string { return "no fruit" }
	i, _ := installer(t, ours(&resourcesv1alpha1.ManagedResource{}, "apple"))
	g.Expect(i.Deploy(t.Context(), unwanted)).To(Succeed())
	for _, name := range []string{"apple", "pear"} {
		err := i.Cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &resourcesv1alpha1.ManagedResource{})
		g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), name)
	}
}

func TestManagedResourcesAreDestroyedBeforeOtherObjects(t *testing.T) {
	g := NewWithT(t)
	i, deleted := installer(t, ours(&resourcesv1alpha1.ManagedResource{}, "apple"), ours(&resourcesv1alpha1.ManagedResource{}, "pear"),
		ours(&corev1.ConfigMap{}, "basket"), ours(&corev1.Secret{}, "token"))
	g.Expect(i.Destroy(t.Context(), row)).To(Succeed())
	g.Expect(*deleted).To(Equal([]string{"apple", "pear", "basket", "token"}))
}

func TestAbandonedManagedResourceNeedsNoResourceManager(t *testing.T) {
	g := NewWithT(t)
	held := ours(&resourcesv1alpha1.ManagedResource{}, "pear")
	held.SetFinalizers([]string{resourcesv1alpha1.FinalizerName})
	i, _ := installer(t, held)
	i.Abandons = true
	g.Expect(i.Destroy(t.Context(), row)).To(Succeed())
}

func TestTasks(t *testing.T) {
	work := func(err error) install.Work { return func(context.Context) error { return err } }
	own := errors.New("own step")
	unless := func(values.Values) string { return "no fruit" }
	for sentence, tc := range map[string]struct {
		row    component.Component
		step   components.Step
		steps  install.Steps
		skips  string
		result error // of the work
		idle   bool  // the task has no work
	}{
		"a step of its own deploys": {row: row, step: components.Deploy, steps: install.Steps{Deploy: work(own)}, result: own},
		"a step of its own waits":   {row: row, step: components.Await, steps: install.Steps{Await: work(own)}, result: own},
		"a step of its own destroys, the row deploys": {
			row: row, step: components.Deploy, steps: install.Steps{Destroy: work(own)},
		},
		"objects that depend on the cluster": {
			row: row, step: components.Deploy,
			steps: install.Steps{Objects: func(context.Context) (component.Objects, error) { return component.Objects{}, own }}, result: own,
		},
		"a row without objects": {row: component.Component{Name: "fruit"}, step: components.Deploy, idle: true},
		"an unwanted component without ManagedResources is skipped": {
			row:  component.Component{Name: "fruit", Plane: component.Runtime, Unless: unless, Definitions: row.Definitions},
			step: components.Destroy, skips: "no fruit", idle: true,
		},
		"an unwanted component with ManagedResources is removed": {
			row: func() component.Component { unwanted := row; unwanted.Unless = unless; return unwanted }(), step: components.Deploy,
		},
		"a step that is not needed": {
			row: row, step: components.Destroy, steps: install.Steps{SkipsDestroy: "all is eaten", Destroy: work(own)},
			skips: "all is eaten", result: own,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			i, _ := installer(t)
			planes := map[component.Plane]install.Plane{
				component.Runtime: {Installer: i}, component.Virtual: {Steps: map[string]install.Steps{"fruit": tc.steps}},
			}
			tasks := install.Tasks([]components.Node{{Component: tc.row, Step: tc.step, Task: component.Task{Name: "task"}}}, planes)
			g.Expect(tasks).To(HaveLen(1))
			g.Expect(tasks[0].SkipReason).To(Equal(tc.skips))
			g.Expect(tasks[0].Run == nil).To(Equal(tc.idle))
			if !tc.idle {
				g.Expect(errors.Is(tasks[0].Run(t.Context()), tc.result)).To(BeTrue())
			}
		})
	}
}
