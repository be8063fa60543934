package extension

import (
	corev1 "k8s.io/api/core/v1"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// Reasons of Events about Extensions.
const (
	// reasonReconciled is a Normal Event about an Extension: all its parts are deployed and healthy.
	reasonReconciled = "Reconciled"
	// reasonDeleted is a Normal Event about an Extension: nothing of it is left in the clusters of the Garden.
	reasonDeleted = "Deleted"
	// reasonExtensionFailed is a Warning Event about an Extension: a part cannot be deployed or deleted. The text says why.
	reasonExtensionFailed = "ExtensionFailed"
)

// notice is an Event about an Extension.
type notice struct{ kind, reason, note string }

// eventOf returns the Event for a change of the condition Installed, or nil. Waiting is no event.
func eventOf(before *corev1beta1.Condition, now verdict) *notice {
	if before != nil && before.Status == now.status && before.Reason == now.reason && before.Message == now.message {
		return nil
	}
	switch now.reason {
	case operatorv1alpha1.ReasonExtensionReconciled:
		return &notice{corev1.EventTypeNormal, reasonReconciled, now.message}
	case operatorv1alpha1.ReasonExtensionDeleted:
		return &notice{corev1.EventTypeNormal, reasonDeleted, now.message}
	case operatorv1alpha1.ReasonExtensionFailed, operatorv1alpha1.ReasonExtensionDeleteFailed:
		return &notice{corev1.EventTypeWarning, reasonExtensionFailed, now.message}
	}
	return nil
}
