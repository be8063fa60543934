package config

import (
	"maps"
	"slices"
)

// Gardenlet decodes a configuration file of extension-controller and sets the defaults. See ResourceManager for the difference between
// warnings and errors. A setting that only other controllers of gardenlet use, or a field of the Seed other than its name, causes a
// warning, and is not a mistake.
func Gardenlet(data []byte) (*GardenletConfiguration, []Warning, error) {
	doc, warnings, err := parse(data)
	if err != nil {
		return nil, nil, err
	}
	warnings = slices.Concat(warnings,
		doc.dropForeign("", "apiServer", "discovery", "etcdConfig", "exposureClassHandlers", "kubernetesLogLevel", "logging", "loki",
			"monitoring", "nodeToleration", "resources", "shootClientConnection", "sni", "vali"),
		doc.dropForeign("controllers", foreignGardenletControllers()...),
		doc.dropOthers("seedConfig", "metadata"),
		doc.dropOthers("seedConfig.metadata", "name"),
	)
	return loadDocument[GardenletConfiguration](doc, GardenletAPIVersion, GardenletKind, warnings, nil)
}

// foreignGardenletControllers returns the names of the sections of the other controllers of gardenlet in all its releases.
func foreignGardenletControllers() []string {
	return []string{
		"backupBucket", "backupCompaction", "backupEntry", "backupEntryMigration", "bastion", "federatedSeed", "gardenlet", "managedSeed",
		"networkPolicy", "seed", "seedAPIServerNetworkPolicy", "seedCare", "shoot", "shootCare", "shootMigration", "shootMonitoring",
		"shootSecret", "shootState", "shootStateSync", "shootStatus", "shootedSeedRegistration", "tokenRequestor",
		"tokenRequestorServiceAccount", "tokenRequestorWorkloadIdentity", "vpaEvictionRequirements",
	}
}

// dropOthers removes all fields of a section but one, and returns one warning for each.
func (d *document) dropOthers(at, kept string) []Warning {
	others := slices.DeleteFunc(slices.Sorted(maps.Keys(d.section(at, false))), func(name string) bool { return name == kept })
	return d.dropForeign(at, others...)
}
