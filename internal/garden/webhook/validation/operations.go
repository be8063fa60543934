package validation

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// supportedOperations are the operations that a Garden may ask for, sorted.
var supportedOperations = []operatorv1alpha1.Operation{
	operatorv1alpha1.OperationReconcile,
	operatorv1alpha1.OperationRotateCAComplete,
	operatorv1alpha1.OperationRotateCAStart,
	operatorv1alpha1.OperationRotateCredentialsComplete,
	operatorv1alpha1.OperationRotateCredentialsStart,
	operatorv1alpha1.OperationRotateETCDEncryptionKey,
	operatorv1alpha1.OperationRotateETCDEncryptionKeyComplete,
	operatorv1alpha1.OperationRotateETCDEncryptionKeyStart,
	operatorv1alpha1.OperationRotateObservabilityCredentials,
	operatorv1alpha1.OperationRotateServiceAccountKeyComplete,
	operatorv1alpha1.OperationRotateServiceAccountKeyStart,
	operatorv1alpha1.OperationRotateWorkloadIdentityKeyComplete,
	operatorv1alpha1.OperationRotateWorkloadIdentityKeyStart,
}

// etcdKeyInOneStepFrom is the minor version of Kubernetes from which on the key for etcd is rotated in one step only.
const etcdKeyInOneStepFrom = 34

// step is the start or the completion of a rotation.
type step string

const (
	start    step = "start"
	complete step = "complete"
)

// credential is a credential that is rotated in two steps: its name in messages, the field of its state, and its phase.
type credential struct {
	name  string
	field string
	phase func(*operatorv1alpha1.CredentialsRotation) operatorv1alpha1.RotationPhase
}

var (
	certificateAuthorities = credential{
		name: "CA rotation", field: "certificateAuthorities",
		phase: func(r *operatorv1alpha1.CredentialsRotation) operatorv1alpha1.RotationPhase {
			return phaseOf(r.CertificateAuthorities)
		},
	}
	serviceAccountKey = credential{
		name: "service account key rotation", field: "serviceAccountKey",
		phase: func(r *operatorv1alpha1.CredentialsRotation) operatorv1alpha1.RotationPhase {
			return phaseOf(r.ServiceAccountKey)
		},
	}
	etcdEncryptionKey = credential{name: "ETCD encryption key rotation", field: "etcdEncryptionKey", phase: etcdKeyPhase}

	workloadIdentityKey = credential{
		name: "workload identity key rotation", field: "workloadIdentityKey",
		phase: func(r *operatorv1alpha1.CredentialsRotation) operatorv1alpha1.RotationPhase {
			return phaseOf(r.WorkloadIdentityKey)
		},
	}
)

func phaseOf(r *operatorv1alpha1.Rotation) operatorv1alpha1.RotationPhase {
	if r == nil {
		return ""
	}
	return r.Phase
}

func etcdKeyPhase(r *operatorv1alpha1.CredentialsRotation) operatorv1alpha1.RotationPhase {
	if r.ETCDEncryptionKey == nil {
		return ""
	}
	return r.ETCDEncryptionKey.Phase
}

// Operations returns what is wrong with the operations in the annotation gardener.cloud/operation: unknown ones, and rotations that the
// phases in the status, the version of Kubernetes or the deletion of the Garden do not allow.
func Operations(g *operatorv1alpha1.Garden) field.ErrorList {
	path := field.NewPath("metadata", "annotations").Key(resourcesv1alpha1.GardenerOperation)
	var asked []operatorv1alpha1.Operation
	for text := range strings.SplitSeq(g.Annotations[resourcesv1alpha1.GardenerOperation], operatorv1alpha1.OperationSeparator) {
		if text = strings.TrimSpace(text); text != "" {
			asked = append(asked, operatorv1alpha1.Operation(text))
		}
	}

	var found field.ErrorList
	for _, operation := range asked {
		if !slices.Contains(supportedOperations, operation) {
			found = append(found, field.NotSupported(path, operation, supportedOperations))
			continue
		}
		for _, reason := range denials(operation, g) {
			found = append(found, field.Forbidden(path, reason))
		}
	}
	if slices.Contains(asked, operatorv1alpha1.OperationRotateETCDEncryptionKey) &&
		slices.Contains(asked, operatorv1alpha1.OperationRotateETCDEncryptionKeyStart) {
		found = append(found, field.Forbidden(path, fmt.Sprintf("operations %q and %q cannot be combined",
			operatorv1alpha1.OperationRotateETCDEncryptionKey, operatorv1alpha1.OperationRotateETCDEncryptionKeyStart)))
	}
	return found
}

// denials returns why a known operation is not allowed.
func denials(operation operatorv1alpha1.Operation, g *operatorv1alpha1.Garden) []string {
	switch operation {
	case operatorv1alpha1.OperationRotateCAStart:
		return rotationDenials(g, start, certificateAuthorities)
	case operatorv1alpha1.OperationRotateCAComplete:
		return rotationDenials(g, complete, certificateAuthorities)
	case operatorv1alpha1.OperationRotateServiceAccountKeyStart:
		return rotationDenials(g, start, serviceAccountKey)
	case operatorv1alpha1.OperationRotateServiceAccountKeyComplete:
		return rotationDenials(g, complete, serviceAccountKey)
	case operatorv1alpha1.OperationRotateWorkloadIdentityKeyStart:
		return rotationDenials(g, start, workloadIdentityKey)
	case operatorv1alpha1.OperationRotateWorkloadIdentityKeyComplete:
		return rotationDenials(g, complete, workloadIdentityKey)
	case operatorv1alpha1.OperationRotateETCDEncryptionKey:
		return append(rotationDenials(g, start, etcdEncryptionKey), encryptionDenials(g, etcdEncryptionKey.name)...)
	case operatorv1alpha1.OperationRotateETCDEncryptionKeyStart:
		reasons := append(twoStepDenials(g, operation), rotationDenials(g, start, etcdEncryptionKey)...)
		return append(reasons, encryptionDenials(g, etcdEncryptionKey.name)...)
	case operatorv1alpha1.OperationRotateETCDEncryptionKeyComplete:
		return append(twoStepDenials(g, operation), rotationDenials(g, complete, etcdEncryptionKey)...)
	case operatorv1alpha1.OperationRotateCredentialsStart:
		return append(allDenials(g, start), encryptionDenials(g, allCredentials)...)
	case operatorv1alpha1.OperationRotateCredentialsComplete:
		return allDenials(g, complete)
	case operatorv1alpha1.OperationRotateObservabilityCredentials:
		return deletionDenials(g, start, "Observability credentials rotation")
	default: // OperationReconcile
		return nil
	}
}

// allCredentials is the name of the rotation of all credentials in messages.
const allCredentials = "rotation of all credentials"

func deletionDenials(g *operatorv1alpha1.Garden, s step, name string) []string {
	if g.DeletionTimestamp == nil {
		return nil
	}
	return []string{fmt.Sprintf("cannot %s %s if garden has deletion timestamp", s, name)}
}

func rotationDenials(g *operatorv1alpha1.Garden, s step, c credential) []string {
	return append(deletionDenials(g, s, c.name), phaseDenials(g, s, c.name, c)...)
}

func allDenials(g *operatorv1alpha1.Garden, s step) []string {
	reasons := deletionDenials(g, s, allCredentials)
	for _, c := range []credential{certificateAuthorities, serviceAccountKey, etcdEncryptionKey, workloadIdentityKey} {
		if c.field == etcdEncryptionKey.field && s == complete && kubernetesOf(g).AtLeast(etcdKeyInOneStepFrom) {
			continue // it completes by itself
		}
		reasons = append(reasons, phaseDenials(g, s, allCredentials, c)...)
	}
	return reasons
}

func phaseDenials(g *operatorv1alpha1.Garden, s step, name string, c credential) []string {
	phase := c.phase(rotationOf(g))
	required := operatorv1alpha1.RotationPrepared
	if s == start {
		required = operatorv1alpha1.RotationCompleted
	}
	if phase == required || s == start && phase == "" {
		return nil
	}
	return []string{fmt.Sprintf("cannot %s %s if .status.credentials.rotation.%s.phase is not '%s'", s, name, c.field, required)}
}

func rotationOf(g *operatorv1alpha1.Garden) *operatorv1alpha1.CredentialsRotation {
	if g.Status.Credentials == nil || g.Status.Credentials.Rotation == nil {
		return &operatorv1alpha1.CredentialsRotation{}
	}
	return g.Status.Credentials.Rotation
}

func twoStepDenials(g *operatorv1alpha1.Garden, operation operatorv1alpha1.Operation) []string {
	if !kubernetesOf(g).AtLeast(etcdKeyInOneStepFrom) {
		return nil
	}
	return []string{fmt.Sprintf("operation %q is not supported for Kubernetes 1.%d and later, use %q",
		operation, etcdKeyInOneStepFrom, operatorv1alpha1.OperationRotateETCDEncryptionKey)}
}

// encryptionDenials forbids a new key for etcd while a change of what is encrypted is not rolled out.
func encryptionDenials(g *operatorv1alpha1.Garden, name string) []string {
	if encryptedResources(g).Equal(sets.New(g.Status.EncryptionAtRest().Resources...)) {
		return nil
	}
	return []string{fmt.Sprintf(
		"cannot start %s because a previous encryption configuration change is currently being rolled out", name)}
}
