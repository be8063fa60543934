// Package component defines Component, the type of a row. A row contains everything that the rest of the operator knows about a component
// of a Garden: its tasks and their dependencies, its ManagedResources, and the condition of the Garden that they count for. Package
// components contains the table of all rows. Each component has a package of its own with its objects and its row.
package component

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/secrets"
)

// Component is a row of the table. A row that has only tasks, and no objects, is a step of an operation that deploys nothing.
//
// Package install deploys and destroys a component that has Definitions or Objects. Own names the parts of this work that install.Steps do
// instead of package install. Package runtime or virtual registers these Steps under the name of the row.
type Component struct {
	// Name is the name of the row, which is unique, for other rows and for the documentation.
	Name string
	// Plane is the part of the Garden that the component belongs to. The etcds start after all rows of the runtime plane, except for rows
	// that start after RuntimeDeployed, directly or through other rows.
	Plane Plane
	// Own are the parts of the work that install.Steps do.
	Own Own
	// Deploy is the task of a reconciliation. Its name is empty if the operator does not deploy the component.
	Deploy Task
	// Await is the task of a reconciliation that waits until the component is ready. Its name is empty if Deploy does that.
	Await Task
	// Destroy is the task of a deletion. Its name is empty if nothing has to be destroyed.
	Destroy Task
	// Unless returns why the Garden does not want the component, in one sentence, or "". Nil: every Garden wants the component. Callers call
	// Unwanted, which calls Unless. A reconciliation deletes Sets, Leftovers and AccessSecrets of an unwanted component, even if Own.Deploy
	// is true. If the row has none of these three, the reconciliation skips the task of the row.
	Unless func(values.Values) string
	// Skippable is true if the configuration of the operator may skip the component: see SkipComponents of values.Operator.
	Skippable bool
	// Requires are the names of all skippable rows that the component needs. If the configuration skips one of them, it skips the component,
	// too.
	Requires []string
	// OnlyFor is the name of the only component of the operator that needs the Definitions. If the configuration skips the component OnlyFor,
	// the operator does not deploy the Definitions, unless one of Users exists.
	OnlyFor string
	// Users are objects that need the component. If the component is skipped, it stays while one of them exists.
	Users []Object
	// Stays says, in one sentence, why the component still exists while Unless returns a reason. Empty: only Users keep it.
	Stays string
	// Definitions returns the CustomResourceDefinitions that the component consists of.
	Definitions func() ([]*unstructured.Unstructured, error)
	// Credentials are the Secrets of the component itself. Package install generates every Secret with a Request, for Objects.
	Credentials []Credential
	// Needs names the Secrets of other rows that Objects needs.
	Needs Needs
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
	// AccessSecrets are the names of the Secrets of the component with tokens for the virtual cluster. The operator destroys them together
	// with Leftovers. While a new key for tokens of ServiceAccounts is being prepared, a step renews all these tokens after the components
	// with AccessSecrets are deployed.
	AccessSecrets []string
	// KeyUsers are the Deployments and ManagedResources of the component that name Secrets with keys and certificate authorities, and not
	// only the bundles of authorities. If one of them names a key that does not exist, this key was lost.
	KeyUsers []Object
	// Condition is the type of the condition of the Garden that Sets, Deployments, Etcds and Workloads count for.
	Condition corev1beta1.ConditionType
	// Deployments and Etcds are the names of the Deployments and Etcds of the control plane without which the condition is not True.
	Deployments, Etcds []string
	// Volumes is true if Pods of the component do not start without volumes of the default StorageClass.
	Volumes bool
	// Workloads returns further objects: the condition is True only if they are healthy, too. The resource manager does not judge them. They
	// are the Deployments, StatefulSets and DaemonSets that operators of other projects make of the custom resources of Sets, and custom
	// resources into whose status such an operator writes its errors. All are in the namespace of the Garden. Nil: there are none.
	Workloads func(values.Values) []Object
}

// Workload returns a Deployment, StatefulSet or DaemonSet, for Workloads.
func Workload(kind, name string) Object {
	return Object{GroupVersionKind: appsv1.SchemeGroupVersion.WithKind(kind), Name: name}
}

// OneWorkload is a value for Workloads: one Deployment, StatefulSet or DaemonSet, whatever the values are.
func OneWorkload(kind, name string) func(values.Values) []Object {
	return func(values.Values) []Object { return []Object{Workload(kind, name)} }
}

// Unwanted returns why the operator does not deploy the component for a Garden, in one sentence, or "".
func (c Component) Unwanted(v values.Values) string {
	if slices.Contains(v.SkipComponents, c.Name) {
		return "The configuration of the operator skips " + c.Name + "."
	}
	for _, each := range c.Requires {
		if slices.Contains(v.SkipComponents, each) {
			return "The configuration of the operator skips " + each + ", which " + c.Name + " needs."
		}
	}
	if c.Unless != nil {
		if reason := c.Unless(v); reason != "" {
			return reason
		}
	}
	if c.OnlyForSkipped(v) {
		return "The configuration of the operator skips " + c.OnlyFor + ", and no other component needs " + c.Name + "."
	}
	return ""
}

// OnlyForSkipped reports whether only Users can need the component, because the configuration skips the component that it is for.
func (c Component) OnlyForSkipped(v values.Values) bool {
	return c.OnlyFor != "" && slices.Contains(v.SkipComponents, c.OnlyFor) && (c.Unless == nil || c.Unless(v) == "")
}

// Own are the parts of the work for a row that install.Steps do. An operation fails if Own and the registered Steps differ: if a step is
// missing by mistake, package install must not do its default work instead.
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
	// VirtualSetsDestroyed is reached when the ManagedResources in the virtual cluster are gone, except for the ManagedResource of its
	// resource manager. If the user abandons the virtual cluster, the destruction of this resource manager does not wait for them.
	VirtualSetsDestroyed = "all ManagedResources of the virtual cluster"
	// VirtualDestroyed is reached when the ManagedResources of VirtualSetsDestroyed and the resource manager of the virtual cluster are gone.
	VirtualDestroyed = "everything in the virtual cluster"
	// RuntimeSetsDestroyed is reached when the ManagedResources of the runtime plane are gone, except for the ManagedResources of rows whose
	// task Destroy waits for this milestone.
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

// Gardenlet returns the Deployment of gardenlet, for Users: it makes the runtime cluster a Seed.
func Gardenlet() Object {
	return Workload("Deployment", "gardenlet")
}

// Credential is a Secret with a credential, by default one that the manager of secrets generates.
type Credential struct {
	// Name is the logical name of the Secret.
	Name string
	// Secret is the name of a Secret that another program generates, or a pattern of path.Match for such names. Empty: the manager of secrets
	// generates the Secret.
	Secret string
	// Purpose is the use of the credential, and Users are the programs that use it, for the documentation.
	Purpose, Users string
	// Lifetime is the time for which the credential is valid, Renewal describes its renewal, and Test is the name of a test of the renewal,
	// for the documentation. Empty: they follow from Request and Rotation.
	Lifetime, Renewal, Test string
	// Request returns the request for the Secret. Nil: the request depends on the cluster, and a step makes it.
	Request func(values.Values) secrets.Request
	// Rotation is the credential of the Garden whose rotation renews the Secret. Empty: the operator renews the Secret before it expires, and
	// when its certificate authority is replaced.
	Rotation rotation.Credential
	// Irreplaceable is true for a key or a certificate authority that only a rotation replaces, and that outlives the Garden.
	Irreplaceable bool
	// Early is true if the operator generates the Secret while the etcds start, because it can take some seconds to generate the private key.
	// The task that deploys the component requests the Secret again.
	Early bool
	// Temporary is true if only some reconciliations generate the Secret. The others delete it.
	Temporary bool
	// Restored says how a restored Garden gets the Secret. Every row says it.
	Restored Restored
}

// Restored says how a restored Garden gets a Secret.
type Restored string

const (
	// FromBackup means that backups of a Garden contain the Secret, because its content cannot be found anywhere else: a key, a certificate
	// authority, a password, or a credential of a former generation.
	FromBackup Restored = "from the backup"
	// GeneratedAgain means that backups do not contain the Secret. The operator, or the other program that generates the Secret, generates it
	// again. The users of the Secret accept the new content: a certificate of an authority in the backup, or a token that a key in the backup
	// signs.
	GeneratedAgain Restored = "generated again"
)

// WebhookCertificate returns the row of a certificate that a server of webhooks issues itself, with its own authority.
func WebhookCertificate(secret, purpose string) Credential {
	return Credential{
		Name: secret, Secret: secret, Purpose: purpose, Users: secret + ", API servers", Lifetime: "90 days, its authority 365 days",
		Renewal: "by its server", Test: "TestCertificatesAreRenewedWhileConfigurationsCannotBeReached", Restored: GeneratedAgain,
	}
}

// Token returns the row of a token for the virtual cluster that the resource manager of that cluster requests.
func Token(secret, user, lifetime string) Credential {
	return Credential{
		Name: secret, Secret: secret, Purpose: "authenticates in the virtual cluster", Users: user, Lifetime: lifetime,
		Renewal: "by token-controllers; all with a new `service-account-key`", Test: "TestNewKeyForTokensIsPreparedWhenAllTokensAreRenewed",
		Restored: GeneratedAgain,
	}
}

// CertificateLifetime is the Lifetime of certificates without a validity of their own.
const CertificateLifetime = "10 years"

// Needs names Secrets that other tasks have generated.
type Needs struct {
	// Bundles are the names of certificate authorities whose bundles are needed.
	Bundles []string
	// Current are the logical names of Secrets.
	Current []string
}

// Secrets are the Secrets of Credentials and Needs, by their logical names.
type Secrets struct {
	Bundles, Current, Generated map[string]*corev1.Secret
}
