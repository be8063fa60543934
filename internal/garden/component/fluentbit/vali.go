package fluentbit

import (
	"fmt"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/vali"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// toVali returns an output of the plugin that sends records to vali. The plugin adds the labels, and keeps records in a queue below folder.
func toVali(v values.Values, name, match, origin, folder, queue string, further ...string) client.Object {
	lines := append([]string{
		"Name gardenervali", "Match " + match, "Labels {origin=\"" + origin + "\"}", "Url " + vali.URL(v) + "/vali/api/v1/push", "LogLevel info",
		"BatchWait 5s", "BatchSize 2097152", "LineFormat json", "SortByTimestamp true", "DropSingleKey false", "AutoKubernetesLabels false",
		"HostnameKeyValue nodename ${NODE_NAME}", "MaxRetries 5", "Timeout 10s", "MinBackoff 10s", "MaxBackoff 300s", "Buffer true",
		"BufferType dque", "QueueDir " + folder, "QueueName " + queue, "QueueSegmentSize 10000", "QueueSync normal", "NumberOfBatchIDs 5",
	}, further...)
	return part("ClusterOutput", name, map[string]any{"customPlugin": map[string]any{"config": strings.Join(lines, "\n") + "\n"}})
}

const buffers = "/fluent-bit/buffers"

func journalToVali(v values.Values) client.Object {
	return toVali(v, "journald", units, "seed-journald", buffers, "seed-journald", "RemoveKeys kubernetes,stream,hostname,unit",
		`LabelMapPath {"hostname":"host_name","unit":"systemd_component"}`)
}

func containersToVali(v values.Values) client.Object {
	return toVali(v, "static-vali", containers, "garden", buffers+"/garden", "gardener-operator-static",
		"RemoveKeys kubernetes,stream,time,tag,gardenuser,job",
		fmt.Sprintf(`LabelMapPath {"kubernetes": {%s},"severity": "severity","job": "job"}`,
			`"container_name":"container_name","container_id":"container_id","namespace_name":"namespace_name","pod_name":"pod_name"`),
		"FallbackToTagWhenMetadataIsMissing true", "TagKey tag", "DropLogEntryWithoutK8sMetadata true")
}
