package install_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/components"
	"github.com/espalier-dev/espalier/internal/garden/install"
	garden "github.com/espalier-dev/espalier/internal/garden/runtime"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/garden/virtual"
	"github.com/espalier-dev/espalier/internal/rollout"
)

const namespace = "garden"

// created is the label of the objects that the operator created.
var created = rollout.Label{Key: "created-by", Value: "operator"}

// installer returns an Installer for a cluster with these objects, and the names of the objects that it deletes.
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
	Name: "fruit", Plane: component.Runtime, Condition: "RuntimeComponentsHealthy",
	Sets: []component.Set{{Name: "apple"}, {Name: "pear", Virtual: true}},
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
		g.Expect(set.Labels).To(HaveKeyWithValue("care.gardener.cloud/condition-type", "RuntimeComponentsHealthy"), name)
	}
}

// unwanted returns a row that no Garden wants.
func unwanted(row component.Component) component.Component {
	row.Unless = func(values.Values) string { return "no fruit" }
	return row
}

// deploy runs the task that deploys a row.
func deploy(t *testing.T, i install.Installer, row component.Component, steps install.Steps) error {
	t.Helper()
	nodes := []components.Node{{Component: row, Step: components.Deploy, Task: component.Task{Name: "task"}}}
	tasks, err := i.Tasks([]component.Component{row}, nodes, map[string]install.Steps{row.Name: steps})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(tasks).To(ConsistOf(HaveField("SkipReason", BeEmpty())))
	return tasks[0].Run(t.Context())
}

func TestComponentThatIsNotWantedIsRemoved(t *testing.T) {
	own := func(context.Context) error { return errors.New("deployed") }
	objects := func(context.Context) (component.Objects, error) { return component.Objects{}, errors.New("deployed") }
	onlySecret := component.Component{Name: "fruit", AccessSecrets: row.AccessSecrets, Objects: row.Objects}
	onlyLeftover := component.Component{Name: "fruit", Leftovers: row.Leftovers, Objects: row.Objects}
	onlySets := component.Component{Name: "fruit", Sets: row.Sets, Objects: row.Objects}
	ownDeploy, ownObjects := row, row
	ownDeploy.Own, ownObjects.Own = component.Own{Deploy: true}, component.Own{Objects: true}
	for sentence, tc := range map[string]struct {
		row   component.Component
		steps install.Steps
		want  []string
	}{
		"ManagedResources, then other objects": {row: row, want: []string{"apple", "pear", "basket", "token"}},
		"only ManagedResources":                {row: onlySets, want: []string{"apple", "pear"}},
		"only a direct object":                 {row: onlyLeftover, want: []string{"basket"}},
		"only a Secret with a token":           {row: onlySecret, want: []string{"token"}},
		"the deployment is a step of its own": {
			row: ownDeploy, steps: install.Steps{Deploy: own}, want: []string{"apple", "pear", "basket", "token"},
		},
		"the objects depend on the cluster": {
			row: ownObjects, steps: install.Steps{Objects: objects}, want: []string{"apple", "pear", "basket", "token"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			i, deleted := installer(t, ours(&resourcesv1alpha1.ManagedResource{}, "apple"), ours(&resourcesv1alpha1.ManagedResource{}, "pear"),
				ours(&corev1.ConfigMap{}, "basket"), ours(&corev1.Secret{}, "token"))
			g.Expect(deploy(t, i, unwanted(tc.row), tc.steps)).To(Succeed())
			g.Expect(*deleted).To(Equal(tc.want))
			g.Expect(deploy(t, i, unwanted(tc.row), tc.steps)).To(Succeed())
			g.Expect(*deleted).To(Equal(tc.want))
		})
	}
}

func TestSkippedComponentIsRemovedUnlessOthersNeedIt(t *testing.T) {
	g := NewWithT(t)
	user := component.Object{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Name: "user"}
	needed := component.Component{Name: "fruit", Sets: row.Sets, Objects: row.Objects, Users: []component.Object{user}}
	i, deleted := installer(t, ours(&resourcesv1alpha1.ManagedResource{}, "apple"), ours(&corev1.ConfigMap{}, "user"))
	i.Values.SkipComponents = []string{"fruit"}
	g.Expect(deploy(t, i, needed, install.Steps{})).To(Succeed())
	g.Expect(*deleted).To(BeEmpty())
	needed.Users[0].Name = "another"
	g.Expect(deploy(t, i, needed, install.Steps{})).To(Succeed())
	g.Expect(*deleted).To(Equal([]string{"apple"}))
}

func TestRemovalKeepsObjectsOfOthers(t *testing.T) {
	g := NewWithT(t)
	i, deleted := installer(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "basket"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "token"}})
	g.Expect(deploy(t, i, unwanted(row), install.Steps{})).To(Succeed())
	g.Expect(*deleted).To(BeEmpty())
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
	with := func(row component.Component, own component.Own) component.Component { row.Own = own; return row }
	for sentence, tc := range map[string]struct {
		row    component.Component
		step   components.Step
		steps  install.Steps
		skips  string
		result error // of the work
		idle   bool  // the task has no work
	}{
		"a step of its own deploys": {
			row: with(row, component.Own{Deploy: true}), step: components.Deploy, steps: install.Steps{Deploy: work(own)}, result: own,
		},
		"a step of its own waits": {
			row: with(row, component.Own{Await: true}), step: components.Await, steps: install.Steps{Await: work(own)}, result: own,
		},
		"a step of its own destroys, the row deploys": {
			row: with(row, component.Own{Destroy: true}), step: components.Deploy, steps: install.Steps{Destroy: work(own)},
		},
		"objects that depend on the cluster": {
			row: with(row, component.Own{Objects: true}), step: components.Deploy,
			steps: install.Steps{Objects: func(context.Context) (component.Objects, error) { return component.Objects{}, own }}, result: own,
		},
		"a row without objects": {row: component.Component{Name: "fruit"}, step: components.Deploy, idle: true},
		"an unwanted component without objects is not deployed": {
			row: unwanted(component.Component{Name: "fruit"}), step: components.Deploy, skips: "no fruit", idle: true,
		},
		"an unwanted component without objects is not destroyed": {
			row: unwanted(component.Component{Name: "fruit"}), step: components.Destroy, skips: "no fruit", idle: true,
		},
		"an unwanted component is not awaited": {
			row: unwanted(with(row, component.Own{Await: true})), step: components.Await, steps: install.Steps{Await: work(own)},
			skips: "no fruit", result: own,
		},
		"an unwanted component with objects is destroyed": {row: unwanted(row), step: components.Destroy},
		"a step that is not needed": {
			row: with(row, component.Own{Destroy: true}), step: components.Destroy,
			steps: install.Steps{SkipsDestroy: "all is eaten", Destroy: work(own)}, skips: "all is eaten", result: own,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			i, _ := installer(t)
			nodes := []components.Node{{Component: tc.row, Step: tc.step, Task: component.Task{Name: "task"}}}
			tasks, err := i.Tasks([]component.Component{tc.row}, nodes, nil, map[string]install.Steps{"fruit": tc.steps})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(tasks).To(HaveLen(1))
			g.Expect(tasks[0].SkipReason).To(Equal(tc.skips))
			g.Expect(tasks[0].Run == nil).To(Equal(tc.idle))
			if !tc.idle {
				g.Expect(errors.Is(tasks[0].Run(t.Context()), tc.result)).To(BeTrue())
			}
		})
	}
}

func TestStepsAreThoseOfTheRows(t *testing.T) {
	work := func(context.Context) error { return nil }
	peeled := row
	peeled.Own = component.Own{Destroy: true}
	for sentence, tc := range map[string]struct {
		row    component.Component
		planes []map[string]install.Steps
		want   string
	}{
		"a forgotten step": {
			row:  peeled,
			want: `row "fruit" has the steps {Deploy:false Await:false Destroy:false Objects:false} instead of {`,
		},
		"a step that the row does not name": {
			row: row, planes: []map[string]install.Steps{{"fruit": {Await: work}}},
			want: `row "fruit" has the steps {Deploy:false Await:true Destroy:false Objects:false} instead of {Deploy:false Await:false`,
		},
		"steps of no row": {
			row: row, planes: []map[string]install.Steps{{"friut": {Deploy: work}}}, want: `steps of "friut", which is no row`,
		},
		"steps of two planes": {
			row: peeled, planes: []map[string]install.Steps{{"fruit": {Destroy: work}}, {"fruit": {Destroy: work}}},
			want: `two planes have steps of row "fruit"`,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			_, err := install.Installer{}.Tasks([]component.Component{tc.row}, nil, tc.planes...)
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(tc.want)))
		})
	}
}

func TestRowsAndStepsOfBothPlanesMatch(t *testing.T) {
	platform := garden.Platform{Garden: &operatorv1alpha1.Garden{}}
	plane := virtual.ControlPlane{Garden: platform.Garden, Clock: clock.RealClock{}}
	_, err := install.Installer{}.Tasks(components.All(), nil, platform.Steps(), plane.Steps())
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
}

// definition returns a CustomResourceDefinition with these versions, with the status of a served one.
func definition(name string, labels map[string]any, versions ...any) *unstructured.Unstructured {
	list := []any{}
	for _, each := range versions {
		list = append(list, map[string]any{"name": each, "served": true, "storage": true})
	}
	plural, group, _ := strings.Cut(name, ".")
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": name, "labels": labels},
		"spec": map[string]any{
			"group": group, "versions": list, "names": map[string]any{"plural": plural, "kind": "ConfigMap", "listKind": "ConfigMapList"},
		},
		"status": map[string]any{"conditions": []any{
			map[string]any{"type": "NamesAccepted", "status": "True"}, map[string]any{"type": "Established", "status": "True"},
		}},
	}}
}

func definitionsOf(names ...string) component.Component {
	return component.Component{Name: "fruit", Definitions: func() ([]*unstructured.Unstructured, error) {
		var all []*unstructured.Unstructured
		for _, name := range names {
			d := definition(name, map[string]any{}, "v1")
			delete(d.Object, "status")
			all = append(all, d)
		}
		return all, nil
	}}
}

// Our copies have fewer versions and conversions than the definitions of a user's own operator.
func TestDefinitionsOfOthersStay(t *testing.T) {
	label := map[string]any{created.Key: created.Value}
	for sentence, tc := range map[string]struct {
		live *unstructured.Unstructured
		want string
	}{
		"of another client": {live: definition("apples.example.com", nil), want: "apples.example.com: another client has created it"},
		"ours with another version": {
			live: definition("apples.example.com", label, "v1", "v2"), want: "apples.example.com: it has version v2",
		},
		"ours":                  {live: definition("apples.example.com", label)},
		"of a Gardener program": {live: definition("apples.gardener.cloud", nil)},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			i, _ := installer(t, tc.live)
			var kept []string
			i.Limits, i.DefinitionNewer = i.Limits.Defaulted(), func(cause error) { kept = append(kept, cause.Error()) }
			before := definition(tc.live.GetName(), nil)
			g.Expect(i.Cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(before), before)).To(Succeed())
			g.Expect(i.Deploy(t.Context(), definitionsOf(tc.live.GetName()))).To(Succeed())
			after := definition(tc.live.GetName(), nil)
			g.Expect(i.Cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(after), after)).To(Succeed())
			if tc.want == "" {
				g.Expect(after.GetResourceVersion()).NotTo(Equal(before.GetResourceVersion()))
			} else {
				g.Expect(after.GetResourceVersion()).To(Equal(before.GetResourceVersion()))
			}
			g.Expect(strings.Join(kept, "")).To(Equal(tc.want))
		})
	}
}

func TestDefinitionsForASkippedComponentAreDeployedOnlyForUsers(t *testing.T) {
	g := NewWithT(t)
	pears := definitionsOf("pears.example.com")
	pears.OnlyFor = "basket"
	pears.Users = []component.Object{{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Name: "user"}}
	served := definition("pears.example.com", map[string]any{created.Key: created.Value})
	i, _ := installer(t, served)
	i.Limits, i.Values.SkipComponents = i.Limits.Defaulted(), []string{"basket"}
	versions := func() []any {
		found := definition("pears.example.com", nil)
		g.Expect(i.Cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(found), found)).To(Succeed())
		list, _, _ := unstructured.NestedSlice(found.Object, "spec", "versions")
		return list
	}
	g.Expect(deploy(t, i, pears, install.Steps{})).To(Succeed())
	g.Expect(versions()).To(BeEmpty())
	g.Expect(i.Cluster.Client.Create(t.Context(), ours(&corev1.ConfigMap{}, "user"))).To(Succeed())
	g.Expect(deploy(t, i, pears, install.Steps{})).To(Succeed())
	g.Expect(versions()).To(HaveLen(1))
}

func TestNewerDefinitionsOfUsersStay(t *testing.T) {
	definition := func(release string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
			"metadata": map[string]any{
				"name": "probes.monitoring.coreos.com", "annotations": map[string]any{"operator.prometheus.io/version": release},
			},
			"status": map[string]any{"conditions": []any{
				map[string]any{"type": "NamesAccepted", "status": "True"}, map[string]any{"type": "Established", "status": "True"},
			}},
		}}
	}
	for live, want := range map[string]string{"0.92.0": "0.93.1", "0.94.0": "0.94.0"} {
		t.Run(live, func(t *testing.T) {
			g := NewWithT(t)
			of, _ := installer(t, definition(live))
			var newer []error
			of.DefinitionNewer = func(cause error) { newer = append(newer, cause) }
			of.Limits.Definitions = time.Minute
			row := component.Component{Definitions: func() ([]*unstructured.Unstructured, error) {
				ours := definition("0.93.1")
				delete(ours.Object, "status")
				return []*unstructured.Unstructured{ours}, nil
			}}
			g.Expect(of.DeployDefinitions(t.Context(), row)).To(Succeed())
			found := definition("")
			g.Expect(of.Cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(found), found)).To(Succeed())
			g.Expect(found.GetAnnotations()).To(HaveKeyWithValue("operator.prometheus.io/version", want))
			if live == want {
				g.Expect(newer).To(ConsistOf(MatchError("probes.monitoring.coreos.com: it is of release 0.94.0")))
			} else {
				g.Expect(newer).To(BeEmpty())
			}
		})
	}
}
