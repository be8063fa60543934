package gardenerapiserver

import (
	"errors"
	"slices"
	"strconv"

	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/garden/component/apiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/etcd"
	"github.com/espalier-dev/espalier/internal/garden/component/flags"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/garden/versions"
	"github.com/espalier-dev/espalier/internal/gardenaccess"
)

const (
	workloadIdentityFolder = "/etc/" + Name + "/workload-identity/signing"
	workloadIdentityFile   = "key.pem"
)

// args returns the arguments of gardener-apiserver.
func args(v values.Values, parts []apiserver.Part) ([]string, error) {
	if v.ClusterIdentity == "" {
		return nil, errors.New("spec.virtualCluster.gardener.clusterIdentity must be set: gardener-apiserver does not start without it")
	}
	issuer, err := Issuer(v)
	if err != nil {
		return nil, err
	}
	return slices.Concat(
		[]string{
			"--secure-port=" + strconv.Itoa(Port),
			"--cluster-identity=" + v.ClusterIdentity,
			"--authentication-kubeconfig=" + gardenaccess.KubeconfigPath,
			"--authorization-kubeconfig=" + gardenaccess.KubeconfigPath,
			"--kubeconfig=" + gardenaccess.KubeconfigPath,
			// Probes have no credentials. Without this argument, kube-apiserver would authorize the probes, and if it is not available, all Pods
			// would become unready.
			"--authorization-always-allow-paths=/healthz,/livez,/readyz",
			"--workload-identity-token-issuer=" + issuer,
			"--workload-identity-signing-key-file=" + workloadIdentityFolder + "/" + workloadIdentityFile,
			"--etcd-servers=" + apiserver.ETCDURL(etcd.Main),
		},
		apiserver.ETCDArgs(), apiserver.ServingArgs(), logArgs(v), optionalArgs(v), apiserver.RequestArgs(v.GardenerAPIServer.Requests),
		apiserver.WatchCacheArgs(v.GardenerAPIServer.WatchCacheSizes), apiserver.Args(parts),
	), nil
}

// Issuer returns the issuer of tokens of workload identities, which is the same as long as the Garden exists. There need not be a server at
// that address.
func Issuer(v values.Values) (string, error) {
	if len(v.Ingress.Domains) == 0 {
		return "", errors.New("spec.runtimeCluster.ingress.domains must have at least one domain, which is part of the issuer of tokens")
	}
	return "https://discovery." + v.Ingress.Domains[0] + "/garden/workload-identity/issuer", nil
}

func logArgs(v values.Values) []string {
	const verbose = 2
	level, logging := "info", v.GardenerAPIServer.Logging
	if logging != nil && ptr.Deref(logging.Verbosity, 0) > verbose {
		level = "debug"
	}
	all := []string{"--log-level=" + level, "--log-format=json"}
	if logging != nil {
		all = append(all, apiserver.LogArgs(logging)...)
	}
	return all
}

func optionalArgs(v values.Values) []string {
	var all []string
	settings := v.GardenerAPIServer
	if longest := settings.ShootAdminKubeconfigMaxExpiration; longest != nil {
		all = append(all, "--shoot-admin-kubeconfig-max-expiration="+longest.Duration.String())
	}
	return slices.Concat(all, flags.OptionalArg("--goaway-chance=%f", settings.GoAwayChance),
		flags.GateArgs(settings.FeatureGates, versions.GardenerAPIServer.TakesGate))
}

// wanted returns the references in the settings of gardener-apiserver. Their Read functions fill refs.
func wanted(v values.Values, refs *apiserver.References) []apiserver.Reference {
	settings := v.GardenerAPIServer
	return append(apiserver.AuditReferences(settings.AuditConfig, settings.AuditWebhook, refs),
		apiserver.AdmissionReferences(plugins(v), refs)...)
}

// Names returns the names of the Secrets and ConfigMaps that Resolve needs, without duplicates.
func Names(v values.Values) apiserver.ObjectNames {
	return apiserver.Names(wanted(v, &apiserver.References{}))
}

// Resolve returns the contents of the objects that the Garden refers to. The error names every object and key that is missing or malformed,
// and how to correct it. The error contains no value of a Secret.
func Resolve(v values.Values, found apiserver.Found) (apiserver.References, error) {
	var refs apiserver.References
	problems := server(v).Resolve(wanted(v, &refs), found)
	return refs, errors.Join(problems...)
}
