package component

// Names of rows that other rows name.
const (
	ETCDDefinitions  = "etcd-definitions"
	VPADefinitions   = "vpa-definitions"
	HVPA             = "hvpa"
	IstioDefinitions = "istio-definitions"
	// MonitoringDefinitions and ExtensionDefinitions are the rows of definitions that gardenlet needs in the runtime cluster.
	MonitoringDefinitions = "monitoring-definitions"
	ExtensionDefinitions  = "extension-definitions"

	// PrometheusOperator is the row of the operator of Prometheus and Alertmanager, of the Garden and of a Seed in the runtime cluster.
	PrometheusOperator = "prometheus-operator"
	// PrometheusGarden is the row of the Prometheus that scrapes the garden. PrometheusLongterm is the row of the Prometheus that keeps a
	// part of the series of PrometheusGarden.
	PrometheusGarden   = "prometheus-garden"
	PrometheusLongterm = "prometheus-longterm"
	// AlertmanagerGarden is the row of the Alertmanager that the Prometheus of the garden sends alerts to.
	AlertmanagerGarden = "alertmanager-garden"
	// BlackboxExporter is the row of the program that sends requests to the servers of the garden, as their clients do.
	BlackboxExporter = "blackbox-exporter"

	// Plutono is the row of the web UI with dashboards.
	Plutono = "plutono"
	// FluentDefinitions is the row of the definitions for fluent-operator, and FluentOperator is the row of fluent-operator. FluentBit is the
	// row of fluent-bit, which fluent-operator runs, and which reads the logs of each node. FluentCustomResources is the row of settings of
	// fluent-bit.
	FluentDefinitions     = "fluent-definitions"
	FluentOperator        = "fluent-operator"
	FluentBit             = "fluent-bit"
	FluentCustomResources = "fluent-operator-custom-resources-garden"
	// Vali and VictoriaLogs are the rows of the stores of logs.
	Vali         = "vali"
	VictoriaLogs = "victoria-logs"
	// VictoriaDefinitions is the row of the definitions for VictoriaOperator, which runs VictoriaLogs.
	VictoriaDefinitions = "victoria-definitions"
	VictoriaOperator    = "victoria-operator"
	// OpenTelemetryDefinitions is the row of the definitions for OpenTelemetryOperator, which runs OpenTelemetryCollector. The collector gets
	// logs from FluentBit.
	OpenTelemetryDefinitions = "opentelemetry-definitions"
	OpenTelemetryOperator    = "opentelemetry-operator"
	OpenTelemetryCollector   = "opentelemetry-collector"
	// PersesDefinitions is the row of the definitions for perses-operator, and PersesOperator is the row of perses-operator.
	PersesDefinitions = "perses-definitions"
	PersesOperator    = "perses-operator"
	// BasicAuthServer is the row of the server that checks passwords for the gateway. Exposure is the row of the objects by which the gateway
	// passes requests on to web UIs.
	BasicAuthServer = "virtual-garden-istio-basic-auth-server"
	Exposure        = "observability-exposure"

	// RuntimeSystem is the row of the NetworkPolicies and PriorityClasses of the runtime cluster.
	RuntimeSystem = "runtime-system"
	// ResourceManager is the row of the resource manager of the runtime cluster.
	ResourceManager = "gardener-resource-manager"
	// BackupBucket is the row of the bucket for backups of the main etcd, and BackupEntry is the row of the folder in this bucket.
	BackupBucket = "backup-bucket"
	BackupEntry  = "backup-entry"
	// EarlyExtensions and LateExtensions are the rows of the Extensions before and after kube-apiserver.
	EarlyExtensions = "extensions-early"
	LateExtensions  = "extensions"
	// DNSRecords is the row of the DNS records of the Garden.
	DNSRecords = "dns-records"
	// Etcds is the row of the etcds of the virtual cluster.
	Etcds = "etcds"
	// NoManagedResources is the step of a deletion after which the runtime cluster has no ManagedResource of class seed.
	NoManagedResources = "managed-resources"
	// Unused is the step of a deletion that checks that the virtual cluster has no Seeds and Shoots. It must succeed before anything is
	// destroyed.
	Unused = "unused"
	// Leftovers and VirtualLeftovers are the steps that remove confirmed leftovers of a former garden in the two clusters.
	Leftovers        = "leftovers"
	VirtualLeftovers = "virtual-leftovers"
	// Preconditions is the step that must succeed before anything of the virtual cluster changes.
	Preconditions = "preconditions"
	// ExposedService and Routes are the rows of the objects by which clients reach kube-apiserver.
	ExposedService = "kube-apiserver-service"
	Routes         = "kube-apiserver-routes"
	KubeAPIServer  = "kube-apiserver"
	// VirtualResourceManager is the row of the resource manager of the virtual cluster.
	VirtualResourceManager = "virtual-resource-manager"
	VirtualSystem          = "virtual-system"
	// Connection is the step after which the operator can read the virtual cluster.
	Connection        = "connection"
	GardenerAccess    = "gardener-access"
	GardenerAPIServer = "gardener-apiserver"
	// GardenerControllerManager is the row of gardener-controller-manager, and of the policy that keeps it from changing Projects.
	GardenerControllerManager = "gardener-controller-manager"
)
