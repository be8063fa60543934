package versions

import "slices"

// Component is a program of Gardener that has feature gates.
type Component string

// Components of Gardener.
const (
	GardenerAPIServer         Component = "gardener-apiserver"
	GardenerControllerManager Component = "gardener-controller-manager"
	GardenerScheduler         Component = "gardener-scheduler"
)

// GardenerFeatureGate returns a feature gate of a component of Gardener 1.149, and whether the component has it. The component does not
// start with a gate that it does not have.
func GardenerFeatureGate(component Component, name string) (FeatureGate, bool) {
	if gate, ok := gardenerFeatureGates[component][name]; ok {
		return gate, true
	}
	generic, ok := tables().featureGates[name]
	if component != GardenerAPIServer || !ok || generic.mark != "generic" {
		return FeatureGate{}, false
	}
	return gateOf(generic.columns[len(generic.columns)-1]), true
}

// TakesGate reports whether a component starts with a value of a feature gate: it has the gate, and the gate is not locked to the other
// value.
func (c Component) TakesGate(name string, value bool) bool {
	gate, known := GardenerFeatureGate(c, name)
	return known && (!gate.Locked || gate.Default == value)
}

// gardenerFeatureGates are the gates of Gardener 1.149. gardener-apiserver also has the gates of API servers of Kubernetes 1.36.
var gardenerFeatureGates = map[Component]map[string]FeatureGate{
	GardenerAPIServer: {
		"CloudProfileCapabilities":       {Default: true},
		"DisableNginxIngressInShoot":     {},
		"InPlaceNodeUpdates":             {},
		"LiveControlPlaneMigration":      {},
		"VersionClassificationLifecycle": {},
	},
	GardenerControllerManager: {
		"DisableNginxIngressInShoot": {},
	},
}

// GardenerFeatureGateHVPA is the gate for the autoscaler that Gardener no longer has. Gardens may set it, without an effect.
const GardenerFeatureGateHVPA = "HVPA"

// RetiredGardenerFeatureGate reports whether a gate existed in Gardener 1.84 and does not exist any more. The operator must not pass such
// a gate to a component.
func RetiredGardenerFeatureGate(name string) bool {
	return slices.Contains([]string{
		"APIServerFastRollout", "ContainerdRegistryHostsDir", "CoreDNSQueryRewriting", "DefaultSeccompProfile", GardenerFeatureGateHVPA,
		"HVPAForShootedSeed", "IPv6SingleStack", "MachineControllerManagerDeployment", "MutableShootSpecNetworkingNodes",
		"ShootForceDeletion", "UseGardenerNodeAgent", "WorkerlessShoots",
	}, name)
}

// GardenerAdmissionPlugins returns the names of the admission plugins of gardener-apiserver 1.149, sorted.
func GardenerAdmissionPlugins() []string {
	return []string{
		"BackupBucketValidator", "Bastion", "ControllerRegistrationResources", "CustomVerbAuthorizer", "DeletionConfirmation",
		"ExtensionLabels", "ExtensionValidator", "FinalizerRemoval", "ManagedSeed", "ManagedSeedShoot", "MutatingAdmissionPolicy",
		"MutatingAdmissionWebhook", "NamespaceLifecycle", "NamespacedCloudProfileValidator", "ProjectMutator", "ResourceQuota",
		"ResourceReferenceManager", "SeedMutator", "SeedValidator", "ShootDNS", "ShootDNSRewriting", "ShootExposureClass",
		"ShootManagedSeed", "ShootMutator", "ShootNodeLocalDNSEnabledByDefault", "ShootQuotaValidator", "ShootResourceReservation",
		"ShootTolerationRestriction", "ShootVPAEnabledByDefault", "ShootValidator", "ValidatingAdmissionPolicy",
		"ValidatingAdmissionWebhook",
	}
}

// RetiredGardenerAdmissionPlugin reports whether gardener-apiserver 1.84 had the plugin and gardener-apiserver 1.149 does not have it. The
// operator must not pass such a plugin on, because gardener-apiserver would not start with it.
func RetiredGardenerAdmissionPlugin(name string) bool {
	return slices.Contains([]string{"ClusterOpenIDConnectPreset", "OpenIDConnectPreset", "ProjectValidator"}, name)
}

// GardenerGroups returns the API groups that gardener-apiserver serves. kube-apiserver serves other groups whose names end with
// gardener.cloud, for which there are CustomResourceDefinitions.
func GardenerGroups() []string {
	return []string{
		"authentication.gardener.cloud", "core.gardener.cloud", "operations.gardener.cloud", "security.gardener.cloud",
		"seedmanagement.gardener.cloud",
	}
}

// VPAFeatureGate reports whether the vertical pod autoscaler 1.8 has a feature gate.
func VPAFeatureGate(name string) bool {
	return slices.Contains([]string{"AllAlpha", "AllBeta", "CPUStartupBoost", "InPlace", "PerVPAConfig"}, name)
}

// RetiredVPAFeatureGate reports whether name is a gate of an earlier vertical pod autoscaler for a behaviour that is always on in 1.8. The
// operator does not pass the gate on, because the vertical pod autoscaler would not start with it. A Garden may still set it, without an
// effect.
func RetiredVPAFeatureGate(name string) bool { return name == "InPlaceOrRecreate" }
