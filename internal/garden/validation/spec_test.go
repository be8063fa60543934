package validation_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/garden/validation"
)

// rules are the rules for specs: changes to the valid Garden, and the findings about them.
var rules = map[string]struct {
	changes []string
	want    []string
}{
	"a valid Garden": {},

	// ingress and domains
	"no ingress domain": {
		changes: []string{"R: {ingress: {domains: null}}"},
		want:    []string{"Required R.ingress.domains: must provide at least one domain"},
	},
	"an empty ingress domain of v1.84": {
		changes: []string{"R: {ingress: {domain: '', domains: null}}"},
		want:    []string{"Required R.ingress.domains: must provide at least one domain"},
	},
	"the ingress domain of v1.84":             {changes: []string{"R: {ingress: {domain: a.example.com, domains: null}}"}},
	"both ingress domains with the same name": {changes: []string{"R: {ingress: {domain: ingress.example.com}}"}},
	"both ingress domains with different names": {
		changes: []string{"R: {ingress: {domain: a.example.com}}"},
		want:    []string{"Invalid R.ingress.domain: must be the name of the first entry of domains, or not be set"},
	},
	"an ingress domain that is none": {changes: []string{"R: {ingress: {domains: [a.example.com, A_b]}}"}, want: []string{
		"Invalid R.ingress.domains[1].name: " + noSubdomain,
	}},
	"an ingress domain of the wrong type": {changes: []string{"R: {ingress: {domains: [5]}}"}, want: []string{
		"Invalid R.ingress.domains[0].name: " + noSubdomain,
	}},
	"an ingress domain twice": {
		changes: []string{"R: {ingress: {domains: [a.example.com, {name: a.example.com, provider: p}]}}"},
		want: []string{
			"Duplicate R.ingress.domains[1].name: ",
		},
	},
	"no domain of the virtual cluster": {
		changes: []string{"V: {dns: {domains: null}}"},
		want:    []string{"Required V.dns.domains: must provide at least one domain"},
	},
	"a domain of the virtual cluster that is none, twice": {changes: []string{"V: {dns: {domains: [example.com, '', '']}}"}, want: []string{
		"Invalid V.dns.domains[1].name: " + noSubdomain,
		"Invalid V.dns.domains[2].name: " + noSubdomain,
		"Duplicate V.dns.domains[2].name: ",
	}},
	"a provider of a domain without providers": {changes: []string{"V: {dns: {domains: [{name: example.com, provider: p}]}}"}},

	// networks of the runtime cluster
	"networks as in v1.112": {changes: []string{"R: {networking: {nodes: 10.1.0.0/16, pods: 10.2.0.0/16, services: 10.3.0.0/16}}"}},
	"no networks of nodes":  {changes: []string{"R: {networking: {nodes: null}}"}},
	"no networks": {changes: []string{"R: {networking: {pods: [], services: ''}}", "V: {networking: {services: []}}"}, want: []string{
		"Required R.networking.pods: must provide at least one network",
		"Required R.networking.services: must provide at least one network",
		"Required V.networking.services: must provide at least one network",
	}},
	"networks that are none": {
		changes: []string{"R: {networking: {nodes: [a], pods: [10.2.0.0/16, 5], services: 10.3.0.0, blockCIDRs: [x]}}"},
		want: []string{
			`Invalid R.networking.nodes[0]: cannot parse node network cidr of runtime cluster: netip.ParsePrefix("a"): no '/'`,
			`Invalid R.networking.pods[1]: cannot parse pod network cidr of runtime cluster: netip.ParsePrefix("malformed: 5"): no '/'`,
			`Invalid R.networking.services[0]: cannot parse service network cidr of runtime cluster: netip.ParsePrefix("10.3.0.0"): no '/'`,
			`Invalid R.networking.blockCIDRs[0]: cannot parse network cidr: netip.ParsePrefix("x"): no '/'`,
		},
	},
	"networks that intersect": {
		changes: []string{"R: {networking: {nodes: [10.0.0.0/8], pods: [2001:db8::/32, 10.2.0.0/16], services: [10.2.128.0/17]}}"},
		want: []string{
			"Invalid R.networking.services: pod network of runtime cluster intersects with service network of runtime cluster",
			"Invalid R.networking.nodes: node network of runtime cluster intersects with pod network of runtime cluster",
			"Invalid R.networking.nodes: node network of runtime cluster intersects with service network of runtime cluster",
		},
	},
	"both IP families": {changes: []string{"R: {networking: {ipFamilies: [IPv6, IPv4]}}"}},
	"IP families": {changes: []string{"R: {networking: {ipFamilies: [IPv4, IPv5, IPv4]}}"}, want: []string{
		`NotSupported R.networking.ipFamilies[1]: supported values: "IPv4", "IPv6"`,
		"Duplicate R.networking.ipFamilies[2]: ",
	}},

	// networks of the virtual cluster
	"a virtual network as in v1.112":   {changes: []string{"V: {networking: {services: 100.64.0.0/13}}"}},
	"virtual networks of two families": {changes: []string{"V: {networking: {services: [100.64.0.0/13, 2001:db8:4::/112]}}"}},
	"a virtual network that is none": {changes: []string{"V: {networking: {services: [a]}}"}, want: []string{
		`Invalid V.networking.services[0]: cannot parse service network cidr: netip.ParsePrefix("a"): no '/'`,
	}},
	"virtual networks of one family": {changes: []string{"V: {networking: {services: [100.64.0.0/13, 100.96.0.0/13]}}"}, want: []string{
		"Invalid V.networking.services[1]: networks must be of different IP families",
	}},
	"three virtual networks": {
		changes: []string{"V: {networking: {services: [100.64.0.0/13, 2001:db8:4::/112, 2001:db8:5::/112]}}"},
		want: []string{
			"TooMany V.networking.services: must have at most 2 items",
			"Invalid V.networking.services[2]: networks must be of different IP families",
		},
	},
	"a virtual network that intersects": {changes: []string{"V: {networking: {services: [10.0.0.0/8]}}"}, want: []string{
		"Invalid V.networking.services[0]: pod network of runtime cluster intersects with service network of virtual cluster",
		"Invalid V.networking.services[0]: service network of runtime cluster intersects with service network of virtual cluster",
		"Invalid V.networking.services[0]: node network of runtime cluster intersects with service network of virtual cluster",
	}},

	// settings of the runtime cluster
	"an external traffic policy": {changes: []string{"R: {settings: {loadBalancerServices: {externalTrafficPolicy: Local}}}"}},
	"settings of the vertical pod autoscaler": {
		changes: []string{
			"R: {settings: {verticalPodAutoscaler: {featureGates: {InPlace: true, InPlaceOrRecreate: true}, maxAllowed: {cpu: 8, memory: 0}}}}",
		},
	},
	"wrong settings of the vertical pod autoscaler": {
		changes: []string{"R: {settings: {verticalPodAutoscaler: {featureGates: {HVPA: true}, maxAllowed: {cpu: -1, memory: -1, disk: 1}}}}"},
		want: []string{
			"Forbidden R.settings.verticalPodAutoscaler.featureGates.HVPA: not supported by the vertical pod autoscaler",
			"Invalid R.settings.verticalPodAutoscaler.maxAllowed[cpu]: value must not be negative",
			`NotSupported R.settings.verticalPodAutoscaler.maxAllowed[disk]: supported values: "cpu", "memory"`,
			"Invalid R.settings.verticalPodAutoscaler.maxAllowed[memory]: value must not be negative",
		},
	},
	"topology-aware routing with zones and high availability": {
		changes: []string{"R: {settings: {topologyAwareRouting: {enabled: true}}}", "V: {controlPlane: {highAvailability: {}}}"},
	},
	"topology-aware routing with one zone and without high availability": {
		changes: []string{"R: {provider: {zones: [a]}, settings: {topologyAwareRouting: {enabled: true}}}"},
		want: []string{
			"Forbidden R.settings.topologyAwareRouting.enabled: topology-aware routing can only be enabled on multi-zone garden runtime " +
				"cluster (with at least two zones in spec.provider.zones)",
			"Forbidden R.settings.topologyAwareRouting.enabled: topology-aware routing can only be enabled when virtual cluster's " +
				"high-availability is enabled",
		},
	},
	"topology-aware routing that is off": {
		changes: []string{"R: {provider: {zones: null}, settings: {topologyAwareRouting: {enabled: false}}}"},
	},

	// etcd
	"bounds of etcd": {
		changes: []string{
			"V: {etcd: {main: {autoscaling: {minAllowed: {memory: 300M}}}, events: {autoscaling: {minAllowed: {cpu: 1m, memory: 60M}}}}}",
		},
	},
	"wrong bounds of etcd": {
		changes: []string{"V: {etcd: {main: {autoscaling: {minAllowed: {memory: 299M, disk: 1}}}, " +
			"events: {autoscaling: {minAllowed: {cpu: -1, memory: 59M}}}}}"},
		want: []string{
			`NotSupported V.etcd.main.autoscaling.minAllowed[disk]: supported values: "cpu", "memory"`,
			"Invalid V.etcd.main.autoscaling.minAllowed[memory]: must be at least 300M",
			"Invalid V.etcd.events.autoscaling.minAllowed[cpu]: value must not be negative",
			"Invalid V.etcd.events.autoscaling.minAllowed[memory]: must be at least 60M",
		},
	},
	"empty bounds": {
		changes: []string{"V: {etcd: {main: {autoscaling: {minAllowed: {}}}}}", "K: {autoscaling: {minAllowed: {}}}"},
		want: []string{
			"Required V.etcd.main.autoscaling.minAllowed: must provide cpu or memory",
			"Required K.autoscaling.minAllowed: must provide cpu or memory",
		},
	},

	// Kubernetes
	"the lowest version":      {changes: []string{"version: 1.32.0"}},
	"the highest version":     {changes: []string{"version: 1.36.99"}},
	"a version below":         {changes: []string{"version: 1.31.9"}, want: []string{unsupported}},
	"a version above":         {changes: []string{"version: 1.37.0"}, want: []string{unsupported}},
	"a version that is none":  {changes: []string{"version: latest"}, want: []string{unsupported}},
	"a version without patch": {changes: []string{"version: '1.36'"}},
	"settings of kube-controller-manager for nodes": {
		changes: []string{"V: {kubernetes: {kubeControllerManager: {nodeCIDRMaskSize: 1, horizontalPodAutoscaler: {}, podEvictionTimeout: 1s, " +
			"nodeMonitorGracePeriod: 1s}}}"},
		want: []string{
			"Forbidden V.kubernetes.kubeControllerManager.nodeCIDRMaskSize: this field should not be set for workerless Shoot clusters",
			"Forbidden V.kubernetes.kubeControllerManager.horizontalPodAutoscaler: this field should not be set for workerless Shoot clusters",
			"Forbidden V.kubernetes.kubeControllerManager.podEvictionTimeout: this field should not be set for workerless Shoot clusters",
			"Forbidden V.kubernetes.kubeControllerManager.nodeMonitorGracePeriod: this field should not be set for workerless Shoot clusters",
		},
	},
	"feature gates of kube-controller-manager": {
		changes: []string{"V: {kubernetes: {kubeControllerManager: {featureGates: {AllAlpha: true, HVPA: true}}}}"},
		want:    []string{"Invalid V.kubernetes.kubeControllerManager.featureGates.HVPA: unknown feature gate HVPA"},
	},
	"feature gates of kube-apiserver": {
		changes: []string{"K: {featureGates: {AllAlpha: true, StructuredAuthorizationConfiguration: true, ComponentSLIs: false, " +
			"CustomCPUCFSQuotaPeriod: true, Foo: true}}"},
		want: []string{
			"Forbidden K.featureGates.ComponentSLIs: cannot set feature gate to false, feature is locked to true",
			"Forbidden K.featureGates.CustomCPUCFSQuotaPeriod: not supported in Kubernetes version 1.33.1",
			"Invalid K.featureGates.Foo: unknown feature gate Foo",
		},
	},
	"a feature gate that a later version does not have": {
		changes: []string{"version: 1.36.0", "K: {featureGates: {StructuredAuthorizationConfiguration: true}}"},
		want:    []string{"Forbidden K.featureGates.StructuredAuthorizationConfiguration: not supported in Kubernetes version 1.36.0"},
	},

	// Gardener
	"feature gates of Gardener": {
		changes: []string{"G: {gardenerAPIServer: {featureGates: {InPlaceNodeUpdates: true, HVPA: true}}, " +
			"gardenerControllerManager: {featureGates: {DisableNginxIngressInShoot: true}}, gardenerScheduler: {featureGates: {HVPA: false}}}"},
	},
	"wrong feature gates of Gardener": {
		changes: []string{"G: {gardenerAPIServer: {featureGates: {APIServerTracing: false, WorkerlessShoots: true}}, " +
			"gardenerControllerManager: {featureGates: {InPlaceNodeUpdates: true}}, " +
			"gardenerScheduler: {featureGates: {DisableNginxIngressInShoot: true}}}"},
		want: []string{
			"Forbidden G.gardenerAPIServer.featureGates.APIServerTracing: cannot set feature gate to false, feature is locked to true",
			"Forbidden G.gardenerAPIServer.featureGates.WorkerlessShoots: not supported by Gardener",
			"Forbidden G.gardenerControllerManager.featureGates.InPlaceNodeUpdates: not supported by Gardener",
			"Forbidden G.gardenerScheduler.featureGates.DisableNginxIngressInShoot: not supported by Gardener",
		},
	},
	"admission plugins of Gardener": {
		changes: []string{"G: {gardenerAPIServer: {admissionPlugins: [{name: ShootMutator}, {name: Bastion, disabled: true}]}}"},
	},
	"unknown admission plugins of Gardener": {
		changes: []string{"G: {gardenerAPIServer: {admissionPlugins: [{name: Foo}, {name: ProjectValidator}]}}"},
		want: []string{
			"NotSupported G.gardenerAPIServer.admissionPlugins[0].name: " + plugins,
			"NotSupported G.gardenerAPIServer.admissionPlugins[1].name: " + plugins,
		},
	},
	"an admission plugin of Gardener without name ends the validation of gardener-apiserver": {
		changes: []string{"G: {gardenerAPIServer: {admissionPlugins: [{name: ''}, {name: Foo}], logging: {verbosity: -1}}}"},
		want:    []string{"Required G.gardenerAPIServer.admissionPlugins[0].name: must provide a name"},
	},
	"settings of API servers at their limits": {changes: []string{
		"G: {gardenerAPIServer: " + atLimits + "}", "K: " + atLimits,
		"G: {gardenerAPIServer: {goAwayChance: 0.02, shootAdminKubeconfigMaxExpiration: 1h}}",
	}},
	"settings of API servers beyond their limits": {
		changes: []string{
			"G: {gardenerAPIServer: " + beyondLimits + "}", "K: " + beyondLimits,
			"G: {gardenerAPIServer: {goAwayChance: 0.03, shootAdminKubeconfigMaxExpiration: 59m}}",
		},
		want: []string{
			"Required G.gardenerAPIServer.auditConfig.auditPolicy.configMapRef.name: must provide a name",
			"Invalid G.gardenerAPIServer.watchCacheSizes.default: must not be negative",
			"Required G.gardenerAPIServer.watchCacheSizes.resources[0].resource: must not be empty",
			"Invalid G.gardenerAPIServer.watchCacheSizes.resources[0].size: must not be negative",
			"Invalid G.gardenerAPIServer.logging.verbosity: must not be negative",
			"Invalid G.gardenerAPIServer.logging.httpAccessVerbosity: must not be negative",
			"Invalid G.gardenerAPIServer.requests.maxNonMutatingInflight: cannot set higher than 5000",
			"Invalid G.gardenerAPIServer.requests.maxMutatingInflight: cannot set higher than 2500",
			"Invalid G.gardenerAPIServer.goAwayChance: must be between 0 and 0.02",
			"Invalid G.gardenerAPIServer.shootAdminKubeconfigMaxExpiration: must be between 1h0m0s and 1193046h28m16s",
			"Required K.auditConfig.auditPolicy.configMapRef.name: must provide a name",
			"Invalid K.watchCacheSizes.default: must not be negative",
			"Required K.watchCacheSizes.resources[0].resource: must not be empty",
			"Invalid K.watchCacheSizes.resources[0].size: must not be negative",
			"Invalid K.logging.verbosity: must not be negative",
			"Invalid K.logging.httpAccessVerbosity: must not be negative",
			"Invalid K.requests.maxNonMutatingInflight: cannot set higher than 5000",
			"Invalid K.requests.maxMutatingInflight: cannot set higher than 2500",
		},
	},
	"negative requests": {
		changes: []string{"K: {requests: {maxNonMutatingInflight: -1, maxMutatingInflight: -1}}", "G: {gardenerAPIServer: {goAwayChance: -0.1}}"},
		want: []string{
			"Invalid G.gardenerAPIServer.goAwayChance: must be between 0 and 0.02",
			"Invalid K.requests.maxNonMutatingInflight: must not be negative",
			"Invalid K.requests.maxMutatingInflight: must not be negative",
		},
	},
	"audit without policy": {changes: []string{"K: {auditConfig: {auditPolicy: {}}}", "G: {gardenerAPIServer: {auditConfig: {}}}"}},

	// resource admission
	"resource admission": {changes: []string{`G: {gardenerAdmissionController: {resourceAdmissionConfiguration: {operationMode: log,
		unrestrictedSubjects: [{kind: User, name: a, apiGroup: rbac.authorization.k8s.io}, {kind: ServiceAccount, name: a, namespace: b}],
		limits: [{apiGroups: [''], apiVersions: [v1], resources: [secrets], size: 0},
		{apiGroups: [a], apiVersions: [v1], resources: [b], count: 0}]}}}`}},
	"wrong resource admission": {
		changes: []string{`G: {gardenerAdmissionController: {resourceAdmissionConfiguration: {operationMode: foo,
			unrestrictedSubjects: [{kind: Robot, name: a}, {kind: ServiceAccount, name: '', apiGroup: rbac.authorization.k8s.io},
				{kind: User, name: '', namespace: b}, {kind: Group, name: a, namespace: b, apiGroup: v1}],
			limits: [{resources: []}, {apiGroups: [a], apiVersions: [''], resources: [''], size: -1, count: -1}]}}}`},
		want: []string{
			`NotSupported ` + admission + `.mode: supported values: "block", "log"`,
			`NotSupported ` + admission + `.unrestrictedSubjects[0].kind: supported values: "Group", "ServiceAccount", "User"`,
			"Invalid " + admission + ".unrestrictedSubjects[1].name: name must not be empty",
			"Invalid " + admission + ".unrestrictedSubjects[1].namespace: name must not be empty",
			"Invalid " + admission + ".unrestrictedSubjects[1].apiGroup: apiGroup must be empty",
			"Invalid " + admission + ".unrestrictedSubjects[2].name: name must not be empty",
			"Invalid " + admission + ".unrestrictedSubjects[2].namespace: name must be empty",
			`NotSupported ` + admission + `.unrestrictedSubjects[2].apiGroup: supported values: "rbac.authorization.k8s.io"`,
			"Invalid " + admission + ".unrestrictedSubjects[3].namespace: name must be empty",
			`NotSupported ` + admission + `.unrestrictedSubjects[3].apiGroup: supported values: "rbac.authorization.k8s.io"`,
			"Invalid " + admission + ".limits[0].apiGroups: must at least have one element",
			"Invalid " + admission + ".limits[0].versions: must at least have one element",
			"Invalid " + admission + ".limits[0].resources: must at least have one element",
			"Invalid " + admission + ".limits[1].versions[0]: must not be empty",
			"Invalid " + admission + ".limits[1].resources[0]: must not be empty",
			"Invalid " + admission + ".limits[1].size: value must not be negative",
			"Invalid " + admission + ".limits[1].count: value must not be negative",
		},
	},
	"selectors of quotas": {
		changes: []string{`G: {gardenerControllerManager: {defaultProjectQuotas: [{config: {}}, {config: {}, projectSelector: {matchExpressions:
			[{key: a, operator: In, values: ['not a label value']}]}}, {config: {}, projectSelector: {
			matchExpressions: [{key: a, operator: Near}]}}]}}`},
		want: []string{"Invalid G.gardenerControllerManager.defaultProjectQuotas[2].projectSelector.matchExpressions[0].operator: " +
			"not a valid selector operator"},
	},
	"namespaces for the resource manager": {
		changes: []string{"G: {gardenerResourceManager: {additionalTargetNamespaces: [a, a.b]}}"},
		want:    []string{"Invalid G.gardenerResourceManager.additionalTargetNamespaces[1]: must not contain dots"},
	},
}

const (
	noSubdomain = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end " +
		"with an alphanumeric character (e.g. 'example.com', regex used for validation is " +
		`'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`
	unsupported = `NotSupported V.kubernetes.version: supported values: "1.32", "1.33", "1.34", "1.35", "1.36"`
	admission   = "G.gardenerAdmissionController.resourceAdmissionConfiguration"
	plugins     = `supported values: "BackupBucketValidator", "Bastion", "ControllerRegistrationResources", "CustomVerbAuthorizer", ` +
		`"DeletionConfirmation", "ExtensionLabels", "ExtensionValidator", "FinalizerRemoval", "ManagedSeed", "ManagedSeedShoot", ` +
		`"MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "NamespaceLifecycle", "NamespacedCloudProfileValidator", "ProjectMutator", ` +
		`"ResourceQuota", "ResourceReferenceManager", "SeedMutator", "SeedValidator", "ShootDNS", "ShootDNSRewriting", ` +
		`"ShootExposureClass", "ShootManagedSeed", "ShootMutator", "ShootNodeLocalDNSEnabledByDefault", "ShootQuotaValidator", ` +
		`"ShootResourceReservation", "ShootTolerationRestriction", "ShootVPAEnabledByDefault", "ShootValidator", ` +
		`"ValidatingAdmissionPolicy", "ValidatingAdmissionWebhook"`
	atLimits = `{auditConfig: {auditPolicy: {configMapRef: {name: a}}}, watchCacheSizes: {default: 0, resources: [{resource: a, size: 0}]},
		logging: {verbosity: 0, httpAccessVerbosity: 0}, requests: {maxNonMutatingInflight: 5000, maxMutatingInflight: 2500}}`
	beyondLimits = `{auditConfig: {auditPolicy: {configMapRef: {name: ''}}}, watchCacheSizes: {default: -1,
		resources: [{resource: '', size: -1}]},
		logging: {verbosity: -1, httpAccessVerbosity: -1}, requests: {maxNonMutatingInflight: 5001, maxMutatingInflight: 2501}}`
)

func TestRulesForSpecs(t *testing.T) {
	for sentence, tc := range rules {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			if tc.want == nil {
				tc.want = []string{}
			}
			g.Expect(texts(validation.Create(garden(t, tc.changes...), nil))).To(BeComparableTo(tc.want))
		})
	}
}
