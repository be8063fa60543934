package v1alpha1_test

import (
	"testing"

	. "github.com/onsi/gomega"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// The values are the contract with everyone who writes or reads ManagedResources, so they are spelled out.
func TestNames(t *testing.T) {
	for want, got := range map[string]string{
		"resources.gardener.cloud": resourcesv1alpha1.GroupName,
		"resources":                resourcesv1alpha1.DefaultClass,
		"*":                        resourcesv1alpha1.AllClasses,
		"gardener.cloud/operation": resourcesv1alpha1.GardenerOperation,
		"reconcile":                resourcesv1alpha1.OperationReconcile,
		"restore":                  resourcesv1alpha1.OperationRestore,
		"migrate":                  resourcesv1alpha1.OperationMigrate,
		"wait-for-state":           resourcesv1alpha1.OperationWaitForState,

		"resources.gardener.cloud/ignore":                                 resourcesv1alpha1.Ignore,
		"resources.gardener.cloud/mode":                                   resourcesv1alpha1.Mode,
		"Ignore":                                                          resourcesv1alpha1.ModeIgnore,
		"resources.gardener.cloud/keep-object":                            resourcesv1alpha1.KeepObject,
		"resources.gardener.cloud/delete-on-invalid-update":               resourcesv1alpha1.DeleteOnInvalidUpdate,
		"resources.gardener.cloud/deletion-propagation-on-invalid-update": resourcesv1alpha1.DeletionPropagationOnInvalidUpdate,
		"resources.gardener.cloud/preserve-replicas":                      resourcesv1alpha1.PreserveReplicas,
		"resources.gardener.cloud/preserve-resources":                     resourcesv1alpha1.PreserveResources,
		"resources.gardener.cloud/finalize-deletion-after":                resourcesv1alpha1.FinalizeDeletionAfter,
		"resources.gardener.cloud/skip-health-check":                      resourcesv1alpha1.SkipHealthCheck,

		"resources.gardener.cloud/origin":      resourcesv1alpha1.OriginAnnotation,
		"resources.gardener.cloud/description": resourcesv1alpha1.DescriptionAnnotation,
		"DO NOT EDIT - This resource is managed by gardener-resource-manager.\n" +
			"Any modifications are discarded and the resource is returned to the original state.": resourcesv1alpha1.DescriptionText,
		"resources.gardener.cloud/managed-by": resourcesv1alpha1.ManagedBy,
		"gardener":                            resourcesv1alpha1.GardenerManagedBy,
		"resources.gardener.cloud/gardener-resource-manager":     resourcesv1alpha1.FinalizerName,
		"resources.gardener.cloud/garbage-collectable-reference": resourcesv1alpha1.GarbageCollectableReference,
		"reference.resources.gardener.cloud/":                    resourcesv1alpha1.ReferencePrefix,
		"espalier.dev/plan":                                      resourcesv1alpha1.Plan,
		"espalier.dev/plan-values":                               resourcesv1alpha1.PlanValues,
		"espalier.dev/plan-of":                                   resourcesv1alpha1.PlanOf,
		"espalier.dev/keep-fields":                               resourcesv1alpha1.KeepFields,
		"espalier.dev/kstatus":                                   resourcesv1alpha1.Kstatus,
		"espalier.dev/service-account":                           resourcesv1alpha1.ServiceAccount,
		"espalier.dev/delete-untested":                           resourcesv1alpha1.DeleteUntested,
		"espalier.dev/cluster-ids":                               resourcesv1alpha1.ClusterIDs,
		"espalier.dev/planned":                                   resourcesv1alpha1.Planned,
		"espalier.dev/managedresources":                          resourcesv1alpha1.SetsAllowedLabel,
		"allowed":                                                resourcesv1alpha1.SetsAllowed,
	} {
		NewWithT(t).Expect(got).To(Equal(want))
	}
}

func TestConditionTypes(t *testing.T) {
	NewWithT(t).Expect([]corev1beta1.ConditionType{
		resourcesv1alpha1.ResourcesApplied, resourcesv1alpha1.ResourcesHealthy, resourcesv1alpha1.ResourcesProgressing,
	}).To(Equal([]corev1beta1.ConditionType{"ResourcesApplied", "ResourcesHealthy", "ResourcesProgressing"}))
}

func TestReasonsAndMessages(t *testing.T) {
	for want, got := range map[string]string{
		"ApplyProgressing":                 resourcesv1alpha1.ConditionApplyProgressing,
		"ApplySucceeded":                   resourcesv1alpha1.ConditionApplySucceeded,
		"ApplyFailed":                      resourcesv1alpha1.ConditionApplyFailed,
		"DecodingFailed":                   resourcesv1alpha1.ConditionDecodingFailed,
		"CannotReadSecret":                 resourcesv1alpha1.ConditionCannotReadSecret,
		"DeletionPending":                  resourcesv1alpha1.ConditionDeletionPending,
		"DeletionFailed":                   resourcesv1alpha1.ConditionDeletionFailed,
		"ReleaseOfOrphanedResourcesFailed": resourcesv1alpha1.ReleaseOfOrphanedResourcesFailed,
		"ManagedResourceIgnored":           resourcesv1alpha1.ConditionManagedResourceIgnored,
		"ChecksPending":                    resourcesv1alpha1.ConditionHealthChecksPending,
		"ResourcesHealthy":                 resourcesv1alpha1.ConditionResourcesHealthy,
		"HealthCheckError":                 resourcesv1alpha1.ConditionHealthCheckError,
		"ConfigMapMissing":                 "ConfigMap" + resourcesv1alpha1.SuffixMissing,
		"PodUnhealthy":                     "Pod" + resourcesv1alpha1.SuffixUnhealthy,
		"ResourcesRolledOut":               resourcesv1alpha1.ConditionResourcesRolledOut,
		"DeploymentProgressing":            "Deployment" + resourcesv1alpha1.SuffixProgressing,

		"The resources are currently being reconciled.":                                  resourcesv1alpha1.MessageApplyProgressing,
		"All resources are applied.":                                                     resourcesv1alpha1.MessageApplySucceeded,
		"The resources are currently being deleted.":                                     resourcesv1alpha1.MessageDeletionPending,
		"ManagedResource is marked to be ignored.":                                       resourcesv1alpha1.MessageManagedResourceIgnored,
		"The health checks have not yet been executed for the current set of resources.": resourcesv1alpha1.MessageHealthChecksPending,
		"Checks have not yet been executed for the current set of resources.":            resourcesv1alpha1.MessageProgressingChecksPending,
		"All resources are healthy.":                                                     resourcesv1alpha1.MessageResourcesHealthy,
		"All resources have been fully rolled out.":                                      resourcesv1alpha1.MessageResourcesRolledOut,
	} {
		NewWithT(t).Expect(got).To(Equal(want))
	}
}

func TestFinalizerFor(t *testing.T) {
	for name, tc := range map[string]struct{ class, want string }{
		"no class":          {class: "", want: "resources.gardener.cloud/gardener-resource-manager"},
		"the default class": {class: "resources", want: "resources.gardener.cloud/gardener-resource-manager"},
		"all classes":       {class: "*", want: "resources.gardener.cloud/gardener-resource-manager"},
		"another class":     {class: "test", want: "resources.gardener.cloud/gardener-resource-manager-test"},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(resourcesv1alpha1.FinalizerFor(tc.class)).To(Equal(tc.want)) })
	}
}
