package versions

// Setting is a flag of kube-apiserver, a version of its configuration files, or a field in them that only some of the supported versions
// have.
type Setting string

// Settings of kube-apiserver.
const (
	// DefaultWatchCacheSize is the flag --default-watch-cache-size.
	DefaultWatchCacheSize Setting = "--default-watch-cache-size"
	// AuthenticationConfigurationV1 is the version v1 of AuthenticationConfiguration. All versions read v1beta1.
	AuthenticationConfigurationV1 Setting = "AuthenticationConfiguration of apiserver.config.k8s.io/v1"
	// IssuerEgressSelector is the field egressSelectorType of issuers in an AuthenticationConfiguration.
	IssuerEgressSelector Setting = "egressSelectorType"
	// AuthorizerCacheSwitches are the fields cacheAuthorizedRequests and cacheUnauthorizedRequests of an AuthorizationConfiguration.
	AuthorizerCacheSwitches Setting = "cacheAuthorizedRequests and cacheUnauthorizedRequests"
)

// kubeAPIServerSettings says for each of the supported versions: + if kube-apiserver has the setting, and - if it does not.
var kubeAPIServerSettings = map[Setting]string{
	DefaultWatchCacheSize:         "+++--",
	AuthenticationConfigurationV1: "--+++",
	IssuerEgressSelector:          "--+++",
	AuthorizerCacheSwitches:       "--+++",
}

// Has reports whether kube-apiserver has a setting. Versions that are not supported have none.
func (k Kubernetes) Has(setting Setting) bool { return k.cell(kubeAPIServerSettings[setting]) == '+' }
