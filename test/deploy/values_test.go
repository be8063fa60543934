package deploy_test

import (
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"
)

const approver = "apps/v1 Deployment espalier-system espalier-csr-approver"

// TestValuesReachTheDeployment sets values for csr-approver, and values for all binaries, in the form of a values file.
func TestValuesReachTheDeployment(t *testing.T) {
	for name, tc := range map[string]struct {
		values string
		path   []string
		want   string
	}{
		"replicas":      {values: "csrApprover: {replicas: 0}", path: []string{"spec", "replicas"}, want: "0"},
		"labels of all": {values: "podLabels: {a: all}", path: []string{"spec", "template", "metadata", "labels", "a"}, want: "all"},
		"labels of one win": {
			values: "podLabels: {a: all}\ncsrApprover: {podLabels: {a: one}}", path: []string{"spec", "template", "metadata", "labels", "a"},
			want: "one",
		},
		"labels of selectors stay": {
			values: "podLabels: {app.kubernetes.io/name: x}",
			path:   []string{"spec", "template", "metadata", "labels", "app.kubernetes.io/name"}, want: "espalier-csr-approver",
		},
		"annotations": {
			values: "podAnnotations: {a: all, b: all}\ncsrApprover: {podAnnotations: {a: one}}",
			path:   []string{"spec", "template", "metadata", "annotations", "b"}, want: "all",
		},
		"node selector": {
			values: "nodeSelector: {a: all}", path: []string{"spec", "template", "spec", "nodeSelector"}, want: "{a: all}",
		},
		"node selector of one": {
			values: "nodeSelector: {a: all}\ncsrApprover: {nodeSelector: {b: one}}", path: []string{"spec", "template", "spec", "nodeSelector"},
			want: "{b: one}",
		},
		"tolerations": {
			values: "tolerations: [{operator: Exists}]", path: []string{"spec", "template", "spec", "tolerations"},
			want: "[{operator: Exists}]",
		},
		"affinity": {
			values: "csrApprover: {affinity: {nodeAffinity: {}}}", path: []string{"spec", "template", "spec", "affinity"},
			want: "{nodeAffinity: {}}",
		},
		"priority class": {
			values: "priorityClassName: system-cluster-critical", path: []string{"spec", "template", "spec", "priorityClassName"},
			want: "system-cluster-critical",
		},
		"pull secrets": {
			values: "image: {pullSecrets: [one, two]}", path: []string{"spec", "template", "spec", "imagePullSecrets"},
			want: "[{name: one}, {name: two}]",
		},
		"host aliases": {
			values: "csrApprover: {hostAliases: [{ip: 192.0.2.1, hostnames: [a.example.com]}]}",
			path:   []string{"spec", "template", "spec", "hostAliases"}, want: "[{ip: 192.0.2.1, hostnames: [a.example.com]}]",
		},
		"volumes": {
			values: "csrApprover: {volumes: [{name: a, emptyDir: {}}]}", path: []string{"spec", "template", "spec", "volumes"},
			want: "[{name: config, configMap: {name: espalier-csr-approver}}, {name: a, emptyDir: {}}]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var want any
			g.Expect(yaml.Unmarshal([]byte(tc.want), &want)).To(Succeed())
			g.Expect(at(t, helmed(t, parse(t, tc.values))[approver], tc.path...)).To(BeEquivalentTo(want))
		})
	}
}

func TestValuesReachTheContainer(t *testing.T) {
	const digest = "sha256:0123456789012345678901234567890123456789012345678901234567890123"
	for name, tc := range map[string]struct{ values, field, want string }{
		"registry and tag of all": {"image: {repository: registry.example.com/e, tag: v1}", "image", "registry.example.com/e/csr-approver:v1"},
		"tag of one":              {"image: {tag: v1}\ncsrApprover: {image: {tag: v2}}", "image", "espalier.local/csr-approver:v2"},
		"name of one":             {"image: {tag: v1}\ncsrApprover: {image: {repository: a.example.com/b}}", "image", "a.example.com/b:v1"},
		"digest": {
			"image: {tag: v1}\ncsrApprover: {image: {digest: '" + digest + "'}}", "image", "espalier.local/csr-approver@" + digest,
		},
		"pull policy": {"image: {pullPolicy: Never}", "imagePullPolicy", "Never"},
		"limits beside requests": {
			"csrApprover: {resources: {limits: {memory: 1Gi}}}", "resources", "{requests: {cpu: 10m, memory: 64Mi}, limits: {memory: 1Gi}}",
		},
		"variables": {
			"csrApprover: {env: [{name: A, value: b}]}", "env",
			"[{name: POD_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}, {name: A, value: b}]",
		},
		"mounts": {
			"csrApprover: {volumeMounts: [{name: a, mountPath: /a}]}", "volumeMounts",
			"[{name: config, mountPath: /etc/espalier, readOnly: true}, {name: a, mountPath: /a}]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var want any
			g.Expect(yaml.Unmarshal([]byte(tc.want), &want)).To(Succeed())
			g.Expect(containerOf(t, helmed(t, parse(t, tc.values))[approver])[tc.field]).To(Equal(want))
		})
	}
}

func TestListsOfImagesReachGardenOperator(t *testing.T) {
	g := NewWithT(t)
	const values = "gardenOperator: {enabled: true, imageVectorOverwrite: \"images: []\""
	one := helmed(t, parse(t, values+"}"))
	both := helmed(t, parse(t, values+", componentImageVectorOverwrites: \"components: []\"}"))
	const operator = "apps/v1 Deployment espalier-system espalier-garden-operator"
	const images = "v1 ConfigMap espalier-system espalier-garden-operator-images"
	g.Expect(at(t, one[images], "data")).To(Equal(map[string]any{"images.yaml": "images: []"}))
	g.Expect(at(t, both[images], "data")).To(Equal(map[string]any{"images.yaml": "images: []", "components.yaml": "components: []"}))
	variable := func(name, file string) any {
		return map[string]any{"name": name, "value": "/etc/espalier-images/" + file}
	}
	g.Expect(containerOf(t, one[operator])["env"]).To(HaveExactElements(
		HaveKeyWithValue("name", "POD_NAMESPACE"), variable("IMAGEVECTOR_OVERWRITE", "images.yaml")))
	g.Expect(containerOf(t, both[operator])["env"]).To(HaveExactElements(
		HaveKeyWithValue("name", "POD_NAMESPACE"), variable("IMAGEVECTOR_OVERWRITE", "images.yaml"),
		variable("IMAGEVECTOR_OVERWRITE_COMPONENTS", "components.yaml")))
	g.Expect(containerOf(t, one[operator])["volumeMounts"]).To(
		ContainElement(map[string]any{"name": "images", "mountPath": "/etc/espalier-images", "readOnly": true}))
	g.Expect(at(t, one[operator], "spec", "template", "spec", "volumes")).To(
		ContainElement(map[string]any{"name": "images", "configMap": map[string]any{"name": "espalier-garden-operator-images"}}))
	annotations := []string{"spec", "template", "metadata", "annotations"}
	g.Expect(at(t, one[operator], annotations...)).NotTo(Equal(at(t, both[operator], annotations...)), "a change rolls out")
}

func TestConfigurations(t *testing.T) {
	const collector = "managedresourceController"
	for name, tc := range map[string]struct{ values, want string }{
		"merged": {
			collector + ": {config: {logLevel: debug, controllers: {garbageCollector: {enabled: false}}}}",
			"apiVersion: resourcemanager.config.gardener.cloud/v1alpha1\nkind: ResourceManagerConfiguration\n" +
				"leaderElection: {resourceNamespace: espalier-system}\nlogLevel: debug\ncontrollers: {garbageCollector: {enabled: false}}\n" +
				"espalier: {managedResource: {namespaces: {sets: [espalier-system], setSelector: {matchLabels: {espalier.dev/managedresources: " +
				"allowed}}}, deletionLimit: {objects: 10, percent: 50, namespacesAndDefinitions: 3}}}",
		},
		"merged with null": {
			collector + ": {config: {controllers: {garbageCollector: null}}}",
			"apiVersion: resourcemanager.config.gardener.cloud/v1alpha1\nkind: ResourceManagerConfiguration\n" +
				"leaderElection: {resourceNamespace: espalier-system}\ncontrollers: {garbageCollector: null}\n" +
				"espalier: {managedResource: {namespaces: {sets: [espalier-system], setSelector: {matchLabels: {espalier.dev/managedresources: " +
				"allowed}}}, deletionLimit: {objects: 10, percent: 50, namespacesAndDefinitions: 3}}}",
		},
		"replaced": {collector + ": {config: {logLevel: debug}, configFile: \"kind: A\\n\"}", "kind: A"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			rendered := helmed(t, parse(t, tc.values))
			got := text(at(t, rendered["v1 ConfigMap espalier-system espalier-managedresource-controller"], "data", "config.yaml"))
			g.Expect(got).To(MatchYAML(tc.want))
			checksum := []string{"spec", "template", "metadata", "annotations", "espalier.dev/config-checksum"}
			const id = "apps/v1 Deployment espalier-system espalier-managedresource-controller"
			g.Expect(at(t, rendered[id], checksum...)).NotTo(Equal(at(t, helmed(t, nil)[id], checksum...)), "a change rolls out")
		})
	}
}

// TestTokenControllersOfTwoClustersStay checks values of releases that were installed when token-controllers was enabled by default.
func TestTokenControllersOfTwoClustersStay(t *testing.T) {
	for name, tc := range map[string]struct {
		values string
		want   bool
	}{
		"two clusters without enabled":  {"tokenControllers: {targetKubeconfigSecret: a}", true},
		"two clusters, off":             {"tokenControllers: {enabled: false, targetKubeconfigSecret: a}", false},
		"two clusters, enabled is null": {"tokenControllers: {enabled: null, targetKubeconfigSecret: a}", true},
		"one cluster without enabled":   {"tokenControllers: {replicas: 1}", false},
		"one cluster, on":               {"tokenControllers: {enabled: true}", true},
	} {
		t.Run(name, func(t *testing.T) {
			const deployment = "apps/v1 Deployment espalier-system espalier-token-controllers"
			NewWithT(t).Expect(helmed(t, parse(t, tc.values))[deployment] != nil).To(Equal(tc.want))
		})
	}
}

// TestImpersonationReplacesTheRightsOfTheController checks which roles the controller has that applies every set as a ServiceAccount.
func TestImpersonationReplacesTheRightsOfTheController(t *testing.T) {
	const rbac, name = "rbac.authorization.k8s.io/v1 ", "espalier-managedresource-controller-"
	own := []string{rbac + "ClusterRoleBinding  " + name + "cluster-admin"}
	inTarget := []string{rbac + "ClusterRoleBinding  " + name + "target-base"}
	inBoth := []string{rbac + "ClusterRole  " + name + "impersonate", rbac + "RoleBinding shop " + name + "impersonate"}
	const on = "impersonation: {enabled: true, namespaces: [shop]}, config: {espalier: {managedResource: {serviceAccounts: {lockdown: true}}}}"
	for values, want := range map[string]struct{ present, absent []string }{
		"{}":           {own, slices.Concat(inTarget, inBoth)},
		"{" + on + "}": {slices.Concat(inTarget, inBoth), own},
		"{targetKubeconfigSecret: a, " + on + "}": {inBoth, slices.Concat(own, inTarget)},
	} {
		t.Run(values, func(t *testing.T) {
			g, rendered := NewWithT(t), helmed(t, parse(t, "managedresourceController: "+values))
			for _, each := range want.present {
				g.Expect(rendered).To(HaveKey(each))
			}
			for _, each := range want.absent {
				g.Expect(rendered).NotTo(HaveKey(each))
			}
		})
	}
}

// inRestoreDrill is in the names of all objects in the namespace of restore drills.
const inRestoreDrill = " garden-restore-drill "

// TestNamespaceOfRestoreDrillsIsNeededOnlyIfTheyRestoreData requires that an upgrade does not fail because a namespace is missing that
// nothing uses.
func TestNamespaceOfRestoreDrillsIsNeededOnlyIfTheyRestoreData(t *testing.T) {
	const rbac, role = "rbac.authorization.k8s.io/v1 ", inRestoreDrill + "espalier-garden-operator-restore-drill"
	both := []string{rbac + "Role" + role, rbac + "RoleBinding" + role}
	for values, want := range map[string][]string{
		"{}": nil,
		"{config: {espalier: {garden: {backup: {folder: /a}}}}}":                                    nil,
		"{config: {espalier: {garden: {backup: {folder: /a, restoreData: false}}}}}":                nil,
		"{config: {espalier: {garden: {backup: {folder: /a, restoreData: true}}}}}":                 both,
		"{configFile: '{espalier: {garden: {backup: {restoreData: true}}}}'}":                       both,
		"{configFile: '{espalier: {garden: {backup: null}}}'}":                                      nil,
		"{enabled: false, config: {espalier: {garden: {backup: {folder: /a, restoreData: true}}}}}": nil,
	} {
		t.Run(values, func(t *testing.T) {
			set := parse(t, values)
			if _, given := set["enabled"]; !given {
				set["enabled"] = true
			}
			var found []string
			for id := range helmed(t, map[string]any{"gardenOperator": set}) {
				if strings.Contains(id, inRestoreDrill) {
					found = append(found, id)
				}
			}
			NewWithT(t).Expect(found).To(ConsistOf(want))
		})
	}
}

// TestNamesThatLookLikeNumbersStayTexts checks names that a user chooses and that consist of digits: YAML would read them as numbers.
func TestNamesThatLookLikeNumbersStayTexts(t *testing.T) {
	g := NewWithT(t)
	rendered := helmed(t,
		parse(t, "csrApprover: {targetKubeconfigSecret: '1234', priorityClassName: '12'}\nserviceMonitor: {enabled: true, interval: '30'}"))
	volumes, ok := podOf(t, rendered[approver])["volumes"].([]any)
	g.Expect(ok).To(BeTrue())
	g.Expect(volumes).To(ContainElement(map[string]any{"name": "target", "secret": map[string]any{"secretName": "1234"}}))
	g.Expect(podOf(t, rendered[approver])["priorityClassName"]).To(Equal("12"))
	monitor := rendered["monitoring.coreos.com/v1 ServiceMonitor espalier-system espalier-csr-approver"]
	g.Expect(at(t, monitor, "spec", "endpoints")).To(Equal([]any{map[string]any{"port": "metrics", "interval": "30"}}))
}

func TestEverythingIsInTheNamespaceOfTheRelease(t *testing.T) {
	g := NewWithT(t)
	rendered, err := template(t, "elsewhere", nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(rendered).NotTo(ContainSubstring("espalier-system"))
	found := map[string]bool{}
	for _, fields := range decode(t, []byte(rendered)) {
		found[text(at(t, fields, "metadata", "namespace"))] = true
	}
	// The roles for the API server's own Service and for the identity of the cluster are in the namespaces of these objects.
	g.Expect(found).To(Equal(map[string]bool{"": true, "elsewhere": true, "default": true, "kube-system": true}))
}

func TestServiceMonitorsAreForWhomWantsThem(t *testing.T) {
	g := NewWithT(t)
	const kind = "monitoring.coreos.com/v1 ServiceMonitor espalier-system espalier-"
	rendered := helmed(t,
		parse(t, "serviceMonitor: {enabled: true, labels: {team: a}}\ntokenControllers: {enabled: true}\ngardenOperator: {enabled: true}\n"+
			"extensionController: {enabled: true}"))
	for _, each := range all() {
		g.Expect(rendered).To(HaveKey(kind + each))
	}
	g.Expect(at(t, rendered[kind+"node-controller"], "metadata", "labels", "team")).To(Equal("a"))
	g.Expect(at(t, rendered[kind+"node-controller"], "spec", "selector", "matchLabels")).To(
		Equal(at(t, rendered["v1 Service espalier-system espalier-node-controller"], "spec", "selector")))
}

func TestWrongValuesAreRefused(t *testing.T) {
	for name, tc := range map[string]struct{ values, want string }{
		"a name that is not there":        {"csrAprover: {enabled: false}", "'csrAprover' not allowed"},
		"a name of a binary that is none": {"csrApprover: {replica: 1}", "'replica' not allowed"},
		"a wrong type":                    {"csrApprover: {enabled: 'no'}", "got string, want boolean"},
		"an unknown pull policy":          {"image: {pullPolicy: Sometimes}", "value must be one of 'Always', 'IfNotPresent', 'Never'"},
		"a digest that is none":           {"csrApprover: {image: {digest: v1}}", "does not match pattern"},
		"fewer replicas than none":        {"csrApprover: {replicas: -1}", "minimum"},
		"a target of an only cluster":     {"projectController: {targetKubeconfigSecret: a}", "'targetKubeconfigSecret' not allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := template(t, namespace, parse(t, tc.values))
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(tc.want)))
		})
	}
}

func parse(t *testing.T, values string) map[string]any {
	t.Helper()
	parsed := map[string]any{}
	NewWithT(t).Expect(yaml.Unmarshal([]byte(strings.TrimSpace(values)), &parsed)).To(Succeed())
	return parsed
}
