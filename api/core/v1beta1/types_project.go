package v1beta1

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Project gives a team a namespace, roles in it and a quota.
//
// The schema contains every rule that depends on the object alone. Rules about fields that are set only once are at the root and not at the
// fields, so that they also apply when a request removes the whole spec or status. The validating webhook checks three more rules: no
// member and no toleration is listed twice, no other project has the same namespace, and the name of a member that is a ServiceAccount is a
// valid name of a ServiceAccount. The last rule is too expensive for the schema, because the schema does not limit the length of members'
// names. The schema accepts an empty apiGroup for Users and Groups, because the API server interprets it as rbac.authorization.k8s.io in
// roles. The defaulting webhook fills the apiGroup in before the API server validates the schema, so an empty one is stored only in
// clusters without the webhook.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:selectablefield:JSONPath=.spec.namespace
// +kubebuilder:printcolumn:name="Namespace",type=string,JSONPath=`.spec.namespace`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Owner",type=string,JSONPath=`.spec.owner.name`
// +kubebuilder:printcolumn:name="Creator",type=string,JSONPath=`.spec.createdBy.name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 10",message="metadata.name may not be more than 10 bytes"
// +kubebuilder:validation:XValidation:rule="!self.metadata.name.contains('--')",message="name may not contain two consecutive hyphens"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec) || !has(oldSelf.spec.createdBy) || (has(self.spec) && has(self.spec.createdBy) && self.spec.createdBy == oldSelf.spec.createdBy)",message="field is immutable",fieldPath=".spec.createdBy"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec) || !has(oldSelf.spec.__namespace__) || (has(self.spec) && has(self.spec.__namespace__) && self.spec.__namespace__ == oldSelf.spec.__namespace__)",message="field is immutable",fieldPath=".spec.namespace"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec) || !has(oldSelf.spec.owner) || (has(self.spec) && has(self.spec.owner))",message="owner cannot be reset",fieldPath=".spec.owner"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.phase) || oldSelf.status.phase.size() == 0 || (has(self.status) && has(self.status.phase) && self.status.phase.size() > 0)",message="phase cannot be updated to an empty string",fieldPath=".status.phase"
type Project struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state of the project.
	// +optional
	Spec ProjectSpec `json:"spec,omitempty"`
	// Status is the state that the project controller has observed.
	// +optional
	Status ProjectStatus `json:"status,omitempty"`
}

// ProjectList is a list of Projects.
//
// +kubebuilder:object:root=true
type ProjectList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the Projects.
	Items []Project `json:"items"`
}

// ProjectSpec is the desired state of a project.
type ProjectSpec struct {
	// CreatedBy is the user who created the project. The defaulting webhook sets it at creation. It cannot be changed.
	// +kubebuilder:validation:XValidation:rule="self.kind in ['Group', 'ServiceAccount', 'User']",message="supported values: \"Group\", \"ServiceAccount\", \"User\"",fieldPath=".kind"
	// +kubebuilder:validation:XValidation:rule="self.name.size() > 0",message="name must not be empty",reason=FieldValueRequired,fieldPath=".name"
	// +kubebuilder:validation:XValidation:rule="self.kind != 'ServiceAccount' || !has(self.apiGroup) || self.apiGroup.size() == 0",message="supported values: \"\"",fieldPath=".apiGroup"
	// +kubebuilder:validation:XValidation:rule="!(self.kind in ['Group', 'User']) || !has(self.apiGroup) || self.apiGroup.size() == 0 || self.apiGroup == 'rbac.authorization.k8s.io'",message="supported values: \"rbac.authorization.k8s.io\"",fieldPath=".apiGroup"
	// +kubebuilder:validation:XValidation:rule="self.kind != 'ServiceAccount' || (has(self.__namespace__) && self.__namespace__.size() > 0)",message="namespace must not be empty",reason=FieldValueRequired,fieldPath=".namespace"
	// +kubebuilder:validation:XValidation:rule="self.kind != 'ServiceAccount' || (self.name.size() <= 253 && self.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'))",message="must be a lower case RFC 1123 subdomain",fieldPath=".name"
	// +optional
	CreatedBy *rbacv1.Subject `json:"createdBy,omitempty"`
	// Description is a description of the project, for people.
	// +kubebuilder:validation:XValidation:rule="self.size() > 0",message="must provide a description when key is present",reason=FieldValueRequired
	// +optional
	Description *string `json:"description,omitempty"`
	// Owner is the subject with all permissions in the project. Default: the first member with the role owner, or else the user who creates
	// the project; the defaulting webhook sets it at creation. It can be changed, but not removed.
	// +kubebuilder:validation:XValidation:rule="self.kind in ['Group', 'ServiceAccount', 'User']",message="supported values: \"Group\", \"ServiceAccount\", \"User\"",fieldPath=".kind"
	// +kubebuilder:validation:XValidation:rule="self.name.size() > 0",message="name must not be empty",reason=FieldValueRequired,fieldPath=".name"
	// +kubebuilder:validation:XValidation:rule="self.kind != 'ServiceAccount' || !has(self.apiGroup) || self.apiGroup.size() == 0",message="supported values: \"\"",fieldPath=".apiGroup"
	// +kubebuilder:validation:XValidation:rule="!(self.kind in ['Group', 'User']) || !has(self.apiGroup) || self.apiGroup.size() == 0 || self.apiGroup == 'rbac.authorization.k8s.io'",message="supported values: \"rbac.authorization.k8s.io\"",fieldPath=".apiGroup"
	// +kubebuilder:validation:XValidation:rule="self.kind != 'ServiceAccount' || (has(self.__namespace__) && self.__namespace__.size() > 0)",message="namespace must not be empty",reason=FieldValueRequired,fieldPath=".namespace"
	// +kubebuilder:validation:XValidation:rule="self.kind != 'ServiceAccount' || (self.name.size() <= 253 && self.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'))",message="must be a lower case RFC 1123 subdomain",fieldPath=".name"
	// +optional
	Owner *rbacv1.Subject `json:"owner,omitempty"`
	// Purpose is the reason for the project, for people.
	// +kubebuilder:validation:XValidation:rule="self.size() > 0",message="must provide a purpose when key is present",reason=FieldValueRequired
	// +optional
	Purpose *string `json:"purpose,omitempty"`
	// Members are the subjects with roles in the project; at most 1000. A Group counts as one member.
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:XValidation:rule="self.filter(m, (has(m.role) && m.role == 'owner') || (has(m.roles) && 'owner' in m.roles)).size() <= 1",message="cannot have more than one member having the owner role",reason=FieldValueForbidden
	// +optional
	Members []ProjectMember `json:"members,omitempty"`
	// Namespace is the name of the project's namespace: garden, or a name that starts with garden-. If it is empty, the project controller
	// sets a generated name. It cannot be changed once it is set.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self != 'gardener-system-seed-lease'",message="Project namespace gardener-system-seed-lease is reserved by Gardener"
	// +kubebuilder:validation:XValidation:rule="self == 'garden' || self.startsWith('garden-')",message=".spec.namespace must start with garden-",reason=FieldValueForbidden
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be a lower case RFC 1123 label"
	// +optional
	Namespace *string `json:"namespace,omitempty"`
	// Tolerations are the tolerations for taints of seeds that the Shoots of the project get by default, and may have.
	// +optional
	Tolerations *ProjectTolerations `json:"tolerations,omitempty"`
}

// ProjectMember is a subject with its roles in a project: admin, owner, viewer, uam, serviceaccountmanager or
// extension:<name>.
//
// +kubebuilder:validation:XValidation:rule="self.kind in ['Group', 'ServiceAccount', 'User']",message="supported values: \"Group\", \"ServiceAccount\", \"User\"",fieldPath=".kind"
// +kubebuilder:validation:XValidation:rule="self.name.size() > 0",message="name must not be empty",reason=FieldValueRequired,fieldPath=".name"
// +kubebuilder:validation:XValidation:rule="self.kind != 'ServiceAccount' || !has(self.apiGroup) || self.apiGroup.size() == 0",message="supported values: \"\"",fieldPath=".apiGroup"
// +kubebuilder:validation:XValidation:rule="!(self.kind in ['Group', 'User']) || !has(self.apiGroup) || self.apiGroup.size() == 0 || self.apiGroup == 'rbac.authorization.k8s.io'",message="supported values: \"rbac.authorization.k8s.io\"",fieldPath=".apiGroup"
// +kubebuilder:validation:XValidation:rule="self.kind != 'ServiceAccount' || (has(self.__namespace__) && self.__namespace__.size() > 0)",message="namespace must not be empty",reason=FieldValueRequired,fieldPath=".namespace"
type ProjectMember struct {
	rbacv1.Subject `json:",inline"`
	// Role is the first role of the member. Empty or absent means that this field gives no role.
	// +kubebuilder:validation:MaxLength=30
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || self in ['admin', 'owner', 'serviceaccountmanager', 'uam', 'viewer'] || self.startsWith('extension:')",message="supported values: \"admin\", \"owner\", \"serviceaccountmanager\", \"uam\", \"viewer\", \"extension:*\""
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('extension:') || self.matches('^extension:[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",message="the name of an extension role must be a label value that is not empty"
	// +optional
	Role string `json:"role"`
	// Roles are further roles of the member; at most 32.
	// +kubebuilder:validation:MaxItems=32
	// +listType=set
	// +kubebuilder:validation:items:MaxLength=30
	// +kubebuilder:validation:items:XValidation:rule="self in ['admin', 'owner', 'serviceaccountmanager', 'uam', 'viewer'] || self.startsWith('extension:')",message="supported values: \"admin\", \"owner\", \"serviceaccountmanager\", \"uam\", \"viewer\", \"extension:*\""
	// +kubebuilder:validation:items:XValidation:rule="!self.startsWith('extension:') || self.matches('^extension:[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",message="the name of an extension role must be a label value that is not empty"
	// +optional
	Roles []string `json:"roles,omitempty"`
}

// ProjectTolerations are tolerations for taints of seeds.
//
// +kubebuilder:validation:XValidation:rule="!has(self.defaults) || self.defaults.all(d, has(self.whitelist) && self.whitelist.exists(w, w.key == d.key && (!has(w.value) || (has(d.value) && d.value == w.value))))",message="only the following tolerations are allowed: those of spec.tolerations.whitelist",reason=FieldValueForbidden,fieldPath=".defaults"
type ProjectTolerations struct {
	// Defaults are tolerations that every Shoot of the project gets. The whitelist must contain each of them.
	// +kubebuilder:validation:MaxItems=100
	// +optional
	Defaults []Toleration `json:"defaults,omitempty"`
	// Whitelist are the tolerations that Shoots of the project may have.
	// +kubebuilder:validation:MaxItems=100
	// +optional
	Whitelist []Toleration `json:"whitelist,omitempty"`
}

// Toleration tolerates the taint of a seed.
type Toleration struct {
	// Key is the key of the taint.
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.size() > 0",message="cannot be empty",reason=FieldValueRequired
	Key string `json:"key"`
	// Value is the value of the taint. Nil tolerates every value.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Value *string `json:"value,omitempty"`
}

// ProjectStatus is the state of a project that the project controller has observed.
type ProjectStatus struct {
	// ObservedGeneration is the generation of the project for which the controller determined the phase.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Phase is the progress of the project controller with the project: Pending, Ready, Failed or Terminating. Empty means that the controller
	// has not processed the project yet.
	// +optional
	Phase ProjectPhase `json:"phase,omitempty"`
	// StaleSinceTimestamp is the time at which the controller first found the project unused; nil if it is in use.
	// +optional
	StaleSinceTimestamp *metav1.Time `json:"staleSinceTimestamp,omitempty"`
	// StaleAutoDeleteTimestamp is the time at which the controller will delete the project, unless it is used before; nil if no deletion is
	// planned.
	// +optional
	StaleAutoDeleteTimestamp *metav1.Time `json:"staleAutoDeleteTimestamp,omitempty"`
	// LastActivityTimestamp is the time at which a client last created, changed or deleted an object in the project. Only objects count that
	// show that the project is in use, such as a Shoot.
	// +optional
	LastActivityTimestamp *metav1.Time `json:"lastActivityTimestamp,omitempty"`
}

// ProjectPhase shows how far the project controller has processed a project. It is empty before the controller has processed the project.
//
// +kubebuilder:validation:Enum="";Pending;Ready;Failed;Terminating
type ProjectPhase string

const (
	// ProjectPending means that the controller has begun to process the project, but has not created anything for it yet.
	ProjectPending ProjectPhase = "Pending"
	// ProjectReady means that the namespace, quota and roles of the project are as the spec describes them.
	ProjectReady ProjectPhase = "Ready"
	// ProjectFailed means that a step failed. An Event on the project has the error. The controller tries again.
	ProjectFailed ProjectPhase = "Failed"
	// ProjectTerminating means that the project is being deleted.
	ProjectTerminating ProjectPhase = "Terminating"
)
