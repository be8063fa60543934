package extensionvalidation

import (
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The specifications of the kinds that have no file of their own.

type backupBucketSpec struct {
	DefaultSpec `json:",inline"`
	Region      string          `json:"region"`
	SecretRef   secretReference `json:"secretRef"`
}

type backupEntrySpec struct {
	DefaultSpec                `json:",inline"`
	BackupBucketProviderStatus *opaqueExtension `json:"backupBucketProviderStatus,omitempty"`
	Region                     string           `json:"region"`
	BucketName                 string           `json:"bucketName"`
	SecretRef                  secretReference  `json:"secretRef"`
}

type bastionSpec struct {
	DefaultSpec `json:",inline"`
	UserData    opaqueBytes     `json:"userData"`
	Ingress     []ingressPolicy `json:"ingress"`
}

type ingressPolicy struct {
	IPBlock networkingv1.IPBlock `json:"ipBlock"`
}

type containerRuntimeSpec struct {
	BinaryPath  string     `json:"binaryPath"`
	WorkerPool  poolChoice `json:"workerPool"`
	DefaultSpec `json:",inline"`
}

type poolChoice struct {
	Name     string               `json:"name"`
	Selector metav1.LabelSelector `json:"selector"`
}

type controlPlaneSpec struct {
	DefaultSpec                  `json:",inline"`
	Purpose                      *string          `json:"purpose,omitempty"`
	InfrastructureProviderStatus *opaqueExtension `json:"infrastructureProviderStatus,omitempty"`
	Region                       string           `json:"region"`
	SecretRef                    secretReference  `json:"secretRef"`
}

func checkControlPlane(plane *object[controlPlaneSpec, unread], found *findings) {
	if purpose := plane.Spec.Purpose; purpose != nil {
		found.oneOf(specPath("purpose"), *purpose, "normal", "exposure")
	}
}

type extensionSpec struct {
	DefaultSpec `json:",inline"`
}

type infrastructureSpec struct {
	DefaultSpec  `json:",inline"`
	Region       string          `json:"region"`
	SecretRef    secretReference `json:"secretRef"`
	SSHPublicKey opaqueBytes     `json:"sshPublicKey,omitempty"`
}
