package health

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// rules contains the kinds that Judge judges, each with the rule for objects without a Go type. It never changes.
//
// To add a kind, write its rule in otherapis.go, or in builtin.go if it is a kind of Kubernetes, and add the kind here. If objects of the
// kind are read with a Go type, Judge needs a case, too. Tests require examples of the kind in verdict_test.go, and a row in
// docs/writing-managedresources.md.
var rules = map[schema.GroupKind]func(*unstructured.Unstructured) Verdict{
	{Group: "apps", Kind: "Deployment"}:                               reading(judgeDeployment),
	{Group: "apps", Kind: "StatefulSet"}:                              reading(judgeStatefulSet),
	{Group: "apps", Kind: "DaemonSet"}:                                reading(judgeDaemonSet),
	{Group: "apps", Kind: "ReplicaSet"}:                               reading(judgeReplicaSet),
	{Kind: "ReplicationController"}:                                   reading(judgeReplicationController),
	{Kind: "Pod"}:                                                     reading(judgePod),
	{Kind: "Service"}:                                                 reading(judgeService),
	{Group: "batch", Kind: "Job"}:                                     reading(judgeJob),
	{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}: reading(judgeDefinitionStatus),
	{Group: "monitoring.coreos.com", Kind: "Prometheus"}:              reading(judgeMonitoring),
	{Group: "monitoring.coreos.com", Kind: "Alertmanager"}:            reading(judgeMonitoring),
	{Group: "autoscaling.k8s.io", Kind: "VerticalPodAutoscaler"}:      reading(judgeVerticalPodAutoscaler),
	{Group: "cert.gardener.cloud", Kind: "Certificate"}:               reading(judgeCertificate),
	{Group: "cert.gardener.cloud", Kind: "Issuer"}:                    reading(judgeIssuer),
}

// Kinds returns the kinds with a rule, in any order.
func Kinds() []schema.GroupKind { return slices.Collect(maps.Keys(rules)) }

// HasRule reports whether there is a rule for a kind, in any version. The rule may be unable to read objects of some versions: see
// Verdict.Failed.
func HasRule(kind schema.GroupKind) bool {
	_, found := rules[kind]
	return found
}
