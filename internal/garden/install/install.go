// Package install deploys and destroys the components of a Garden by their rows in the table of package components, and turns the graphs of
// that package into the tasks of a flow.
package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/crds"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/rollout"
	"github.com/espalier-dev/espalier/internal/secrets/manager"
)

// Credentials, and the content of ManagedResources, are Secrets. Any ManagedResource of the cluster can keep the Garden from being deleted.
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;create;patch;delete;update,namespace=garden,roleName=espalier-garden-operator-garden
// +kubebuilder:rbac:groups=resources.gardener.cloud,resources=managedresources,verbs=get;create;update;delete,namespace=garden,roleName=espalier-garden-operator-garden
// +kubebuilder:rbac:groups=resources.gardener.cloud,resources=managedresources,verbs=list;watch
// Definitions are deployed, awaited and destroyed; their deletion is confirmed by an annotation. A server-side apply creates them, so that
// the right to create them can be limited to names too: package components has these rights.
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;watch

// Installer deploys and destroys the components of both planes. All fields are required unless they say otherwise.
type Installer struct {
	// Cluster is the runtime cluster.
	Cluster rollout.Cluster
	Secrets *manager.Manager
	// Values describe the Garden. A deletion needs only values.OfAny.
	Values values.Values
	Limits Limits
	// OmitsDefinition reports whether a definition, by its name, is neither deployed nor destroyed. Nil omits none.
	OmitsDefinition func(name string) bool
	// DefinitionKept is called for a definition that is not destroyed because it is in use.
	DefinitionKept func(cause error)
	// DefinitionNewer is called for a definition that is not replaced because another client has installed it, or a newer one.
	DefinitionNewer func(cause error)
	// Abandons is true if the user gives up the objects in the virtual cluster. The deletion of its ManagedResources then keeps them.
	Abandons bool
	// WayOut adds the remedy to an error of the destruction of a ManagedResource of the virtual cluster.
	WayOut func(ctx context.Context, err error) error
}

// Limits are the longest waits. A zero one stands for its default.
type Limits struct {
	// Definitions is for definitions to be served or gone; default 2m.
	Definitions time.Duration
	// ManagedResources is for ManagedResources to be ready or gone; default 2m.
	ManagedResources time.Duration
	// Objects is for objects to be gone that the operator has deployed itself; default 5m.
	Objects time.Duration
}

// Defaulted returns the limits with the defaults.
func (l Limits) Defaulted() Limits {
	return Limits{
		Definitions:      cmp.Or(l.Definitions, 2*time.Minute),
		ManagedResources: cmp.Or(l.ManagedResources, 2*time.Minute),
		Objects:          cmp.Or(l.Objects, 5*time.Minute),
	}
}

// Deploy deploys a component that the Garden wants, and waits until it is ready if its row says when it is.
func (i Installer) Deploy(ctx context.Context, row component.Component) error {
	if row.Definitions != nil {
		return i.DeployDefinitions(ctx, row)
	}
	objects, err := i.objects(ctx, row)
	if err != nil {
		return err
	}
	return i.DeployObjects(ctx, row, objects)
}

// remove requests the deletion of the ManagedResources of a component. If an existing object needs the component, remove deletes nothing.
// If the component has further objects, remove waits until the ManagedResources are gone, and then destroys the further objects: the
// objects of the ManagedResources may need them until then.
func (i Installer) remove(ctx context.Context, row component.Component) error {
	user, err := i.user(ctx, row)
	if err != nil {
		return err
	}
	if user != nil {
		log.FromContext(ctx).Info("Unwanted component stays if it exists, because an object needs it", "component", row.Name,
			"kind", user.GetKind(), "object", client.ObjectKeyFromObject(user), "reason", row.Unwanted(i.Values))
		return nil
	}
	var requested []*unstructured.Unstructured
	for _, set := range row.Sets {
		exists, err := i.Cluster.DeleteManagedResource(ctx, i.namespace(set), set.Name)
		if err != nil {
			return err
		}
		if exists {
			log.FromContext(ctx).Info("Removing component", "component", row.Name, "managedResource", set.Name, "reason", row.Unwanted(i.Values))
			requested = append(requested, rollout.Identity(rollout.ManagedResource, i.namespace(set), set.Name))
		}
	}
	others := i.others(row)
	if len(others) == 0 {
		return nil
	}
	if err := i.Cluster.UntilGone(ctx, i.Limits.ManagedResources, requested...); err != nil {
		return err
	}
	return i.Cluster.Destroy(ctx, i.Limits.Objects, others...)
}

// user returns an existing object that needs a component, from Users of its row; nil if there is none.
func (i Installer) user(ctx context.Context, row component.Component) (*unstructured.Unstructured, error) {
	for _, each := range i.identities(row.Users) {
		user, err := rollout.Find(ctx, i.Cluster.Client, each.GetNamespace(), each.GetName(), each)
		if err != nil || user != nil {
			return user, err
		}
	}
	return nil, nil
}

// deployForUsers deploys unwanted definitions if an object needs them.
func (i Installer) deployForUsers(ctx context.Context, row component.Component) error {
	user, err := i.user(ctx, row)
	if err != nil {
		return err
	}
	if user == nil {
		log.FromContext(ctx).V(1).Info("Skipped definitions", "component", row.Name, "reason", row.Unwanted(i.Values))
		return nil
	}
	return i.DeployDefinitions(ctx, row)
}

// objects returns the objects of a component, after it has generated their Secrets.
func (i Installer) objects(ctx context.Context, row component.Component) (component.Objects, error) {
	found, err := i.Generate(ctx, row)
	if err != nil {
		return component.Objects{}, err
	}
	return row.Objects(i.Values, found)
}

// Generate generates the Secrets of a component that have a request, and returns them and the Secrets that the component needs.
func (i Installer) Generate(ctx context.Context, row component.Component) (component.Secrets, error) {
	s := i.Secrets.Collect()
	found := component.Secrets{
		Bundles: map[string]*corev1.Secret{}, Current: map[string]*corev1.Secret{}, Generated: map[string]*corev1.Secret{},
	}
	for _, name := range row.Needs.Bundles {
		found.Bundles[name] = s.Bundle(name)
	}
	for _, name := range row.Needs.Current {
		found.Current[name] = s.Current(name)
	}
	for _, each := range row.Credentials {
		if each.Request != nil {
			found.Generated[each.Name] = s.Generate(ctx, each.Request(i.Values))
		}
	}
	return found, s.Err()
}

// DeployObjects deploys the objects of a component, and waits until they are ready if its row says when they are.
func (i Installer) DeployObjects(ctx context.Context, row component.Component, objects component.Objects) error {
	i.LogIgnored(ctx, row)
	if err := i.Cluster.DeployTyped(ctx, objects.Direct...); err != nil {
		return err
	}
	if len(objects.Sets) != len(row.Sets) {
		return fmt.Errorf("component %s has objects of %d ManagedResources instead of %d", row.Name, len(objects.Sets), len(row.Sets))
	}
	for n, set := range row.Sets {
		if err := i.DeploySet(ctx, row, set, objects.Sets[n]); err != nil {
			return err
		}
	}
	if row.Ready == nil {
		return nil
	}
	for _, set := range row.Sets {
		if err := i.UntilReady(ctx, row, set); err != nil {
			return err
		}
	}
	return nil
}

// LogIgnored logs the settings of the Garden that a component does not have.
func (i Installer) LogIgnored(ctx context.Context, row component.Component) {
	if row.Ignored == nil {
		return
	}
	if settings := row.Ignored(i.Values); len(settings) > 0 {
		log.FromContext(ctx).Info("Ignored settings that the program does not have", "program", row.Name, "settings", settings)
	}
}

// DeploySet deploys a ManagedResource of a component with objects.
func (i Installer) DeploySet(ctx context.Context, row component.Component, set component.Set, objects []client.Object) error {
	var deployed []*unstructured.Unstructured
	var err error
	if set.Virtual {
		deployed, err = rollout.NewVirtualManagedResource(i.namespace(set), set.Name, row.Condition, set.KeepsObjects, objects...)
	} else {
		deployed, err = rollout.NewSeedManagedResource(i.namespace(set), set.Name, row.Condition, objects...)
	}
	if err != nil {
		return err
	}
	return i.Cluster.Deploy(ctx, deployed...)
}

// UntilReady waits until a ManagedResource of a component is ready.
func (i Installer) UntilReady(ctx context.Context, row component.Component, set component.Set) error {
	limit := row.Within
	if limit == 0 {
		limit = i.Limits.ManagedResources
	}
	return i.Cluster.UntilManagedResourcesReady(ctx, limit, row.Ready, i.namespace(set), set.Name)
}

func (i Installer) namespace(set component.Set) string {
	if set.Namespace == "" {
		return i.Values.Namespace
	}
	return set.Namespace
}

// Destroy destroys the ManagedResources of a component, one after the other, then the other objects of the component, and waits until all
// are gone. If the user abandons the virtual cluster, the objects of ManagedResources stay in the virtual cluster. If the component
// consists of definitions, Destroy only calls DestroyDefinitions.
func (i Installer) Destroy(ctx context.Context, row component.Component) error {
	if row.Definitions != nil {
		return i.DestroyDefinitions(ctx, row)
	}
	for _, set := range row.Sets {
		if err := i.destroySet(ctx, set); err != nil {
			return err
		}
	}
	return i.Cluster.Destroy(ctx, i.Limits.Objects, i.others(row)...)
}

// others returns the objects of a component that the operator has deployed itself.
func (i Installer) others(row component.Component) []*unstructured.Unstructured {
	objects := i.identities(row.Leftovers)
	for _, name := range row.AccessSecrets {
		objects = append(objects, rollout.Identity(corev1.SchemeGroupVersion.WithKind("Secret"), i.Values.Namespace, name))
	}
	return objects
}

func (i Installer) identities(of []component.Object) []*unstructured.Unstructured {
	objects := make([]*unstructured.Unstructured, 0, len(of))
	for _, each := range of {
		namespace := i.Values.Namespace
		if each.Cluster {
			namespace = ""
		}
		objects = append(objects, rollout.Identity(each.GroupVersionKind, namespace, each.Name))
	}
	return objects
}

func (i Installer) destroySet(ctx context.Context, set component.Set) error {
	if set.Virtual && i.Abandons {
		if err := i.Cluster.AbandonManagedResource(ctx, i.namespace(set), set.Name); err != nil {
			return err
		}
	}
	err := i.Cluster.DestroyManagedResource(ctx, i.Limits.ManagedResources, i.namespace(set), set.Name)
	if err != nil && set.Virtual {
		return i.WayOut(ctx, err)
	}
	return err
}

// Definitions returns the definitions of a component, except for the omitted ones.
func (i Installer) Definitions(row component.Component) ([]*unstructured.Unstructured, error) {
	all, err := row.Definitions()
	if i.OmitsDefinition == nil {
		return all, err
	}
	return slices.DeleteFunc(all, func(each *unstructured.Unstructured) bool { return i.OmitsDefinition(each.GetName()) }), err
}

// DeployDefinitions deploys the definitions of a component, and waits until they are served.
func (i Installer) DeployDefinitions(ctx context.Context, row component.Component) error {
	wanted, err := i.Definitions(row)
	if err != nil {
		return err
	}
	outdated, err := i.withoutNewer(ctx, wanted)
	if err != nil {
		return err
	}
	if err := i.Cluster.Deploy(ctx, outdated...); err != nil {
		return err
	}
	return i.Cluster.UntilHealthy(ctx, i.Limits.Definitions, wanted...)
}

// withoutNewer leaves out the definitions that must stay in the cluster as they are. The cluster has a newer form of such a definition, or
// a form that another client created and that cannot be compared. Objects of a user may depend on it.
func (i Installer) withoutNewer(ctx context.Context, definitions []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	var outdated []*unstructured.Unstructured
	for _, each := range definitions {
		newer, err := i.newer(ctx, each)
		if err != nil {
			return nil, err
		}
		if newer == "" {
			outdated = append(outdated, each)
			continue
		}
		log.FromContext(ctx).Info("Left definition as it is", "name", each.GetName(), "reason", newer)
		i.DefinitionNewer(fmt.Errorf("%s: %s", each.GetName(), newer))
	}
	return outdated, nil
}

// newer returns why the cluster has a newer form of a definition, or one of another client that cannot be compared with ours, or "".
func (i Installer) newer(ctx context.Context, definition *unstructured.Unstructured) (string, error) {
	identity := rollout.Identity(definition.GroupVersionKind(), "", definition.GetName())
	live, err := rollout.Find(ctx, i.Cluster.Client, "", identity.GetName(), identity)
	if err != nil || live == nil {
		return "", err
	}
	if reason := crds.Newer(live, definition); reason != "" {
		return reason, nil
	}
	if !crds.HasRelease(definition) && !crds.IsOfGardener(definition) && i.Cluster.IsForeign(live) {
		return "another client has created it", nil
	}
	return "", nil
}

// DestroyDefinitions destroys the definitions of a component that the operator created. It keeps a definition if objects of its kind
// exist: other clients have created these objects, and they would be deleted together with the definition. Objects that a component
// derives from other data (IsDerived) do not count.
func (i Installer) DestroyDefinitions(ctx context.Context, row component.Component) error {
	wanted, err := i.Definitions(row)
	if err != nil {
		return err
	}
	var deleted []*unstructured.Unstructured
	for _, each := range wanted {
		requested, err := i.Cluster.DeleteDefinition(ctx, each, i.Cluster.IsOurs, !crds.IsDerived(each.GetName()))
		if errors.Is(err, rollout.ErrInUse) {
			log.FromContext(ctx).Info("Kept definition", "name", each.GetName(), "reason", err.Error())
			i.DefinitionKept(err)
			continue
		}
		if err != nil {
			return err
		}
		if requested {
			deleted = append(deleted, each)
		}
	}
	return i.Cluster.UntilGone(ctx, i.Limits.Definitions, deleted...)
}
