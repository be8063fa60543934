package health_test

import (
	"maps"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/health"
)

// judged is an object, written as YAML, with the expected verdict.
type judged struct {
	object string
	want   health.Verdict
}

func healthy(object string) judged { return judged{object, health.Verdict{Checked: true}} }

func unhealthy(text, object string) judged {
	return judged{object, health.Verdict{Checked: true, Unhealthy: text}}
}

func progressing(text, object string) judged {
	return judged{object, health.Verdict{Checked: true, Progressing: text}}
}

func both(text, object string) judged {
	return judged{object, health.Verdict{Checked: true, Unhealthy: text, Progressing: text}}
}

// unobserved returns the example with the verdict about an object that the controller of its kind has not processed yet.
func unobserved(j judged) judged {
	j.want.Unobserved = true
	return j
}

func unchecked(object string) judged { return judged{object: object} }

// failed returns an example of an object whose structure is invalid for its kind.
func failed(text, object string) judged { return judged{object, health.Verdict{Failed: text}} }

const (
	deployment = "apiVersion: apps/v1\nkind: Deployment\n"
	set        = "apiVersion: apps/v1\nkind: StatefulSet\n"
	daemon     = "apiVersion: apps/v1\nkind: DaemonSet\n"
	replicas   = "apiVersion: apps/v1\nkind: ReplicaSet\n"
	controller = "apiVersion: v1\nkind: ReplicationController\n"
	pod        = "apiVersion: v1\nkind: Pod\n"
	balancer   = "apiVersion: v1\nkind: Service\n"
	job        = "apiVersion: batch/v1\nkind: Job\n"
	definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n"

	available   = "{type: Available, status: 'True'}"
	unavailable = "{type: Available, status: 'False', reason: MinimumReplicasUnavailable, message: no pods}"
	rolledOut   = "{type: Progressing, status: 'True', reason: NewReplicaSetAvailable, message: done}"

	named       = "{type: NamesAccepted, status: 'True'}"
	established = "{type: Established, status: 'True'}"

	skip = "metadata: {generation: 2, annotations: {resources.gardener.cloud/skip-health-check: 'true'}}\n"
)

// workloads returns examples of kinds that have rollouts.
func workloads() map[string]judged {
	return map[string]judged{
		"Deployment: all is well": healthy(deployment + "status: {conditions: [" + available + ", " + rolledOut + "]}"),
		"Deployment: a spec that is not looked at yet": unobserved(both("observed generation outdated (1/2)",
			deployment+"metadata: {generation: 2}\nstatus: {observedGeneration: 1, conditions: ["+available+", "+rolledOut+"]}")),
		"Deployment: a status that is ahead": healthy(deployment + "metadata: {generation: 2}\nstatus: {observedGeneration: 3, conditions: [" +
			available + ", " + rolledOut + "]}"),
		"Deployment: nothing but a name": {deployment, health.Verdict{
			Checked:   true,
			Unhealthy: `condition "Available" is missing`, Progressing: `condition "Progressing" is missing`,
		}},
		"Deployment: not available": unhealthy(`condition "Available" has invalid status False (expected True) due to `+
			`MinimumReplicasUnavailable: no pods`,
			deployment+"status: {conditions: ["+unavailable+", "+rolledOut+"]}"),
		"Deployment: unknown whether available": unhealthy(`condition "Available" has invalid status Unknown (expected True) due to : `,
			deployment+"status: {conditions: [{type: Available, status: Unknown}, "+rolledOut+"]}"),
		"Deployment: its conditions do not tell of progress": progressing(`condition "Progressing" is missing`,
			deployment+"status: {conditions: ["+available+"]}"),
		"Deployment: it takes too long": {
			deployment + "status: {conditions: [" + available +
				", {type: Progressing, status: 'False', reason: ProgressDeadlineExceeded, message: too slow}]}",
			health.Verdict{
				Checked:     true,
				Unhealthy:   `condition "Progressing" has invalid status False (expected True) due to ProgressDeadlineExceeded: too slow`,
				Progressing: "too slow",
			},
		},
		"Deployment: available while it rolls out": progressing("1 of 2 updated",
			deployment+"status: {conditions: ["+available+
				", {type: Progressing, status: 'True', reason: ReplicaSetUpdated, message: 1 of 2 updated}]}"),
		"Deployment: a rollout without words": progressing(`condition "Progressing" is True due to ReplicaSetUpdated`,
			deployment+"status: {conditions: ["+available+", {type: Progressing, status: 'True', reason: ReplicaSetUpdated}]}"),
		"Deployment: a rollout with the reason of a finished one": {
			deployment + "status: {conditions: [" + available +
				", {type: Progressing, status: Unknown, reason: NewReplicaSetAvailable, message: hm}]}",
			health.Verdict{
				Checked: true, Unhealthy: `condition "Progressing" has invalid status Unknown (expected True) due to NewReplicaSetAvailable: hm`,
				Progressing: "hm",
			},
		},
		"Deployment: pods cannot be created": unhealthy(`condition "ReplicaFailure" has invalid status True (expected False) due to `+
			`FailedCreate: quota`,
			deployment+"status: {conditions: ["+available+", "+rolledOut+
				", {type: ReplicaFailure, status: 'True', reason: FailedCreate, message: quota}]}"),
		"Deployment: pods could be created": healthy(deployment + "status: {conditions: [" + available + ", " + rolledOut +
			", {type: ReplicaFailure, status: 'False'}]}"),
		"Deployment: the first fault counts": unobserved(both("observed generation outdated (0/1)", deployment+"metadata: {generation: 1}")),
		"Deployment: left out of the checks": unchecked(deployment + skip),
		"Deployment: no deadline, all are new": healthy(deployment + endlessSpec + "status: {replicas: 2, updatedReplicas: 2, " +
			"availableReplicas: 2, conditions: [" + available + "]}"),
		"Deployment: no deadline, some are old": progressing("1 of 2 replica(s) have been updated", deployment+endlessSpec+
			"status: {replicas: 2, updatedReplicas: 1, availableReplicas: 2, conditions: ["+available+"]}"),
		"Deployment: no deadline, too many": progressing("there are still non-terminated old pods", deployment+endlessSpec+
			"status: {replicas: 3, updatedReplicas: 2, availableReplicas: 3, conditions: ["+available+"]}"),
		"Deployment: no deadline, not available yet": progressing("not enough available replicas (1/2)", deployment+endlessSpec+
			"status: {replicas: 2, updatedReplicas: 2, availableReplicas: 1, conditions: ["+available+"]}"),
		"Deployment: left out, misspelt": unobserved(both("observed generation outdated (0/2)",
			deployment+"metadata: {generation: 2, annotations: {resources.gardener.cloud/skip-health-check: 'True'}}")),

		"StatefulSet: all is well": healthy(set +
			"metadata: {generation: 2}\nspec: {replicas: 3}\nstatus: {observedGeneration: 2, readyReplicas: 3, updatedReplicas: 3}"),
		"StatefulSet: a spec that is not looked at yet": unobserved(both("observed generation outdated (1/2)",
			set+"metadata: {generation: 2}\nstatus: {observedGeneration: 1, readyReplicas: 1, updatedReplicas: 1}")),
		"StatefulSet: too few are ready": unhealthy("not enough ready replicas (1/2)",
			set+"spec: {replicas: 2}\nstatus: {readyReplicas: 1, updatedReplicas: 2}"),
		"StatefulSet: one is meant":  unhealthy("not enough ready replicas (0/1)", set+"status: {updatedReplicas: 1}"),
		"StatefulSet: none is meant": healthy(set + "spec: {replicas: 0}"),
		"StatefulSet: some are old": progressing("1 of 2 replica(s) have been updated",
			set+"spec: {replicas: 2}\nstatus: {readyReplicas: 2, updatedReplicas: 1}"),
		"StatefulSet: one is meant, and old":    progressing("0 of 1 replica(s) have been updated", set+"status: {readyReplicas: 1}"),
		"StatefulSet: more than wanted is fine": healthy(set + "spec: {replicas: 1}\nstatus: {readyReplicas: 2, updatedReplicas: 2}"),
		"StatefulSet: left out of the checks":   unchecked(set + skip),
		"StatefulSet: updated when deleted": healthy(set + "spec: {replicas: 2, updateStrategy: {type: OnDelete}}\n" +
			"status: {readyReplicas: 2, updatedReplicas: 0}"),
		"StatefulSet: updated when deleted, and the spec is not looked at yet": unobserved(both("observed generation outdated (1/2)",
			set+"metadata: {generation: 2}\nspec: {updateStrategy: {type: OnDelete}}\nstatus: {observedGeneration: 1, readyReplicas: 1}")),
		"StatefulSet: all beyond the partition are new": healthy(set + partitioned(2) + "status: {readyReplicas: 3, updatedReplicas: 1}"),
		"StatefulSet: one beyond the partition is old": progressing("1 of 2 replica(s) have been updated",
			set+partitioned(1)+"status: {readyReplicas: 3, updatedReplicas: 1}"),
		"StatefulSet: a partition beyond all": healthy(set + partitioned(5) + "status: {readyReplicas: 3}"),
		"DaemonSet: all is well": healthy(daemon +
			"status: {desiredNumberScheduled: 3, currentNumberScheduled: 3, updatedNumberScheduled: 3}"),
		"DaemonSet: no node":                healthy(daemon),
		"DaemonSet: left out of the checks": unchecked(daemon + skip),
		"DaemonSet: pods that are not there yet": unhealthy("not enough scheduled pods (2/3)",
			daemon+"status: {desiredNumberScheduled: 3, currentNumberScheduled: 2, updatedNumberScheduled: 3}"),
		"DaemonSet: pods on wrong nodes": unhealthy("misscheduled pods found (1)",
			daemon+"status: {desiredNumberScheduled: 1, currentNumberScheduled: 1, updatedNumberScheduled: 1, numberMisscheduled: 1}"),
		"DaemonSet: a spec that is not looked at yet": unobserved(both("observed generation outdated (1/2)",
			daemon+"metadata: {generation: 2}\nstatus: {observedGeneration: 1}")),
		"DaemonSet: a pod is down": unhealthy("too many unavailable pods found (1/3)",
			daemon+"spec: {updateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 1}}}\nstatus: {desiredNumberScheduled: 3, "+
				"currentNumberScheduled: 3, updatedNumberScheduled: 3, numberUnavailable: 1}"),
		"DaemonSet: as many are down as may": progressing("1 of 3 replica(s) have been updated",
			rollingDaemon("type: RollingUpdate, rollingUpdate: {maxUnavailable: 1}", 1)),
		"DaemonSet: more are down than may":     rollingFault(1, 2, "type: RollingUpdate, rollingUpdate: {maxUnavailable: 1}"),
		"DaemonSet: a percentage, rounded down": rollingFault(1, 2, "type: RollingUpdate, rollingUpdate: {maxUnavailable: 66%}"),
		"DaemonSet: a percentage that is enough": progressing("1 of 3 replica(s) have been updated",
			rollingDaemon("type: RollingUpdate, rollingUpdate: {maxUnavailable: 67%}", 2)),
		"DaemonSet: a percentage of next to nothing":       rollingFault(0, 1, "type: RollingUpdate, rollingUpdate: {maxUnavailable: 33%}"),
		"DaemonSet: a number written as text":              rollingFault(0, 1, "type: RollingUpdate, rollingUpdate: {maxUnavailable: '2'}"),
		"DaemonSet: no number at all":                      rollingFault(0, 1, "type: RollingUpdate, rollingUpdate: {maxUnavailable: many}"),
		"DaemonSet: a strategy that does not say how many": rollingFault(0, 1, "type: RollingUpdate, rollingUpdate: {}"),
		"DaemonSet: a strategy without details":            rollingFault(0, 1, "type: RollingUpdate"),
		"DaemonSet: updated when deleted":                  healthy(rollingDaemon("type: OnDelete", 0)),
		"DaemonSet: updated when deleted, and one is down": unhealthy(
			"too many unavailable pods found (1/3, only max. 0 unavailable pods allowed)",
			rollingDaemon("type: OnDelete, rollingUpdate: {maxUnavailable: 2}", 1)),
		"DaemonSet: no strategy": rollingFault(0, 1, "rollingUpdate: {maxUnavailable: 2}"),
	}
}

// endlessSpec is the spec of a Deployment without a deadline for progress.
const endlessSpec = "spec: {replicas: 2, progressDeadlineSeconds: 2147483647}\n"

// partitioned returns the spec of a StatefulSet of three replicas, of which the controller updates those from the partition on.
func partitioned(partition int) string {
	return "spec: {replicas: 3, updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: " + string(rune('0'+partition)) + "}}}\n"
}

// rollingDaemon returns a DaemonSet of three Pods, one of which is updated.
func rollingDaemon(strategy string, down int) string {
	return daemon + "spec: {updateStrategy: {" + strategy + "}}\n" +
		"status: {desiredNumberScheduled: 3, currentNumberScheduled: 3, updatedNumberScheduled: 1, numberUnavailable: " + string(rune('0'+down)) +
		"}"
}

func rollingFault(allowed, down int, strategy string) judged {
	return judged{rollingDaemon(strategy, down), health.Verdict{
		Checked: true,
		Unhealthy: "too many unavailable pods found (" + string(rune('0'+down)) + "/3, only max. " + string(rune('0'+allowed)) +
			" unavailable pods allowed)",
		Progressing: "1 of 3 replica(s) have been updated",
	}}
}

// others returns examples of kinds of Kubernetes that have no rollouts.
func others() map[string]judged {
	return map[string]judged{
		"ReplicaSet: all is well":        healthy(replicas + "spec: {replicas: 2}\nstatus: {readyReplicas: 2}"),
		"ReplicaSet: no number is meant": healthy(replicas),
		"ReplicaSet: too few are ready": unhealthy("ReplicaSet does not have minimum availability",
			replicas+"spec: {replicas: 2}\nstatus: {readyReplicas: 1}"),
		"ReplicaSet: a spec that is not looked at yet": unobserved(unhealthy("observed generation outdated (1/2)",
			replicas+"metadata: {generation: 2}\nstatus: {observedGeneration: 1}")),
		"ReplicaSet: left out of the checks":        unchecked(replicas + skip),
		"ReplicationController: all is well":        healthy(controller + "spec: {replicas: 2}\nstatus: {readyReplicas: 2}"),
		"ReplicationController: no number is meant": healthy(controller),
		"ReplicationController: too few are ready": unhealthy("ReplicationController does not have minimum availability",
			controller+"spec: {replicas: 2}\nstatus: {readyReplicas: 1}"),
		"ReplicationController: a spec not looked at": unobserved(unhealthy("observed generation outdated (1/2)",
			controller+"metadata: {generation: 2}\nstatus: {observedGeneration: 1}")),
		"ReplicationController: left out of the checks": unchecked(controller + skip),
		"Pod: running":   healthy(pod + "status: {phase: Running}"),
		"Pod: succeeded": healthy(pod + "status: {phase: Succeeded}"),
		"Pod: pending": unhealthy(`pod is in invalid phase "Pending" (expected one of ["Running" `+
			`"Succeeded"])`, pod+"status: {phase: Pending}"),
		"Pod: failed": unhealthy(`pod is in invalid phase "Failed" (expected one of ["Running" `+
			`"Succeeded"])`, pod+"status: {phase: Failed}"),
		"Pod: without status": unhealthy(`pod is in invalid phase "" (expected one of ["Running" `+
			`"Succeeded"])`, pod),
		"Pod: left out of the checks":    unchecked(pod + skip + "status: {phase: Pending}"),
		"Service: without load balancer": healthy(balancer + "spec: {type: ClusterIP}"),
		"Service: load balancer with an address": healthy(balancer +
			"spec: {type: LoadBalancer}\nstatus: {loadBalancer: {ingress: [{ip: 10.0.0.1}]}}"),
		"Service: load balancer without address": unhealthy("service is missing ingress status", balancer+"spec: {type: LoadBalancer}"),
		"Service: left out of the checks":        unchecked(balancer + skip + "spec: {type: LoadBalancer}"),
		"Job: just started":                      healthy(job),
		"Job: complete":                          healthy(job + "status: {conditions: [{type: Complete, status: 'True'}]}"),
		"Job: not failed":                        healthy(job + "status: {conditions: [{type: Failed, status: 'False'}]}"),
		"Job: failed": unhealthy(`condition "Failed" has invalid status True (expected False) due to `+
			`BackoffLimitExceeded: gave up`,
			job+"status: {conditions: [{type: Failed, status: 'True', reason: BackoffLimitExceeded, message: gave up}]}"),
		"Job: unknown whether failed": unhealthy(`condition "Failed" has invalid status Unknown (expected False) due to : `,
			job+"status: {conditions: [{type: Failed, status: Unknown}]}"),
		"Job: left out of the checks":           unchecked(job + skip + "status: {conditions: [{type: Failed, status: 'True'}]}"),
		"CustomResourceDefinition: all is well": healthy(definition + "status: {conditions: [" + named + ", " + established + "]}"),
		"CustomResourceDefinition: not terminating": healthy(definition + "status: {conditions: [" + named + ", " + established +
			", {type: Terminating, status: 'False'}]}"),
		"CustomResourceDefinition: not looked at yet": unhealthy(`condition "NamesAccepted" is missing`, definition),
		"CustomResourceDefinition: names are taken": unhealthy(`condition "NamesAccepted" has invalid status False (expected True) `+
			`due to PluralConflict: taken`,
			definition+"status: {conditions: [{type: NamesAccepted, status: 'False', reason: PluralConflict, message: taken}, "+established+"]}"),
		"CustomResourceDefinition: not served yet": unhealthy(`condition "Established" is missing`,
			definition+"status: {conditions: ["+named+"]}"),
		"CustomResourceDefinition: not established": unhealthy(`condition "Established" has invalid status False (expected True) due `+
			`to Installing: wait`,
			definition+"status: {conditions: ["+named+", {type: Established, status: 'False', reason: Installing, message: wait}]}"),
		"CustomResourceDefinition: terminating": unhealthy(`condition "Terminating" has invalid status True (expected False) due `+
			`to InstanceDeletionPending: wait`,
			definition+"status: {conditions: ["+named+", "+established+
				", {type: Terminating, status: 'True', reason: InstanceDeletionPending, message: wait}]}"),
		"CustomResourceDefinition: left out": unchecked(definition + skip),
		"CustomResourceDefinition v1beta1: all is well": healthy("apiVersion: apiextensions.k8s.io/v1beta1\nkind: " +
			"CustomResourceDefinition\nstatus: {conditions: [" + named + ", " + established + "]}"),
		"CustomResourceDefinition v1beta1: names taken": unhealthy(`condition "NamesAccepted" has invalid status False (expected True) `+
			`due to PluralConflict: taken`,
			"apiVersion: apiextensions.k8s.io/v1beta1\nkind: CustomResourceDefinition\nstatus: {conditions: [{type: NamesAccepted, status: "+
				"'False', reason: PluralConflict, message: taken}]}"),
		"a kind without rule":                           unchecked("apiVersion: v1\nkind: ConfigMap\n"),
		"a kind that bears the name of one with a rule": unchecked("apiVersion: apps.example.com/v1\nkind: Deployment\n"),
		"a set inside a set": unchecked("apiVersion: resources.gardener.cloud/v1alpha1\nkind: " +
			"ManagedResource\nstatus: {conditions: [{type: ResourcesHealthy, status: 'False'}]}"),
		"an object of a group that is served no more":      unchecked("apiVersion: extensions/v1beta1\nkind: Deployment\n"),
		"an object without kind":                           unchecked("metadata: {name: x}"),
		"an object whose apiVersion cannot be read":        unchecked("apiVersion: a/b/c\nkind: Deployment\n"),
		"an object whose kind has no rule, but is skipped": unchecked("apiVersion: v1\nkind: ConfigMap\n" + skip),
	}
}

const (
	prometheus   = "apiVersion: monitoring.coreos.com/v1\nkind: Prometheus\n"
	alertmanager = "apiVersion: monitoring.coreos.com/v1\nkind: Alertmanager\n"
	autoscaler   = "apiVersion: autoscaling.k8s.io/v1\nkind: VerticalPodAutoscaler\n"
	certificate  = "apiVersion: cert.gardener.cloud/v1alpha1\nkind: Certificate\n"
	issuer       = "apiVersion: cert.gardener.cloud/v1alpha1\nkind: Issuer\n"
)

// foreign returns examples of kinds that are not part of Kubernetes.
func foreign() map[string]judged {
	const (
		up        = "{type: Available, status: 'True', observedGeneration: 2}"
		settled   = "{type: Reconciled, status: 'True', observedGeneration: 2}"
		second    = "metadata: {generation: 2}\n"
		oneUpdate = ", availableReplicas: 1, updatedReplicas: 1}"
	)
	return map[string]judged{
		"Prometheus: all is well": healthy(prometheus + second + "status: {conditions: [" + up + ", " + settled + "]" + oneUpdate),
		"Prometheus: nothing but a name": {prometheus, health.Verdict{
			Checked:   true,
			Unhealthy: `condition "Available" is missing`, Progressing: `condition "Reconciled" is missing`,
		}},
		"Prometheus: conditions about an older spec": both("observed generation outdated (1/2)", prometheus+second+
			"status: {conditions: [{type: Available, status: 'True', observedGeneration: 1}, {type: Reconciled, status: 'True', "+
			"observedGeneration: 1}]"+oneUpdate),
		"Prometheus: not available": unhealthy(`condition "Available" has invalid status Degraded (expected True) due to SomePodsNotReady: `+
			`one is down`, prometheus+second+
			"status: {conditions: [{type: Available, status: Degraded, reason: SomePodsNotReady, message: one is down, observedGeneration: 2}, "+
			settled+"]"+oneUpdate),
		"Prometheus: not reconciled": progressing(`condition "Reconciled" has invalid status False (expected True) due to `+
			`ReconciliationFailed: bad rule`, prometheus+second+
			"status: {conditions: ["+up+", {type: Reconciled, status: 'False', reason: ReconciliationFailed, message: bad rule, "+
			"observedGeneration: 2}]"+oneUpdate),
		"Prometheus: too few": {
			prometheus + second + "spec: {replicas: 2}\nstatus: {conditions: [" + up + ", " + settled + "]" + oneUpdate,
			health.Verdict{
				Checked:   true,
				Unhealthy: "not enough available replicas (1/2)", Progressing: "1 of 2 replica(s) have been updated",
			},
		},
		"Prometheus: one is meant": {prometheus + second + "status: {conditions: [" + up + ", " + settled + "]}", health.Verdict{
			Checked:   true,
			Unhealthy: "not enough available replicas (0/1)", Progressing: "0 of 1 replica(s) have been updated",
		}},
		"Prometheus: none is meant": healthy(prometheus + second + "spec: {replicas: 0}\nstatus: {conditions: [" + up + ", " + settled +
			"]}"),
		"Prometheus: left out":      unchecked(prometheus + skip),
		"Prometheus: misshapen":     failed("read fields: cannot restore slice from string", prometheus+"status: {conditions: none}"),
		"Alertmanager: all is well": healthy(alertmanager + second + "status: {conditions: [" + up + ", " + settled + "]" + oneUpdate),
		"Alertmanager: not looked at": {
			alertmanager,
			health.Verdict{Checked: true, Unhealthy: `condition "Available" is missing`, Progressing: `condition "Reconciled" is missing`},
		},
		"another kind of its operator": unchecked("apiVersion: monitoring.coreos.com/v1\nkind: ServiceMonitor\n"),
		"VerticalPodAutoscaler: new":   healthy(autoscaler + second),
		"VerticalPodAutoscaler: usable": healthy(autoscaler +
			"status: {conditions: [{type: ConfigUnsupported, status: 'False'}, {type: RecommendationProvided, status: 'False'}]}"),
		"VerticalPodAutoscaler: not usable": unhealthy(`condition "ConfigUnsupported" has invalid status True (expected False) due to `+
			`NoTarget: no such workload`,
			autoscaler+"status: {conditions: [{type: ConfigUnsupported, status: 'True', reason: NoTarget, message: no such workload}]}"),
		"Certificate: ready": healthy(certificate + second +
			"status: {observedGeneration: 2, state: Ready, conditions: [{type: Ready, status: 'True'}]}"),
		"Certificate: ready without condition": healthy(certificate + "status: {state: Ready}"),
		"Certificate: pending":                 unhealthy(`state is "Pending" (expected "Ready")`, certificate+"status: {state: Pending}"),
		"Certificate: new":                     unhealthy(`state is "" (expected "Ready")`, certificate),
		"Certificate: not ready": unhealthy(`condition "Ready" has invalid status False (expected True) due to Expired: renew it`,
			certificate+"status: {state: Error, conditions: [{type: Ready, status: 'False', reason: Expired, message: renew it}]}"),
		"Certificate: a spec that is not looked at yet": progressing("observed generation outdated (1/2)",
			certificate+second+"status: {observedGeneration: 1, state: Ready}"),
		"Issuer: ready": healthy(issuer + second + "status: {observedGeneration: 2, state: Ready}"),
		"Issuer: ready, whatever a condition says": healthy(issuer + "status: {state: Ready, conditions: [{type: Ready, status: 'False'}]}"),
		"Issuer: in error":                         unhealthy(`state is "Error" (expected "Ready")`, issuer+"status: {state: Error}"),
		"Issuer: a spec that is not looked at yet": progressing("observed generation outdated (1/2)",
			issuer+second+"status: {observedGeneration: 1, state: Ready}"),
		"Issuer: left out": unchecked(issuer + skip),
	}
}

// misshapen returns examples of objects that cannot be decoded into a Go type.
func misshapen() map[string]judged {
	return map[string]judged{
		"Deployment: conditions are no list":  failed("read fields: cannot restore slice from string", deployment+"status: {conditions: none}"),
		"Deployment: replicas are no number":  failed("read fields: unrecognized type: int32", deployment+"spec: {replicas: many}"),
		"Deployment: no status to speak of":   failed("read fields: cannot restore struct from: string", deployment+"status: fine"),
		"Deployment: left out, and misshapen": unchecked(deployment + skip + "status: fine"),
		"Deployment: annotations are no map":  failed("read fields: cannot restore map from string", deployment+"metadata: {annotations: none}"),
		"CustomResourceDefinition: misshapen": failed("read fields: cannot restore struct from: string", definition+"status: fine"),
		"CustomResourceDefinition v1beta1": failed("read fields: cannot restore slice from string",
			"apiVersion: apiextensions.k8s.io/v1beta1\nkind: CustomResourceDefinition\nstatus: {conditions: none}"),
		"CustomResourceDefinition: odd schema": healthy(definition + "spec: {versions: odd}\nstatus: {conditions: [" + named + ", " +
			established + "]}"),
		"a version that is served no more": healthy("apiVersion: apps/v1beta2\nkind: StatefulSet\nspec: {replicas: 0}"),
		"a condition without type": unhealthy(`condition "Available" is missing`,
			deployment+"status: {conditions: [{}, "+rolledOut+"]}"),
	}
}

func TestJudge(t *testing.T) {
	scheme := typed()
	for name, tc := range examples(workloads(), others()) {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			untyped := read(g, tc.object)
			g.Expect(health.Judge(untyped)).To(Equal(tc.want), "without type")
			if object, err := scheme.New(untyped.GroupVersionKind()); err == nil {
				g.Expect(yaml.Unmarshal([]byte(tc.object), object)).To(Succeed())
				g.Expect(health.Judge(object)).To(Equal(tc.want), "typed")
			}
		})
	}
	for name, tc := range examples(foreign(), misshapen()) {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(health.Judge(read(g, tc.object))).To(Equal(tc.want))
		})
	}
}

func TestJudgeKnowsNoRuleForWhatIsNoObject(t *testing.T) {
	g := NewWithT(t)
	for _, object := range []runtime.Object{
		nil, &unstructured.Unstructured{}, &metav1.Status{}, &corev1.PodList{},
		&metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}},
	} {
		g.Expect(health.Judge(object)).To(Equal(health.Verdict{}))
	}
}

// Every kind with a rule has an example that Judge checks, and Judge checks no other kind.
func TestHasRule(t *testing.T) {
	g := NewWithT(t)
	checked := map[schema.GroupKind]bool{}
	for _, tc := range examples(workloads(), others(), foreign()) {
		if tc.want.Checked {
			checked[read(g, tc.object).GroupVersionKind().GroupKind()] = true
		}
	}
	g.Expect(health.Kinds()).To(ConsistOf(slices.Collect(maps.Keys(checked))))
	for kind := range checked {
		g.Expect(health.HasRule(kind)).To(BeTrue(), "%s", kind)
	}
	for _, kind := range []schema.GroupKind{
		{Group: "batch", Kind: "CronJob"},
		{Kind: "ConfigMap"},
		{Kind: "Deployment"},
		{Group: "extensions", Kind: "Deployment"},
		{Group: "resources.gardener.cloud", Kind: "ManagedResource"},
		{Group: "apps", Kind: "deployment"},
	} {
		g.Expect(health.HasRule(kind)).To(BeFalse(), "%s", kind)
	}
}

func TestJudgeCostsNothingWhileAllIsWell(t *testing.T) {
	g := NewWithT(t)
	for name, object := range healthyObjects(g) {
		verdict := health.Verdict{}
		g.Expect(testing.AllocsPerRun(100, func() { verdict = health.Judge(object) })).To(BeZero(), name)
		g.Expect(verdict).To(Equal(health.Verdict{Checked: true}), name)
	}
}

// healthyObjects returns the healthy objects among the examples, as typed objects.
func healthyObjects(g Gomega) map[string]runtime.Object {
	scheme, found := typed(), map[string]runtime.Object{}
	for name, tc := range examples(workloads(), others()) {
		kind := read(g, tc.object).GroupVersionKind()
		if tc.want != (health.Verdict{Checked: true}) || !scheme.Recognizes(kind) {
			continue
		}
		object, err := scheme.New(kind)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(yaml.Unmarshal([]byte(tc.object), object)).To(Succeed())
		found[name] = object
	}
	return found
}

func BenchmarkJudge(b *testing.B) {
	g := NewWithT(b)
	text := workloads()["Deployment: all is well"].object
	object := &appsv1.Deployment{}
	g.Expect(yaml.Unmarshal([]byte(text), object)).To(Succeed())
	untyped := read(g, text)
	b.Run("typed", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = health.Judge(object)
		}
	})
	b.Run("without type", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = health.Judge(untyped)
		}
	})
}

func examples(tables ...map[string]judged) map[string]judged {
	all := map[string]judged{}
	for _, table := range tables {
		maps.Copy(all, table)
	}
	return all
}

func read(g Gomega, text string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	json, err := yaml.YAMLToJSON([]byte(text))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(utiljson.Unmarshal(json, &object.Object)).To(Succeed()) // whole numbers become int64, as in a real client
	return object
}

// typed returns a scheme with the Go types that Judge knows.
func typed() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(apiextensionsv1.AddToScheme(scheme))
	return scheme
}
