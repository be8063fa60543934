// Package component defines Component, the type of a row. A row contains everything that the rest of the operator knows about a component
// of a Garden: its tasks and their dependencies, its ManagedResources, and the condition of the Garden that they count for. Package
// components contains the table of all rows. Each component has a package of its own with its objects and its row.
package component

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/secrets"
)

// Component is a row of the table. A row without objects, which has only tasks, is a step of an operation that deploys nothing.
//
// Package install deploys and destroys a component that has Definitions or Objects. Own names the parts of this work that install.Steps do
// instead, which package runtime or virtual registers under the name of the row.
type Component struct {
	// Name is the name of the row, which is unique, for other rows and for the documentation.
	Name string
	// Plane is the part of the Garden that the component belongs to. The etcds wait for all rows of the runtime plane that do not themselves
	// start after the etcds: see RuntimeDeployed.
	Plane Plane
	// Own are the parts of the work that install.Steps do.
	Own Own
	// Deploy is the task of a reconciliation. Its name is empty if the operator does not deploy the component.
	Deploy Task
	// Await is the task of a reconciliation that waits until the component is ready. Its name is empty if Deploy does that.
	Await Task
	// Destroy is the task of a deletion. Its name is empty if nothing has to be destroyed.
	Destroy Task
	// Unless returns why the Garden does not want the component, in one sentence, or "". A reconciliation then deletes Sets, Leftovers and
	// AccessSecrets, even if Own.Deploy is true; it skips the task of a row without all of them. Nil: every Garden wants the component.
	Unless func(values.Values) string
	// Definitions returns the CustomResourceDefinitions that the component consists of.
	Definitions func() ([]*unstructured.Unstructured, error)
	// Requests returns the requests for the Secrets that Objects needs. Nil: it needs none.
	Requests func(values.Values) Requests
	// Objects returns the objects of the component. It is pure.
	Objects func(values.Values, Secrets) (Objects, error)
	// Ignored returns the settings of the Garden that the component does not have, for the log. Nil: there are none.
	Ignored func(values.Values) []string
	// Sets are its ManagedResources, in the order in which they are deployed, and also destroyed.
	Sets []Set
	// Ready returns why a ManagedResource of Sets is not ready, or nil if it is ready. If Ready itself is nil, the task does not wait.
	Ready func(*resourcesv1alpha1.ManagedResource) error
	// Within is how long each of Sets may take to be ready. 0: as long as all ManagedResources may.
	Within time.Duration
	// Leftovers are objects that are destroyed after Sets. Objects with a namespace are in the namespace of the Garden.
	Leftovers []Object
	// AccessSecrets are the names of its Secrets with tokens for the virtual cluster, which are destroyed as Leftovers are. While the key for
	// tokens is replaced, the tokens are renewed after the component is deployed.
	AccessSecrets []string
	// Condition is the type of the condition of the Garden that Sets, Deployments and Etcds count for.
	Condition corev1beta1.ConditionType
	// Deployments and Etcds are the names of the Deployments and Etcds of the control plane without which the condition is not True.
	Deployments, Etcds []string
}

// Own are the parts of the work for a row that install.Steps do. An operation fails if Own and the registered Steps differ: package install
// must not replace a step that was forgotten.
type Own struct {
	Deploy, Await, Destroy bool
	// Objects is true if a step returns the objects, because they depend on the cluster.
	Objects bool
}

// Plane is a part of a Garden.
type Plane string

const (
	// Runtime is the plane of components that the runtime cluster needs.
	Runtime Plane = "runtime"
	// Virtual is the plane of components that run the virtual cluster, or are in it.
	Virtual Plane = "virtual"
)

// Task is a task of a flow.
type Task struct {
	// Name is the name that users see in descriptions, in the status and in errors.
	Name string
	// Does describes the task, for the documentation.
	Does string
	// After are the names of the rows, and the milestones, after which the task starts. A reconciliation waits for the tasks Deploy and Await
	// of these rows, a deletion for the task Destroy.
	After []string
}

// Milestones of a reconciliation, for Task.After.
const (
	// RuntimeDeployed is reached when all rows of the runtime plane are deployed. Rows that start after RuntimeDeployed, directly or through
	// other rows such as the etcds, do not count.
	RuntimeDeployed = "all tasks of the runtime plane"
	// TokensUsed is reached when all rows with AccessSecrets are deployed.
	TokensUsed = "all components with a token for the virtual cluster"
)

// Milestones of a deletion, for Task.After.
const (
	// VirtualUnused is reached when the objects in the virtual cluster may be destroyed.
	VirtualUnused = "the check for Seeds and Shoots"
	// VirtualSetsDestroyed is reached when the ManagedResources of all other rows in the virtual cluster are gone. If the user abandons the
	// virtual cluster, the destruction of its resource manager does not wait for that.
	VirtualSetsDestroyed = "all ManagedResources of the virtual cluster"
	// VirtualDestroyed is reached when the ManagedResources of VirtualSetsDestroyed and the resource manager of the virtual cluster are gone.
	VirtualDestroyed = "everything in the virtual cluster"
	// RuntimeSetsDestroyed is reached when the ManagedResources of the runtime plane are gone, except for rows whose task waits for this
	// milestone.
	RuntimeSetsDestroyed = "all other ManagedResources of the runtime plane"
)

const deployed = ", not awaited"

// Deployed returns the milestone that is reached when the task Deploy of a row has succeeded, even if it has a task Await.
func Deployed(name string) string { return name + deployed }

// Set is a ManagedResource.
type Set struct {
	Name string
	// Namespace is the namespace of the ManagedResource. Empty: the namespace of the Garden.
	Namespace string
	// Virtual is true if the objects of the ManagedResource are in the virtual cluster.
	Virtual bool
	// KeepsObjects is true if the objects stay when the ManagedResource is deleted.
	KeepsObjects bool
	// Optional is true if the condition of the row may be True although the ManagedResource does not exist.
	Optional bool
}

// Objects are the objects of a component.
type Objects struct {
	// Direct are deployed by the operator itself, before the ManagedResources. Leftovers or AccessSecrets of the row name them, too.
	Direct []client.Object
	// Sets are the objects of the ManagedResources, in the order of Component.Sets.
	Sets [][]client.Object
}

// Object identifies an object.
type Object struct {
	schema.GroupVersionKind
	Name string
	// Cluster is true for an object without a namespace.
	Cluster bool
}

// Requests are requests for Secrets.
type Requests struct {
	// Bundles are the names of certificate authorities whose bundles are needed.
	Bundles []string
	// Current are the logical names of Secrets that other tasks have generated.
	Current []string
	// Generated are the Secrets of the component itself.
	Generated []secrets.Request
}

// Secrets are the Secrets that were requested, by their logical names.
type Secrets struct {
	Bundles, Current, Generated map[string]*corev1.Secret
}
