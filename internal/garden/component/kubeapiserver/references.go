package kubeapiserver

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/garden/component/apiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/gardeneradmission"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/garden/versions"
)

// settingsPath is the field of a Garden with the settings.
const settingsPath = "spec.virtualCluster.kubernetes.kubeAPIServer"

// References are the contents of the objects that the Garden refers to, after Resolve has checked them.
type References struct {
	apiserver.References

	// AuthenticationWebhook is the kubeconfig for the authentication webhook; nil if there is none.
	AuthenticationWebhook []byte
	// Authentication is an AuthenticationConfiguration; nil if there is none.
	Authentication map[string]any
	// Authorizers are the webhooks of an AuthorizationConfiguration, and AuthorizerKubeconfigs their kubeconfigs by their names.
	Authorizers           []Authorizer
	AuthorizerKubeconfigs map[string][]byte
	// ServerNames is the name of the Secret with the certificate for certain server names; empty if there is none.
	ServerNames string
}

// Found are the existing objects that the Garden refers to, by their names.
type Found struct {
	apiserver.Found

	// Wildcard is the Secret with the wildcard certificate, which is found by its label; nil if there is none.
	Wildcard *corev1.Secret
}

// Names returns the names of the Secrets and ConfigMaps that Resolve needs, without duplicates.
func Names(v values.Values) apiserver.ObjectNames {
	return apiserver.Names(wanted(v, &References{}))
}

// Resolve returns the contents of the objects that the Garden refers to. The error names every object and key that is missing or
// malformed, and how to correct it. The error contains no value of a Secret.
func Resolve(v values.Values, found Found) (References, error) {
	var refs References
	problems := server(v).Resolve(wanted(v, &refs), found.Found)
	if sni := v.KubeAPIServer.SNI; sni != nil && sni.SecretName == nil {
		if found.Wildcard == nil {
			problems = append(problems, fmt.Errorf("%s.sni has no secretName, and namespace %s has no Secret with a wildcard certificate; "+
				"set the field, or the label gardener.cloud/role=garden-cert on a Secret", settingsPath, v.Namespace))
		} else if err := serverNames(found.Wildcard.Name, &refs).ReadKeys(found.Wildcard.Data); err != nil {
			problems = append(problems, fmt.Errorf("failed reading wildcard certificate from secret %s/%s: %w; correct it, or set %s.sni.secretName",
				v.Namespace, found.Wildcard.Name, err, settingsPath))
		}
	}
	return refs, errors.Join(problems...)
}

// wanted returns the references in the settings of kube-apiserver. Their Read functions fill refs.
func wanted(v values.Values, refs *References) []apiserver.Reference {
	settings := v.KubeAPIServer
	all := apiserver.AuditReferences(settings.AuditConfig, settings.AuditWebhook, &refs.References)
	if authentication := settings.Authentication; authentication != nil && authentication.Webhook != nil {
		all = append(all, apiserver.Kubeconfig(authentication.Webhook.KubeconfigSecretName, "authentication webhook",
			"authentication.webhook.kubeconfigSecretName", func(content []byte) { refs.AuthenticationWebhook = content }))
	}
	all = append(all, apiserver.AdmissionReferences(plugins(v), &refs.References)...)
	if config := settings.StructuredAuthentication; config != nil && oidc(v) == nil {
		all = append(all, apiserver.Reference{
			What: "authentication configuration", Path: "structuredAuthentication.configMapName",
			Kind: apiserver.KindConfigMap, Name: config.ConfigMapName,
			Keys: []string{configFile}, Read: func(list [][]byte) (err error) {
				refs.Authentication, err = readAuthentication(kubernetes(v), list[0])
				return err
			},
		})
	}
	all = append(all, authorizationReferences(v, refs)...)
	if sni := settings.SNI; sni != nil && sni.SecretName != nil {
		all = append(all, serverNames(*sni.SecretName, refs))
	}
	return all
}

func authorizationReferences(v values.Values, refs *References) []apiserver.Reference {
	config := v.KubeAPIServer.StructuredAuthorization
	if config == nil {
		return nil
	}
	refs.AuthorizerKubeconfigs = map[string][]byte{}
	known := make([]string, 0, len(config.Kubeconfigs))
	all := make([]apiserver.Reference, 0, len(config.Kubeconfigs)+1)
	for _, each := range config.Kubeconfigs {
		known = append(known, each.AuthorizerName)
		path := fmt.Sprintf("structuredAuthorization.kubeconfigs[%s].secretName", each.AuthorizerName)
		all = append(all, apiserver.Kubeconfig(each.SecretName, "authorizer "+each.AuthorizerName, path,
			func(content []byte) { refs.AuthorizerKubeconfigs[each.AuthorizerName] = content }))
	}
	return append(all, apiserver.Reference{
		What: "authorization configuration", Path: "structuredAuthorization.configMapName",
		Kind: apiserver.KindConfigMap, Name: config.ConfigMapName,
		Keys: []string{configFile}, Read: func(list [][]byte) (err error) {
			refs.Authorizers, err = readAuthorizers(kubernetes(v), list[0], known)
			return err
		},
	})
}

func serverNames(name string, refs *References) apiserver.Reference {
	return apiserver.Reference{
		What: "certificate for server names", Path: "sni.secretName", Kind: apiserver.KindSecret, Name: name,
		Keys: []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey}, Read: func(list [][]byte) error {
			refs.ServerNames = name
			_, err := tls.X509KeyPair(list[0], list[1])
			return err
		},
	}
}

// readAuthentication returns an AuthenticationConfiguration as it is, if kube-apiserver of the version can read it.
func readAuthentication(k versions.Kubernetes, content []byte) (map[string]any, error) {
	var config authenticationConfiguration
	if err := decodeStrictly(content, &config); err != nil {
		return nil, fmt.Errorf("decode %s: %w", authenticationKind, err)
	}
	served := []string{"v1alpha1", "v1beta1"}
	if k.Has(versions.AuthenticationConfigurationV1) {
		served = append(served, "v1")
	}
	if err := ofKind(config.APIVersion, config.Kind, authenticationKind, k, served); err != nil {
		return nil, err
	}
	for i, each := range config.JWT {
		parsed, err := url.Parse(each.Issuer.URL)
		if err != nil || parsed.Scheme != "https" || parsed.Host == "" {
			return nil, fmt.Errorf("jwt[%d].issuer.url must be an https URL with a host", i)
		}
		if each.Issuer.EgressSelectorType != "" && !k.Has(versions.IssuerEgressSelector) {
			return nil, fmt.Errorf("jwt[%d].issuer.%s is not in Kubernetes %s", i, versions.IssuerEgressSelector, k)
		}
		if bundle := each.Issuer.CertificateAuthority; bundle != "" {
			if _, err := cert.ParseCertsPEM([]byte(bundle)); err != nil {
				return nil, fmt.Errorf("jwt[%d].issuer.certificateAuthority must be PEM certificates: %w", i, err)
			}
		}
	}
	untyped := map[string]any{}
	if err := yaml.Unmarshal(content, &untyped); err != nil {
		return nil, fmt.Errorf("decode %s: %w", authenticationKind, err)
	}
	return untyped, nil
}

// readAuthorizers returns the webhooks of an AuthorizationConfiguration. Known are the names of the webhooks that have a kubeconfig.
func readAuthorizers(k versions.Kubernetes, content []byte, known []string) ([]Authorizer, error) {
	var config authorizationConfiguration
	if err := decodeStrictly(content, &config); err != nil {
		return nil, fmt.Errorf("decode %s: %w", authorizationKind, err)
	}
	if err := ofKind(config.APIVersion, config.Kind, authorizationKind, k, []string{"v1alpha1", "v1beta1", "v1"}); err != nil {
		return nil, err
	}
	names := []string{nameRBAC}
	for _, each := range gardeneradmission.Authorizers() {
		names = append(names, authorizerName(each))
	}
	var webhooks []Authorizer
	for i, each := range config.Authorizers {
		if each.Type != typeWebhook {
			continue
		}
		faults := validation.IsDNS1123Subdomain(each.Name)
		switch {
		case each.Webhook == nil:
			return nil, fmt.Errorf("authorizers[%d] has the type Webhook and no webhook", i)
		case len(faults) > 0:
			return nil, fmt.Errorf("the name of authorizers[%d] is wrong: %s", i, strings.Join(faults, "; "))
		case slices.Contains(names, each.Name):
			return nil, fmt.Errorf("authorizers[%d] has the name %q of another authorizer", i, each.Name)
		case !slices.Contains(known, each.Name):
			return nil, fmt.Errorf("authorizers[%d] %q has no entry in %s.structuredAuthorization.kubeconfigs; add one", i, each.Name, settingsPath)
		case each.Webhook.hasCacheSwitches() && !k.Has(versions.AuthorizerCacheSwitches):
			return nil, fmt.Errorf("authorizers[%d] has %s, which Kubernetes %s does not have", i, versions.AuthorizerCacheSwitches, k)
		}
		names = append(names, each.Name)
		webhooks = append(webhooks, each)
	}
	return webhooks, nil
}

// decodeStrictly decodes YAML. Like kube-apiserver, it refuses fields that do not exist, also if the name of a field is only wrong in
// upper and lower case.
func decodeStrictly(content []byte, into any) error {
	converted, err := yaml.YAMLToJSONStrict(content)
	if err != nil {
		return err
	}
	strict, err := json.UnmarshalStrict(converted, into)
	return errors.Join(append(strict, err)...)
}

// ofKind returns an error unless an object of a configuration file has the kind, in a version that kube-apiserver reads.
func ofKind(apiVersion, kind, wanted string, k versions.Kubernetes, served []string) error {
	group, version, _ := strings.Cut(apiVersion, "/")
	if kind == wanted && group == apiserver.ConfigGroup && slices.Contains(served, version) {
		return nil
	}
	return fmt.Errorf("it must be of kind %s and apiVersion %s/{%s} for Kubernetes %s",
		wanted, apiserver.ConfigGroup, strings.Join(served, ","), k)
}
