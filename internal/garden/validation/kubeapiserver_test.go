package validation_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/garden/validation"
)

const noLabel = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an " +
	"alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"

func TestRulesForKubeAPIServer(t *testing.T) {
	for sentence, tc := range map[string]struct {
		changes []string
		want    []string
	}{
		"names of resources in the etcd for events": {
			changes: []string{"K: {resourcesToStoreInETCDEvents: [{group: coordination.k8s.io, resource: leases}, {group: apps, resource: a-b}]}"},
		},
		"resources in the etcd for events that add servers": {
			changes: []string{"K: {resourcesToStoreInETCDEvents: [{group: 'a,b', resource: c}, {group: a, resource: 'b#https://c,/pods'}, " +
				"{group: a/b, resource: c.d}]}"},
			want: []string{
				"Invalid K.resourcesToStoreInETCDEvents[0].group: " + noSubdomain,
				"Invalid K.resourcesToStoreInETCDEvents[1].resource: " + noLabel,
				"Invalid K.resourcesToStoreInETCDEvents[2].group: " + noSubdomain,
				"Invalid K.resourcesToStoreInETCDEvents[2].resource: must not contain dots",
			},
		},

		// OpenID Connect
		"OpenID Connect": {
			changes: []string{
				"K: {oidcConfig: {clientID: a, issuerURL: 'https://a', caBundle: " + certificate(t) + ", groupsClaim: a, signingAlgs: [RS256, none]}}",
			},
		},
		"an empty OpenID Connect": {changes: []string{"K: {oidcConfig: {}}"}},
		"empty values of OpenID Connect": {
			changes: []string{"K: {oidcConfig: {clientID: '', issuerURL: '', caBundle: '', groupsClaim: '', groupsPrefix: '', usernameClaim: '', " +
				"usernamePrefix: '', signingAlgs: [HS256]}}"},
			want: []string{
				"Invalid K.oidcConfig.clientID: clientID must not be empty if it is set",
				"Invalid K.oidcConfig.issuerURL: issuerURL must not be empty if it is set",
				"Invalid K.oidcConfig.caBundle: must be PEM certificates",
				"Invalid K.oidcConfig.groupsClaim: groupsClaim must not be empty if it is set",
				"Invalid K.oidcConfig.groupsPrefix: groupsPrefix must not be empty if it is set",
				"Invalid K.oidcConfig.usernameClaim: usernameClaim must not be empty if it is set",
				"Invalid K.oidcConfig.usernamePrefix: usernamePrefix must not be empty if it is set",
				`NotSupported K.oidcConfig.signingAlgs[0]: supported values: "ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "RS256", ` +
					`"RS384", "RS512", "none"`,
			},
		},
		"OpenID Connect without client": {
			changes: []string{"K: {oidcConfig: {issuerURL: 'https://a'}}"},
			want:    []string{"Invalid K.oidcConfig.clientID: clientID must be set if issuerURL is set"},
		},
		"OpenID Connect without issuer": {
			changes: []string{"K: {oidcConfig: {clientID: a}}"},
			want:    []string{"Invalid K.oidcConfig.issuerURL: issuerURL must be set if clientID is set"},
		},
		"OpenID Connect without host": {
			changes: []string{"K: {oidcConfig: {clientID: a, issuerURL: 'https:///a'}}"},
			want:    []string{"Invalid K.oidcConfig.issuerURL: must be a URL with a host"},
		},
		"OpenID Connect with wrong URL": {
			changes: []string{"K: {oidcConfig: {clientID: a, issuerURL: ':'}}"},
			want:    []string{"Invalid K.oidcConfig.issuerURL: must be a URL with a host"},
		},
		"OpenID Connect without encryption": {
			changes: []string{"K: {oidcConfig: {clientID: a, issuerURL: 'http://a'}}"},
			want:    []string{"Invalid K.oidcConfig.issuerURL: must have the scheme https"},
		},

		// admission plugins
		"admission plugins": {changes: []string{`K: {admissionPlugins: [{name: PodSecurity,
			config: {apiVersion: pod-security.admission.config.k8s.io/v1, kind: PodSecurityConfiguration,
			defaults: {enforce: baseline, enforce-version: latest}, exemptions: {namespaces: [a]}}}, {name: AlwaysPullImages, disabled: true},
			{name: ImagePolicyWebhook, kubeconfigSecretName: a}, {name: PodSecurityPolicy, disabled: true}]}`}},
		"wrong names of admission plugins": {
			changes: []string{"K: {admissionPlugins: [{name: ''}, {name: Foo}, {name: PodGroupProtection}, {name: SecurityContextDeny, " +
				"disabled: true}, {name: PodSecurityPolicy}]}"},
			want: []string{
				"Required K.admissionPlugins[0].name: must provide a name",
				`Invalid K.admissionPlugins[1].name: unknown admission plugin "Foo"`,
				`Forbidden K.admissionPlugins[2].name: admission plugin "PodGroupProtection" is not supported in Kubernetes version 1.33.1`,
				`Forbidden K.admissionPlugins[3].name: admission plugin "SecurityContextDeny" cannot be used`,
				`Forbidden K.admissionPlugins[4].name: admission plugin "PodSecurityPolicy" is not supported in Kubernetes version 1.33.1`,
			},
		},
		"an admission plugin of a later version": {changes: []string{"version: 1.36.0", "K: {admissionPlugins: [{name: PodGroupProtection}]}"}},
		"required admission plugins that are disabled": {
			changes: []string{`K: {admissionPlugins: [{name: MutatingAdmissionWebhook, disabled: true}, {name: NamespaceLifecycle, disabled: true},
				{name: NodeRestriction, disabled: true},
				{name: PodSecurity, disabled: true}, {name: Priority, disabled: true}, {name: StorageObjectInUseProtection, disabled: true},
				{name: ValidatingAdmissionWebhook, disabled: true},
				{name: NodeRestriction, disabled: false}]}`},
			want: []string{
				`Forbidden K.admissionPlugins[0]: admission plugin "MutatingAdmissionWebhook" cannot be disabled`,
				`Forbidden K.admissionPlugins[1]: admission plugin "NamespaceLifecycle" cannot be disabled`,
				`Forbidden K.admissionPlugins[2]: admission plugin "NodeRestriction" cannot be disabled`,
				`Forbidden K.admissionPlugins[3]: admission plugin "PodSecurity" cannot be disabled`,
				`Forbidden K.admissionPlugins[4]: admission plugin "Priority" cannot be disabled`,
				`Forbidden K.admissionPlugins[5]: admission plugin "StorageObjectInUseProtection" cannot be disabled`,
				`Forbidden K.admissionPlugins[6]: admission plugin "ValidatingAdmissionWebhook" cannot be disabled`,
			},
		},
		"kubeconfigs for admission plugins": {
			changes: []string{`K: {admissionPlugins: [{name: ValidatingAdmissionWebhook, kubeconfigSecretName: a}, ` +
				`{name: MutatingAdmissionWebhook, kubeconfigSecretName: a}, {name: Priority, kubeconfigSecretName: a}]}`},
			want: []string{`Forbidden K.admissionPlugins[2].kubeconfigSecretName: admission plugin "Priority" does not read a kubeconfig`},
		},
		"configurations for PodSecurity": {
			changes: []string{`K: {admissionPlugins: [{name: PodSecurity, config: {apiVersion: v1, kind: PodSecurityConfiguration}},
				{name: PodSecurity, config: {apiVersion: pod-security.admission.config.k8s.io/v1, kind: Foo}},
				{name: PodSecurity, config: {apiVersion: pod-security.admission.config.k8s.io/v1beta1, kind: PodSecurityConfiguration, foo: bar}},
				{name: PodSecurity, config: {apiVersion: pod-security.admission.config.k8s.io/v1alpha1, kind: PodSecurityConfiguration}}]}`},
			want: []string{
				"Invalid K.admissionPlugins[0].config: must be a PodSecurityConfiguration of pod-security.admission.config.k8s.io/v1, v1beta1 or " +
					"v1alpha1",
				"Invalid K.admissionPlugins[1].config: must be a PodSecurityConfiguration of pod-security.admission.config.k8s.io/v1, v1beta1 or " +
					"v1alpha1",
				`Invalid K.admissionPlugins[2].config: cannot decode a PodSecurityConfiguration: json: unknown field "foo"`,
			},
		},

		// runtime configuration
		"APIs": {changes: []string{`K: {runtimeConfig: {v1: true, api/v1: true, apps/v1: false, batch/v1/jobs: false, api/alpha: true,
			api/beta: false, api/all: true,
			networking.k8s.io/v1beta1: false, discovery.k8s.io/v1: true, events.k8s.io/v1/events: true}}`}},
		"wrong APIs": {
			changes: []string{
				`K: {runtimeConfig: {foo: true, foo/v1: true, apps/v1/pods: true, resource.k8s.io/v1: true, Apps/v1: true, '': true}}`,
			},
			want: []string{
				`Invalid K.runtimeConfig[]: unknown API ""`,
				`Invalid K.runtimeConfig[Apps/v1]: unknown API "Apps/v1"`,
				`Invalid K.runtimeConfig[apps/v1/pods]: unknown API "apps/v1/pods"`,
				`Invalid K.runtimeConfig[foo]: unknown API "foo"`,
				`Invalid K.runtimeConfig[foo/v1]: unknown API "foo/v1"`,
				`Forbidden K.runtimeConfig[resource.k8s.io/v1]: API "resource.k8s.io/v1" is not served by Kubernetes version 1.33.1`,
			},
		},
		"required APIs that are disabled": {
			changes: []string{`K: {runtimeConfig: {v1: false, v1/pods: false, api/v1: false, networking.k8s.io/v1: false,
				networking.k8s.io/v1/ingresses: false, rbac.authorization.k8s.io/v1: false,
				discovery.k8s.io/v1/endpointslices: false, discovery.k8s.io/v1: false, events.k8s.io/v1/events: false, api/ga: false,
				api/all: false}}`},
			want: []string{
				`Forbidden K.runtimeConfig[api/all]: api "api/all" cannot be disabled for workerless clusters`,
				`Forbidden K.runtimeConfig[api/ga]: api "api/ga" cannot be disabled for workerless clusters`,
				`Forbidden K.runtimeConfig[api/v1]: api "api/v1" cannot be disabled for workerless clusters`,
				`Forbidden K.runtimeConfig[discovery.k8s.io/v1]: api "discovery.k8s.io/v1" cannot be disabled for workerless clusters`,
				`Forbidden K.runtimeConfig[discovery.k8s.io/v1/endpointslices]: api "discovery.k8s.io/v1/endpointslices" cannot be disabled for ` +
					`workerless clusters`,
				`Forbidden K.runtimeConfig[events.k8s.io/v1/events]: api "events.k8s.io/v1/events" cannot be disabled for workerless clusters`,
				`Forbidden K.runtimeConfig[networking.k8s.io/v1]: api "networking.k8s.io/v1" cannot be disabled for workerless clusters`,
				`Forbidden K.runtimeConfig[networking.k8s.io/v1/ingresses]: api "networking.k8s.io/v1/ingresses" cannot be disabled for workerless ` +
					`clusters`,
				`Forbidden K.runtimeConfig[rbac.authorization.k8s.io/v1]: api "rbac.authorization.k8s.io/v1" cannot be disabled for workerless ` +
					`clusters`,
				`Forbidden K.runtimeConfig[v1]: api "v1" cannot be disabled for workerless clusters`,
				`Forbidden K.runtimeConfig[v1/pods]: api "v1/pods" cannot be disabled for workerless clusters`,
			},
		},

		// durations and ServiceAccounts
		"times at their limits": {changes: []string{"K: {eventTTL: 24h, defaultNotReadyTolerationSeconds: 0, " +
			"defaultUnreachableTolerationSeconds: 0, serviceAccountConfig: {maxTokenExpiration: 720h}}"}},
		"times of zero": {changes: []string{"K: {eventTTL: 0s, serviceAccountConfig: {maxTokenExpiration: 0s}}"}},
		"negative times": {
			changes: []string{"K: {eventTTL: -1s, defaultNotReadyTolerationSeconds: -1, defaultUnreachableTolerationSeconds: -1, " +
				"serviceAccountConfig: {maxTokenExpiration: -1s}}"},
			want: []string{
				"Invalid K.defaultNotReadyTolerationSeconds: must not be negative",
				"Invalid K.defaultUnreachableTolerationSeconds: must not be negative",
				"Invalid K.serviceAccountConfig.maxTokenExpiration: can not be negative",
				"Invalid K.eventTTL: can not be negative",
			},
		},
		"long times": {changes: []string{"K: {eventTTL: 24h1s, serviceAccountConfig: {maxTokenExpiration: 2160h1s}}"}, want: []string{
			"Forbidden K.serviceAccountConfig.maxTokenExpiration: must be at most 2160h (90d)",
			"Invalid K.eventTTL: can not be longer than 24h",
		}},
		"a short lifetime of tokens": {changes: []string{"K: {serviceAccountConfig: {maxTokenExpiration: 719h}}"}, want: []string{
			"Forbidden K.serviceAccountConfig.maxTokenExpiration: must be at least 720h (30d)",
		}},
		"issuers": {changes: []string{"K: {serviceAccountConfig: {issuer: 'https://a/b', acceptedIssuers: ['https://c', 'https://d']}}"}},
		"wrong issuers": {
			changes: []string{"K: {serviceAccountConfig: {issuer: 'http://a', acceptedIssuers: ['https://', 'https://a?b', 'https://a#', " +
				"'https://u@a', 'http://a', 'https://c', 'https://c', ':']}}"},
			want: []string{
				"Invalid K.serviceAccountConfig.issuer: " + noIssuer,
				"Invalid K.serviceAccountConfig.acceptedIssuers[0]: " + noIssuer,
				"Invalid K.serviceAccountConfig.acceptedIssuers[1]: " + noIssuer,
				"Invalid K.serviceAccountConfig.acceptedIssuers[2]: " + noIssuer,
				"Invalid K.serviceAccountConfig.acceptedIssuers[3]: " + noIssuer,
				"Invalid K.serviceAccountConfig.acceptedIssuers[4]: must not be the same as issuer",
				"Invalid K.serviceAccountConfig.acceptedIssuers[4]: " + noIssuer,
				"Invalid K.serviceAccountConfig.acceptedIssuers[7]: " + noIssuer,
				"Duplicate K.serviceAccountConfig.acceptedIssuers[6]: ",
			},
		},
		"audiences": {changes: []string{"K: {apiAudiences: [a, 'b,c', a]}"}, want: []string{
			"Invalid K.apiAudiences[1]: must not contain a comma", "Duplicate K.apiAudiences[2]: ",
		}},

		// fields that later versions do not have
		"fields before version 1.35": {
			changes: []string{"version: 1.34.9", "K: {enableAnonymousAuthentication: true, watchCacheSizes: {default: 1}}"},
		},
		"fields from version 1.35 on": {
			changes: []string{"version: 1.35.0", "K: {enableAnonymousAuthentication: false, watchCacheSizes: {default: 1}}"},
			want: []string{
				"Forbidden K.enableAnonymousAuthentication: not supported for Kubernetes 1.35 and later, use anonymous in the " +
					"AuthenticationConfiguration of structuredAuthentication",
				"Forbidden K.watchCacheSizes.default: not supported for Kubernetes 1.35 and later",
			},
		},

		// structured authentication and authorization
		"structured authentication and authorization": {changes: []string{`K: {structuredAuthentication: {configMapName: a},
			structuredAuthorization: {configMapName: a, kubeconfigs: [{authorizerName: a, secretName: a}, {authorizerName: b, secretName: a}]},
			featureGates: {StructuredAuthenticationConfiguration: true}}`}},
		"an authorizer with two kubeconfigs": {
			changes: []string{`K: {structuredAuthorization: {configMapName: a,
				kubeconfigs: [{authorizerName: b, secretName: a}, {authorizerName: a, secretName: a}, {authorizerName: a, secretName: b}]}}`},
			want: []string{"Duplicate K.structuredAuthorization.kubeconfigs[2].authorizerName: "},
		},
		"structured authentication and authorization without their feature gates": {
			changes: []string{`K: {structuredAuthentication: {configMapName: a}, structuredAuthorization: {configMapName: a,
				kubeconfigs: [{authorizerName: a, secretName: a}]},
				featureGates: {StructuredAuthenticationConfiguration: false, StructuredAuthorizationConfiguration: false}}`},
			want: []string{
				"Forbidden K.featureGates.StructuredAuthorizationConfiguration: cannot set feature gate to false, feature is locked to true",
				"Forbidden K.structuredAuthentication: cannot be set if the feature gate StructuredAuthenticationConfiguration is false",
				"Forbidden K.structuredAuthorization: cannot be set if the feature gate StructuredAuthorizationConfiguration is false",
			},
		},

		// other later fields
		"TLS 1.3, and bounds": {changes: []string{"K: {tlsMinVersion: VersionTLS13, autoscaling: {minAllowed: {cpu: 20m, memory: 200M}}}"}},
		"low bounds": {changes: []string{"K: {autoscaling: {minAllowed: {cpu: 19m, memory: 199M}}}"}, want: []string{
			"Invalid K.autoscaling.minAllowed[cpu]: must be at least 20m", "Invalid K.autoscaling.minAllowed[memory]: must be at least 200M",
		}},
		"patterns of domains": {
			changes: []string{"K: {sni: {domainPatterns: ['*.example.org', 'a.example.com', '*.com', 'example.com', '*.api.example.com']}}"},
		},
		"patterns of domains that match": {changes: []string{"K: {sni: {domainPatterns: ['*.example.com', 'api.example.com']}}"}, want: []string{
			`Invalid K.sni.domainPatterns[0]: must not match "api.example.com"`, `Invalid K.sni.domainPatterns[1]: must not match "api.example.com"`,
		}},

		// encryption
		"encryption": {changes: []string{
			"K: {encryptionConfig: {resources: [configmaps, deployments.apps], provider: {type: secretbox}}}",
			"G: {gardenerAPIServer: {encryptionConfig: {resources: [shoots.core.gardener.cloud], provider: {type: secretbox}}}}",
		}},
		"encryption without provider": {changes: []string{
			"K: {encryptionConfig: {provider: {type: ''}}}", "G: {gardenerAPIServer: {encryptionConfig: {provider: {type: aescbc}}}}",
		}},
		"the provider of kube-apiserver for gardener-apiserver": {changes: []string{
			"K: {encryptionConfig: {provider: {type: aesgcm}}}", "G: {gardenerAPIServer: {encryptionConfig: {provider: {type: ''}}}}",
		}},
		"wrong encryption by kube-apiserver": {
			changes: []string{"K: {encryptionConfig: {resources: [secrets, ConfigMaps, '*.apps', pods., apiserveripinfo, serviceipallocations, " +
				"servicenodeportallocations, events.events.k8s.io, ingresses.extensions, aa, 'aa', ''], provider: {type: rot13}}}"},
			want: []string{
				"Invalid K.encryptionConfig.resources[0]: resource is always encrypted",
				"Invalid K.encryptionConfig.resources[1]: must be lower case",
				"Invalid K.encryptionConfig.resources[2]: must not contain a wildcard",
				"Invalid K.encryptionConfig.resources[3]: must not end with a dot",
				"Invalid K.encryptionConfig.resources[4]: resource cannot be encrypted",
				"Invalid K.encryptionConfig.resources[5]: resource cannot be encrypted",
				"Invalid K.encryptionConfig.resources[6]: resource cannot be encrypted",
				`Invalid K.encryptionConfig.resources[7]: resources of the group "events.k8s.io" cannot be encrypted`,
				`Invalid K.encryptionConfig.resources[8]: resources of the group "extensions" cannot be encrypted`,
				"Invalid K.encryptionConfig.resources[11]: must not be empty",
				"Duplicate K.encryptionConfig.resources[10]: ",
				`NotSupported K.encryptionConfig.provider.type: supported values: "aescbc", "aesgcm", "secretbox"`,
			},
		},
		"wrong encryption by gardener-apiserver": {
			changes: []string{"G: {gardenerAPIServer: {encryptionConfig: {resources: [shootstates.core.gardener.cloud, configmaps, " +
				"shoots.core.gardener.cloud.], provider: {type: secretbox}}}}"},
			want: []string{
				"Invalid G.gardenerAPIServer.encryptionConfig.resources[0]: resource is always encrypted",
				"Invalid G.gardenerAPIServer.encryptionConfig.resources[1]: " + noGardenerGroup,
				"Invalid G.gardenerAPIServer.encryptionConfig.resources[2]: " + noGardenerGroup,
				`Invalid G.gardenerAPIServer.encryptionConfig.provider.type: must be the provider of kube-apiserver, "aescbc"`,
			},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			if tc.want == nil {
				tc.want = []string{}
			}
			g.Expect(texts(validation.Create(garden(t, tc.changes...), nil))).To(BeComparableTo(tc.want))
		})
	}
}

const (
	noIssuer        = "must be an https URL with a host and without query, fragment and user"
	noGardenerGroup = "must be a resource of one of the groups authentication.gardener.cloud, core.gardener.cloud, " +
		"operations.gardener.cloud, security.gardener.cloud, seedmanagement.gardener.cloud"
)

// certificate returns a certificate in PEM as a string in YAML.
func certificate(t *testing.T) string {
	t.Helper()
	g := NewWithT(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	g.Expect(err).NotTo(HaveOccurred())
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1)}, &x509.Certificate{}, key.Public(), key)
	g.Expect(err).NotTo(HaveOccurred())
	return `"` + strings.ReplaceAll(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), "\n", `\n`) + `"`
}
