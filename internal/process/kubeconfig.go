package process

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/espalier-dev/espalier/internal/config"
)

// allowedUserFields are the fields that the user of a kubeconfig may have. None of them runs a program or impersonates another user. Only
// tokenFile reads another file.
const allowedUserFields = "client-certificate-data, client-key-data, token, tokenFile, username, password"

// restConfig returns the client configuration of a connection: from its kubeconfig, or from inside the cluster.
func restConfig(connection config.ClientConnection, userAgent string) (*rest.Config, error) {
	base, err := baseConfig(connection.Kubeconfig)
	if err != nil {
		return nil, err
	}
	return tuneConfig(base, connection, userAgent), nil
}

func baseConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		base, err := rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, errors.New("no kubeconfig is named and this process does not run in a cluster")
		}
		if err != nil {
			return nil, fmt.Errorf("read in-cluster configuration: %w", err)
		}
		return base, nil
	}
	loaded, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %q: %w", kubeconfig, err)
	}
	if err = checkUsers(loaded.AuthInfos); err != nil {
		return nil, fmt.Errorf("read kubeconfig %q: %w", kubeconfig, err)
	}
	if err = clientcmd.ResolveLocalPaths(loaded); err != nil {
		return nil, fmt.Errorf("read kubeconfig %q: %w", kubeconfig, err)
	}
	base, err := clientcmd.NewDefaultClientConfig(*loaded, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %q: %w", kubeconfig, err)
	}
	return base, nil
}

// checkUsers returns an error that names the fields that are not allowed, of the first user, by name, that has such fields.
func checkUsers(users map[string]*clientcmdapi.AuthInfo) error {
	for _, name := range slices.Sorted(maps.Keys(users)) {
		if forbidden := forbiddenFields(users[name]); len(forbidden) > 0 {
			return fmt.Errorf("user %q has %s, which is not supported; allowed are only %s", name, strings.Join(forbidden, ", "), allowedUserFields)
		}
	}
	return nil
}

func forbiddenFields(user *clientcmdapi.AuthInfo) []string {
	return namesOfSet([]kubeconfigField{
		{"client-certificate", user.ClientCertificate != ""},
		{"client-key", user.ClientKey != ""},
		{"as", user.Impersonate != ""},
		{"as-uid", user.ImpersonateUID != ""},
		{"as-groups", len(user.ImpersonateGroups) > 0},
		{"as-user-extra", len(user.ImpersonateUserExtra) > 0},
		{"auth-provider", user.AuthProvider != nil},
		{"exec", user.Exec != nil},
	})
}

// kubeconfigField is a field of a kubeconfig.
type kubeconfigField struct {
	name  string
	isSet bool
}

// namesOfSet returns the names of the fields that are set.
func namesOfSet(fields []kubeconfigField) []string {
	var names []string
	for _, each := range fields {
		if each.isSet {
			names = append(names, each.name)
		}
	}
	return names
}

// tuneConfig returns base with the settings of a connection. Without qps there is no client-side limit: API Priority and Fairness limits
// the requests in the API server. If qps is set, all clients of the connection share the limit.
func tuneConfig(base *rest.Config, connection config.ClientConnection, userAgent string) *rest.Config {
	tuned := rest.CopyConfig(base)
	tuned.UserAgent = userAgent
	tuned.AcceptContentTypes = connection.AcceptContentTypes
	tuned.ContentType = connection.ContentType
	tuned.QPS, tuned.Burst, tuned.RateLimiter = -1, 0, nil
	if connection.QPS > 0 {
		tuned.QPS, tuned.Burst = connection.QPS, int(connection.Burst)
		tuned.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(connection.QPS, int(connection.Burst))
	}
	return tuned
}

// withoutLimit returns a configuration for requests that must not wait for other requests, such as lease renewals.
func withoutLimit(limited *rest.Config) *rest.Config {
	free := rest.CopyConfig(limited)
	free.QPS, free.Burst, free.RateLimiter = -1, 0, nil
	return free
}
