package v1alpha1_test

import (
	"testing"

	. "github.com/onsi/gomega"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// The names are the contract with users and with Gardener.
func TestWireNames(t *testing.T) {
	for want, got := range map[string]string{
		"gardener.cloud/operator":                             operatorv1alpha1.FinalizerOperator,
		"gardener.cloud/reference-protection":                 operatorv1alpha1.FinalizerReferenceProtection,
		"confirmation.gardener.cloud/deletion":                operatorv1alpha1.AnnotationConfirmDeletion,
		"generic-token-kubeconfig.secret.gardener.cloud/name": operatorv1alpha1.AnnotationGenericTokenKubeconfig,
		"espalier.dev/paused-until":                           operatorv1alpha1.AnnotationPausedUntil,
		"espalier.dev/abort-rotation":                         operatorv1alpha1.AnnotationAbortRotation,
		"espalier.dev/skipped-checks":                         operatorv1alpha1.AnnotationSkippedChecks,
		"espalier.dev/confirm-lost-resources":                 operatorv1alpha1.AnnotationConfirmLostResources,
		"espalier.dev/confirm-lost-keys":                      operatorv1alpha1.AnnotationConfirmLostKeys,
		"espalier.dev/confirm-leftovers":                      operatorv1alpha1.AnnotationConfirmLeftovers,
		"espalier.dev/confirm-lost-logs":                      operatorv1alpha1.AnnotationConfirmLostLogs,
		"espalier.dev/restoring":                              operatorv1alpha1.AnnotationRestoring,
		"espalier.dev/kubernetes-version":                     operatorv1alpha1.AnnotationKubernetesVersion,
		"gardener.cloud/role":                                 operatorv1alpha1.LabelRole,
		"garden-cert":                                         operatorv1alpha1.RoleWildcardCertificate,
		"controlplane-cert":                                   operatorv1alpha1.RoleFormerWildcardCertificate,
		";":                                                   operatorv1alpha1.OperationSeparator,
		"reconcile":                                           string(operatorv1alpha1.OperationReconcile),
		"rotate-ca-start":                                     string(operatorv1alpha1.OperationRotateCAStart),
		"rotate-ca-complete":                                  string(operatorv1alpha1.OperationRotateCAComplete),
		"rotate-serviceaccount-key-start":                     string(operatorv1alpha1.OperationRotateServiceAccountKeyStart),
		"rotate-serviceaccount-key-complete":                  string(operatorv1alpha1.OperationRotateServiceAccountKeyComplete),
		"rotate-etcd-encryption-key":                          string(operatorv1alpha1.OperationRotateETCDEncryptionKey),
		"rotate-etcd-encryption-key-start":                    string(operatorv1alpha1.OperationRotateETCDEncryptionKeyStart),
		"rotate-etcd-encryption-key-complete":                 string(operatorv1alpha1.OperationRotateETCDEncryptionKeyComplete),
		"rotate-workload-identity-key-start":                  string(operatorv1alpha1.OperationRotateWorkloadIdentityKeyStart),
		"rotate-workload-identity-key-complete":               string(operatorv1alpha1.OperationRotateWorkloadIdentityKeyComplete),
		"rotate-observability-credentials":                    string(operatorv1alpha1.OperationRotateObservabilityCredentials),
		"rotate-credentials-start":                            string(operatorv1alpha1.OperationRotateCredentialsStart),
		"rotate-credentials-complete":                         string(operatorv1alpha1.OperationRotateCredentialsComplete),
		"VirtualGardenAPIServerAvailable":                     string(operatorv1alpha1.VirtualGardenAPIServerAvailable),
		"RuntimeComponentsHealthy":                            string(operatorv1alpha1.RuntimeComponentsHealthy),
		"VirtualComponentsHealthy":                            string(operatorv1alpha1.VirtualComponentsHealthy),
		"ObservabilityComponentsHealthy":                      string(operatorv1alpha1.ObservabilityComponentsHealthy),
		"Reconcile":                                           string(operatorv1alpha1.LastOperationReconcile),
		"Delete":                                              string(operatorv1alpha1.LastOperationDelete),
		"Processing":                                          string(operatorv1alpha1.LastOperationProcessing),
		"Error":                                               string(operatorv1alpha1.LastOperationError),
		"Preparing":                                           string(operatorv1alpha1.RotationPreparing),
		"Prepared":                                            string(operatorv1alpha1.RotationPrepared),
		"Completing":                                          string(operatorv1alpha1.RotationCompleting),
		"Completed":                                           string(operatorv1alpha1.RotationCompleted),
		"aescbc":                                              string(operatorv1alpha1.EncryptionProviderAESCBC),
		"aesgcm":                                              string(operatorv1alpha1.EncryptionProviderAESGCM),
		"secretbox":                                           string(operatorv1alpha1.EncryptionProviderSecretbox),
		"block":                                               string(operatorv1alpha1.ResourceAdmissionBlock),
		"log":                                                 string(operatorv1alpha1.ResourceAdmissionLog),
		"SameRegion":                                          string(operatorv1alpha1.SchedulingSameRegion),
		"MinimalDistance":                                     string(operatorv1alpha1.SchedulingMinimalDistance),
		"extensions.operator.gardener.cloud/name":             operatorv1alpha1.ExtensionName,
		"security.gardener.cloud/pod-security-enforce":        operatorv1alpha1.AnnotationPodSecurityEnforce,
		"helm-pull-secret":                                    operatorv1alpha1.RolePullSecret,
		"oci-ca-bundle":                                       operatorv1alpha1.RoleCABundle,
		"resource-reference":                                  operatorv1alpha1.RoleResourceReference,
		"bundle.crt":                                          operatorv1alpha1.DataKeyCABundle,
		"Installed":                                           string(operatorv1alpha1.ExtensionInstalled),
		"RequiredRuntime":                                     string(operatorv1alpha1.ExtensionRequiredRuntime),
		"RequiredVirtual":                                     string(operatorv1alpha1.ExtensionRequiredVirtual),
		"ControllerInstallationsHealthy":                      string(operatorv1alpha1.ControllerInstallationsHealthy),
		"RuntimeHealthy":                                      string(operatorv1alpha1.ExtensionRuntimeHealthy),
		"AdmissionHealthy":                                    string(operatorv1alpha1.ExtensionAdmissionHealthy),
	} {
		NewWithT(t).Expect(got).To(Equal(want))
	}
	NewWithT(t).Expect(string(operatorv1alpha1.LastOperationSucceeded)).To(Equal("Succeeded"))
}

// A printer column shows the first unfinished task: the first one whose state sorts before "S".
func TestStatesOfFinishedTasksSortLast(t *testing.T) {
	g := NewWithT(t)
	for state, finished := range map[operatorv1alpha1.TaskState]bool{
		operatorv1alpha1.TaskPending: false, operatorv1alpha1.TaskRunning: false, operatorv1alpha1.TaskFailed: false,
		operatorv1alpha1.TaskSucceeded: true, operatorv1alpha1.TaskSkipped: true,
	} {
		sortsAfter := string(state) > "S"
		g.Expect(sortsAfter).To(Equal(finished), string(state))
	}
	schema := readCRD(t).Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"].Properties["tasks"]
	g.Expect(schema.MaxItems).To(HaveValue(BeEquivalentTo(operatorv1alpha1.MaxTasks)))
	waitingFor := schema.Items.Schema.Properties["waitingFor"]
	g.Expect(waitingFor.MaxLength).To(HaveValue(BeEquivalentTo(operatorv1alpha1.MaxWaitingFor)))
}
