// Package deployable declares the objects that each binary needs in a cluster: Deployment, ServiceAccount, bindings of its roles,
// configuration, Service and disruption budget. The files in deploy/ are rendered from these declarations. The package declares no roles
// and no CRDs: roles are generated from the markers beside the code, and CRDs are generated from api/.
package deployable

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/config"
)

const (
	// gardenOperator and projectController never have a separate target: they have no configuration for two clusters. extensionController
	// runs in the cluster of a Seed. Its target is the garden, and it gets the credentials for the garden itself.
	extensionController = "extension-controller"
	gardenOperator      = "garden-operator"
	projectController   = "project-controller"
	tokenControllers    = "token-controllers"
	webhookServer       = "webhook-server"
)

// Namespace is the namespace of all binaries, unless a Place sets another one. The generated roles of the binaries contain this namespace.
const Namespace = "espalier-system"

// GardenNamespace is the namespace of the lease of garden-operator, and of all objects of a Garden except Istio's.
const GardenNamespace = "garden"

// IstioNamespace is the namespace of istiod and of the ManagedResources of Istio.
const IstioNamespace = "istio-system"

// RestoreDrillNamespace is the namespace in which garden-operator restores backups to test them.
const RestoreDrillNamespace = "garden-restore-drill"

// The default ports of all binaries, for configuration files that have no defaults of their own.
const (
	probePort   = 8081
	metricsPort = 8080
	webhookPort = 9449
)

// CriticalPriority is the PriorityClass of garden-operator, and of the components of a Garden that all other components need. The chart of
// Gardener's operator contains the same PriorityClass, with the same content.
const CriticalPriority = "gardener-garden-system-critical"

// ClusterAdmin is the built-in role with all rights.
const ClusterAdmin = "cluster-admin"

// Role is a role that is bound to the ServiceAccount of a binary.
type Role struct {
	// Name is the name of the Role or ClusterRole.
	Name string
	// Namespace is the namespace of a Role; empty for a ClusterRole.
	Namespace string
}

// Binary declares the objects of one binary of cmd/ in its clusters.
type Binary struct {
	// Name is the name of the binary in cmd/ and deploy/. The objects have the name espalier-<name>.
	Name string
	// Family is the folder below internal/ whose code the binary runs. The roles are generated from the markers in this folder.
	Family string
	// Purpose is the description in the values of the chart. A line is shorter than 138 characters.
	Purpose string
	// Does is the rest of a sentence that begins with the name of the binary, in the tables of the documentation. Reads and Writes list the
	// objects that the binary reads and writes, by cluster, in the same tables.
	Does, Reads, Writes string
	// Roles are bound to its ServiceAccount. They are roles in deploy/<name>/rbac, or cluster-admin.
	Roles []Role
	// Config is the configuration file for the case that source and target are one cluster.
	Config string
	// OffTogether leaves the binary out of the overlay for one cluster, because with the shipped configuration it would do nothing there.
	// Administrators can add it.
	OffTogether bool
	// ConfigApart is the configuration file for the case that source and target are two clusters; empty if the binary has no separate
	// target.
	ConfigApart string
	// ProbePort, MetricsPort and WebhookPort are the ports in Config; WebhookPort is 0 if the binary serves no webhooks.
	ProbePort, MetricsPort, WebhookPort int32
	// Memory and CPU are the requests of the container.
	Memory, CPU resource.Quantity
	// GarbagePercent is how much garbage the process accumulates before a garbage collection, in percent of the memory in use (GOGC). 0 means
	// Go's default of 100: then half of the memory of a process with large caches would be garbage. A lower value costs processor time at the
	// start of the process, when it allocates much memory, and hardly any later.
	GarbagePercent int
	// Critical gives the Pods of the binary the PriorityClass CriticalPriority, and adds this PriorityClass to the objects. Otherwise, on a
	// small node, the Pods of a Garden would preempt the Pods of the process that deploys the Garden.
	Critical bool

	// OtherCluster is true if the process connects to another cluster with the configuration for one cluster, too. Its address is not known.
	OtherCluster bool

	place Place
}

// All returns all binaries in the order of their names.
func All() []Binary {
	all := append(controllers(), servers()...)
	for i := range all {
		if !slices.Contains([]string{extensionController, gardenOperator, projectController}, all[i].Name) {
			all[i].ConfigApart = apart(all[i].Config)
		}
	}
	slices.SortFunc(all, func(a, b Binary) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// controllers returns the binaries that serve no webhooks.
//
//nolint:funlen // it is a table
func controllers() []Binary {
	return []Binary{
		{
			Name: "csr-approver", Family: "csr",
			Does: "approves the serving certificates of kubelets, and denies requests with names or addresses that do not belong " +
				"to the node",
			Reads: "target: requests, Nodes; source: Machines", Writes: "target: approvals",
			Purpose: "csr-approver approves serving certificates of kubelets.",
			Roles: append(clusterRoles("csr-approver-source", "csr-approver-target"), lease("csr-approver"),
				Role{"espalier-csr-approver-target-apiserver", "default"}, Role{"espalier-csr-approver-target-events", "default"}),
			Config: resourceManager(`controllers:
  kubeletCSRApprover: {enabled: true}
espalier:
  csrApprover:
    withoutMachines: true
    deniedIdentities: {apiServer: true}
`),
			ProbePort: probePort, MetricsPort: metricsPort, Memory: resource.MustParse("64Mi"), CPU: resource.MustParse("10m"),
		},
		{
			Name: extensionController, Family: "extension",
			Does: "installs the extensions of Gardener that ControllerInstallations of one Seed ask for, in the place of gardenlet; it is no " +
				"extension itself",
			Reads:  "garden: ControllerInstallations, their charts, the Seed; Seed: objects of extensions",
			Writes: "Seed: ManagedResources, namespaces, Secrets; garden: conditions",
			Purpose: "extension-controller installs extensions in the cluster of a Seed. It does nothing until its config names the Seed, and " +
				"must\nnot run beside a gardenlet. See docs/extension-controller.md.",
			Roles: append(clusterRoles("extension-controller-source"), lease("extension-controller"),
				Role{"espalier-extension-controller-source", GardenNamespace}),
			Config:      extensionConfig,
			OffTogether: true, OtherCluster: true,
			ProbePort: 2728, MetricsPort: 2729, Memory: resource.MustParse("128Mi"), CPU: resource.MustParse("20m"),
		},
		{
			Name: "managedresource-controller", Family: "managedresource",
			Does:  "keeps the objects of ManagedResources applied, reports their health, deletes unused ConfigMaps and Secrets",
			Reads: "source: ManagedResources, Secrets", Writes: "target: the objects of the sets",
			Purpose: "managedresource-controller keeps the objects of ManagedResources. It collects garbage, too.",
			// Objects of ManagedResources are applied with the rights of this ServiceAccount. docs/security.md describes the consequences,
			// and how to restrict the rights.
			Roles: append(clusterRoles("managedresource-controller-source"), lease("managedresource-controller"),
				Role{"espalier-managedresource-controller-cluster-identity", "kube-system"}, Role{Name: ClusterAdmin}),
			// The controller applies all ManagedResources with these rights. So only administrators may decide in which namespaces ManagedResources
			// are applied: a namespace other than espalier-system needs a label, and a user with the role edit can change Secrets, but not
			// Namespaces.
			Config: resourceManager(`controllers:
  garbageCollector: {enabled: true}
espalier:
  managedResource:
    namespaces:
      sets: [` + Namespace + `]
      setSelector: {matchLabels: {` + resourcesv1alpha1.SetsAllowedLabel + `: ` + resourcesv1alpha1.SetsAllowed + `}}
    deletionLimit: {objects: 10, percent: 50, namespacesAndDefinitions: 3}
`),
			ProbePort: probePort, MetricsPort: metricsPort, Memory: resource.MustParse("128Mi"), CPU: resource.MustParse("50m"),
			// 50 is a compromise: the caches of 50,000 objects need a third less memory than with Go's default, and the first apply needs
			// hardly more processor time.
			GarbagePercent: 50,
		},
		{
			Name: "netpol-controller", Family: "networkpolicy",
			Does:  "derives NetworkPolicies from Services and Ingresses, and makes those that close namespaces",
			Reads: "target: Services, Namespaces, Ingresses, endpoints of the API server, Gardens", Writes: "target: NetworkPolicies",
			Purpose:   "netpol-controller makes NetworkPolicies from Services.",
			Roles:     append(clusterRoles("netpol-controller-target"), lease("netpol-controller")),
			Config:    resourceManager(networkPolicySections),
			ProbePort: probePort, MetricsPort: metricsPort, Memory: resource.MustParse("64Mi"), CPU: resource.MustParse("10m"),
		},
		{
			Name: "node-controller", Family: "node",
			Does:  "keeps Pods off new nodes until their critical components are ready",
			Reads: "target: Nodes, Pods, DaemonSets", Writes: "target: taints of Nodes",
			Purpose: "node-controller holds new Nodes back until what they need runs on them.",
			Roles:   append(clusterRoles("node-controller-target"), lease("node-controller")),
			Config: resourceManager(`controllers:
  node: {enabled: true}
`),
			ProbePort: probePort, MetricsPort: metricsPort, Memory: resource.MustParse("64Mi"), CPU: resource.MustParse("10m"),
		},
		{
			Name: tokenControllers, Family: "token",
			Does: "stores ServiceAccount tokens of a target cluster in Secrets and renews them; marks static tokens for " +
				"invalidation",
			Reads: "source: labelled Secrets", Writes: "target: ServiceAccounts and their tokens; source: Secrets",
			Purpose: "token-controllers keeps tokens of ServiceAccounts in Secrets. With null, it is on if targetKubeconfigSecret is set. " +
				"In one cluster it\nhas nothing to do until its config says which tokens Secrets may ask for: see docs/token-controllers.md.",
			Roles: append(clusterRoles("token-controllers-source", "token-controllers-target", "token-controllers-target-invalidator"),
				lease("token-controllers")),
			// In one cluster, users who may write Secrets must not get tokens of ServiceAccounts of other namespaces. So an administrator who
			// enables the requestor must configure which tokens these users may get. Static tokens are marked only if webhook-server prevents new
			// valid tokens in the marked Secrets: see Invalidating.
			Config: resourceManager(`controllers:
  ` + requestorOff + `
  ` + invalidatorOff + `
espalier:
  token: {audiences: []}
`),
			OffTogether: true,
			ProbePort:   probePort, MetricsPort: metricsPort, Memory: resource.MustParse("64Mi"), CPU: resource.MustParse("10m"),
		},
	}
}

// networkPolicySections make netpol-controller work only in namespaces that an administrator has labelled: NetworkPolicies isolate the
// Pods behind a Service, and nothing may change in all other namespaces. The namespace kube-system is excluded even if it has the label,
// for example after `kubectl label namespaces --all`: if DNS is isolated, the cluster stops. Services may select only these namespaces as
// clients; otherwise the author of one Service could make the controller create policies in every namespace.
const networkPolicySections = `controllers:
  networkPolicy:
    enabled: true
    namespaceSelectors:
    - matchLabels: {` + resourcesv1alpha1.NetworkPoliciesNamespace + `: enabled}
      matchExpressions:
      - {key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system]}
espalier:
  networkPolicy:
    clientNamespaceSelectors:
    - matchLabels: {` + resourcesv1alpha1.NetworkPoliciesNamespace + `: enabled}
      matchExpressions:
      - {key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system]}
`

// servers returns the binaries that serve webhooks.
func servers() []Binary {
	return []Binary{
		{
			Name: gardenOperator, Family: "garden",
			Does: "checks Gardens, which describe an installation of Gardener, prepares the runtime cluster for them, and runs the " +
				"virtual cluster with Gardener's own programs. As shipped, it skips logging and monitoring",
			Reads: "Garden, its components", Writes: "runtime cluster; virtual cluster",
			Purpose: "garden-operator checks Gardens, and prepares the runtime cluster for them. Namespaces garden and istio-system must " +
				"exist before it is\nenabled, and garden-restore-drill before config.espalier.garden.backup.restoreData is. See " +
				"docs/garden-operator.md.",
			Roles: append(clusterRoles("garden-operator-source", "garden-operator-selfmanaged"),
				Role{"espalier-garden-operator-lease", GardenNamespace}, Role{"espalier-garden-operator-garden", GardenNamespace},
				Role{"espalier-garden-operator-istio", IstioNamespace}, Role{"espalier-garden-operator-restore-drill", RestoreDrillNamespace},
				Role{"espalier-garden-operator-cluster-identity", "kube-system"}, Role{"espalier-garden-operator-apiserver", "default"},
				Role{"espalier-garden-operator-events", "default"},
				Role{"espalier-garden-operator-selfmanaged", Namespace}),
			Config:      operatorConfig,
			OffTogether: true,
			ProbePort:   2751, MetricsPort: 2752, WebhookPort: 2750,
			Memory: resource.MustParse("128Mi"), CPU: resource.MustParse("20m"), Critical: true,
		},
		{
			Name: projectController, Family: "project",
			Does:  "gives teams namespaces with roles and quotas, and removes unused ones",
			Reads: "garden cluster", Writes: "garden cluster",
			Purpose: "project-controller keeps namespaces, members and quotas of Projects.",
			Roles: append(clusterRoles("project-controller-source", "project-controller-selfmanaged"), lease("project-controller"),
				Role{"espalier-project-controller-selfmanaged", Namespace}),
			Config:    projectConfig,
			ProbePort: 2718, MetricsPort: 2719, WebhookPort: 2720,
			Memory: resource.MustParse("128Mi"), CPU: resource.MustParse("20m"), GarbagePercent: 25,
		},
		{
			Name: webhookServer, Family: "webhook",
			Does: "serves admission webhooks: high availability, projected tokens, topology spread, seccomp, deletion protection, " +
				"validation and more",
			Reads: "target: look-ups", Writes: "–",
			Purpose: "webhook-server changes and checks what others create.",
			Roles: append(clusterRoles("webhook-server-source", "webhook-server-target", "webhook-server-target-selfmanaged"),
				Role{"espalier-webhook-server-selfmanaged", Namespace}),
			Config: `apiVersion: resourcemanager.config.gardener.cloud/v1alpha1
kind: ResourceManagerConfiguration
leaderElection: {leaderElect: false}
webhooks:
  endpointSliceHints: {enabled: true}
  highAvailabilityConfig: {enabled: true, defaultNotReadyTolerationSeconds: 60, defaultUnreachableTolerationSeconds: 60}
  podTopologySpreadConstraints: {enabled: true}
  projectedTokenMount: {enabled: true}
  seccompProfile: {enabled: true}
espalier:
  webhooks: ` + selfManaged + `
`,
			ProbePort: probePort, MetricsPort: metricsPort, WebhookPort: webhookPort, Memory: resource.MustParse("64Mi"),
			CPU: resource.MustParse("50m"),
		},
	}
}

// extensionConfig names no Seed: only the user who installs the process knows the name of the Seed, and without this name the process does
// not start. The Secrets that extensionConfig names are in the namespace of the process, not in the namespace of a gardenlet. The chart
// policy is the strictest.
const extensionConfig = `apiVersion: gardenlet.config.gardener.cloud/v1alpha1
kind: GardenletConfiguration
leaderElection: {resourceNamespace: ` + Namespace + `}
gardenClientConnection:
  bootstrapKubeconfig: {name: espalier-extension-controller-bootstrap, namespace: ` + Namespace + `}
  kubeconfigSecret: {name: espalier-extension-controller-garden, namespace: ` + Namespace + `}
seedConfig: {metadata: {name: ""}}
`

// projectConfig sets the namespace of the lease to the namespace of the generated role. It disables the deletion of unused Projects,
// because the overlay for one cluster installs the CRD of Shoots: if Shoots are served, and a team has no Shoots, the Deployments of the
// team do not count as use.
const projectConfig = `apiVersion: controllermanager.config.gardener.cloud/v1alpha1
kind: ControllerManagerConfiguration
leaderElection: {resourceNamespace: ` + Namespace + `}
espalier:
  project:
    staleDeletion: DryRun
    webhooks: {selfManaged: {}}
`

// operatorConfig uses the lease of Gardener's operator, in namespace garden, so that the two operators exclude each other.
const operatorConfig = `apiVersion: operator.config.gardener.cloud/v1alpha1
kind: OperatorConfiguration
controllers:
  gardenCare:
    conditionThresholds:
    - {type: VirtualGardenAPIServerAvailable, duration: 1m}
    - {type: RuntimeComponentsHealthy, duration: 1m}
    - {type: VirtualComponentsHealthy, duration: 1m}
    - {type: ObservabilityComponentsHealthy, duration: 1m}
  networkPolicy: {concurrentSyncs: 5}
featureGates: {DefaultSeccompProfile: true}
nodeToleration: {defaultNotReadyTolerationSeconds: 60, defaultUnreachableTolerationSeconds: 60}
espalier:
  garden:
    webhooks: {selfManaged: {}}
    ` + ShippedSkips + `
    ` + ShippedImages + `
`

// ShippedSkips is the line in the configuration of garden-operator that skips the components of logging and monitoring. A cluster may
// already have a prometheus-operator, and two prometheus-operators would reconcile the same instances of Prometheus. So users must choose
// one of them.
const ShippedSkips = `skipComponents: [prometheus-operator, prometheus-garden, prometheus-longterm, alertmanager-garden, ` +
	`blackbox-exporter, kube-state-metrics-runtime, gardener-metrics-exporter` + skippedLogs + skippedUIs + `]`

const (
	skippedLogs = `, fluent-operator, fluent-operator-custom-resources-garden, fluent-bit, vali, opentelemetry-operator, ` +
		`opentelemetry-collector, victoria-operator, victoria-logs`
	skippedUIs = `, plutono, virtual-garden-istio-basic-auth-server, observability-exposure, perses-operator`
)

// ShippedImages is the line in the configuration of garden-operator that sets the repository for the images of the other binaries.
const ShippedImages = `images: {repository: ` + config.DefaultImageRepository + `}`

// selfManaged registers the webhooks with the address of the Service, which API servers of another cluster cannot reach.
const selfManaged = `{selfManaged: {}}`

// AddressMissing stands in ConfigApart for the address by which API servers of the target reach this server. Only the user who installs
// the server knows this address. With the value AddressMissing, the server does not start. So it registers no webhooks that API servers
// cannot reach: such webhooks would block requests in the whole target.
const AddressMissing = "say here how API servers of the target reach this server, as https://host:port"

// Lines that enable or disable the controllers of token-controllers. The shipped configuration for one cluster contains the first two;
// other configurations replace them.
const (
	requestorOff   = "tokenRequestor: {enabled: false}"
	invalidatorOff = "tokenInvalidator: {enabled: false}"
	invalidatorOn  = "tokenInvalidator: {enabled: true}"
)

// Invalidating returns the configuration files, by binary, that enable the token invalidator if source and target are one cluster:
// token-controllers marks static tokens, and webhook-server overwrites the marked ones.
func Invalidating() map[string]string {
	files := map[string]string{}
	for _, each := range All() {
		switch each.Name {
		case tokenControllers:
			files[each.Name] = strings.Replace(each.Config, invalidatorOff, invalidatorOn, 1) + "webhooks:\n  " + invalidatorOn + "\n"
		case webhookServer:
			files[each.Name] = strings.Replace(each.Config, "webhooks:\n", "controllers:\n  "+invalidatorOn+"\nwebhooks:\n  "+invalidatorOn+"\n", 1)
		}
	}
	return files
}

// IsForUsers reports whether a role is for the users of a subcommand, and not for the process.
func IsForUsers(role string) bool {
	return role == "espalier-garden-operator-backup" || role == "espalier-garden-operator-restore"
}

// OnlyForRequestor reports whether only the token requestor needs a role of token-controllers, so that the token invalidator works without
// this role.
func OnlyForRequestor(role string) bool {
	return role == "espalier-token-controllers-source" || role == "espalier-token-controllers-target"
}

// apart returns the configuration file for two clusters, made from that for one. It names the mounted kubeconfig of the target.
func apart(config string) string {
	config = strings.Replace(config, requestorOff, "tokenRequestor: {enabled: true}", 1)
	config = strings.Replace(config, selfManaged, `{selfManaged: {url: "`+AddressMissing+`"}}`, 1)
	return config + "targetClientConnection: {kubeconfig: " + targetPath + "/" + TargetKey + "}\n"
}

func resourceManager(sections string) string {
	return fmt.Sprintf(`apiVersion: resourcemanager.config.gardener.cloud/v1alpha1
kind: ResourceManagerConfiguration
leaderElection: {resourceNamespace: %s}
%s`, Namespace, sections)
}

func clusterRoles(names ...string) []Role {
	roles := make([]Role, 0, len(names))
	for _, name := range names {
		roles = append(roles, Role{Name: "espalier-" + name})
	}
	return roles
}

func lease(binary string) Role { return Role{"espalier-" + binary + "-lease", Namespace} }

// Environment returns the environment variables of a binary's container that do not depend on the Pod, in the form NAME=value. A process
// with these variables needs as much memory as in its Deployment.
func Environment(binary string) []string {
	b, _ := Named(binary)
	tuning := b.tuning()
	variables := make([]string, 0, len(tuning))
	for _, variable := range tuning {
		variables = append(variables, variable.Name+"="+variable.Value)
	}
	return variables
}

// tuning returns the environment variables with settings of the Go runtime.
func (b Binary) tuning() []corev1.EnvVar {
	if b.GarbagePercent == 0 {
		return nil
	}
	return []corev1.EnvVar{{Name: "GOGC", Value: strconv.Itoa(b.GarbagePercent)}}
}
