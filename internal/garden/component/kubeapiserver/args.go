package kubeapiserver

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/apiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/etcd"
	"github.com/espalier-dev/espalier/internal/garden/component/exposure"
	"github.com/espalier-dev/espalier/internal/garden/component/flags"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/garden/versions"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// Folders with Secrets of the manager of secrets.
const (
	authorityFolder           = apiserver.CredentialsFolder + "ca"
	clientAuthorityFolder     = apiserver.CredentialsFolder + "ca-client"
	frontProxyAuthorityFolder = apiserver.CredentialsFolder + "ca-front-proxy"
	serviceAccountKeyFolder   = apiserver.CredentialsFolder + "service-account-key"
	serviceAccountKeysFolder  = apiserver.CredentialsFolder + "service-account-key-bundle"
	staticTokenFolder         = apiserver.CredentialsFolder + "token"
	aggregatorFolder          = apiserver.CredentialsFolder + "aggregator"
	serverNamesFolder         = apiserver.CredentialsFolder + "tls-sni/0"
)

// args returns the arguments of kube-apiserver. The order matters for arguments that occur several times.
func args(v values.Values, s Secrets, parts []apiserver.Part) []string {
	return slices.Concat(
		servingArgs(v), storageArgs(v), credentialArgs(s), identityArgs(v), clusterArgs(v), limitArgs(v),
		apiserver.LogArgs(v.KubeAPIServer.Logging), apiserver.Args(parts),
	)
}

func servingArgs(v values.Values) []string {
	return slices.Concat([]string{
		"--secure-port=" + strconv.Itoa(exposure.Port),
		"--external-hostname=" + externalHostname(v),
	}, apiserver.ServingArgs(), flags.OptionalArg("--tls-min-version=%s", v.KubeAPIServer.TLSMinVersion))
}

// externalHostname returns the host in the URLs that clients get. If clients reach the API server at the host of the issuer of tokens,
// externalHostname returns this host. Otherwise it returns the host of the API server in the first domain.
func externalHostname(v values.Values) string {
	first := "api." + v.Domains[0]
	parsed, err := url.Parse(issuers(v)[0])
	if err != nil {
		return first
	}
	for _, domain := range v.Domains {
		if parsed.Host == "api."+domain {
			return parsed.Host
		}
	}
	return first
}

// storageArgs returns the arguments that store events, and resources that the user chooses, in the etcd for events, and everything else in
// the main etcd.
func storageArgs(v values.Values) []string {
	events := apiserver.ETCDURL(etcd.Events)
	others := v.KubeAPIServer.ResourcesToStoreInETCDEvents
	overrides := append(make([]string, 0, 1+len(others)), "/events#"+events)
	for _, each := range others {
		overrides = append(overrides, each.Group+"/"+each.Resource+"#"+events)
	}
	return append([]string{
		"--etcd-servers=" + apiserver.ETCDURL(etcd.Main),
		overridesFlag + strings.Join(overrides, ","),
	}, apiserver.ETCDArgs()...)
}

const overridesFlag = "--etcd-servers-overrides="

// ResourcesInETCDEvents returns the resources that the Pods of a live Deployment store in the etcd for events, besides events.
func ResourcesInETCDEvents(live *appsv1.Deployment) []operatorv1alpha1.GroupResource {
	var found []operatorv1alpha1.GroupResource
	for i := range live.Spec.Template.Spec.Containers {
		c := &live.Spec.Template.Spec.Containers[i]
		for _, arg := range slices.Concat(c.Command, c.Args) {
			overrides, is := strings.CutPrefix(arg, overridesFlag)
			if !is {
				continue
			}
			for override := range strings.SplitSeq(overrides, ",") {
				name, _, _ := strings.Cut(override, "#")
				if group, resource, _ := strings.Cut(name, "/"); name != "/events" {
					found = append(found, operatorv1alpha1.GroupResource{Group: group, Resource: resource})
				}
			}
		}
	}
	return found
}

func credentialArgs(s Secrets) []string {
	all := []string{
		"--client-ca-file=" + apiserver.BundleIn(clientAuthorityFolder),
		"--token-auth-file=" + staticTokenFolder + "/" + secretconfig.DataKeyStaticTokens,
		"--proxy-client-cert-file=" + apiserver.CertificateIn(aggregatorFolder),
		"--proxy-client-key-file=" + apiserver.KeyIn(aggregatorFolder),
		"--requestheader-client-ca-file=" + apiserver.BundleIn(frontProxyAuthorityFolder),
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-username-headers=X-Remote-User",
		"--service-account-signing-key-file=" + serviceAccountKeyFolder + "/" + secretconfig.DataKeyRSAPrivateKey,
		"--service-account-key-file=" + serviceAccountKeysFolder + "/" + secretconfig.DataKeyPrivateKeyBundle,
	}
	if s.SharedAuthority {
		all = append(all, "--requestheader-allowed-names="+aggregator)
	}
	return all
}

// identityArgs returns the arguments for tokens of ServiceAccounts, and for tokens with which nodes join.
func identityArgs(v values.Values) []string {
	all := []string{"--enable-bootstrap-token-auth=true", "--api-audiences=" + strings.Join(audiences(v), ",")}
	for _, each := range issuers(v) {
		all = append(all, "--service-account-issuer="+each)
	}
	config := v.KubeAPIServer.ServiceAccountConfig
	if config == nil {
		return all
	}
	all = append(all, flags.OptionalArg("--service-account-extend-token-expiration=%t", config.ExtendTokenExpiration)...)
	if longest := config.MaxTokenExpiration; longest != nil {
		all = append(all, "--service-account-max-token-expiration="+longest.Duration.String())
	}
	return all
}

// audiences returns the accepted audiences of tokens: the audiences in the Garden, by default kubernetes, and the audience of the tokens
// that Gardener requests.
func audiences(v values.Values) []string {
	const gardener = "gardener"
	all := slices.Clone(v.KubeAPIServer.APIAudiences)
	if len(all) == 0 {
		all = []string{"kubernetes"}
	}
	if !slices.Contains(all, gardener) {
		all = append(all, gardener)
	}
	return all
}

// TokenScope returns the issuer of new tokens of ServiceAccounts, and an accepted audience.
func TokenScope(v values.Values) (issuer, audience string) { return issuers(v)[0], audiences(v)[0] }

// issuers returns the issuer of new tokens, followed by further issuers whose tokens are accepted. Tokens of the default issuer are always
// accepted, so that a change from the default issuer to another issuer invalidates no token. Tokens of any other former issuer are
// accepted only if the Garden lists this issuer as accepted.
func issuers(v values.Values) []string {
	byDefault := "https://api." + v.Domains[0]
	config := v.KubeAPIServer.ServiceAccountConfig
	if config == nil {
		return []string{byDefault}
	}
	all := []string{ptr.Deref(config.Issuer, byDefault)}
	for _, each := range append(slices.Clone(config.AcceptedIssuers), byDefault) {
		if !slices.Contains(all, each) {
			all = append(all, each)
		}
	}
	return all
}

// clusterArgs returns the arguments for the APIs, networks, feature gates and events of the virtual cluster.
func clusterArgs(v values.Values) []string {
	settings := v.KubeAPIServer
	return slices.Concat([]string{
		"--enable-aggregator-routing=true",
		"--service-cluster-ip-range=" + flags.Networks(v.ServiceNetworks),
		"--event-ttl=" + ptr.Deref(settings.EventTTL, metav1.Duration{Duration: time.Hour}).Duration.String(),
		"--runtime-config=" + flags.Switches(RuntimeConfig(v)),
	},
		flags.GateArgs(settings.FeatureGates, kubernetes(v).TakesGate),
		flags.OptionalArg("--default-not-ready-toleration-seconds=%d", settings.DefaultNotReadyTolerationSeconds),
		flags.OptionalArg("--default-unreachable-toleration-seconds=%d", settings.DefaultUnreachableTolerationSeconds),
	)
}

// unneeded are APIs that a cluster without nodes does not need. They are off unless the user switches them on.
var unneeded = []string{"apps/v1", "autoscaling/v2", "batch/v1", "policy/v1", "storage.k8s.io/v1/csinodes"}

// Serves reports whether kube-apiserver of the virtual cluster serves an API with these settings of the Garden.
func Serves(runtimeConfig map[string]bool, api string) bool {
	on, isSet := runtimeConfig[api]
	return on || !isSet && !slices.Contains(unneeded, api)
}

// RuntimeConfig returns the APIs that are switched on (true) and off (false). All other APIs keep the default of kube-apiserver.
// kube-controller-manager runs no controllers for APIs that are off.
func RuntimeConfig(v values.Values) map[string]bool {
	config := map[string]bool{}
	for _, api := range unneeded {
		config[api] = false
	}
	for api, on := range v.KubeAPIServer.RuntimeConfig {
		if knowsAPI(v, api) {
			config[api] = on
		}
	}
	return config
}

// knowsAPI reports whether kube-apiserver of the version has an API. It is true for all keys that begin with api/: they are sets of APIs,
// or the core API.
func knowsAPI(v values.Values, api string) bool {
	return strings.HasPrefix(api, "api/") || kubernetes(v).API(api) == versions.Present
}

// Ignored returns the settings that kube-apiserver does not get because it would not start with them. Only an earlier version had these
// settings; the webhook accepts them as long as they do not change. The list is sorted.
func Ignored(v values.Values) []string {
	all := flags.IgnoredGates(v.KubeAPIServer.FeatureGates, kubernetes(v).TakesGate)
	for api := range v.KubeAPIServer.RuntimeConfig {
		if !knowsAPI(v, api) {
			all = append(all, "API "+api)
		}
	}
	for _, each := range v.KubeAPIServer.AdmissionPlugins {
		if !hasPlugin(v, each.Name) {
			all = append(all, "admission plugin "+each.Name)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func limitArgs(v values.Values) []string {
	all := apiserver.RequestArgs(v.KubeAPIServer.Requests)
	sizes := v.KubeAPIServer.WatchCacheSizes
	if sizes != nil && sizes.Default != nil && kubernetes(v).Has(versions.DefaultWatchCacheSize) {
		all = append(all, fmt.Sprintf("--default-watch-cache-size=%d", *sizes.Default))
	}
	return append(all, apiserver.WatchCacheArgs(sizes)...)
}

// serverNamesParts returns the certificate of the field sni. Clients see it for the domain patterns of the field, or, if it has no
// patterns, for the names in the certificate. Without the field, the result is empty.
func serverNamesParts(v values.Values, refs References) []apiserver.Part {
	if v.KubeAPIServer.SNI == nil {
		return nil
	}
	argument := "--tls-sni-cert-key=" + apiserver.CertificateIn(serverNamesFolder) + "," + apiserver.KeyIn(serverNamesFolder)
	if patterns := v.KubeAPIServer.SNI.DomainPatterns; len(patterns) > 0 {
		argument += ":" + strings.Join(patterns, ",")
	}
	return []apiserver.Part{{
		Volume: "tls-sni-0", Folder: serverNamesFolder, Private: true, Secret: refs.ServerNames, Args: []string{argument},
	}}
}
