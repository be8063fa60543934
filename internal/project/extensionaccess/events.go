package extensionaccess

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/excerpt"
)

// maxNote is the maximum length of an Event's note in bytes; API servers reject longer ones.
const maxNote = 1024

// Reasons of the Events, all on ClusterRoles.
const (
	// ReasonInvalidSelector is a Warning Event about a ClusterRole: the annotation with the selector is missing or cannot be parsed; the
	// binding stays as it is.
	//
	// Remedy: write the annotation as a label selector in JSON.
	ReasonInvalidSelector = "InvalidServiceAccountSelector"
	// ReasonForeignBinding is a Warning Event about a ClusterRole: a binding with the name of the ClusterRole exists, but this controller did
	// not create it, and it binds another role.
	//
	// Remedy: rename or delete the binding.
	ReasonForeignBinding = "ForeignClusterRoleBinding"
	// ReasonBindingFailed is a Warning Event about a ClusterRole: a request to the API server failed, as the message says; the controller
	// retries it.
	ReasonBindingFailed = "ClusterRoleBindingFailed"
	// ReasonOverwritten is a Warning Event about a ClusterRole: another client created a binding with the name of the ClusterRole, and this
	// controller gave it the subjects that the role selects.
	//
	// Remedy: if you need the subjects that the message names, bind them under another name.
	ReasonOverwritten = "ClusterRoleBindingOverwritten"
	// ReasonUnbound is a Normal Event about a ClusterRole: it does not have the label any more, so its binding was removed.
	ReasonUnbound = "ClusterRoleBindingRemoved"
)

// failureReasons are the reasons why a ClusterRole is not bound as desired.
func failureReasons() []string {
	return []string{ReasonInvalidSelector, ReasonForeignBinding, ReasonBindingFailed}
}

// Events reports bindings of labelled ClusterRoles and failures. Events about cluster-scoped objects are in the namespace default.
type Events struct{ Recorder events.EventRecorder }

func referTo(name string, uid types.UID) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid},
	}
}

func (e *Events) failed(role *rbacv1.ClusterRole, now outcome) {
	e.Recorder.Eventf(role, nil, corev1.EventTypeWarning, now.reason, "Bind", "%s", now.note)
}

func (e *Events) overwrote(role *rbacv1.ClusterRole, before *rbacv1.ClusterRoleBinding) {
	subjects := make([]string, 0, len(before.Subjects))
	for _, each := range before.Subjects {
		name := each.Name
		if each.Namespace != "" {
			name = each.Namespace + "/" + name
		}
		subjects = append(subjects, each.Kind+" "+name)
	}
	note := fmt.Sprintf("Overwrote ClusterRoleBinding %q, which another client had created, with the ServiceAccounts of extensions; its "+
		"subjects were: %s", before.Name, strings.Join(subjects, ", "))
	e.Recorder.Eventf(role, nil, corev1.EventTypeWarning, ReasonOverwritten, "Bind", "%s", excerpt.Of(note, maxNote))
}

func (e *Events) unbound(role *rbacv1.ClusterRole) {
	e.Recorder.Eventf(role, nil, corev1.EventTypeNormal, ReasonUnbound, "Unbind",
		"Removed the ClusterRoleBinding, since the role does not have the label %s=%s any more", corev1beta1.LabelCustomExtensionsPermissions,
		labelled)
}
