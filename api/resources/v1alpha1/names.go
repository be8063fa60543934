package v1alpha1

import corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"

// A value is "truthy" if strconv.ParseBool reads it as true: 1, t, T, true, TRUE, True.

// Set by users on ManagedResources.
const (
	// DefaultClass is the class of ManagedResources whose spec.class is missing or empty, and of a controller that is
	// configured with none.
	DefaultClass = "resources"
	// AllClasses is only a value in the configuration of a controller, which then acts on the ManagedResources of every class. Missing: the
	// controller acts on the ManagedResources of its own class.
	AllClasses = "*"

	// GardenerOperation is an annotation that users and other controllers set on a ManagedResource to request a reconciliation, or to stop it.
	// Values: the Operation constants; others have no effect. Missing: the set is reconciled when something changes.
	GardenerOperation = "gardener.cloud/operation"
	// OperationReconcile requests one reconciliation. The controller removes the annotation when it starts.
	OperationReconcile = "reconcile"
	// OperationRestore requests a reconciliation. The annotation stays; the client that has set it removes it.
	OperationRestore = "restore"
	// OperationMigrate requests a reconciliation. The annotation stays; the client that has set it removes it.
	OperationMigrate = "migrate"
	// OperationWaitForState makes the controller skip the ManagedResource until the annotation is removed.
	OperationWaitForState = "wait-for-state"
)

// Set by users, on ManagedResources or in manifests.
const (
	// Ignore is an annotation that users set. On a ManagedResource, truthy: the controller does not reconcile the ManagedResource until it is
	// deleted. In a manifest, truthy: the object is created once and never updated afterwards; it is still deleted with its set. Missing or
	// another value: reconciled as usual.
	Ignore = "resources.gardener.cloud/ignore"
)

// Set by users in manifests, from where the controller copies them to the live objects.
const (
	// Mode is an annotation that users set in a manifest. Only value: ModeIgnore. Missing or another value: the object is
	// managed.
	Mode = "resources.gardener.cloud/mode"
	// ModeIgnore, as the value of Mode, releases the object: the controller neither applies nor deletes it, and removes it from the status.
	ModeIgnore = "Ignore"
	// KeepObject is an annotation that the controller reads on the live object. Truthy: the controller never deletes the object. Missing or
	// another value: the object is deleted with its ManagedResource, or when no Secret contains its manifest any more.
	KeepObject = "resources.gardener.cloud/keep-object"
	// DeleteOnInvalidUpdate is an annotation that the controller reads on the result of merging the manifest into the live object. Truthy: if
	// the API server rejects an update of the object as invalid, the controller deletes the object and creates it again, unless a dry run
	// shows that the API server would refuse the new object (see DeleteUntested). Missing or another value: the update fails until the
	// manifest is fixed; immutable ConfigMaps and Secrets are replaced in any case.
	DeleteOnInvalidUpdate = "resources.gardener.cloud/delete-on-invalid-update"
	// DeletionPropagationOnInvalidUpdate is an annotation that users set beside DeleteOnInvalidUpdate. Values: Background,
	// Foreground, Orphan; others are an error. Missing: the API server's default for the kind.
	DeletionPropagationOnInvalidUpdate = "resources.gardener.cloud/deletion-propagation-on-invalid-update"
	// PreserveReplicas is an annotation that the controller reads in the manifest. Exactly "true": the live number of replicas of a workload
	// is kept. Missing or another value: the controller writes the number in the manifest, unless an autoscaler sets it.
	PreserveReplicas = "resources.gardener.cloud/preserve-replicas"
	// PreserveResources is an annotation that the controller reads in the manifest. Exactly "true": the live CPU and memory requests and
	// limits of a workload's containers are kept. Missing or another value: the controller writes the values in the manifest.
	PreserveResources = "resources.gardener.cloud/preserve-resources"
	// FinalizeDeletionAfter is an annotation that the controller reads on the live object. Value: a Go duration such as "1h"; when this time
	// has passed since the request to delete the object, the controller removes its finalizers. Missing or zero: the controller waits until
	// they are removed. A value that is no duration is reported while the object is being deleted.
	FinalizeDeletionAfter = "resources.gardener.cloud/finalize-deletion-after"
	// SkipHealthCheck is an annotation that the controller reads on the live object. Exactly "true": the object counts as healthy and rolled
	// out. Missing or another value: it is checked.
	SkipHealthCheck = "resources.gardener.cloud/skip-health-check"
)

// Set by the ManagedResource controller on the objects it manages.
const (
	// OriginAnnotation names the ManagedResource that the object belongs to. Value: see Origin. Missing: the object belongs to no
	// ManagedResource, or its manifest has Ignore. The controller removes the annotation when it releases an object.
	OriginAnnotation = "resources.gardener.cloud/origin"
	// DescriptionAnnotation is a note for people that the controller reverts changes. Value: DescriptionText. Missing: the controller adds it.
	DescriptionAnnotation = "resources.gardener.cloud/description"
	// DescriptionText is the value of DescriptionAnnotation. A client that compares it byte by byte sees the same text as from Gardener's
	// resource manager, so that Espalier need not change objects that it takes over.
	DescriptionText = "DO NOT EDIT - This resource is managed by gardener-resource-manager.\n" +
		"Any modifications are discarded and the resource is returned to the original state."
	// ManagedBy is a label by which managed objects are selected. Value: as configured, GardenerManagedBy by default.
	// Missing: the controller adds it, except to objects whose manifest has Ignore.
	ManagedBy = "resources.gardener.cloud/managed-by"
	// GardenerManagedBy is the default value of ManagedBy.
	GardenerManagedBy = "gardener"
)

// Set by the ManagedResource controller on ManagedResources.
const (
	// FinalizerName is the finalizer of the default class, and the prefix of the finalizers of all other classes. Missing on a
	// ManagedResource: no controller has begun to apply it. See FinalizerFor.
	FinalizerName = "resources.gardener.cloud/gardener-resource-manager"
	// ClusterIDs is an annotation on a ManagedResource. Value: the cluster IDs under which its objects may have been written, separated by
	// ":"; an empty ID stands for origins without an ID. Missing: the objects were written without an ID, or by an earlier version or another
	// controller. Then an object whose origin has an ID other than the ID of the controller is not deleted. Gardener's own resource manager
	// does not know it.
	ClusterIDs = "espalier.dev/cluster-ids"
)

// Set by programs that create ConfigMaps and Secrets with unique names, for the garbage collector; see api/references.
const (
	// GarbageCollectableReference is a label on ConfigMaps and Secrets. Exactly "true": the garbage collector deletes them
	// when nothing refers to them, and, while it is enabled, the ManagedResource controller does not (there every truthy value
	// counts). Missing: they are never collected.
	GarbageCollectableReference = "resources.gardener.cloud/garbage-collectable-reference"
	// ReferencePrefix starts the keys of annotations on workloads and ManagedResources, "<prefix><kind>-<hash>". Value: the name of a
	// ConfigMap or Secret in the same namespace, which the object uses. Missing: the garbage collector does not see the reference. The
	// ManagedResource controller removes these annotations from live objects, unless they are in the manifest.
	ReferencePrefix = "reference.resources.gardener.cloud/"
)

// Set by users of Espalier on ManagedResources. Gardener's own resource manager does not know them.
const (
	// Plan, truthy: the controller computes the changes that it would make in the target, publishes them in a ConfigMap that the
	// ManagedResource owns, and changes nothing in the target. Any value that is neither true nor false counts as true, with a Warning Event.
	// Missing or false: the controller makes the changes.
	Plan = "espalier.dev/plan"
	// PlanValues, truthy: the published plan shows values of objects other than Secrets to every user who may read ConfigMaps in the namespace
	// of the ManagedResource. Missing, false or malformed: the plan shows only the paths of fields.
	PlanValues = "espalier.dev/plan-values"
	// Kstatus, "true" or "false", says whether the health of objects of kinds without a health rule depends on their status conditions and
	// observed generation. Missing or malformed: the configuration of the controller decides.
	Kstatus = "espalier.dev/kstatus"
	// ServiceAccount is the name of a ServiceAccount in the namespace of the ManagedResource. The controller reads and writes the Secrets and
	// the objects of the ManagedResource with the rights of this ServiceAccount. Not a name, or the controller has no setting
	// espalier.managedResource.serviceAccounts: the ManagedResource is not applied. Missing: the setting decides.
	ServiceAccount = "espalier.dev/service-account"
)

// Set by users of Espalier on ManagedResources to change how they are applied. Gardener's own resource manager does not know them.
const (
	// Approved names the only content that the controller applies. Value: the checksum of the sources, which the plan shows. With any other
	// value, also an empty one, the controller publishes the plan and keeps the objects of the content that was applied before. Missing: all
	// content is applied.
	Approved = "espalier.dev/approved"
	// IgnoreFields lists fields of the objects of the ManagedResource that stay as other programs set them, as KeepFields does for one object.
	// Value: a list, in YAML or JSON, of {pointers, target: {kind, name, namespace}}; the pointers are JSON pointers (RFC 6901), kind is Kind
	// or Kind.group, name and namespace are patterns in which * stands for any text. Malformed: the ManagedResource is not applied. Missing:
	// no field stays.
	IgnoreFields = "espalier.dev/ignore-fields"
	// DependsOn names at most 32 ManagedResources, as `name` or `namespace/name`, separated by commas. A ManagedResource that is applied with
	// the rights of a ServiceAccount may only name ManagedResources of its namespace. The controller applies a change of this
	// ManagedResource when they are applied and healthy, and deletes them after this one if all are deleted at the same time. Malformed: the
	// ManagedResource is not applied. Missing: it waits for no other one. It is not read from manifests.
	DependsOn = "espalier.dev/depends-on"
	// Drift, exactly DriftReport: the controller reports changes by other clients in an Event, a metric and the condition ResourcesApplied,
	// and does not revert them. Missing, or with another value: it reverts them.
	Drift = "espalier.dev/drift"
	// DriftReport is the value of Drift.
	DriftReport = "report"
	// ConfirmDeletion confirms deletions that the controller suspends because of espalier.managedResource.deletionLimit. Value: the digest
	// that the condition and the plan show. It depends on the sources, the operation, and the objects that leave the ManagedResource, so that
	// it confirms exactly this deletion. The controller removes the annotation after the deletion. Missing, or with another value: nothing is
	// confirmed.
	ConfirmDeletion = "espalier.dev/confirm-deletion"
)

// Set by users of Espalier in manifests. Gardener's own resource manager does not know them.
const (
	// KeepFields is an annotation that the controller reads in the manifest. Value: paths of fields, separated by commas or line ends, such as
	// "spec.paused, spec.items[name=a].size, data['a.b']". These fields of the live object stay as other programs set them, also if they are
	// missing; the manifest's values are used when the object is created. Malformed: the object is not applied. Missing: no field stays.
	KeepFields = "espalier.dev/keep-fields"
	// DeleteUntested, truthy: the controller deletes the live object that the manifest replaces, and objects that left the ManagedResource and
	// resemble the object of the manifest, even if no dry run has shown that the API server accepts the object of the manifest. Missing, false
	// or malformed: these objects stay until a dry run succeeds.
	DeleteUntested = "espalier.dev/delete-untested"
)

// Set by cluster administrators on Namespaces.
const (
	// SetsAllowedLabel is the label, with the value SetsAllowed, by which the shipped configuration of managedresource-controller selects
	// namespaces (espalier.managedResource.namespaces.setSelector). Missing, or with another value: the controller does not apply
	// ManagedResources of the Namespace.
	SetsAllowedLabel = "espalier.dev/managedresources"
	// SetsAllowed is the value of SetsAllowedLabel.
	SetsAllowed = "allowed"
)

// Set by the ManagedResource controller where it publishes a plan.
const (
	// PlanOf is a label on the ConfigMap that holds a plan. Value: the name of the ManagedResource, shortened by a digest if
	// it has more than 63 characters. Missing: the ConfigMap belongs to another client, and is not changed.
	PlanOf = "espalier.dev/plan-of"
	// Planned is an annotation on a ManagedResource. Value: the name of the ConfigMap that holds its plan. Missing: there is no plan to delete
	// when the ManagedResource is applied.
	Planned = "espalier.dev/planned"
)

// Condition types in the status of ManagedResources. Missing: not judged yet.
const (
	// ResourcesApplied is True if all objects are applied. The ManagedResource controller sets it.
	ResourcesApplied corev1beta1.ConditionType = "ResourcesApplied"
	// ResourcesHealthy is True if all objects are present and healthy. The health controller sets it. The ManagedResource
	// controller resets it when the set changes, is ignored or is deleted.
	ResourcesHealthy corev1beta1.ConditionType = "ResourcesHealthy"
	// ResourcesProgressing is False if all objects are rolled out. The progress controller sets it. The ManagedResource
	// controller resets it when the set changes, is ignored or is deleted.
	ResourcesProgressing corev1beta1.ConditionType = "ResourcesProgressing"
)

// Reasons that the ManagedResource controller sets.
const (
	// ConditionApplyProgressing goes with ResourcesApplied=Progressing: the set has changed and is being applied. The condition does not show
	// a change that leaves the objects of the set, and their labels and annotations, unchanged in `resources` of the status;
	// `secretsDataChecksum` in the status shows when such a change has been applied.
	//
	// Remedy: wait some seconds.
	ConditionApplyProgressing = "ApplyProgressing"
	// ConditionApplySucceeded goes with ResourcesApplied=True: all objects are as the Secrets declare them. If the message
	// continues after `All resources are applied.`, it names objects that exist and the fields that they keep although the
	// manifest has another value.
	//
	// Remedy: remove these fields from the manifests, or delete the objects, so that they are created again.
	ConditionApplySucceeded = "ApplySucceeded"
	// ConditionApplyFailed goes with ResourcesApplied=False: some objects could not be written, and all others were; or the set is refused as
	// a whole because of its namespace, its ServiceAccount or an annotation, and nothing was written. The message lists up to 20 of these
	// objects, each with the position of its document, and how many more there are, and then the documents that could not be read; or it says
	// why the set is refused. The controller retries after a minute at the latest.
	//
	// Remedy: correct these documents, or grant the missing permission. With the code `ESPALIER_OBJECTS_CLAIMED`, the objects belong to other
	// sets.
	ConditionApplyFailed = "ApplyFailed"
	// ConditionDecodingFailed goes with ResourcesApplied=False: some documents could not be read; everything else is
	// applied. Nothing is deleted from the target until all can be read again; managed objects stay managed.
	//
	// Remedy: correct the documents that the message names.
	ConditionDecodingFailed = "DecodingFailed"
	// ConditionCannotReadSecret goes with ResourcesApplied=False: a Secret is missing or may not be read. Nothing was
	// applied and nothing deleted; drift is not repaired.
	//
	// Remedy: create the Secret, or correct `secretRefs`. The controller continues as soon as the Secret exists.
	ConditionCannotReadSecret = "CannotReadSecret"
	// ConditionDeletionPending goes with ResourcesApplied=Progressing, ResourcesHealthy=False, ResourcesProgressing=True: objects that left
	// the set, or all objects of a deleted set, still exist. New objects of the set are not written before these deletions are complete. The
	// message lists the remaining objects and, if the deletion of a Service takes more than 10 s, its latest warnings. Conditions of health
	// and progress have this reason only while the set itself is deleted.
	//
	// Remedy: find the cause, which is usually a finalizer. The annotation `finalize-deletion-after` limits the
	// wait.
	ConditionDeletionPending = "DeletionPending"
	// ConditionPruningSuspended goes with ResourcesApplied=False: the sources no longer contain so many objects, or objects of such kinds,
	// that the controller does not delete them without a confirmation (setting `espalier.managedResource.deletionLimit`). These objects stay,
	// and everything else is applied. It is also set on a ManagedResource whose deletion or change of class would delete too much.
	//
	// Remedy: restore the objects in the sources, or set the annotation `espalier.dev/confirm-deletion` as the message says.
	ConditionPruningSuspended = "PruningSuspended"
	// ConditionDependenciesPending goes with ResourcesApplied=Progressing: the set has changed and is not applied yet, because a set that its
	// annotation `espalier.dev/depends-on` names does not exist, is not applied and healthy, or depends on this set. The content that
	// was applied before is kept.
	//
	// Remedy: correct the other set, or the annotation.
	ConditionDependenciesPending = "DependenciesPending"
	// ConditionDeletionFailed goes with ResourcesApplied=False: never set by Espalier, which reports a failed deletion as `DeletionPending`,
	// with the error in the message. Espalier keeps it if it is present.
	ConditionDeletionFailed = "DeletionFailed"
	// ReleaseOfOrphanedResourcesFailed goes with ResourcesApplied=False: objects with `mode: Ignore` could not be released.
	//
	// Remedy: see the message; the usual cause is a missing permission.
	ReleaseOfOrphanedResourcesFailed = "ReleaseOfOrphanedResourcesFailed"
	// ConditionManagedResourceIgnored goes with ResourcesApplied=True, ResourcesHealthy=True, ResourcesProgressing=False:
	// the set has the annotation `ignore`.
	ConditionManagedResourceIgnored = "ManagedResourceIgnored"
	// ConditionHealthChecksPending goes with ResourcesHealthy=Unknown, ResourcesProgressing=Unknown: the set has changed
	// since its last check, and the watches do not show all of its objects yet.
	ConditionHealthChecksPending = "ChecksPending"
)

// Reasons that the health controller sets.
const (
	// ConditionResourcesHealthy goes with ResourcesHealthy=True: every object exists and is healthy.
	ConditionResourcesHealthy = "ResourcesHealthy"
	// ConditionHealthCheckError goes with ResourcesHealthy=False: the health of an object cannot be determined, since the object does not have
	// the structure of its kind, or since the ServiceAccount with whose rights the set is applied may not read the object.
	ConditionHealthCheckError = "HealthCheckError"
	// SuffixMissing after the kind of an object goes with ResourcesHealthy=False: an object does not exist. Drift repair
	// creates it again, so this usually lasts for some milliseconds.
	SuffixMissing = "Missing"
	// SuffixUnhealthy after the kind of an object goes with ResourcesHealthy=False: an object is not healthy; the message
	// says why. For a Service without its load balancer, the latest warnings follow.
	SuffixUnhealthy = "Unhealthy"
)

// Reasons that the progress controller sets.
const (
	// ConditionResourcesRolledOut goes with ResourcesProgressing=False: every Deployment, StatefulSet and DaemonSet is
	// rolled out.
	ConditionResourcesRolledOut = "ResourcesRolledOut"
	// SuffixProgressing after the kind of an object goes with ResourcesProgressing=True: an object is not rolled out yet;
	// the message says why.
	SuffixProgressing = "Progressing"
)

// Messages that never vary, each with the condition and the reason it goes with.
const (
	// MessageApplyProgressing goes with ResourcesApplied, ApplyProgressing.
	MessageApplyProgressing = "The resources are currently being reconciled."
	// MessageApplySucceeded goes with ResourcesApplied, ApplySucceeded.
	MessageApplySucceeded = "All resources are applied."
	// MessageDeletionPending goes with all three types, DeletionPending.
	MessageDeletionPending = "The resources are currently being deleted."
	// MessageManagedResourceIgnored goes with all three types, ManagedResourceIgnored.
	MessageManagedResourceIgnored = "ManagedResource is marked to be ignored."
	// MessageHealthChecksPending goes with ResourcesHealthy, ChecksPending.
	MessageHealthChecksPending = "The health checks have not yet been executed for the current set of resources."
	// MessageProgressingChecksPending goes with ResourcesProgressing, ChecksPending.
	MessageProgressingChecksPending = "Checks have not yet been executed for the current set of resources."
	// MessageResourcesHealthy goes with ResourcesHealthy, ResourcesHealthy.
	MessageResourcesHealthy = "All resources are healthy."
	// MessageResourcesRolledOut goes with ResourcesProgressing, ResourcesRolledOut.
	MessageResourcesRolledOut = "All resources have been fully rolled out."
)

// FinalizerFor returns the finalizer that a controller of the given class sets on its ManagedResources: FinalizerName for
// the default class, an empty class and AllClasses, and FinalizerName followed by "-" and the class for every other one.
func FinalizerFor(class string) string {
	switch class {
	case "", DefaultClass, AllClasses:
		return FinalizerName
	default:
		return FinalizerName + "-" + class
	}
}
