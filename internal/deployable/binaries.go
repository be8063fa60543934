// Package deployable declares, once for each binary, the objects that it needs in a cluster: Deployment, ServiceAccount, bindings
// of its roles, configuration, Service and disruption budget. deploy/ is rendered from it. The roles themselves are generated from
// the markers beside the code that needs them, and CRDs from api/; neither is here.
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
	// gardenOperator and projectController know one cluster only.
	gardenOperator    = "garden-operator"
	projectController = "project-controller"
	tokenControllers  = "token-controllers"
	webhookServer     = "webhook-server"
)

// Namespace is where all binaries run. Their generated roles name it.
const Namespace = "espalier-system"

// GardenNamespace is the namespace of the lease of garden-operator, and of everything that belongs to a Garden but Istio.
const GardenNamespace = "garden"

// IstioNamespace is the namespace of istiod and of the ManagedResources of Istio.
const IstioNamespace = "istio-system"

// Ports that all binaries serve at, unless their own configuration files have other defaults.
const (
	probePort   = 8081
	metricsPort = 8080
	webhookPort = 9449
)

// CriticalPriority is the PriorityClass of garden-operator, and of the components of a Garden that all others need. The chart of Gardener's
// operator has it too, with the same content.
const CriticalPriority = "gardener-garden-system-critical"

// ClusterAdmin is the built-in role with all rights.
const ClusterAdmin = "cluster-admin"

// Role is a role that a binary's ServiceAccount is given.
type Role struct {
	// Name is the role's.
	Name string
	// Namespace is the namespace of a Role; empty for a ClusterRole.
	Namespace string
}

// Binary declares the needs of one binary of cmd/ in its clusters.
type Binary struct {
	// Name is as in cmd/ and deploy/. The objects are called espalier-<name>.
	Name string
	// Family is the folder below internal/ whose code runs in it, and whose markers are its roles.
	Family string
	// Purpose is its description in the values of the chart. A line is shorter than 138 characters.
	Purpose string
	// Does completes, in the tables of the documentation, a sentence that begins with the name. Reads and Writes are the objects that it
	// reads and writes there, by cluster.
	Does, Reads, Writes string
	// Roles are bound to its ServiceAccount. They are roles in deploy/<name>/rbac, or cluster-admin.
	Roles []Role
	// Config is its configuration file where source and target are one cluster.
	Config string
	// OffTogether leaves it out where source and target are one cluster, until an administrator adds it: it has nothing to do there as
	// shipped.
	OffTogether bool
	// ConfigApart is its configuration file where they are two; empty if it knows one cluster only.
	ConfigApart string
	// ProbePort, MetricsPort and WebhookPort are where it listens, as Config says; the last is 0 if it serves no webhooks.
	ProbePort, MetricsPort, WebhookPort int32
	// Memory and CPU are requested.
	Memory, CPU resource.Quantity
	// GarbagePercent is how much garbage, in percent of the memory in use, the process accumulates before it collects it (GOGC). 0
	// leaves Go's default of 100: then half of the memory of a process with large caches would be garbage. A lower value costs processor
	// time while the process allocates much memory, at its start, and hardly any later.
	GarbagePercent int
	// Critical gives the Pods the PriorityClass CriticalPriority, which is one of the objects then. Without it, the Pods of a
	// Garden would preempt, on a small node, the Pods of the process that deploys them.
	Critical bool

	place Place
}

// All returns all binaries in the order of their names.
func All() []Binary {
	all := append(controllers(), servers()...)
	for i := range all {
		if all[i].Name != projectController && all[i].Name != gardenOperator {
			all[i].ConfigApart = apart(all[i].Config)
		}
	}
	slices.SortFunc(all, func(a, b Binary) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// controllers serve no webhooks.
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
			Name: "managedresource-controller", Family: "managedresource",
			Does:  "keeps the objects of ManagedResources applied, reports their health, deletes unused ConfigMaps and Secrets",
			Reads: "source: ManagedResources, Secrets", Writes: "target: the objects of the sets",
			Purpose: "managedresource-controller keeps the objects of ManagedResources. It collects garbage, too.",
			// Objects of ManagedResources are applied with these rights; docs/security.md describes the consequences, and how to
			// restrict them.
			Roles: append(clusterRoles("managedresource-controller-source"), lease("managedresource-controller"),
				Role{"espalier-managedresource-controller-cluster-identity", "kube-system"}, Role{Name: ClusterAdmin}),
			// ManagedResources act with these rights, so only administrators configure the namespaces of their objects: the role
			// edit allows changes of Secrets, and none of Namespaces.
			Config: resourceManager(`controllers:
  garbageCollector: {enabled: true}
espalier:
  managedResource:
    namespaces:
      sets: [` + Namespace + `]
      setSelector: {matchLabels: {` + resourcesv1alpha1.SetsAllowedLabel + `: ` + resourcesv1alpha1.SetsAllowed + `}}
`),
			ProbePort: probePort, MetricsPort: metricsPort, Memory: resource.MustParse("128Mi"), CPU: resource.MustParse("50m"),
			// A compromise: the caches of 50,000 objects need a third less memory than with Go's default, and the first apply needs hardly
			// more processor time.
			GarbagePercent: 50,
		},
		{
			Name: "netpol-controller", Family: "networkpolicy",
			Does:  "derives NetworkPolicies from Services and Ingresses",
			Reads: "target: Services, Namespaces, Ingresses", Writes: "target: NetworkPolicies",
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
			// In one cluster, users who may write Secrets must not get tokens of ServiceAccounts of other namespaces: the
			// administrator who switches the requestor on says which they may get. Static tokens are marked only where
			// webhook-server keeps Secrets from getting valid ones again: see Invalidating.
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

// networkPolicySections make netpol-controller work only in namespaces that an administrator has labelled. NetworkPolicies
// isolate the Pods behind a Service, so that an unselected namespace must stay as it is. The namespace kube-system is left out
// even if it has the label, for example after `kubectl label namespaces --all`: isolated DNS stops the cluster. The same
// namespaces may be clients; otherwise the author of one Service could have policies created in every namespace.
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

// servers serve webhooks.
func servers() []Binary {
	return []Binary{
		{
			Name: gardenOperator, Family: "garden",
			Does: "checks Gardens, which describe an installation of Gardener, prepares the runtime cluster for them, and runs the " +
				"virtual cluster with Gardener's own programs. It does not yet install logging and monitoring",
			Reads: "Garden, its components", Writes: "runtime cluster; virtual cluster",
			Purpose: "garden-operator checks Gardens, and prepares the runtime cluster for them. Namespaces garden and istio-system must " +
				"exist before it is\nenabled. See docs/garden-operator.md.",
			Roles: append(clusterRoles("garden-operator-source", "garden-operator-selfmanaged"),
				Role{"espalier-garden-operator-lease", GardenNamespace}, Role{"espalier-garden-operator-garden", GardenNamespace},
				Role{"espalier-garden-operator-istio", IstioNamespace},
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

// projectConfig keeps the lease where the generated role is. It deletes no Project for disuse: the overlay for one cluster ships the CRD
// of Shoots, and where Shoots are served and a team has none, its Deployments do not count as use.
const projectConfig = `apiVersion: controllermanager.config.gardener.cloud/v1alpha1
kind: ControllerManagerConfiguration
leaderElection: {resourceNamespace: ` + Namespace + `}
espalier:
  project:
    staleDeletion: DryRun
    webhooks: {selfManaged: {}}
`

// operatorConfig configures the lease of Gardener's operator, in namespace garden, so that the two operators exclude each other.
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
    ` + ShippedImages + `
`

// ShippedImages is the line of the configuration of garden-operator that says where the images of the other binaries come from.
const ShippedImages = `images: {repository: ` + config.DefaultImageRepository + `}`

// selfManaged registers the webhooks at the Service, which API servers of another cluster cannot reach.
const selfManaged = `{selfManaged: {}}`

// AddressMissing is the value in ConfigApart of an address that only the user who installs a server knows: how API servers of the
// target reach it. No server starts with it, and so none registers webhooks that would not be reached, which would hold up the
// whole target.
const AddressMissing = "say here how API servers of the target reach this server, as https://host:port"

// Lines in the shipped configuration of token-controllers for one cluster.
const (
	requestorOff   = "tokenRequestor: {enabled: false}"
	invalidatorOff = "tokenInvalidator: {enabled: false}"
	invalidatorOn  = "tokenInvalidator: {enabled: true}"
)

// Invalidating returns the configuration files, by binary, with which both halves of the token invalidator are on where source
// and target are one cluster: token-controllers marks static tokens, and webhook-server overwrites the marked ones.
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

// OnlyForRequestor is true for roles of token-controllers that the token invalidator does without.
func OnlyForRequestor(role string) bool {
	return role == "espalier-token-controllers-source" || role == "espalier-token-controllers-target"
}

// apart makes a configuration file for one cluster one for two, with the kubeconfig of the target where it is mounted.
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

// Environment returns the environment variables of a binary's container that do not depend on the Pod, in the form NAME=value. Start the
// binary with them where it must need as much memory as in its Deployment.
func Environment(binary string) []string {
	b, _ := Named(binary)
	tuning := b.tuning()
	variables := make([]string, 0, len(tuning))
	for _, variable := range tuning {
		variables = append(variables, variable.Name+"="+variable.Value)
	}
	return variables
}

// tuning returns the settings of the Go runtime.
func (b Binary) tuning() []corev1.EnvVar {
	if b.GarbagePercent == 0 {
		return nil
	}
	return []corev1.EnvVar{{Name: "GOGC", Value: strconv.Itoa(b.GarbagePercent)}}
}
