package kubeapiserver

import (
	"bytes"
	"crypto/x509"
	"encoding/csv"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/cert"

	"github.com/espalier-dev/espalier/internal/garden/component/exposure"
	"github.com/espalier-dev/espalier/internal/garden/component/gardener"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/secrets"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// Certificate authorities.
const (
	// Authority signs the certificate of kube-apiserver.
	Authority = rotation.KubernetesAuthority
	// ClientAuthority signs certificates of clients.
	ClientAuthority = rotation.ClientAuthority
	// FrontProxyAuthority signs the certificate with which kube-apiserver passes requests on to API servers behind it.
	FrontProxyAuthority = rotation.FrontProxyAuthority
	// GardenerAuthority signs the certificate of gardener-admission-controller, which authorizes requests.
	GardenerAuthority = gardener.Authority
)

// Logical names of Secrets.
const (
	// ServiceAccountKeyName is the name of the key that signs tokens of ServiceAccounts.
	ServiceAccountKeyName = "service-account-key"
	// EncryptionKeyName is the name of the key that encrypts data in etcd.
	EncryptionKeyName = "kube-apiserver-etcd-encryption-key"

	staticTokens          = "kube-apiserver-static-token"
	serverCertificate     = "kube-apiserver"
	aggregatorCertificate = "kube-aggregator"
)

const (
	healthUser         = "health-check"
	serviceAccountBits = 4096
)

// Secrets are the Secrets of the manager of secrets that kube-apiserver needs: names of Secrets, except for HealthToken, GardenerAuthority
// and EncryptionKeys.
type Secrets struct {
	// Authority, ClientAuthority and FrontProxyAuthority contain the bundles of the authorities.
	Authority, ClientAuthority, FrontProxyAuthority string
	// ETCDAuthority contains the bundle of the authority of etcds, and ETCDClient the client certificate for etcds.
	ETCDAuthority, ETCDClient string
	// Server contains the certificate of kube-apiserver, and Aggregator its client certificate for API servers behind it.
	Server, Aggregator string
	// ServiceAccountKey contains the key that signs tokens of ServiceAccounts, and ServiceAccountKeys the bundle of the keys that verify these
	// tokens.
	ServiceAccountKey, ServiceAccountKeys string
	// StaticTokens contains the token of the probes, and HealthToken is that token.
	StaticTokens, HealthToken string
	// GardenerAuthority is the content of the bundle of the authority of gardener-admission-controller.
	GardenerAuthority []byte
	// EncryptionKeys are the keys that encrypt data in etcd, in the order of apiserver.EncryptionKeys.
	EncryptionKeys []secretconfig.UsableEncryptionKey
	// EncryptionKey is the name of the Secret with the current encryption key.
	EncryptionKey string
	// SharedAuthority is the result of SharesAuthority: it is true if the authorities of clients and of the front proxy have a certificate in
	// common. The API server refuses a shared authority unless it knows the name of the front proxy.
	SharedAuthority bool
}

// ServerCertificate returns the request for the certificate of kube-apiserver.
func ServerCertificate(v values.Values) secrets.Request {
	return secrets.Request{SignedBy: Authority, Config: secretconfig.Certificate{
		Name: serverCertificate, CommonName: Name, DNSNames: slices.Concat(object.DNSNames(v.Namespace, exposure.Name), exposure.Hosts(v)),
		Type: secretconfig.Server, SkipPublishingCACertificate: true, IncludeCACertificateInServerChain: true,
	}}
}

// aggregator is the user that passes requests on to API servers behind kube-apiserver.
const aggregator = "system:kube-aggregator"

// AggregatorCertificate returns the request for the certificate with which kube-apiserver passes requests on.
func AggregatorCertificate(values.Values) secrets.Request {
	return secrets.Request{SignedBy: FrontProxyAuthority, Config: secretconfig.Certificate{
		Name: aggregatorCertificate, CommonName: aggregator, Type: secretconfig.Client, SkipPublishingCACertificate: true,
	}}
}

// StaticTokens returns the request for the token of the probes. Its user has only the rights of all authenticated users.
func StaticTokens(values.Values) secrets.Request {
	return secrets.Request{Persist: true, Config: secretconfig.StaticTokens{
		Name: staticTokens, Users: map[string]secretconfig.TokenUser{healthUser: {Username: healthUser, UserID: healthUser}},
	}}
}

// ServiceAccountKey returns the request for the key that signs tokens of ServiceAccounts.
func ServiceAccountKey(v values.Values) secrets.Request {
	return secrets.Request{
		Config:  secretconfig.RSAKey{Name: ServiceAccountKeyName, Bits: serviceAccountBits},
		Persist: true, KeepOld: true, IgnoreOld: rotation.ForgetsOld(v.Phases[rotation.ServiceAccountKey]),
	}
}

// EncryptionKey returns the request for the key that encrypts data in etcd.
func EncryptionKey(v values.Values) secrets.Request { return server(v).EncryptionKey(v) }

// HealthToken returns the token of the probes from the Secret of StaticTokens.
func HealthToken(tokens *corev1.Secret) (string, error) {
	reader := csv.NewReader(bytes.NewReader(tokens.Data[secretconfig.DataKeyStaticTokens]))
	reader.FieldsPerRecord = -1 // groups are optional
	lines, err := reader.ReadAll()
	if err != nil {
		// The error of the reader contains a position, but it is left out because it could contain a part of a token.
		return "", fmt.Errorf("read key %q of Secret %s: it is not in CSV format", secretconfig.DataKeyStaticTokens, tokens.Name)
	}
	for _, line := range lines {
		if len(line) > 1 && line[1] == healthUser {
			return line[0], nil
		}
	}
	return "", fmt.Errorf("key %q of Secret %s has no token of user %s; delete the Secret, and the operator generates it again",
		secretconfig.DataKeyStaticTokens, tokens.Name, healthUser)
}

// SharesAuthority reports whether two bundles have a certificate in common, as adopted authorities for clients and for the front proxy may.
func SharesAuthority(clients, frontProxy []byte) bool {
	// A bundle that cannot be read has no certificate in common; kube-apiserver reports the fault of the bundle.
	first, _ := cert.ParseCertsPEM(clients)
	second, _ := cert.ParseCertsPEM(frontProxy)
	return slices.ContainsFunc(first, func(one *x509.Certificate) bool { return slices.ContainsFunc(second, one.Equal) })
}
