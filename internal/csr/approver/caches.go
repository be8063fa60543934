package approver

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/csr/rules"
	"github.com/espalier-dev/espalier/internal/process"
)

// TargetCache keeps the CertificateSigningRequests for the signer of serving certificates of kubelets. Of Nodes it keeps the addresses and
// the label of control plane nodes. If observed is true, the approver also judges requests that are already decided, and the cache needs
// more memory for their content.
func TargetCache(observed bool) cache.Options {
	keep := keepUndecided
	if observed {
		keep = keepRequest
	}
	return cache.Options{ByObject: map[client.Object]cache.ByObject{
		&certificatesv1.CertificateSigningRequest{}: {
			Field:     fields.OneTermEqualSelector("spec.signerName", certificatesv1.KubeletServingSignerName),
			Transform: process.Keeping(keep),
		},
		&corev1.Node{}: {Transform: process.Keeping(keepAddresses)},
	}}
}

// SourceCache keeps the names of the Machines in a namespace, and their label with the name of the node. If the namespace is empty, it
// keeps the Machines in all namespaces that the connection is restricted to.
func SourceCache(namespace string) cache.Options {
	by := cache.ByObject{Transform: process.Keeping(keepLabels)}
	if namespace != "" {
		by.Namespaces = map[string]cache.Config{namespace: {}}
	}
	return cache.Options{ByObject: map[client.Object]cache.ByObject{Machine(): by}}
}

// keepUndecided removes the content of decided requests: nothing reads it, and these requests stay in the cluster for hours.
func keepUndecided(csr *certificatesv1.CertificateSigningRequest) *certificatesv1.CertificateSigningRequest {
	if rules.Decided(csr.Status) {
		csr.Spec.Request = nil
	}
	return keepRequest(csr)
}

// keepRequest removes the fields that the approver never reads, not even for a decided request. It replaces the certificate by a marker of
// one byte, because only the presence of a certificate matters. The marker is a new slice: a part of the old slice would keep all memory
// of the old slice.
func keepRequest(csr *certificatesv1.CertificateSigningRequest) *certificatesv1.CertificateSigningRequest {
	csr.ManagedFields = nil
	if len(csr.Status.Certificate) > 0 {
		csr.Status.Certificate = []byte{0}
	}
	return csr
}

func keepAddresses(node *corev1.Node) *corev1.Node {
	kept := &corev1.Node{
		TypeMeta: node.TypeMeta, ObjectMeta: process.Identity(node), Status: corev1.NodeStatus{Addresses: node.Status.Addresses},
	}
	if _, labelled := node.Labels[rules.ControlPlaneLabel]; labelled {
		kept.Labels = map[string]string{rules.ControlPlaneLabel: ""}
	}
	return kept
}

func keepLabels(machine *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	kept := &metav1.PartialObjectMetadata{TypeMeta: machine.TypeMeta, ObjectMeta: process.Identity(machine)}
	if node, labelled := machine.Labels[nodeLabel]; labelled {
		kept.Labels = map[string]string{nodeLabel: node}
	}
	return kept
}
