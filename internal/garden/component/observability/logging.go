package observability

import (
	"net"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// LoggingLabels returns the labels of the objects of a component for logs.
func LoggingLabels(app string) map[string]string {
	return map[string]string{"app": app, roleLabel: "logging", object.Role: "logging"}
}

// LogVolume returns the size of the volume of a store of logs.
func LogVolume(v values.Values) resource.Quantity {
	return resource.MustParse(volumeSize(v, "30Gi"))
}

// The addresses at which the gateway, fluent-bit and the collector reach each other inside of the cluster.
const (
	// CollectorService is the Service of the collector, which gets logs at CollectorPort by OTLP over HTTP.
	CollectorService = "opentelemetry-collector-collector"
	CollectorPort    = 4318
	// CollectorContainer is the name that the OpenTelemetry operator gives the container of the collector.
	CollectorContainer = "otc-container"
	// ValiService is the name of the Service of vali, and ValiPort is the port of this Service. VictoriaLogsService is the name of the
	// Service of VictoriaLogs, and VictoriaLogsPort is the port of this Service.
	ValiService         = "logging"
	ValiPort            = 3100
	VictoriaLogsService = "logging-vl"
	VictoriaLogsPort    = 9428
)

// URL returns the address of a Service of the garden.
func URL(v values.Values, service string, port int) string {
	return "http://" + net.JoinHostPort(object.ServiceHost(v.Namespace, service), strconv.Itoa(port))
}

// WithoutLogs returns why a Garden stores no logs, in one sentence, or "".
func WithoutLogs(v values.Values) string {
	hasVali := !v.Skips("vali") && !v.RemoveVali
	hasVictoriaLogs := v.VictoriaLogs && !v.Skips("victoria-logs") && !v.Skips("victoria-operator")
	switch {
	case v.PodsHaveIPv6:
		return "Pods of the runtime cluster have IPv6, which the stores of logs do not support."
	case !hasVali && !hasVictoriaLogs:
		return "The configuration of the operator has no store of logs."
	}
	return ""
}
