package rotation

import (
	"slices"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// Credential is the name of the field of a credential in status.credentials.rotation.
type Credential string

// Credentials that users rotate.
const (
	CertificateAuthorities Credential = "certificateAuthorities"
	ServiceAccountKey      Credential = "serviceAccountKey"
	ETCDEncryptionKey      Credential = "etcdEncryptionKey"
	Observability          Credential = "observability"
	WorkloadIdentityKey    Credential = "workloadIdentityKey"
)

// row is everything that the operator and its webhook know about a credential.
type row struct {
	credential Credential
	// noun is the name of the credential in sentences of the status, and title is the name of its rotation in messages of the webhook.
	noun, title string
	// abort is the value of the annotation that aborts its rotation.
	abort string
	// start and complete are the operations for the two steps of the rotation. If complete is empty, the rotation has only one step, and its
	// status has no phase: the credential counts as Preparing until the step has succeeded.
	start, complete operatorv1alpha1.Operation
	// whole is the operation that starts a rotation which completes by itself. Empty: there is none.
	whole operatorv1alpha1.Operation
	// needsSeeds is true if Seeds take part in the rotation. Before the old authorities or the old keys are dropped, the gardenlets and the
	// clients of Seeds need the new authorities, or tokens that the new keys have signed.
	needsSeeds bool
	// field returns the address of its field in the status. Nil: the field has another type, and state reads it.
	field func(*operatorv1alpha1.CredentialsRotation) **operatorv1alpha1.Rotation
	// state returns the state of its rotation, nil if it was never rotated. Nil: field returns the state.
	state func(*operatorv1alpha1.CredentialsRotation) *operatorv1alpha1.Rotation
}

// rows are the credentials that users rotate. Messages of the webhook name them in this order.
var rows = []row{
	{
		credential: CertificateAuthorities,
		noun:       "the certificate authorities", title: "CA rotation", abort: "certificate-authorities",
		start: operatorv1alpha1.OperationRotateCAStart, complete: operatorv1alpha1.OperationRotateCAComplete, needsSeeds: true,
		field: func(r *operatorv1alpha1.CredentialsRotation) **operatorv1alpha1.Rotation {
			return &r.CertificateAuthorities
		},
	},
	{
		credential: ServiceAccountKey,
		noun:       "the key for tokens of ServiceAccounts", title: "service account key rotation", abort: "service-account-key",
		start:    operatorv1alpha1.OperationRotateServiceAccountKeyStart,
		complete: operatorv1alpha1.OperationRotateServiceAccountKeyComplete, needsSeeds: true,
		field: func(r *operatorv1alpha1.CredentialsRotation) **operatorv1alpha1.Rotation { return &r.ServiceAccountKey },
	},
	{
		credential: ETCDEncryptionKey,
		noun:       "the encryption key of etcd", title: "ETCD encryption key rotation", abort: "encryption-key",
		start: operatorv1alpha1.OperationRotateETCDEncryptionKeyStart, complete: operatorv1alpha1.OperationRotateETCDEncryptionKeyComplete,
		whole: operatorv1alpha1.OperationRotateETCDEncryptionKey,
		state: func(r *operatorv1alpha1.CredentialsRotation) *operatorv1alpha1.Rotation { // beginEncryption writes it
			if r.ETCDEncryptionKey == nil {
				return nil
			}
			return &r.ETCDEncryptionKey.Rotation
		},
	},
	{
		credential: Observability,
		noun:       "the credentials for observability", title: "Observability credentials rotation", abort: "observability",
		start: operatorv1alpha1.OperationRotateObservabilityCredentials,
		state: func(r *operatorv1alpha1.CredentialsRotation) *operatorv1alpha1.Rotation { // beginObservability and End write it
			if r.Observability == nil {
				return nil
			}
			rotation := &operatorv1alpha1.Rotation{LastInitiationTime: r.Observability.LastInitiationTime}
			if isGoingOn(r.Observability) {
				rotation.Phase = operatorv1alpha1.RotationPreparing
			}
			return rotation
		},
	},
	{
		credential: WorkloadIdentityKey,
		noun:       "the key for tokens of workload identities", title: "workload identity key rotation", abort: "workload-identity-key",
		start:    operatorv1alpha1.OperationRotateWorkloadIdentityKeyStart,
		complete: operatorv1alpha1.OperationRotateWorkloadIdentityKeyComplete, needsSeeds: true,
		field: func(r *operatorv1alpha1.CredentialsRotation) **operatorv1alpha1.Rotation {
			return &r.WorkloadIdentityKey
		},
	},
}

// rowOf returns the row of a credential, which must exist.
func rowOf(credential Credential) *row {
	return &rows[slices.IndexFunc(rows, func(each row) bool { return each.credential == credential })]
}

// in returns the state of the rotation of the credential, nil if it was never rotated.
func (r *row) in(all *operatorv1alpha1.CredentialsRotation) *operatorv1alpha1.Rotation {
	switch {
	case all == nil:
		return nil
	case r.field != nil:
		return *r.field(all)
	default:
		return r.state(all)
	}
}

// hasPhases reports whether a rotation of the credential has two steps, and so phases.
func (r *row) hasPhases() bool { return r.complete != "" }

// step returns the step of the rotation of the credential that operations ask for.
func (r *row) step(operations Operations) Step {
	switch {
	case operations.HasAny(r.start, operatorv1alpha1.OperationRotateCredentialsStart):
		return Start
	case operations.HasAny(r.complete, operatorv1alpha1.OperationRotateCredentialsComplete):
		return Complete
	}
	return ""
}
