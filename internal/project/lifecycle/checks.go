package lifecycle

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

const yes = "true"

// hashLength is the number of characters of the UID's hash in the name of a generated namespace.
const hashLength = 5

// namespaceName returns the name of the Project's namespace: the name in the spec, or a generated one. The generated name is always
// the same for the same Project, so that a namespace is found again if the controller stopped before it wrote the name into the
// spec.
func namespaceName(p *corev1beta1.Project) string {
	if name := ptr.Deref(p.Spec.Namespace, ""); name != "" {
		return name
	}
	sum := sha256.Sum256([]byte(p.UID))
	return corev1beta1.ProjectNamespacePrefix + p.Name + "-" + hex.EncodeToString(sum[:])[:hashLength]
}

// ownerOf is the owner reference of namespaces and quotas to their Project.
func ownerOf(p *corev1beta1.Project) metav1.OwnerReference {
	return *metav1.NewControllerRef(p, corev1beta1.SchemeGroupVersion.WithKind("Project"))
}

func projectLabels(p *corev1beta1.Project) map[string]string {
	return map[string]string{corev1beta1.LabelRole: corev1beta1.RoleProject, corev1beta1.LabelProjectName: p.Name}
}

// newNamespace is the namespace to create for a Project.
func newNamespace(p *corev1beta1.Project, name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: projectLabels(p),
		Annotations: map[string]string{
			corev1beta1.AnnotationNamespaceProject:             string(p.UID),
			corev1beta1.AnnotationNamespaceCreatedByController: yes,
		},
		OwnerReferences: []metav1.OwnerReference{ownerOf(p)},
	}}
}

// isSystem reports whether a namespace belongs to the Kubernetes system. Without this check, a user who may label such a namespace could
// make a Project adopt it, and then delete it with the Project.
func isSystem(namespace string) bool {
	return slices.Contains([]string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease},
		namespace)
}

// checkName returns why a Project cannot have a namespace of that name. Espalier's CRD rejects most such Projects; other API servers may
// check the name only when a Project is created.
func checkName(name string) error {
	if isSystem(name) {
		return fmt.Errorf("namespace %q is the system's and cannot belong to a project", name)
	}
	if name != corev1beta1.GardenNamespace && !strings.HasPrefix(name, corev1beta1.ProjectNamespacePrefix) {
		return fmt.Errorf("namespace %q cannot belong to a project: .spec.namespace must start with %s", name, corev1beta1.ProjectNamespacePrefix)
	}
	return nil
}

// check returns why an existing namespace cannot become the Project's. It must be labelled for this Project, and must not belong to another
// Project, for example an earlier one of the same name.
func check(p *corev1beta1.Project, namespace *metav1.ObjectMeta) error {
	if !labelled(p, namespace) {
		return fmt.Errorf("namespace cannot be used as it needs the project labels %#v", projectLabels(p))
	}
	uid, taken := namespace.Annotations[corev1beta1.AnnotationNamespaceProject]
	if taken && uid != string(p.UID) {
		return errors.New("namespace is already in-use by another project")
	}
	// A namespace that a Project got before the rules for names existed remains its namespace.
	if err := checkName(namespace.Name); err != nil && (!taken || isSystem(namespace.Name)) {
		return err
	}
	return checkController(p, namespace)
}

// checkController returns an error if an object has another controller than the Project: some API servers accept a second controller.
func checkController(p *corev1beta1.Project, meta *metav1.ObjectMeta) error {
	owner := metav1.GetControllerOfNoCopy(meta)
	if owner == nil || owner.UID == p.UID {
		return nil
	}
	return fmt.Errorf("%q is controlled by %s %q, and can have no other controller", meta.Name, owner.Kind, owner.Name)
}

func labelled(p *corev1beta1.Project, namespace *metav1.ObjectMeta) bool {
	return namespace.Labels[corev1beta1.LabelRole] == corev1beta1.RoleProject && namespace.Labels[corev1beta1.LabelProjectName] == p.Name
}

// adopt makes a namespace that passed check the namespace of the Project. If the annotation created-by-project-controller is missing,
// adopt sets the annotation keep-after-project-deletion to true, even if it is false. So such a namespace is kept when the Project is
// deleted.
func adopt(p *corev1beta1.Project, namespace *metav1.ObjectMeta) {
	metav1.SetMetaDataAnnotation(namespace, corev1beta1.AnnotationNamespaceProject, string(p.UID))
	if _, created := namespace.Annotations[corev1beta1.AnnotationNamespaceCreatedByController]; !created {
		metav1.SetMetaDataAnnotation(namespace, corev1beta1.AnnotationNamespaceKeep, yes)
	}
	if !owns(p, namespace) {
		namespace.OwnerReferences = append(namespace.OwnerReferences, ownerOf(p))
	}
}

func owns(p *corev1beta1.Project, namespace *metav1.ObjectMeta) bool {
	return slices.ContainsFunc(namespace.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == p.UID })
}

// release decides the future of a namespace whose Project is deleted.
type release int

const (
	// leave: the namespace is not the Project's, or no longer has its labels.
	leave release = iota
	// wait: the namespace is being deleted.
	wait
	// keep: the namespace stays, without the labels and annotations of its Project.
	keep
	// remove: the controller deletes the namespace.
	remove
	// gone: the namespace does not exist.
	gone
)

// decideRelease decides about the namespace of a Project that is being deleted. A namespace that the Project has not adopted is not
// changed, even if it has the labels.
func decideRelease(p *corev1beta1.Project, namespace *metav1.ObjectMeta) release {
	uid, annotated := namespace.Annotations[corev1beta1.AnnotationNamespaceProject]
	switch {
	case namespace.DeletionTimestamp != nil:
		return wait
	case isSystem(namespace.Name):
		return leave
	case !labelled(p, namespace), annotated && uid != string(p.UID), !annotated && !owns(p, namespace):
		return leave
	case isKept(namespace.Annotations):
		return keep
	}
	return remove
}

// isKept reports whether a namespace remains when its Project is deleted. The annotation keep-after-project-deletion decides. If it is
// missing or not a boolean, a namespace is kept if the controller did not create it.
func isKept(annotations map[string]string) bool {
	if kept, err := strconv.ParseBool(annotations[corev1beta1.AnnotationNamespaceKeep]); err == nil {
		return kept
	}
	created, err := strconv.ParseBool(annotations[corev1beta1.AnnotationNamespaceCreatedByController])
	return err != nil || !created
}

// endsWith reports whether the deletion of a Project can also delete or release a namespace, by the controller or by the garbage
// collector. Shoots in such a namespace block the deletion of the Project.
func endsWith(p *corev1beta1.Project, namespace *metav1.ObjectMeta) bool {
	return owns(p, namespace) || namespace.Annotations[corev1beta1.AnnotationNamespaceProject] == string(p.UID) ||
		decideRelease(p, namespace) != leave
}

// removeOwnership removes everything that adopt and newNamespace set.
func removeOwnership(p *corev1beta1.Project, namespace *metav1.ObjectMeta) {
	for _, each := range []string{
		corev1beta1.AnnotationNamespaceProject, corev1beta1.AnnotationNamespaceKeep, corev1beta1.AnnotationNamespaceCreatedByController,
	} {
		delete(namespace.Annotations, each)
	}
	delete(namespace.Labels, corev1beta1.LabelRole)
	delete(namespace.Labels, corev1beta1.LabelProjectName)
	own := ownerOf(p)
	namespace.OwnerReferences = slices.DeleteFunc(namespace.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.APIVersion == own.APIVersion && o.Kind == own.Kind && o.Name == own.Name && o.UID == own.UID
	})
}
