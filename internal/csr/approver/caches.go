package approver

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/csr/rules"
)

// TargetCache keeps the requests of our signer and the addresses of Nodes. With observed, requests that are already decided are judged too,
// and the cache needs more memory for them.
func TargetCache(observed bool) cache.Options {
	keep := keepUndecided
	if observed {
		keep = keepRequest
	}
	return cache.Options{ByObject: map[client.Object]cache.ByObject{
		&certificatesv1.CertificateSigningRequest{}: {
			Field:     fields.OneTermEqualSelector("spec.signerName", certificatesv1.KubeletServingSignerName),
			Transform: keep,
		},
		&corev1.Node{}: {Transform: keepAddresses},
	}}
}

// SourceCache keeps names and labels of the Machines in a namespace; if that is empty, in all namespaces that the connection is restricted
// to.
func SourceCache(namespace string) cache.Options {
	by := cache.ByObject{Transform: keepLabels}
	if namespace != "" {
		by.Namespaces = map[string]cache.Config{namespace: {}}
	}
	return cache.Options{ByObject: map[client.Object]cache.ByObject{Machine(): by}}
}

// keepUndecided removes the content of decided requests: nothing reads it, and these requests stay in the cluster for hours.
func keepUndecided(object any) (any, error) {
	if csr, ok := object.(*certificatesv1.CertificateSigningRequest); ok && rules.Decided(csr.Status) {
		csr.Spec.Request = nil
	}
	return keepRequest(object)
}

// keepRequest removes the fields that nothing reads, even for a decided request that is judged. Of the certificate, only its presence
// matters. The marker is a new slice, because a part of the old one would keep all of its memory.
func keepRequest(object any) (any, error) {
	csr, ok := object.(*certificatesv1.CertificateSigningRequest)
	if !ok {
		return object, nil
	}
	csr.ManagedFields = nil
	if len(csr.Status.Certificate) > 0 {
		csr.Status.Certificate = []byte{0}
	}
	return csr, nil
}

func keepAddresses(object any) (any, error) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return object, nil
	}
	kept := &corev1.Node{
		TypeMeta:   node.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion},
		Status:     corev1.NodeStatus{Addresses: node.Status.Addresses},
	}
	if _, labelled := node.Labels[rules.ControlPlaneLabel]; labelled {
		kept.Labels = map[string]string{rules.ControlPlaneLabel: ""}
	}
	return kept, nil
}

func keepLabels(object any) (any, error) {
	machine, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil
	}
	kept := &metav1.PartialObjectMetadata{TypeMeta: machine.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Namespace: machine.Namespace, Name: machine.Name, UID: machine.UID, ResourceVersion: machine.ResourceVersion,
	}}
	if node, labelled := machine.Labels[nodeLabel]; labelled {
		kept.Labels = map[string]string{nodeLabel: node}
	}
	return kept, nil
}
