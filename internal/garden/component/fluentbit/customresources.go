package fluentbit

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/values"
)

// Expressions for lines of programs. The groups become fields of the record; log is the text.
const (
	klog = `^(?<severity>\w)(?<time>\d{4} [^\s]*)\s+(?<pid>\d+)\s+(?<source>[^ \]]+)\] (?<log>.*)$`
	// logfmt is for programs that write the level first. curatorLog is for the curator of vali, which writes the caller first.
	logfmt     = `^level=(?<severity>\w+)\s+(?:ts=(?<time>[^ ]+)\s+)?caller=(?<source>[^ ]+)\s+(?<log>.*)$`
	curatorLog = `^caller=(?<source>[^ ]+)\s+level=(?<severity>\w+)\s+ts=(?<time>[^ ]+)\s+(?<log>.*)$`
	etcdLog    = `^(?<time>\d{4}-\d{2}-\d{2}\s+[^ ]+)\s+(?<severity>\w+)\s+\|\s+(?<source>[^ :]*): (?<log>.*)$`
	backupLog  = `^time="(?<time>[^"]+)"\s+level=(?<severity>\w+)\s+msg="(?<log>.*)"$`

	klogTime   = "%m%d %H:%M:%S.%L"
	offsetTime = "%Y-%m-%dT%H:%M:%S.%L%z"
	jsonTime   = "%Y-%m-%dT%H:%M:%S.%L"
)

// program is a program whose lines are split into fields.
type program struct {
	// filter is the name of the filter, and pattern selects files by the names of Pods and containers.
	filter, pattern string
	// parser is the name of the parser. If spec is nil, another program of the list defines the parser.
	parser string
	spec   map[string]any
	// rename are pairs of names: a field of the parser, and its name in the record.
	rename []string
}

// programs returns the programs of a garden.
func programs() []program {
	json := func(timeKey string) map[string]any {
		return map[string]any{"json": map[string]any{"timeKey": timeKey, "timeFormat": jsonTime, "timeKeep": true}}
	}
	return []program{
		{
			filter: "gardener-resource-manager", pattern: "*gardener-resource-manager*gardener-resource-manager*",
			parser: "gardener-resource-manager-parser", spec: json("ts"),
			rename: []string{"level", "severity", "msg", "log", "logger", "source"},
		},
		{
			filter: "nginx-ingress-controller", pattern: "*nginx-ingress-controller*nginx-ingress-controller*", parser: "kube-apiserver-parser",
		},
		{filter: "vpa", pattern: "*vpa-*", parser: "vpa-parser", spec: regex(klog, klogTime)},
		{filter: "vali--vali", pattern: "*vali*vali*", parser: "vali-parser", spec: regex(logfmt, offsetTime)},
		{filter: "vali--curator", pattern: "*vali*curator*", parser: "curator-parser", spec: regex(curatorLog, offsetTime)},
		{
			filter: "victoria-logs", pattern: "*vlsingle-victoria-logs*vlsingle*", parser: "victoria-logs-parser", spec: json("ts"),
			rename: []string{"level", "severity", "msg", "log", "caller", "source"},
		},
		{
			filter: "kube-state-metrics", pattern: "*kube-state-metrics*kube-state-metrics*", parser: "kube-state-metrics-parser",
			spec: regex(klog, klogTime),
		},
		{
			filter: "istio-basic-auth-server", pattern: "*istio-basic-auth-server*istio-basic-auth-server*",
			parser: "istio-basic-auth-server-parser", spec: json("time"), rename: []string{"level", "severity", "msg", "log"},
		},
		{filter: "etcd--etcd", pattern: "*etcd*etcd*", parser: "etcd-parser", spec: regex(etcdLog, "%Y-%m-%d %H:%M:%S.%L")},
		{
			filter: "etcd--backup-restore", pattern: "*etcd*backup-restore*", parser: "backup-restore-parser",
			spec: regex(backupLog, "%Y-%m-%dT%H:%M:%S%z"),
		},
		{
			filter: "kube-apiserver--kube-apiserver", pattern: "*kube-apiserver*kube-apiserver*", parser: "kube-apiserver-parser",
			spec: regex(klog, klogTime),
		},
		{
			filter: "kube-controller-manager", pattern: "*kube-controller-manager*kube-controller-manager*",
			parser: "kube-controller-manager-parser", spec: regex(klog, klogTime),
		},
	}
}

// CustomResources returns the objects of the ManagedResource with the inputs, filters and parsers of a garden, and, if there is no
// collector, the output to vali. In a Seed in the same cluster, gardenlet has another ManagedResource with further parts of the
// configuration.
func CustomResources(v values.Values) []client.Object {
	objects := []client.Object{journal("kubelet"), journal("containerd")}
	for _, each := range programs() {
		objects = append(objects, each.split())
		if each.spec != nil {
			objects = append(objects, part("ClusterParser", each.parser, each.spec))
		}
	}
	if !v.OpenTelemetryCollector {
		objects = append(objects, containersToVali(v))
	}
	return objects
}

// journal returns the input of the records of a unit.
func journal(unit string) client.Object {
	return part("ClusterInput", "systemd-"+unit, map[string]any{"systemd": map[string]any{
		"tag": "systemd." + unit, "path": journalPath, "readFromTail": "on", "storageType": "filesystem", "pauseOnChunksOverlimit": "on",
		"systemdFilter": []any{"_SYSTEMD_UNIT=" + unit + ".service"}, "db": statePath + "/flb_" + unit + ".db",
	}})
}

// split returns the filter that splits the lines of a program into fields. A line of another form stays as it is.
func (p program) split() client.Object {
	filters := []any{map[string]any{"parser": map[string]any{"keyName": "log", "parser": p.parser, "reserveData": true}}}
	if len(p.rename) > 0 {
		var rules []any
		for i := 0; i+1 < len(p.rename); i += 2 {
			rules = append(rules, map[string]any{"rename": map[string]any{p.rename[i]: p.rename[i+1]}})
		}
		filters = append(filters, map[string]any{"modify": map[string]any{"rules": rules}})
	}
	return part("ClusterFilter", p.filter, map[string]any{"match": "kubernetes." + p.pattern, "filters": filters})
}
