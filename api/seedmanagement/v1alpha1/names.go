package v1alpha1

import corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"

// SeedRegistered is the type of a condition of a Gardenlet: it reports whether the Seed of the Gardenlet exists. The garden operator sets
// it.
const SeedRegistered corev1beta1.ConditionType = "SeedRegistered"

// Reasons of the condition SeedRegistered of a Gardenlet.
const (
	// ReasonReconciled goes with SeedRegistered=True: the gardenlet is deployed, and has registered its Seed. From now on it upgrades itself.
	ReasonReconciled = "Reconciled"
	// ReasonWaitingForSeed goes with SeedRegistered=Progressing: the gardenlet is deployed, and has not registered its Seed yet.
	ReasonWaitingForSeed = "WaitingForSeed"
	// ReasonReconcileError goes with SeedRegistered=False: the gardenlet cannot be deployed. The message says why.
	ReasonReconcileError = "ReconcileError"
	// ReasonDeploymentDisabled goes with SeedRegistered=False: the configuration of the garden operator does not allow to deploy gardenlets.
	ReasonDeploymentDisabled = "DeploymentDisabled"
)

// AnnotationOperation is an annotation of Gardenlets. Users set it to OperationForceRedeploy to have a gardenlet deployed again, although
// its Seed exists. The garden operator removes it afterwards.
const AnnotationOperation = "gardener.cloud/operation"

// OperationForceRedeploy is a value of AnnotationOperation.
const OperationForceRedeploy = "force-redeploy"

// AnnotationChart is an annotation of Gardenlets: the reference of the chart that the garden operator deploys, "@", and the digest to which
// it resolved the reference. The garden operator sets it. While it waits for the Seed, it does not resolve the reference again.
const AnnotationChart = "espalier.dev/chart"
