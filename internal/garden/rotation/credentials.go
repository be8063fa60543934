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

// Logical names of keys.
const (
	// ServiceAccountKeyName is the name of the key that signs tokens of ServiceAccounts.
	ServiceAccountKeyName = "service-account-key"
	// KubernetesEncryptionKeyName and GardenerEncryptionKeyName are the names of the keys with which kube-apiserver and gardener-apiserver
	// encrypt data in etcd.
	KubernetesEncryptionKeyName = "kube-apiserver-etcd-encryption-key"
	GardenerEncryptionKeyName   = "gardener-apiserver-etcd-encryption-key"
	// WorkloadIdentityKeyName is the name of the key that signs tokens of workload identities.
	WorkloadIdentityKeyName = "gardener-apiserver-workload-identity-signing-key"
	// StaticTokensName is the name of the tokens of the probes of kube-apiserver.
	StaticTokensName = "kube-apiserver-static-token"
)

// row is everything that the operator and its webhook know about a credential.
type row struct {
	credential Credential
	// keys are the logical names of its keys and certificate authorities: only a rotation replaces them, and they outlive a Garden.
	keys []string
	// others are the logical names of further Secrets that its rotation renews. They do not outlive a Garden.
	others []string
	// noun is the name of the credential in sentences of the status, and title is the name of its rotation in messages of the webhook.
	noun, title string
	// start and complete are the operations for the two steps of its rotation. Without complete, a rotation has one step and no phases.
	start, complete operatorv1alpha1.Operation
	// whole is the operation that starts a rotation which completes by itself. Empty: there is none.
	whole operatorv1alpha1.Operation
	// needsSeeds is true if Seeds take part in its rotation: their gardenlets and their clients need the new authorities, and tokens that the
	// new keys have signed, before the old ones are dropped.
	needsSeeds bool
	// refusal says why the operator does not rotate it. Empty: it does.
	refusal string
	// field returns the address of its field in the status. Nil: the field has another type, and state reads it.
	field func(*operatorv1alpha1.CredentialsRotation) **operatorv1alpha1.Rotation
	// state returns the state of its rotation, nil if it was never rotated. Nil: field returns the state.
	state func(*operatorv1alpha1.CredentialsRotation) *operatorv1alpha1.Rotation
}

// rows are the credentials that users rotate. Messages of the webhook name them in this order.
var rows = []row{
	{
		credential: CertificateAuthorities, keys: authorityNames(false), others: []string{StaticTokensName},
		noun: "the certificate authorities", title: "CA rotation",
		start: operatorv1alpha1.OperationRotateCAStart, complete: operatorv1alpha1.OperationRotateCAComplete, needsSeeds: true,
		field: func(r *operatorv1alpha1.CredentialsRotation) **operatorv1alpha1.Rotation {
			return &r.CertificateAuthorities
		},
	},
	{
		credential: ServiceAccountKey, keys: []string{ServiceAccountKeyName},
		noun: "the key for tokens of ServiceAccounts", title: "service account key rotation",
		start:    operatorv1alpha1.OperationRotateServiceAccountKeyStart,
		complete: operatorv1alpha1.OperationRotateServiceAccountKeyComplete, needsSeeds: true,
		field: func(r *operatorv1alpha1.CredentialsRotation) **operatorv1alpha1.Rotation { return &r.ServiceAccountKey },
	},
	{
		credential: ETCDEncryptionKey, keys: []string{KubernetesEncryptionKeyName, GardenerEncryptionKeyName},
		noun: "the encryption key of etcd", title: "ETCD encryption key rotation",
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
		credential: Observability, others: []string{"observability-ingress", "global-observability-ingress"},
		title: "Observability credentials rotation", start: operatorv1alpha1.OperationRotateObservabilityCredentials,
		refusal: "the operator deploys no observability components, so they have no credentials",
		state: func(r *operatorv1alpha1.CredentialsRotation) *operatorv1alpha1.Rotation {
			if r.Observability == nil {
				return nil
			}
			return &operatorv1alpha1.Rotation{LastInitiationTime: r.Observability.LastInitiationTime}
		},
	},
	{
		credential: WorkloadIdentityKey, keys: []string{WorkloadIdentityKeyName},
		noun: "the key for tokens of workload identities", title: "workload identity key rotation",
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

// renewed returns the logical names of all Secrets that a rotation of the credential renews.
func (r *row) renewed() []string { return slices.Concat(r.keys, r.others) }

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
