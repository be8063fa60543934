package config

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

func TestDecodingErrorsNameTheField(t *testing.T) {
	for name, tc := range map[string]struct{ file, want string }{
		"a duration without unit": {
			file: "controllers:\n  health:\n    syncPeriod: 30",
			want: `controllers.health.syncPeriod: must be a duration such as "30s" or "1h", not 30`,
		},
		"a word for a number": {
			file: "controllers:\n  secret: {concurrentSyncs: many}",
			want: `controllers.secret.concurrentSyncs: must be a whole number of at most 64 bits, not "many"`,
		},
		"a number too large": {
			file: "sourceClientConnection:\n  burst: 9999999999",
			want: `sourceClientConnection.burst: must be a whole number of at most 32 bits, not 9999999999`,
		},
		"a number for a word": {
			file: "controllers: {clusterID: 7}",
			want: `controllers.clusterID: must be a string, not 7`,
		},
		"a word for a switch": {
			file: "webhooks: {seccompProfile: {enabled: sometimes}}",
			want: `webhooks.seccompProfile.enabled: must be true or false, not "sometimes"`,
		},
		"a word for a rate": {
			file: "sourceClientConnection: {qps: fast}",
			want: `sourceClientConnection.qps: must be a number, not "fast"`,
		},
		"a list for a section": {
			file: "controllers: []",
			want: `controllers: must be an object, not a list`,
		},
		"a section for a list": {
			file: "sourceClientConnection: {namespaces: {a: b}}",
			want: `sourceClientConnection.namespaces: must be a list, not an object`,
		},
		"a list in a map of labels": {
			file: "webhooks: {systemComponentsConfig: {nodeSelector: {a: [b]}}}",
			want: `webhooks.systemComponentsConfig.nodeSelector: must be an object whose values are strings, not an object`,
		},
		"an item of a list": {
			file: "controllers:\n  networkPolicy:\n    namespaceSelectors:\n    - matchLabels: {a: b}\n    - matchExpressions:\n      - key: 5",
			want: `controllers.networkPolicy.namespaceSelectors[1].matchExpressions[0].key: must be a string, not 5`,
		},
		"a long string is not repeated": {
			file: "logLevel: [" + strings.Repeat("x", 100) + "]\ncontrollers: {health: {syncPeriod: " + strings.Repeat("x", 100) + "}}",
			want: `[controllers.health.syncPeriod: must be a duration such as "30s" or "1h", not a long string, logLevel: must ` +
				`be a string, not a list]`,
		},
		"a field under an alias is named as written": {
			file: "controllers:\n  managedResources:\n    syncPeriod: soon",
			want: `controllers.managedResources.syncPeriod: must be a duration such as "30s" or "1h", not "soon"`,
		},
		"a field moved to a section that exists": {
			file: "controllers:\n  managedResource: {}\n  managedResources:\n    syncPeriod: soon",
			want: `controllers.managedResources.syncPeriod: must be a duration such as "30s" or "1h", not "soon"`,
		},
		"an alias of a wrong kind": {
			file: "controllers:\n  managedResources: 7",
			want: `controllers.managedResources: must be an object, not 7`,
		},
		"a section of a wrong kind beside its alias": {
			file: "controllers: {managedResource: 7, managedResources: {concurrentSyncs: 9}}",
			want: `controllers.managedResource: must be an object, not 7`,
		},
		"a single namespace of a wrong kind": {
			file: "sourceClientConnection: {namespace: 7}",
			want: `sourceClientConnection.namespace: must be a string, not 7`,
		},
		"several at once": {
			file: "controllers: {health: {syncPeriod: 1, concurrentSyncs: x}}",
			want: `[controllers.health.concurrentSyncs: must be a whole number of at most 64 bits, not "x", ` +
				`controllers.health.syncPeriod: must be a duration such as "30s" or "1h", not 1]`,
		},
		"broken YAML": {
			file: "controllers: {health: {",
			want: `parse YAML: yaml: line 4: did not find expected node content`,
		},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(decodeError(t, minimal+tc.file)).To(Equal(tc.want)) })
	}
}

func TestAScalarFileIsRefused(t *testing.T) {
	NewWithT(t).Expect(decodeError(t, "just words")).To(HavePrefix(`[file: must be an object, not "just words", `))
}

func TestAliasesBeyondTheAcceptanceList(t *testing.T) {
	for name, tc := range map[string]struct {
		file     string
		want     func(*ResourceManagerConfiguration)
		warnings []string
	}{
		"csrApprover": {
			file: "controllers: {csrApprover: {enabled: true, machineNamespace: m}}",
			want: func(c *ResourceManagerConfiguration) {
				c.Controllers.KubeletCSRApprover = KubeletCSRApproverController{Enabled: true, ConcurrentSyncs: ptr.To(1), MachineNamespace: "m"}
			},
			warnings: []string{"controllers.csrApprover: read as controllers.kubeletCSRApprover"},
		},
		"nodeCriticalComponents": {
			file: "controllers: {nodeCriticalComponents: {enabled: true, backoff: 1m}}",
			want: func(c *ResourceManagerConfiguration) {
				c.Controllers.Node = NodeController{Enabled: true, ConcurrentSyncs: ptr.To(5), Backoff: minutes(1)}
			},
			warnings: []string{"controllers.nodeCriticalComponents: read as controllers.node"},
		},
		"an alias beside a section without a value": {
			file: "controllers:\n  managedResource:\n  managedResources: {concurrentSyncs: 9}",
			want: func(c *ResourceManagerConfiguration) {
				c.Controllers.ManagedResource.ConcurrentSyncs = ptr.To(9)
			},
			warnings: []string{"controllers.managedResources: read as controllers.managedResource"},
		},
		"an alias of a wrong kind beside a section": {
			file: "controllers: {managedResource: {concurrentSyncs: 9}, managedResources: 7}",
			want: func(c *ResourceManagerConfiguration) {
				c.Controllers.ManagedResource.ConcurrentSyncs = ptr.To(9)
			},
			warnings: []string{"controllers.managedResources: ignored, controllers.managedResource is set"},
		},
		"an alias without a value": {
			file:     "controllers: {managedResources: }",
			want:     func(*ResourceManagerConfiguration) {},
			warnings: []string{"controllers.managedResources: read as controllers.managedResource"},
		},
		"namespace beside namespaces": {
			file: "sourceClientConnection: {namespace: a, namespaces: [b, c]}",
			want: func(c *ResourceManagerConfiguration) {
				c.SourceClientConnection.Namespaces = []string{"b", "c"}
			},
			warnings: []string{"sourceClientConnection.namespace: ignored, sourceClientConnection.namespaces is set"},
		},
		"namespace beside an empty list": {
			file: "sourceClientConnection: {namespace: a, namespaces: []}",
			want: func(c *ResourceManagerConfiguration) {
				c.SourceClientConnection.Namespaces = []string{"a"}
			},
			warnings: []string{"sourceClientConnection.namespace: read as sourceClientConnection.namespaces"},
		},
		"an empty namespace": {
			file:     `sourceClientConnection: {namespace: ""}`,
			want:     func(*ResourceManagerConfiguration) {},
			warnings: []string{"sourceClientConnection.namespace: empty, all namespaces are watched"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			want := defaulted()
			tc.want(want)
			g.Expect(load(t, minimal+tc.file)).To(BeComparableTo(want))
			g.Expect(warnings(t, minimal+tc.file)).To(Equal(tc.warnings))
		})
	}
}

func TestMistakesThatAreOnlyWarnings(t *testing.T) {
	for name, tc := range map[string]struct {
		file string
		want []Warning
	}{
		"a field set twice": {
			file: "logLevel: debug\nlogLevel: info",
			want: []Warning{{Path: "logLevel", Message: "set twice, the last one counts", Mistake: true}},
		},
		"a field set twice in a list": {
			file: "controllers:\n  networkPolicy:\n    namespaceSelectors:\n    - matchLabels: {a: b, a: b}",
			want: []Warning{
				{
					Path: "controllers.networkPolicy.namespaceSelectors[0].matchLabels.a", Message: "set twice, the last one counts",
					Mistake: true,
				},
			},
		},
		"a second document": {
			file: "---\nlogLevel: debug",
			want: []Warning{{Message: "only the first document of the file is read", Mistake: true}},
		},
		"an unknown field under an alias": {
			file: "controllers:\n  csrApprover: {enable: true}",
			want: []Warning{
				{Path: "controllers.csrApprover", Message: "read as controllers.kubeletCSRApprover"},
				{Path: "controllers.csrApprover.enable", Message: "unknown field, ignored", Mistake: true},
			},
		},
		"a name in other letters": {
			file: "LogLevel: debug",
			want: []Warning{{Path: "LogLevel", Message: "unknown field, ignored", Mistake: true}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, found, err := ResourceManager([]byte(minimal + tc.file))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(found).To(Equal(tc.want))
		})
	}
}

func TestJSONAndOldYAMLBooleansAreRead(t *testing.T) {
	g := NewWithT(t)
	file := "{\n\t\"apiVersion\": \"resourcemanager.config.gardener.cloud/v1alpha1\",\n\t\"kind\": \"ResourceManagerConfiguration\"," +
		"\n\t\"leaderElection\": {\"resourceNamespace\": \"garden\"}\n}"
	g.Expect(load(t, file)).To(BeComparableTo(defaulted()))
	g.Expect(load(t, minimal+"debugging: {enableProfiling: yes}").Debugging.EnableProfiling).To(BeTrue())
}

func TestEspalierNamespacesAbsentAndEmptyDiffer(t *testing.T) {
	for name, tc := range map[string]struct {
		file string
		want *EspalierNamespaces
	}{
		"absent restricts nothing": {file: "{}", want: nil},
		"an empty section":         {file: "{namespaces: {}}", want: &EspalierNamespaces{ClusterScoped: ptr.To(true)}},
		"empty lists allow nothing": {
			file: "{namespaces: {sets: [], objects: []}}",
			want: &EspalierNamespaces{Sets: &[]string{}, Objects: &[]string{}, ClusterScoped: ptr.To(true)},
		},
		"a selector leaves the lists": {
			file: "{namespaces: {setSelector: {matchLabels: {a: b}}}}",
			want: &EspalierNamespaces{SetSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}, ClusterScoped: ptr.To(true)},
		},
		"one list leaves the other": {
			file: "{namespaces: {sets: [a]}}", want: &EspalierNamespaces{Sets: &[]string{"a"}, ClusterScoped: ptr.To(true)},
		},
		"cluster-scoped objects off":  {file: "{namespaces: {clusterScoped: false}}", want: &EspalierNamespaces{ClusterScoped: ptr.To(false)}},
		"the whole section has nulls": {file: "", want: nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c := load(t, minimal+"espalier: {managedResource: "+tc.file+"}")
			g.Expect(c.Espalier.ManagedResource.Namespaces).To(BeComparableTo(tc.want))
			g.Expect(mistakes(c)).To(BeEmpty())
		})
	}
}

func TestEspalierRestrictionsThatCannotBeUnderstoodStopTheProcess(t *testing.T) {
	for name, tc := range map[string]struct{ file, want string }{
		"a list without value": {
			file: "namespaces:\n      sets:\n",
			want: `espalier.managedResource.namespaces.sets: has no value; remove the key to restrict nothing, or write an empty list ` +
				`to allow nothing`,
		},
		"a section without value": {
			file: "namespaces:\n",
			want: `espalier.managedResource.namespaces: has no value; remove the key to restrict nothing, or write an empty list to ` +
				`allow nothing`,
		},
		"a misspelt list": {
			file: "namespaces: {set: []}\n",
			want: `espalier.managedResource.namespaces.set: unknown field; this section holds restrictions, and one that is not ` +
				`understood cannot be kept`,
		},
		"a selector without value": {
			file: "namespaces:\n      setSelector:\n",
			want: `espalier.managedResource.namespaces.setSelector: has no value; write a selector, or remove the key, so that only ` +
				`sets restricts`,
		},
		"ServiceAccounts without value": {
			file: "serviceAccounts:\n",
			want: `espalier.managedResource.serviceAccounts: has no value; remove the key to restrict nothing`,
		},
		"a lockdown without value": {
			file: "serviceAccounts:\n      lockdown:\n",
			want: `espalier.managedResource.serviceAccounts.lockdown: has no value; remove the key to restrict nothing`,
		},
		"a misspelt lockdown": {
			file: "serviceAccounts: {lockDown: true}\n",
			want: `espalier.managedResource.serviceAccounts.lockDown: unknown field; this section holds restrictions, and one that is not ` +
				`understood cannot be kept`,
		},
		"a limit without value": {
			file: "deletionLimit:\n",
			want: `espalier.managedResource.deletionLimit: has no value; remove the key to restrict nothing`,
		},
		"a misspelt section": {
			file: "namespace: {sets: []}\n",
			want: `espalier.managedResource.namespace: unknown field; this section holds restrictions, and one that is not understood ` +
				`cannot be kept`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(decodeError(t, minimal+"espalier:\n  managedResource:\n    "+tc.file)).To(Equal(tc.want))
		})
	}
}

func TestRestrictionsOfTheOtherBinariesStopTheProcessToo(t *testing.T) {
	for file, want := range map[string]string{
		"csrApprover: {observeonly: true}": `espalier.csrApprover.observeonly: unknown field; this section holds restrictions, ` +
			`and one that is not understood cannot be kept`,
		"csrApprover: {allowedDNSPatterns: }": `espalier.csrApprover.allowedDNSPatterns: has no value; remove the key to restrict ` +
			`nothing, or write an empty list to allow nothing`,
		"networkPolicy: {observeonly: true}": `espalier.networkPolicy.observeonly: unknown field; this section holds restrictions, ` +
			`and one that is not understood cannot be kept`,
	} {
		t.Run(file, func(t *testing.T) {
			NewWithT(t).Expect(decodeError(t, minimal+"espalier:\n  "+file)).To(Equal(want))
		})
	}
}

func TestEspalierValues(t *testing.T) {
	NewWithT(t).Expect(validate(t, minimal+`espalier:
  managedResource:
    auditPeriod: 59s
    deletionWaveTimeout: 0s
    maxConcurrentRequests: 0
    maxDecompressedBytes: 0
    deletionLimit: {protectedKinds: [Pod, pods], objects: -1, percent: 101, namespacesAndDefinitions: -1}
    namespaces: {sets: [a, A_b], objects: [""], setSelector: {matchLabels: {"a b": c}}}
    serviceAccounts: {default: "a:b", byNamespace: {A: c, d: "e\nf"}}
`)).To(ConsistOf(
		`espalier.managedResource.auditPeriod: Invalid value: "59s": must be at least 1m`,
		`espalier.managedResource.deletionWaveTimeout: Invalid value: "0s": must be greater than zero`,
		`espalier.managedResource.maxConcurrentRequests: Invalid value: 0: must be at least 1`,
		`espalier.managedResource.maxDecompressedBytes: Invalid value: 0: must be at least 1`,
		`espalier.managedResource.deletionLimit.protectedKinds[1]: Invalid value: "pods": must be Kind or Kind.group`,
		`espalier.managedResource.deletionLimit.objects: Invalid value: -1: is out of range`,
		`espalier.managedResource.deletionLimit.percent: Invalid value: 101: is out of range`,
		`espalier.managedResource.deletionLimit.namespacesAndDefinitions: Invalid value: -1: is out of range`,
		HavePrefix(`espalier.managedResource.namespaces.sets[1]: Invalid value: "A_b": a lowercase RFC 1123 label`),
		HavePrefix(`espalier.managedResource.namespaces.setSelector.matchLabels: Invalid value: "a b": name part must consist of`),
		HavePrefix(`espalier.managedResource.serviceAccounts.default: Invalid value: "a:b": a lowercase RFC 1123 subdomain`),
		HavePrefix(`espalier.managedResource.serviceAccounts.byNamespace[A]: Invalid value: "A": a lowercase RFC 1123 label`),
		HavePrefix(`espalier.managedResource.serviceAccounts.byNamespace[d]: Invalid value: "e\nf": a lowercase RFC 1123 subdomain`),
		HavePrefix(`espalier.managedResource.namespaces.objects[0]: Invalid value: "": a lowercase RFC 1123 label`),
	))
}

func TestLockdownExcludesTheGarbageCollector(t *testing.T) {
	const file = minimal + "espalier: {managedResource: {serviceAccounts: {lockdown: %t}}}\n" +
		"controllers: {garbageCollector: {enabled: true, syncPeriod: 1h}}"
	g := NewWithT(t)
	g.Expect(validate(t, fmt.Sprintf(file, true))).To(ConsistOf(HavePrefix("controllers.garbageCollector.enabled: Forbidden: it deletes")))
	g.Expect(validate(t, fmt.Sprintf(file, false))).To(BeEmpty())
}

func TestEmptySelectorDoesNotAllowAllNamespaces(t *testing.T) {
	g := NewWithT(t)
	g.Expect(validate(t, minimal+"espalier: {managedResource: {namespaces: {setSelector: {}}}}")).To(ConsistOf(
		`espalier.managedResource.namespaces.setSelector: Required value: an empty selector would allow all namespaces; ` +
			`to allow sets of all namespaces, remove setSelector and sets`))
	g.Expect(validate(t, minimal+"espalier: {networkPolicy: {clientNamespaceSelectors: [{matchLabels: {a: b}}, {}]}}")).To(ConsistOf(
		`espalier.networkPolicy.clientNamespaceSelectors[1]: Required value: an empty selector would allow all namespaces; ` +
			`to allow all, remove clientNamespaceSelectors`))
}

func TestTolerations(t *testing.T) {
	for name, tc := range map[string]struct {
		toleration corev1.Toleration
		want       []string
	}{
		"of everything": {toleration: corev1.Toleration{Operator: "Exists"}},
		"of a value":    {toleration: corev1.Toleration{Key: "a.b/c", Value: "d", Effect: "NoSchedule"}},
		"for a while": {
			toleration: corev1.Toleration{Key: "a", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: ptr.To[int64](5)},
		},
		"with a key that is not one": {toleration: corev1.Toleration{Key: "a b", Operator: "Exists"}, want: []string{"[0].key"}},
		"without key and operator":   {toleration: corev1.Toleration{}, want: []string{"[0].operator"}},
		"seconds without NoExecute": {
			toleration: corev1.Toleration{Key: "a", Operator: "Exists", TolerationSeconds: ptr.To[int64](5)}, want: []string{"[0].effect"},
		},
		"a value that is no label value": {
			toleration: corev1.Toleration{Key: "a", Operator: "Equal", Value: "b c"}, want: []string{"[0].value"},
		},
		"a value for Exists":              {toleration: corev1.Toleration{Key: "a", Operator: "Exists", Value: "b"}, want: []string{"[0].value"}},
		"an operator that does not exist": {toleration: corev1.Toleration{Key: "a", Operator: "Lt"}, want: []string{"[0].operator"}},
		"an effect that does not exist":   {toleration: corev1.Toleration{Key: "a", Effect: "Never"}, want: []string{"[0].effect"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, err := range validateTolerations([]corev1.Toleration{tc.toleration}, field.NewPath("t")) {
				got = append(got, strings.TrimPrefix(err.Field, "t"))
			}
			NewWithT(t).Expect(got).To(Equal(tc.want))
		})
	}
}

func TestProcessTakesTheCommonPart(t *testing.T) {
	g := NewWithT(t)
	c := load(t, everything)
	p := c.Process()
	g.Expect(p).To(BeComparableTo(Process{
		Source: c.SourceClientConnection, Target: c.TargetClientConnection, LeaderElection: c.LeaderElection, Server: c.Server,
		Debugging: Debugging{EnableProfiling: true, EnableContentionProfiling: true}, LogLevel: "debug", LogFormat: "text",
		CacheSyncTimeout: minutes(3).Duration,
	}))
	p.Target.Kubeconfig = "changed"
	g.Expect(c.TargetClientConnection.Kubeconfig).To(Equal("/dst"))
	g.Expect(load(t, minimal).Process().Target).To(BeNil())
}

func TestDefaultingTwiceChangesNothing(t *testing.T) {
	once, twice := load(t, everything), load(t, everything)
	twice.Default()
	NewWithT(t).Expect(twice).To(BeComparableTo(once))
}

func TestAnchorsBombIsRefused(t *testing.T) {
	var file strings.Builder
	file.WriteString(minimal + "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := range 9 {
		fmt.Fprintf(&file, "a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d,", i), 9), i)
	}
	NewWithT(t).Expect(decodeError(t, file.String())).To(ContainSubstring("excessive aliasing"))
}

func TestLabelSelectorsKeepTheirShape(t *testing.T) {
	c := load(t, minimal+"controllers: {networkPolicy: {namespaceSelectors: [{matchLabels: {a: b}}, {}]}}")
	NewWithT(t).Expect(c.Controllers.NetworkPolicy.NamespaceSelectors).
		To(BeComparableTo([]metav1.LabelSelector{{MatchLabels: map[string]string{"a": "b"}}, {}}))
}
