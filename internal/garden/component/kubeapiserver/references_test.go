package kubeapiserver_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/garden/component/apiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
)

// authority is a certificate whose text does not change, because it is in golden files.
const authority = `-----BEGIN CERTIFICATE-----
MIIBezCCASGgAwIBAgIUHkUaREy2N1rKs2liowVwwmT5aBYwCgYIKoZIzj0EAwIw
EjEQMA4GA1UEAwwHZXhhbXBsZTAgFw0yNjExMjQwMjE2MjRaGA8yMTI2MTAzMTAy
MTYyNFowEjEQMA4GA1UEAwwHZXhhbXBsZTBZMBMGByqGSM49AgEGCCqGSM49AwEH
A0IABFdnIfll+ZzZZEOUQ2kyzMJhqDVqMSYpmHFBI8mL0nPaBxSgU+CV7ihtteUI
QUHREjGMSsHDT5L32wHlYxpOzWOjUzBRMB0GA1UdDgQWBBQSuMutYBWDUXWy9jjk
1Y+ypp8BUzAfBgNVHSMEGDAWgBQSuMutYBWDUXWy9jjk1Y+ypp8BUzAPBgNVHRMB
Af8EBTADAQH/MAoGCCqGSM49BAMCA0gAMEUCIHd6jo/D7nV/tIf0GVK/EbpJO9fu
McWOQKOi/OmqKwKlAiEAoRWqQlWwFI99C4b9itd9KBJuMQ8wXEc2wuSitLOroiA=
-----END CERTIFICATE-----
`

const (
	webhookKubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: https://webhook.example.com}}]
users: [{name: a, user: {token: hidden}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
current-context: a
`
	usersKubeconfig = `apiVersion: v1
kind: Config
users: [{name: "*.example.com", user: {token: hidden}}]
`
	auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
rules: [{level: Metadata}]
`
	authenticationFile = `apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
jwt:
- issuer: {url: "https://issuer.example.com", audiences: [a], audienceMatchPolicy: MatchAny, egressSelectorType: cluster}
  claimValidationRules: [{claim: a, requiredValue: b}]
  claimMappings:
    username: {claim: sub, prefix: ""}
    groups: {expression: claims.groups}
    uid: {claim: sub}
    extra: [{key: example.com/a, valueExpression: claims.a}]
  userValidationRules: [{expression: "!user.username.startsWith('system:')", message: reserved}]
`
	anonymousFile = `apiVersion: apiserver.config.k8s.io/v1beta1
kind: AuthenticationConfiguration
anonymous: {enabled: true, conditions: [{path: /livez}]}
`
	authorizationFile = `apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
- {type: Node, name: node}
- type: Webhook
  name: own.example
  webhook:
    authorizedTTL: 30s
    cacheUnauthorizedRequests: false
    timeout: 3s
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    failurePolicy: NoOpinion
    connectionInfo: {type: KubeConfigFile, kubeConfigFile: /other}
    matchConditions: [{expression: "request.user == 'a'"}]
`
)

type pair struct{ certificate, key []byte }

func certificate(t *testing.T) pair {
	t.Helper()
	g := NewWithT(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	g.Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	content, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	g.Expect(err).NotTo(HaveOccurred())
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	g.Expect(err).NotTo(HaveOccurred())
	return pair{
		certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: content}),
		key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}),
	}
}

func secret(name string, data map[string]string) *corev1.Secret {
	o := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{}}
	for key, value := range data {
		o.Data[key] = []byte(value)
	}
	return o
}

func configMap(name, key, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{key: value}}
}

// existing returns all objects that the tests refer to.
func existing(t *testing.T) kubeapiserver.Found {
	t.Helper()
	served := certificate(t)
	tls := map[string]string{"tls.crt": string(served.certificate), "tls.key": string(served.key)}
	return kubeapiserver.Found{Found: apiserver.Found{
		Secrets: map[string]*corev1.Secret{
			"webhook": secret("webhook", map[string]string{"kubeconfig": webhookKubeconfig}),
			"users":   secret("users", map[string]string{"kubeconfig": usersKubeconfig}), "certificate": secret("certificate", tls),
		},
		ConfigMaps: map[string]*corev1.ConfigMap{
			"policy":         configMap("policy", "policy", auditPolicy),
			"authentication": configMap("authentication", "config.yaml", authenticationFile),
			"anonymous":      configMap("anonymous", "config.yaml", anonymousFile),
			"authorization":  configMap("authorization", "config.yaml", authorizationFile),
		},
	}, Wildcard: secret("wildcard", tls)}
}

func TestNamesOfReferences(t *testing.T) {
	g := NewWithT(t)
	names := kubeapiserver.Names(garden(t, everything))
	g.Expect(names.Secrets).To(Equal([]string{"webhook", "users", "certificate"}))
	g.Expect(names.ConfigMaps).To(Equal([]string{"policy", "authentication", "authorization"}))
	names = kubeapiserver.Names(garden(t, "{sni: {}}"))
	g.Expect(names.Secrets).To(BeEmpty())
	g.Expect(names.ConfigMaps).To(BeEmpty())
}

// Settings with one reference each.
const (
	withAuditPolicy    = `{auditConfig: {auditPolicy: {configMapRef: {name: policy}}}}`
	withAuditWebhook   = `{auditWebhook: {kubeconfigSecretName: webhook}}`
	withAuthentication = `{structuredAuthentication: {configMapName: authentication}}`
	withAuthorization  = `{structuredAuthorization: {configMapName: authorization,
		kubeconfigs: [{authorizerName: own.example, secretName: webhook}]}}`
	withCertificate = `{sni: {secretName: certificate}}`
)

func TestMissingAndEmptyReferencesAreNamed(t *testing.T) {
	const path = "spec.virtualCluster.kubernetes.kubeAPIServer."
	for sentence, tc := range map[string]struct{ settings, what, object, key, field string }{
		"audit policy": {withAuditPolicy, "audit policy", "configmap garden/policy", "policy", "auditConfig.auditPolicy.configMapRef.name"},
		"audit webhook": {
			withAuditWebhook, "kubeconfig for audit webhook", "secret garden/webhook", "kubeconfig", "auditWebhook.kubeconfigSecretName",
		},
		"authentication webhook": {
			`{authentication: {webhook: {kubeconfigSecretName: webhook}}}`, "kubeconfig for authentication webhook",
			"secret garden/webhook", "kubeconfig",
			"authentication.webhook.kubeconfigSecretName",
		},
		"admission plugin": {
			`{admissionPlugins: [{name: ImagePolicyWebhook, kubeconfigSecretName: webhook}]}`, "kubeconfig for admission plugin ImagePolicyWebhook",
			"secret garden/webhook", "kubeconfig", "admissionPlugins[ImagePolicyWebhook].kubeconfigSecretName",
		},
		"authentication": {
			withAuthentication, "authentication configuration", "configmap garden/authentication",
			"config.yaml", "structuredAuthentication.configMapName",
		},
		"authorization": {
			withAuthorization, "authorization configuration", "configmap garden/authorization",
			"config.yaml", "structuredAuthorization.configMapName",
		},
		"authorizer": {
			withAuthorization, "kubeconfig for authorizer own.example", "secret garden/webhook", "kubeconfig",
			"structuredAuthorization.kubeconfigs[own.example].secretName",
		},
		"certificate": {withCertificate, "certificate for server names", "secret garden/certificate", "tls.crt", "sni.secretName"},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			kind, name, _ := strings.Cut(tc.object, " garden/")
			begin := "failed reading " + tc.what + " from referenced " + tc.object + ": "
			remedy := "; correct it, or change " + path + tc.field

			found := existing(t)
			delete(found.Secrets, name)
			delete(found.ConfigMaps, name)
			_, err := kubeapiserver.Resolve(garden(t, tc.settings), found)
			g.Expect(err).To(MatchError(begin + "it does not exist, and must have the key " + strconv.Quote(tc.key) + remedy))

			found.Secrets[name] = secret(name, map[string]string{tc.key: ""})
			found.ConfigMaps[name] = configMap(name, tc.key, "")
			_, err = kubeapiserver.Resolve(garden(t, tc.settings), found)
			g.Expect(err).To(MatchError(begin + "the " + kind + "'s field '" + tc.key + "' is either not present or empty" + remedy))

			found.Secrets[name], found.ConfigMaps[name] = &corev1.Secret{}, &corev1.ConfigMap{}
			_, err = kubeapiserver.Resolve(garden(t, tc.settings), found)
			g.Expect(err).To(MatchError(begin + "the " + kind + "'s field '" + tc.key + "' is either not present or empty" + remedy))
		})
	}
}

func TestMalformedReferencesAreNamed(t *testing.T) {
	const malformed = "' is malformed: "
	kubeconfig := func(from, to string) string { return strings.Replace(webhookKubeconfig, from, to, 1) }
	authentication := func(from, to string) string { return strings.Replace(authenticationFile, from, to, 1) }
	authorization := func(from, to string) string { return strings.Replace(authorizationFile, from, to, 1) }
	for sentence, tc := range map[string]struct{ settings, version, secret, configMap, key, value, want string }{
		"a policy without rules": {
			settings: withAuditPolicy, configMap: "policy", key: "policy", value: `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy"}`,
			want: "the configmap's field 'policy" + malformed + "rules: Required value: must have at least one rule",
		},
		"a misspelt policy": {
			settings: withAuditPolicy, configMap: "policy", key: "policy", value: auditPolicy + "omitStage: []",
			want: "the configmap's field 'policy" + malformed + "decode audit policy: ",
		},
		"a text as kubeconfig": {
			settings: withAuditWebhook, secret: "webhook", key: "kubeconfig", value: "hidden",
			want: "the secret's field 'kubeconfig" + malformed + "it cannot be decoded as a kubeconfig",
		},
		"a text as kubeconfig with users": {
			settings: `{admissionPlugins: [{name: ValidatingAdmissionWebhook, kubeconfigSecretName: users}]}`,
			secret:   "users", key: "kubeconfig", value: "hidden", want: malformed + "it cannot be decoded as a kubeconfig",
		},
		"a kubeconfig with the name of a file with certificates": {
			settings: withAuditWebhook, secret: "webhook", key: "kubeconfig",
			value: kubeconfig("server: https://webhook.example.com", "server: https://webhook.example.com, certificate-authority: /ca.crt"),
			want:  malformed + `its cluster "a" refers to a file: use certificate-authority-data`,
		},
		"a kubeconfig with the name of a token file": {
			settings: withAuditWebhook, secret: "webhook", key: "kubeconfig",
			value: kubeconfig("token: hidden", "tokenFile: /key"),
			want:  malformed + `its user "a" refers to a file or a program: put the content into the kubeconfig`,
		},
		"a kubeconfig with the name of a certificate file": {
			settings: withAuditWebhook, secret: "webhook", key: "kubeconfig",
			value: kubeconfig("token: hidden", "client-certificate: /a.crt"),
			want:  malformed + `its user "a" refers to a file or a program: put the content into the kubeconfig`,
		},
		"a kubeconfig with the name of a key file": {
			settings: withAuditWebhook, secret: "webhook", key: "kubeconfig",
			value: kubeconfig("token: hidden", "client-key: /a.key"),
			want:  malformed + `its user "a" refers to a file or a program: put the content into the kubeconfig`,
		},
		"a kubeconfig with a program": {
			settings: withAuditWebhook, secret: "webhook", key: "kubeconfig",
			value: kubeconfig("token: hidden", "exec: {apiVersion: client.authentication.k8s.io/v1, command: a, interactiveMode: Never}"),
			want:  malformed + `its user "a" refers to a file or a program: put the content into the kubeconfig`,
		},
		"a kubeconfig without context": {
			settings: withAuditWebhook, secret: "webhook", key: "kubeconfig", value: usersKubeconfig, want: malformed + "it has no current-context",
		},
		"a kubeconfig with another context": {
			settings: withAuditWebhook, secret: "webhook", key: "kubeconfig", value: kubeconfig("current-context: a", "current-context: b"),
			want: malformed + `it has no context "b", which is its current-context`,
		},
		"a kubeconfig with another cluster": {
			settings: withAuditWebhook, secret: "webhook", key: "kubeconfig", value: kubeconfig("cluster: a", "cluster: b"),
			want: malformed + `it has no cluster "b", which its current context names`,
		},
		"a kubeconfig without server": {
			settings: withAuditWebhook, secret: "webhook", key: "kubeconfig", value: kubeconfig("server: https://webhook.example.com", ""),
			want: malformed + `its cluster "a" has no server`,
		},
		"a kubeconfig without certificate": {
			settings: withAuditWebhook, secret: "webhook", key: "kubeconfig",
			value: kubeconfig("{server:", "{certificate-authority-data: aGlkZGVu, server:"),
			want:  malformed + `certificate-authority-data of its cluster "a" must be PEM certificates in base64`,
		},
		"a certificate without key": {
			settings: withCertificate, secret: "certificate", key: "tls.key", value: "hidden",
			want: "the secret's field 'tls.crt" + malformed + "tls: failed to find any PEM data in key input",
		},
		"an authentication of another kind": {
			settings: withAuthentication, configMap: "authentication", key: "config.yaml", value: authorization("authorizers", "jwt"),
			want: malformed + "decode AuthenticationConfiguration: ",
		},
		"an authentication of a later version": {
			settings: withAuthentication, version: "1.33.1", configMap: "authentication", key: "config.yaml", value: authenticationFile,
			want: malformed + "it must be of kind AuthenticationConfiguration and apiVersion " +
				"apiserver.config.k8s.io/{v1alpha1,v1beta1} for Kubernetes 1.33.1",
		},
		"a field of a later version": {
			settings: withAuthentication, version: "1.33.1", configMap: "authentication", key: "config.yaml",
			value: authentication("io/v1", "io/v1beta1"),
			want:  malformed + "jwt[0].issuer.egressSelectorType is not in Kubernetes 1.33.1",
		},
		"a misspelt authentication": {
			settings: withAuthentication, configMap: "authentication", key: "config.yaml", value: authentication("audiences", "audience"),
			want: malformed + `decode AuthenticationConfiguration: unknown field "jwt[0].issuer.audience"`,
		},
		"an issuer without encryption": {
			settings: withAuthentication, configMap: "authentication", key: "config.yaml", value: authentication("https", "http"),
			want: malformed + "jwt[0].issuer.url must be an https URL with a host",
		},
		"an issuer without certificate": {
			settings: withAuthentication, configMap: "authentication", key: "config.yaml",
			value: authentication("audiences: ", "certificateAuthority: a, audiences: "),
			want:  malformed + "jwt[0].issuer.certificateAuthority must be PEM certificates: ",
		},
		"an authorization of another version": {
			settings: withAuthorization, configMap: "authorization", key: "config.yaml", value: authorization("io/v1", "io/v2"),
			want: malformed + "it must be of kind AuthorizationConfiguration and apiVersion " +
				"apiserver.config.k8s.io/{v1alpha1,v1beta1,v1} for Kubernetes 1.36.3",
		},
		"a misspelt authorization": {
			settings: withAuthorization, configMap: "authorization", key: "config.yaml", value: authorization("timeout", "timeOut"),
			want: malformed + `decode AuthorizationConfiguration: unknown field "authorizers[1].webhook.timeOut"`,
		},
		"an authorizer in capitals": {
			settings: withAuthorization, configMap: "authorization", key: "config.yaml", value: authorization("own.example", "Own.example"),
			want: malformed + "the name of authorizers[1] is wrong: a lowercase RFC 1123 subdomain must consist of ",
		},
		"an authorizer without webhook": {
			settings: withAuthorization, configMap: "authorization", key: "config.yaml", value: authorization("type: Node", "type: Webhook"),
			want: malformed + "authorizers[0] has the type Webhook and no webhook",
		},
		"an authorizer with the name of Gardener's": {
			settings: withAuthorization, configMap: "authorization", key: "config.yaml", value: authorization("own.example", "seed-authorizer"),
			want: malformed + `authorizers[1] has the name "seed-authorizer" of another authorizer`,
		},
		"an authorizer without kubeconfig": {
			settings: withAuthorization, configMap: "authorization", key: "config.yaml", value: authorization("own.example", "other"),
			want: malformed + `authorizers[1] "other" has no entry in ` +
				`spec.virtualCluster.kubernetes.kubeAPIServer.structuredAuthorization.kubeconfigs; add one`,
		},
		"an authorizer with settings of a later version": {
			settings: withAuthorization, version: "1.33.1", configMap: "authorization", key: "config.yaml", value: authorizationFile,
			want: malformed + "authorizers[1] has cacheAuthorizedRequests and cacheUnauthorizedRequests, which Kubernetes 1.33.1 does not have",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			found := existing(t)
			if tc.secret != "" {
				found.Secrets[tc.secret].Data[tc.key] = []byte(tc.value)
			} else {
				found.ConfigMaps[tc.configMap].Data[tc.key] = tc.value
			}
			if tc.version == "" {
				tc.version = "1.36.3"
			}
			_, err := kubeapiserver.Resolve(garden(t, tc.settings, kubernetes(tc.version)), found)
			g.Expect(err).To(MatchError(ContainSubstring(tc.want)))
			g.Expect(err).NotTo(MatchError(ContainSubstring("hidden")))
		})
	}
}

func TestAllProblemsAreReported(t *testing.T) {
	_, err := kubeapiserver.Resolve(garden(t, everything), kubeapiserver.Found{})
	NewWithT(t).Expect(strings.Split(err.Error(), "\n")).To(HaveLen(9))
}

func TestWildcardCertificateIsRequired(t *testing.T) {
	g := NewWithT(t)
	const path = "spec.virtualCluster.kubernetes.kubeAPIServer.sni"
	found := existing(t)
	refs, err := kubeapiserver.Resolve(garden(t, "{sni: {}}"), found)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(refs.ServerNames).To(Equal("wildcard"))

	delete(found.Wildcard.Data, "tls.key")
	_, err = kubeapiserver.Resolve(garden(t, "{sni: {}}"), found)
	g.Expect(err).To(MatchError("failed reading wildcard certificate from secret garden/wildcard: " +
		"the secret's field 'tls.key' is either not present or empty; correct it, or set " + path + ".secretName"))

	_, err = kubeapiserver.Resolve(garden(t, "{sni: {}}"), kubeapiserver.Found{})
	g.Expect(err).To(MatchError(path + " has no secretName, and namespace garden has no Secret with a wildcard certificate; " +
		"set the field, or the label gardener.cloud/role=garden-cert on a Secret"))
}
