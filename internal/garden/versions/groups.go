package versions

// GardenerGroups returns the API groups that gardener-apiserver serves. kube-apiserver serves other groups of gardener.cloud, by
// definitions.
func GardenerGroups() []string {
	return []string{
		"authentication.gardener.cloud", "core.gardener.cloud", "operations.gardener.cloud", "security.gardener.cloud",
		"seedmanagement.gardener.cloud",
	}
}
