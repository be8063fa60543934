package versions

import "slices"

// switchedOff are the controllers of kube-controller-manager that do not run in a virtual cluster, which has no nodes and no Secrets with
// static tokens. kube-controller-manager does not start with a name that it does not know.
var switchedOff = []struct {
	// api is the API version without which the controllers have nothing to do. Empty: they do not run in any virtual cluster.
	api string
	// columns contains one character for each supported version: + if the row applies to the version, and - if it does not.
	columns     string
	controllers []string
}{
	{"", "+++++", []string{
		"attachdetach", "cloud-node-lifecycle", "endpoint", "ephemeral-volume", "nodeipam", "nodelifecycle", "persistentvolume-binder",
		"persistentvolume-expander", "pv-protection", "serviceaccount-token", "ttl",
	}},
	{"", "-++++", []string{"device-taint-eviction-controller"}},
	{"", "--+++", []string{"podcertificaterequest-cleaner-controller"}},
	{"", "----+", []string{"podgroup-protection-controller", "resourcepoolstatusrequest-controller"}},
	{"admissionregistration.k8s.io/v1", "+++++", []string{"validatingadmissionpolicy-status-controller"}},
	{"apps/v1", "+++++", []string{"daemonset", "deployment", "replicaset", "statefulset"}},
	{"authorization.k8s.io/v1", "+++++", []string{"csrapproving"}},
	{"autoscaling/v1", "+++++", []string{"horizontalpodautoscaling"}},
	{"autoscaling/v2", "+++++", []string{"horizontalpodautoscaling"}},
	{"batch/v1", "+++++", []string{"cronjob", "job", "ttl-after-finished"}},
	{"certificates.k8s.io/v1", "+++++", []string{"csrapproving", "csrcleaner", "csrsigning"}},
	{"coordination.k8s.io/v1", "+++++", []string{"storage-version-gc"}},
	{"discovery.k8s.io/v1", "+++++", []string{"endpointslice", "endpointslicemirroring"}},
	{"internal.apiserver.k8s.io/v1alpha1", "+++++", []string{"storage-version-gc"}},
	{"networking.k8s.io/v1beta1", "+----", []string{"service-cidr-controller"}},
	{"networking.k8s.io/v1", "-++++", []string{"service-cidr-controller"}},
	{"policy/v1", "+++++", []string{"disruption"}},
	{"rbac.authorization.k8s.io/v1", "+++++", []string{"clusterrole-aggregation"}},
	{"resource.k8s.io/v1beta1", "++---", []string{"resource-claim-controller"}},
	{"resource.k8s.io/v1", "--+++", []string{"resourceclaim-controller"}},
	{"storage.k8s.io/v1", "+++++", []string{"selinux-warning-controller"}},
	{"storage.k8s.io/v1beta1", "++---", []string{"volumeattributesclass-protection-controller"}},
	{"storage.k8s.io/v1", "--+++", []string{"volumeattributesclass-protection-controller"}},
	{"storagemigration.k8s.io/v1alpha1", "+++--", []string{"storage-version-migrator-controller"}},
	{"storagemigration.k8s.io/v1beta1", "---++", []string{"storage-version-migrator-controller"}},
}

// DisabledControllers returns the controllers of kube-controller-manager that must not run in a virtual cluster of this version, sorted.
// runtimeConfig contains the API versions that kube-apiserver switches on or off. The result is empty for versions that are not supported.
func (k Kubernetes) DisabledControllers(runtimeConfig map[string]bool) []string {
	var names []string
	for _, row := range switchedOff {
		served, set := runtimeConfig[row.api]
		if k.cell(row.columns) == '+' && (row.api == "" || set && !served) {
			names = append(names, row.controllers...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
