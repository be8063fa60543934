package deploy_test

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/deployable"
)

// switches are the settings that an administrator may enable or disable in the shipped deployment.
var switches = []struct {
	binary string
	// config is a part of the configuration file, in the form of the value "config" of the chart.
	config string
	// code are the files and folders whose RBAC markers declare the rights that the setting needs; empty if it needs no additional rights.
	code []string
	// overlay is the overlay for one cluster that contains the bindings; empty for the folder of the binary.
	overlay string
	// page is the page with commands that create bindings to replace the binding of cluster-admin; empty if cluster-admin stays bound.
	page string
}{
	{binary: "csr-approver", config: "controllers: {kubeletCSRApprover: {enabled: true}}", code: []string{"csr/approver"}},
	{binary: "csr-approver", config: "espalier: {csrApprover: {withoutMachines: false}}", code: []string{"csr/approver"}},
	{
		binary: "csr-approver", code: []string{"csr/approver"},
		config: "controllers: {kubeletCSRApprover: {machineNamespace: shoot}}\nespalier: {csrApprover: {withoutMachines: false}}",
	},
	{binary: "csr-approver", config: "espalier: {csrApprover: {observeOnly: true, events: true}}", code: []string{"csr/approver"}},
	{binary: "csr-approver", config: "espalier: {csrApprover: {deniedIdentities: {apiServer: true}}}", code: []string{"csr/apiserver.go"}},
	{binary: "csr-approver", config: "espalier: {csrApprover: {rateLimit: {requests: 5}, subsetOfAddresses: true}}"},
	{binary: "csr-approver", config: "espalier: {csrApprover: {maxExpiration: 1h, allowUnsetExpiration: true}}"},

	{
		binary: "extension-controller", config: "seedConfig: {metadata: {name: a}}\nespalier: {extension: {chartPolicy: {wildcards: true}}}",
		code: []string{"extension/family.go", "extension/bootstrap", "extension/installation"},
	},
	{
		binary: "extension-controller",
		config: "espalier: {extension: {chartPolicy: {escalation: true, webhooks: true, hostAccess: true}}}",
	},

	{binary: "garden-operator", config: "controllers: {garden: {etcdConfig: {backupCompactionController: {enableBackupCompaction: true}}}}"},
	{binary: "garden-operator", config: "espalier: {garden: {webhooks: {selfManaged: {}}}}", code: []string{"garden/webhooks.go"}},
	{binary: "garden-operator", config: "espalier: {garden: {projectController: true, backupMetadataService: true}}"},
	{
		binary: "garden-operator",
		config: "espalier: {garden: {extensionCharts: {wildcards: true, escalation: true, webhooks: true, hostAccess: true}}}",
		code:   []string{"garden/extension"},
	},
	{binary: "garden-operator", config: "espalier: {garden: {gardenlets: true}}", code: []string{"garden/gardenlets"}},
	{
		binary: "garden-operator", config: "espalier: {garden: {backup: {folder: /backups, recipients: [age1a], restoreData: true}}}",
		code: []string{"garden/backup/throwaway"},
	},
	{
		binary: "garden-operator", config: "controllers: {networkPolicy: {additionalNamespaceSelectors: [{matchLabels: {a: b}}]}}",
		code: []string{"garden/lifecycle", "garden/care", "garden/reference"},
	},

	{
		binary: "managedresource-controller", config: "controllers: {garbageCollector: {enabled: true}}",
		code: []string{"managedresource/garbagecollector"},
	},
	{
		binary: "managedresource-controller", config: "controllers: {garbageCollector: {enabled: true}}", page: "garbage-collector.md",
		code: []string{"managedresource/garbagecollector"},
	},
	{
		binary: "managedresource-controller", config: "controllers: {garbageCollector: {enabled: true}}", page: "security.md",
		code: []string{"managedresource/garbagecollector", "managedresource/applier", "managedresource/health", "managedresource/secret"},
	},
	{
		binary: "managedresource-controller", config: "controllers: {clusterID: <cluster>}",
		code: []string{"managedresource/applier/reconciler.go"},
	},
	{
		binary: "managedresource-controller", config: "controllers: {managedResource: {alwaysUpdate: true}}",
		code: []string{"managedresource/applier/reconciler.go"},
	},
	{
		binary: "managedresource-controller", config: "espalier: {managedResource: {namespaces: {setSelector: {matchLabels: {a: b}}}}}",
		code: []string{"managedresource/applier/namespaces.go"},
	},
	{
		binary: "managedresource-controller",
		config: "espalier: {managedResource: {kstatus: true, garbageCollectionReportOnly: true, namespaces: {clusterScoped: false}}}",
	},

	{
		binary: "managedresource-controller",
		config: "{controllers: {garbageCollector: {enabled: false}}, espalier: {managedResource: {serviceAccounts: {lockdown: true}}}}",
		code:   []string{"managedresource/applier/accounts.go"},
	},
	{
		binary: "garden-operator", config: "espalier: {garden: {rotation: {certificateAuthorities: {maxAge: 24h, automatic: true}, " +
			"serviceAccountKey: {maxAge: 24h, automatic: true}, etcdEncryptionKey: {maxAge: 24h, automatic: true}, " +
			"observability: {maxAge: 24h, automatic: true}, workloadIdentityKey: {maxAge: 24h, automatic: true}}, perses: true}}",
	},

	{binary: "netpol-controller", config: "controllers: {networkPolicy: {enabled: true}}", code: []string{"networkpolicy/controller"}},
	{
		binary: "netpol-controller", config: "controllers: {networkPolicy: {ingressControllerSelector: {namespace: a, podSelector: {}}}}",
		code: []string{"networkpolicy/controller"},
	},
	{binary: "netpol-controller", config: "espalier: {networkPolicy: {observeOnly: true}}", code: []string{"networkpolicy/controller"}},
	{
		binary: "netpol-controller", config: "espalier: {networkPolicy: {general: {networksOfGarden: true}}}",
		code: []string{"networkpolicy/general"},
	},

	{binary: "node-controller", config: "controllers: {node: {enabled: true}}", code: []string{"node/criticalcomponents"}},
	{binary: "node-controller", config: "espalier: {node: {requiredDaemonSets: [a/b]}}", code: []string{"node/criticalcomponents"}},
	{binary: "node-controller", config: "leaderElection: {leaderElect: false}"},
	{binary: "node-controller", config: "debugging: {enableProfiling: true, enableContentionProfiling: true}"},

	{
		binary: "project-controller", config: "espalier: {project: {staleDeletion: Delete, staleDeletionWithoutShoots: true}}",
		code: []string{"project/stale", "project/usage", "project/activity", "project/served"},
	},
	{binary: "project-controller", config: "espalier: {project: {membershipExpiry: true}}", code: []string{"project/lifecycle"}},
	{binary: "project-controller", config: "espalier: {project: {maxProjectsPerCreator: 3}}", code: []string{"project/webhook"}},
	{binary: "project-controller", config: "espalier: {project: {webhooks: {selfManaged: {}}}}", code: []string{"project/webhooks.go"}},

	{
		binary: "token-controllers", code: []string{"token/requestor", "token/wiring.go"},
		config: "controllers: {tokenRequestor: {enabled: true}}\nespalier: {token: {sameCluster: {scope: SecretNamespace}}}",
	},
	{
		binary: "token-controllers", config: "controllers: {tokenInvalidator: {enabled: true}}\nwebhooks: {tokenInvalidator: {enabled: true}}",
		code: []string{"token/invalidator"},
	},
	{
		binary: "token-controllers", config: "controllers: {tokenInvalidator: {enabled: true}}\nwebhooks: {tokenInvalidator: {enabled: true}}",
		code: []string{"token/invalidator"}, overlay: "token-invalidator",
	},

	{binary: "webhook-server", config: "controllers: {tokenInvalidator: {enabled: true}}\nwebhooks: {tokenInvalidator: {enabled: true}}"},
	{binary: "webhook-server", config: "webhooks: {crdDeletionProtection: {enabled: true}}", code: []string{"webhook/deletionprotection"}},
	{binary: "webhook-server", config: "webhooks: {highAvailabilityConfig: {enabled: true}}", code: []string{"webhook/lookup"}},
	{binary: "webhook-server", config: "webhooks: {projectedTokenMount: {enabled: true}}", code: []string{"webhook/lookup"}},
	{binary: "webhook-server", config: "webhooks: {systemComponentsConfig: {enabled: true}}", code: []string{"webhook/lookup"}},
	{binary: "webhook-server", config: "webhooks: {endpointSliceHints: {enabled: true}, extensionValidation: {enabled: true}}"},
	{binary: "webhook-server", config: "webhooks: {podTopologySpreadConstraints: {enabled: true}, seccompProfile: {enabled: true}}"},
	{binary: "webhook-server", config: "webhooks: {kubernetesServiceHost: {enabled: true, host: a.b}, podSchedulerName: {enabled: true}}"},
	{binary: "webhook-server", config: "espalier: {webhooks: {selfManaged: {}}}", code: []string{"webhook/selfmanaged.go"}},
	{binary: "webhook-server", config: "espalier: {webhooks: {legacyReplicaCriteria: true}}", code: []string{"webhook/lookup"}},
}

// TestEverySwitchHasItsRoles requires that each switch works in the shipped deployment: the chart makes a valid configuration from it, and
// the roles that its code declares are bound, by kustomize and Helm, in one cluster and in two, or by the documented commands.
func TestEverySwitchHasItsRoles(t *testing.T) {
	for _, each := range switches {
		t.Run(each.binary+" "+each.config+" "+each.overlay+each.page, func(t *testing.T) {
			g := NewWithT(t)
			binary, found := deployable.Named(each.binary)
			g.Expect(found).To(BeTrue())
			roles := declared(t, each.binary, each.code)
			sections := parse(t, each.config)

			values := map[string]any{"enabled": true, "config": sections}
			var commands []string
			if each.page != "" {
				values["clusterAdmin"] = false
				commands = boundByCommands(t, each.page, binary)
			}
			rendered := helmed(t, map[string]any{inValues[each.binary]: values})
			if each.page != "" {
				g.Expect(bound(t, rendered, binary)).NotTo(ContainElement("/"+deployable.ClusterAdmin), "in the chart")
			}
			file := text(at(t, rendered["v1 ConfigMap espalier-system espalier-"+each.binary], "data", "config.yaml"))
			g.Expect(mistakes(t, each.binary, file)).To(BeEmpty())
			for path, value := range leaves(sections, "") {
				g.Expect(leaves(parse(t, file), "")).To(HaveKeyWithValue(path, value))
			}
			g.Expect(unbound(binary, roles, append(bound(t, rendered, binary), commands...))).To(BeEmpty(), "in the chart")

			folder := []string{each.binary}
			if each.overlay != "" {
				folder = []string{"overlays", each.overlay}
			}
			given := bound(t, kustomized(t, folder...), binary)
			if each.page != "" {
				given = slices.DeleteFunc(given, func(role string) bool { return role == "/"+deployable.ClusterAdmin })
				given = append(given, commands...)
			}
			g.Expect(unbound(binary, roles, given)).To(BeEmpty(), "in one cluster")

			if binary.HasTarget() {
				given = nil
				for _, cluster := range []string{"source", "target"} {
					there := bound(t, kustomized(t, "overlays", "source-target", cluster, each.binary), binary)
					there = slices.DeleteFunc(there, func(role string) bool { return forTarget(binary, role) != (cluster == "target") })
					given = append(given, there...)
				}
				if each.page != "" {
					given = slices.DeleteFunc(given, func(role string) bool { return role == "/"+deployable.ClusterAdmin })
					given = append(given, commands...)
				}
				g.Expect(unbound(binary, roles, given)).To(BeEmpty(), "in two clusters")
			}
		})
	}
}

// TestEverySwitchIsListed requires that switches contains every setting of type bool.
func TestEverySwitchIsListed(t *testing.T) {
	listed := map[string]any{}
	for _, each := range switches {
		maps.Copy(listed, leaves(parse(t, each.config), ""))
	}
	for _, file := range []any{
		config.ResourceManagerConfiguration{},
		config.ControllerManagerConfiguration{},
		config.OperatorConfiguration{},
		config.GardenletConfiguration{},
	} {
		for _, path := range booleans(reflect.TypeOf(file), "") {
			NewWithT(t).Expect(slices.Collect(maps.Keys(listed))).To(ContainElement(path))
		}
	}
}

// booleans returns the paths of all fields of type bool in a configuration.
func booleans(in reflect.Type, at string) []string {
	if in.Kind() == reflect.Pointer {
		in = in.Elem()
	}
	if in.Kind() == reflect.Bool {
		return []string{strings.TrimPrefix(at, ".")}
	}
	var found []string
	if in.Kind() == reflect.Struct && strings.HasSuffix(in.PkgPath(), "/internal/config") {
		for i := range in.NumField() {
			name, _, _ := strings.Cut(in.Field(i).Tag.Get("json"), ",")
			found = append(found, booleans(in.Field(i).Type, at+"."+name)...)
		}
	}
	return found
}

// leaves returns the values in an object that are not objects with fields, by their paths.
func leaves(in map[string]any, at string) map[string]any {
	found := map[string]any{}
	for name, value := range in {
		if fields, ok := value.(map[string]any); ok && len(fields) > 0 {
			maps.Copy(found, leaves(fields, at+name+"."))
		} else {
			found[at+name] = value
		}
	}
	return found
}

// mistakes returns the warnings and errors of the binary about a configuration file.
func mistakes(t *testing.T, binary, file string) []string {
	t.Helper()
	loaded, warnings, err := load(binary, []byte(file))
	NewWithT(t).Expect(err).NotTo(HaveOccurred(), file)
	var found []string
	for _, each := range warnings {
		found = append(found, each.Path+": "+each.Message)
	}
	for _, each := range loaded.Validate() {
		found = append(found, each.Error())
	}
	return found
}

func load(binary string, file []byte) (interface{ Validate() field.ErrorList }, []config.Warning, error) {
	switch binary {
	case "project-controller":
		return config.ControllerManager(file)
	case "garden-operator":
		return config.Operator(file)
	case "extension-controller":
		return config.Gardenlet(file)
	}
	return config.ResourceManager(file)
}

var marker = regexp.MustCompile(`(?m)^// \+kubebuilder:rbac:(.*)$`)

// declared returns the roles that the RBAC markers in files and folders of internal/ name, as namespace/name.
func declared(t *testing.T, binary string, code []string) []string {
	t.Helper()
	g := NewWithT(t)
	var roles []string
	for _, each := range code {
		files, err := filepath.Glob(folder(t, "..", "internal", each, "*.go"))
		g.Expect(err).NotTo(HaveOccurred())
		if strings.HasSuffix(each, ".go") {
			files = []string{folder(t, "..", "internal", each)}
		}
		before := len(roles)
		for _, file := range files {
			content, err := os.ReadFile(file)
			g.Expect(err).NotTo(HaveOccurred())
			for _, found := range marker.FindAllStringSubmatch(string(content), -1) {
				role := map[string]string{"roleName": "espalier-" + binary + "-source"}
				for argument := range strings.SplitSeq(found[1], ",") {
					name, value, _ := strings.Cut(argument, "=")
					role[name] = value
				}
				roles = append(roles, role["namespace"]+"/"+role["roleName"])
			}
		}
		g.Expect(len(roles)).To(BeNumerically(">", before), "%s declares rights", each)
	}
	slices.Sort(roles)
	return slices.Compact(roles)
}

// bound returns the roles that are bound to the ServiceAccount of a binary, as namespace/name. All of them must exist.
func bound(t *testing.T, rendered objects, binary deployable.Binary) []string {
	t.Helper()
	var roles []string
	for id, fields := range rendered {
		subject := map[string]any{"kind": "ServiceAccount", "namespace": namespace, "name": "espalier-" + binary.Name}
		if subjects, ok := fields["subjects"].([]any); !ok || !reflect.DeepEqual(subjects, []any{subject}) {
			continue
		}
		within, name := text(at(t, fields, "metadata", "namespace")), text(at(t, fields, "roleRef", "name"))
		if name != deployable.ClusterAdmin {
			kind := text(at(t, fields, "roleRef", "kind"))
			role := strings.Join([]string{"rbac.authorization.k8s.io/v1", kind, within, name}, " ")
			NewWithT(t).Expect(rendered[role] != nil).To(BeTrue(), "%s binds %s", id, role)
		}
		roles = append(roles, within+"/"+name)
	}
	return roles
}

var bindingCommand = regexp.MustCompile(`kubectl create clusterrolebinding \S+ +--clusterrole=(\S+) --serviceaccount=(\S+)`)

// boundByCommands returns the ClusterRoles that the commands of a page bind to the ServiceAccount of a binary, except for cluster-admin.
func boundByCommands(t *testing.T, page string, binary deployable.Binary) []string {
	t.Helper()
	content, err := os.ReadFile(folder(t, "..", "docs", page))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	var roles []string
	for _, found := range bindingCommand.FindAllStringSubmatch(strings.ReplaceAll(string(content), "\\\n", ""), -1) {
		if found[1] != deployable.ClusterAdmin && found[2] == namespace+":espalier-"+binary.Name {
			roles = append(roles, "/"+found[1])
		}
	}
	return roles
}

// unbound returns the roles that are not in given. If given contains cluster-admin, this includes all roles for the target.
// The target roles of a binary whose target is always another cluster are not bound: Gardener grants the rights there.
func unbound(binary deployable.Binary, roles, given []string) []string {
	return slices.DeleteFunc(slices.Clone(roles), func(role string) bool {
		if binary.OtherCluster && forTarget(binary, role) {
			return true
		}
		return slices.Contains(given, role) || slices.Contains(given, "/"+deployable.ClusterAdmin) && forTarget(binary, role)
	})
}

func forTarget(binary deployable.Binary, role string) bool {
	_, name, _ := strings.Cut(role, "/")
	return binary.IsForTarget(name)
}
