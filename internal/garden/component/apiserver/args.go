package apiserver

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/etcd"
	"github.com/espalier-dev/espalier/internal/garden/component/flags"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// Folders with Secrets of the manager of secrets.
const (
	// CredentialsFolder contains all these folders.
	CredentialsFolder = "/srv/kubernetes/"
	// ServerFolder contains the certificate of the API server.
	ServerFolder = CredentialsFolder + "apiserver"
	// ETCDAuthorityFolder contains the bundle of the authority of etcds, and ETCDClientFolder the client certificate for etcds.
	ETCDAuthorityFolder = CredentialsFolder + "etcd/ca"
	ETCDClientFolder    = CredentialsFolder + "etcd/client"
)

// ShutdownSeconds is the longest time that a Pod may take to end. The API server still accepts requests for half of that time, so that
// clients can stop connecting to it.
const ShutdownSeconds = 30

// KubeconfigFile is the name of files with kubeconfigs, or the end of the name.
const KubeconfigFile = "kubeconfig.yaml"

// CertificateIn returns the file with the certificate in a folder.
func CertificateIn(folder string) string { return folder + "/" + secretconfig.DataKeyCertificate }

// KeyIn returns the file with the private key in a folder.
func KeyIn(folder string) string { return folder + "/" + secretconfig.DataKeyPrivateKey }

// BundleIn returns the file with the bundle of certificates in a folder.
func BundleIn(folder string) string { return folder + "/" + secretconfig.DataKeyCertificateBundle }

// ServingArgs returns the arguments for connections of clients.
func ServingArgs() []string {
	return []string{
		"--tls-cert-file=" + CertificateIn(ServerFolder),
		"--tls-private-key-file=" + KeyIn(ServerFolder),
		"--tls-cipher-suites=" + flags.CipherSuites(),
		"--http2-max-streams-per-connection=1000",
		"--livez-grace-period=1m",
		"--profiling=false",
		fmt.Sprintf("--shutdown-delay-duration=%ds", ShutdownSeconds/2),
	}
}

// ETCDURL returns the URL of an etcd.
func ETCDURL(role etcd.Role) string { return "https://" + role.Name() + "-client:2379" }

// ETCDArgs returns the arguments with the credentials for etcds.
func ETCDArgs() []string {
	return []string{
		"--etcd-cafile=" + BundleIn(ETCDAuthorityFolder),
		"--etcd-certfile=" + CertificateIn(ETCDClientFolder),
		"--etcd-keyfile=" + KeyIn(ETCDClientFolder),
	}
}

// RequestArgs returns the arguments that limit requests.
func RequestArgs(limits *operatorv1alpha1.APIServerRequests) []string {
	limits = cmp.Or(limits, &operatorv1alpha1.APIServerRequests{})
	return []string{
		fmt.Sprintf("--max-requests-inflight=%d", ptr.Deref(limits.MaxNonMutatingInflight, 400)),
		fmt.Sprintf("--max-mutating-requests-inflight=%d", ptr.Deref(limits.MaxMutatingInflight, 200)),
	}
}

// WatchCacheArgs returns the argument with the sizes of the watch caches of certain resources, if there are any.
func WatchCacheArgs(sizes *operatorv1alpha1.WatchCacheSizes) []string {
	if sizes == nil || len(sizes.Resources) == 0 {
		return nil
	}
	items := make([]string, 0, len(sizes.Resources))
	for _, each := range sizes.Resources {
		name := each.Resource
		if group := ptr.Deref(each.APIGroup, corev1.GroupName); group != "" {
			name += "." + group
		}
		items = append(items, fmt.Sprintf("%s#%d", name, each.CacheSize))
	}
	return []string{"--watch-cache-sizes=" + strings.Join(items, ",")}
}

// LogArgs returns the arguments for logs.
func LogArgs(logging *operatorv1alpha1.APIServerLogging) []string {
	logging = cmp.Or(logging, &operatorv1alpha1.APIServerLogging{})
	return append([]string{fmt.Sprintf("--v=%d", ptr.Deref(logging.Verbosity, 2))},
		flags.OptionalArg("--vmodule=httplog=%d", logging.HTTPAccessVerbosity)...)
}
