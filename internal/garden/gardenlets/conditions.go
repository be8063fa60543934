package gardenlets

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	seedmanagementv1alpha1 "github.com/espalier-dev/espalier/api/seedmanagement/v1alpha1"
)

// verdict is the content of condition SeedRegistered of a Gardenlet after a run. The zero value leaves the condition as it is.
type verdict struct {
	status          corev1beta1.ConditionStatus
	reason, message string
}

func registered(name string) verdict {
	return verdict{
		corev1beta1.ConditionTrue, seedmanagementv1alpha1.ReasonReconciled, fmt.Sprintf("Gardenlet deployed and Seed %q registered", name),
	}
}

func disabled() verdict {
	return verdict{
		corev1beta1.ConditionFalse, seedmanagementv1alpha1.ReasonDeploymentDisabled,
		"The garden operator does not deploy gardenlets; set espalier.garden.gardenlets in its configuration, or deploy the gardenlet yourself",
	}
}

// waiting is the verdict after a deployment. NoEffect is the result of charts.NoEffect.
func waiting(noEffect string) verdict {
	return verdict{
		corev1beta1.ConditionProgressing, seedmanagementv1alpha1.ReasonWaitingForSeed,
		"Gardenlet deployed, waiting for Seed registration" + noEffect,
	}
}

func failed(err error) verdict {
	return verdict{corev1beta1.ConditionFalse, seedmanagementv1alpha1.ReasonReconcileError, err.Error()}
}

// Reasons of Events about Gardenlets.
const (
	// reasonDeployed is a Normal Event about a Gardenlet: it is deployed, and has not registered its Seed yet.
	reasonDeployed = "Deployed"
	// reasonReconciled is a Normal Event about a Gardenlet: it has registered its Seed.
	reasonReconciled = "Reconciled"
	// reasonGardenletFailed is a Warning Event about a Gardenlet: it cannot be deployed. The text says why.
	reasonGardenletFailed = "GardenletFailed"
)

// notice is an Event about a Gardenlet.
type notice struct{ kind, reason string }

// eventOf returns the Event for a new verdict.
func eventOf(now verdict) notice {
	switch now.status {
	case corev1beta1.ConditionTrue:
		return notice{corev1.EventTypeNormal, reasonReconciled}
	case corev1beta1.ConditionProgressing:
		return notice{corev1.EventTypeNormal, reasonDeployed}
	case corev1beta1.ConditionFalse, corev1beta1.ConditionUnknown:
	}
	return notice{corev1.EventTypeWarning, reasonGardenletFailed}
}
