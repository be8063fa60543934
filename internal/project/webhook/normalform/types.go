// Package normalform says what a Project looks like once its defaults are filled in and the roles of its members are folded.
// It only computes. Whatever reads or compares a Project under review reads it as these types, which hold what admission is
// about and nothing else.
package normalform

// Project is what admission reads of a Project.
type Project struct {
	Metadata Metadata `json:"metadata"`
	// Spec is nil if it is absent.
	Spec *Spec `json:"spec"`
}

// Metadata is what admission reads of a Project's metadata.
type Metadata struct {
	Name        string            `json:"name"`
	Annotations map[string]string `json:"annotations"`
	Finalizers  []string          `json:"finalizers"`
	// DeletionTimestamp is nil unless the Project is being deleted.
	DeletionTimestamp *string `json:"deletionTimestamp"`
}

// Spec is what admission reads of a Project's spec.
type Spec struct {
	CreatedBy *Subject `json:"createdBy"`
	Owner     *Subject `json:"owner"`
	// Members has nil for elements that are null, which the schema refuses.
	Members     []*Member    `json:"members"`
	Namespace   string       `json:"namespace"`
	Tolerations *Tolerations `json:"tolerations"`
}

// Subject is a user, a group or a ServiceAccount.
type Subject struct {
	APIGroup  string `json:"apiGroup,omitempty"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
}

// Member is a subject with its roles.
type Member struct {
	Subject

	Role  string   `json:"role"`
	Roles []string `json:"roles,omitempty"`
}

// Tolerations are those of a project's shoots.
type Tolerations struct {
	Defaults  []Toleration `json:"defaults,omitempty"`
	Whitelist []Toleration `json:"whitelist,omitempty"`
}

// Toleration tolerates a taint.
type Toleration struct {
	Key string `json:"key"`
	// Value is nil for every value.
	Value *string `json:"value,omitempty"`
}

// Kinds of subjects, and the API group of those that are no objects.
const (
	User           = "User"
	Group          = "Group"
	ServiceAccount = "ServiceAccount"
	RBACGroup      = "rbac.authorization.k8s.io"
)

// ServiceAccountPrefix starts the user names of ServiceAccounts, followed by namespace, colon and name.
const ServiceAccountPrefix = "system:serviceaccount:"
