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
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/garden/versions"
	"github.com/espalier-dev/espalier/internal/garden/webhook/auditpolicy"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// settingsPath is the field of a Garden with the settings.
const settingsPath = "spec.virtualCluster.kubernetes.kubeAPIServer"

// References are the contents of the objects that the Garden refers to, after Resolve has checked them.
type References struct {
	// AuditPolicy is the text of a Policy; empty if there is none.
	AuditPolicy string
	// AuditWebhook and AuthenticationWebhook are kubeconfigs.
	AuditWebhook, AuthenticationWebhook []byte
	// AdmissionKubeconfigs are kubeconfigs by the name of the admission plugin.
	AdmissionKubeconfigs map[string][]byte
	// Authentication is an AuthenticationConfiguration; nil if there is none.
	Authentication map[string]any
	// Authorizers are the webhooks of an AuthorizationConfiguration, and AuthorizerKubeconfigs their kubeconfigs by their names.
	Authorizers           []Authorizer
	AuthorizerKubeconfigs map[string][]byte
	// ServerNames is the name of the Secret with the certificate for certain server names; empty if there is none.
	ServerNames string
}

// Found are the objects that the Garden refers to, by their names. Those that do not exist are absent.
type Found struct {
	Secrets    map[string]*corev1.Secret
	ConfigMaps map[string]*corev1.ConfigMap
	// Wildcard is the Secret with the wildcard certificate, which is found by its label; nil if there is none.
	Wildcard *corev1.Secret
}

// reference is a field that names an object.
type reference struct {
	// what is what the object has, as part of a sentence.
	what string
	// path is the field below settingsPath.
	path string
	// kind is secretKind or configMapKind.
	kind, name string
	// keys must not be empty.
	keys []string
	// read checks and stores the values of the keys, and returns what is wrong with them.
	read func(values [][]byte) error
}

const (
	secretKind    = "secret"
	configMapKind = "configmap"
)

// Names returns the names of the Secrets and ConfigMaps that Resolve needs, without duplicates.
func Names(v values.Values) (secrets, configMaps []string) {
	for _, each := range wanted(v, &References{}) {
		list := &secrets
		if each.kind == configMapKind {
			list = &configMaps
		}
		if !slices.Contains(*list, each.name) {
			*list = append(*list, each.name)
		}
	}
	return secrets, configMaps
}

// Resolve returns the contents of the objects. The error names every object and key that is missing or malformed, and how to correct it.
// It has no value of a Secret.
func Resolve(v values.Values, found Found) (References, error) {
	var refs References
	var problems []error
	for _, each := range wanted(v, &refs) {
		if err := each.resolve(found); err != nil {
			problems = append(problems, fmt.Errorf("failed reading %s from referenced %s %s/%s: %w; correct it, or change %s.%s",
				each.what, each.kind, v.Namespace, each.name, err, settingsPath, each.path))
		}
	}
	if sni := v.KubeAPIServer.SNI; sni != nil && sni.SecretName == nil {
		refs.ServerNames = ""
		if found.Wildcard == nil {
			problems = append(problems, fmt.Errorf("%s.sni has no secretName, and namespace %s has no Secret with a wildcard certificate; "+
				"set the field, or the label gardener.cloud/role=garden-cert on a Secret", settingsPath, v.Namespace))
		} else if err := readServerNames(found.Wildcard, &refs); err != nil {
			problems = append(problems, fmt.Errorf("failed reading wildcard certificate from secret %s/%s: %w; correct it, or set %s.sni.secretName",
				v.Namespace, found.Wildcard.Name, err, settingsPath))
		}
	}
	return refs, errors.Join(problems...)
}

func (r reference) resolve(found Found) error {
	var content map[string][]byte
	if r.kind == configMapKind {
		if o := found.ConfigMaps[r.name]; o != nil {
			content = map[string][]byte{}
			for key, value := range o.Data {
				content[key] = []byte(value)
			}
		}
	} else if o := found.Secrets[r.name]; o != nil {
		content = o.Data
		if content == nil {
			content = map[string][]byte{}
		}
	}
	if content == nil {
		return fmt.Errorf("it does not exist, and must have the key %q", r.keys[0])
	}
	return r.readKeys(content)
}

func (r reference) readKeys(content map[string][]byte) error {
	list := make([][]byte, 0, len(r.keys))
	for _, key := range r.keys {
		if len(content[key]) == 0 {
			return fmt.Errorf("the %s's field '%s' is either not present or empty", r.kind, key)
		}
		list = append(list, content[key])
	}
	if err := r.read(list); err != nil {
		return fmt.Errorf("the %s's field '%s' is malformed: %w", r.kind, r.keys[0], err)
	}
	return nil
}

// wanted returns the references of a Garden. Reading them fills refs.
func wanted(v values.Values, refs *References) []reference {
	settings := v.KubeAPIServer
	var all []reference
	if audit := settings.AuditConfig; audit != nil && audit.AuditPolicy != nil && audit.AuditPolicy.ConfigMapRef != nil {
		all = append(all, reference{
			what: "audit policy", path: "auditConfig.auditPolicy.configMapRef.name", kind: configMapKind, name: audit.AuditPolicy.ConfigMapRef.Name,
			keys: []string{auditpolicy.Key}, read: func(list [][]byte) error {
				refs.AuditPolicy = string(list[0])
				return auditpolicy.Check(refs.AuditPolicy)
			},
		})
	}
	if webhook := settings.AuditWebhook; webhook != nil {
		all = append(all, kubeconfigIn(webhook.KubeconfigSecretName, "audit webhook", "auditWebhook.kubeconfigSecretName", judgeEndpoint,
			func(content []byte) { refs.AuditWebhook = content }))
	}
	if authentication := settings.Authentication; authentication != nil && authentication.Webhook != nil {
		all = append(all, kubeconfigIn(authentication.Webhook.KubeconfigSecretName, "authentication webhook",
			"authentication.webhook.kubeconfigSecretName", judgeEndpoint, func(content []byte) { refs.AuthenticationWebhook = content }))
	}
	all = append(all, admissionReferences(v, refs)...)
	if config := settings.StructuredAuthentication; config != nil && oidc(v) == nil {
		all = append(all, reference{
			what: "authentication configuration", path: "structuredAuthentication.configMapName", kind: configMapKind, name: config.ConfigMapName,
			keys: []string{configFile}, read: func(list [][]byte) (err error) {
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

// kubeconfigIn returns the reference to a Secret with a kubeconfig.
func kubeconfigIn(name, of, path string, judge func([]byte) error, store func([]byte)) reference {
	return reference{
		what: "kubeconfig for " + of, path: path, kind: secretKind, name: name, keys: []string{secretconfig.DataKeyKubeconfig},
		read: func(list [][]byte) error {
			store(list[0])
			return judge(list[0])
		},
	}
}

func admissionReferences(v values.Values, refs *References) []reference {
	refs.AdmissionKubeconfigs = map[string][]byte{}
	var all []reference
	_, _, settings := plugins(v)
	for _, each := range settings {
		if each.KubeconfigSecretName == nil || !slices.Contains(webhookPlugins, each.Name) {
			continue
		}
		judge := judgeUsers
		if each.Name == imagePolicyWebhook {
			judge = judgeEndpoint
		}
		path := fmt.Sprintf("admissionPlugins[%s].kubeconfigSecretName", each.Name)
		all = append(all, kubeconfigIn(*each.KubeconfigSecretName, "admission plugin "+each.Name, path, judge,
			func(content []byte) { refs.AdmissionKubeconfigs[each.Name] = content }))
	}
	return all
}

func authorizationReferences(v values.Values, refs *References) []reference {
	config := v.KubeAPIServer.StructuredAuthorization
	if config == nil {
		return nil
	}
	refs.AuthorizerKubeconfigs = map[string][]byte{}
	known := make([]string, 0, len(config.Kubeconfigs))
	all := make([]reference, 0, len(config.Kubeconfigs)+1)
	for _, each := range config.Kubeconfigs {
		known = append(known, each.AuthorizerName)
		path := fmt.Sprintf("structuredAuthorization.kubeconfigs[%s].secretName", each.AuthorizerName)
		all = append(all, kubeconfigIn(each.SecretName, "authorizer "+each.AuthorizerName, path, judgeEndpoint,
			func(content []byte) { refs.AuthorizerKubeconfigs[each.AuthorizerName] = content }))
	}
	return append(all, reference{
		what: "authorization configuration", path: "structuredAuthorization.configMapName", kind: configMapKind, name: config.ConfigMapName,
		keys: []string{configFile}, read: func(list [][]byte) (err error) {
			refs.Authorizers, err = readAuthorizers(kubernetes(v), list[0], known)
			return err
		},
	})
}

func serverNames(name string, refs *References) reference {
	return reference{
		what: "certificate for server names", path: "sni.secretName", kind: secretKind, name: name,
		keys: []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey}, read: func(list [][]byte) error {
			refs.ServerNames = name
			_, err := tls.X509KeyPair(list[0], list[1])
			return err
		},
	}
}

func readServerNames(wildcard *corev1.Secret, refs *References) error {
	return serverNames(wildcard.Name, refs).readKeys(wildcard.Data)
}

// judgeUsers returns what is wrong with a kubeconfig that is read for its users only. The cause is left out, because it could have a part
// of the content.
func judgeUsers(content []byte) error {
	config, err := clientcmd.Load(content)
	if err != nil {
		return errors.New("it cannot be decoded as a kubeconfig")
	}
	return checkSelfContained(config)
}

// checkSelfContained returns an error for a kubeconfig that refers to files or programs: the Pods do not have them, or they are credentials
// of kube-apiserver that the author of the kubeconfig may not read.
func checkSelfContained(config *clientcmdapi.Config) error {
	for name, each := range config.Clusters {
		if each.CertificateAuthority != "" {
			return fmt.Errorf("its cluster %q refers to a file: use certificate-authority-data", name)
		}
	}
	for name, each := range config.AuthInfos {
		if each.ClientCertificate != "" || each.ClientKey != "" || each.TokenFile != "" || each.Exec != nil {
			return fmt.Errorf("its user %q refers to a file or a program: put the content into the kubeconfig", name)
		}
	}
	return nil
}

// judgeEndpoint returns what is wrong with a kubeconfig that says where a server is.
func judgeEndpoint(content []byte) error {
	config, err := clientcmd.Load(content)
	if err != nil {
		return errors.New("it cannot be decoded as a kubeconfig")
	}
	if err := checkSelfContained(config); err != nil {
		return err
	}
	if config.CurrentContext == "" {
		return errors.New("it has no current-context")
	}
	current := config.Contexts[config.CurrentContext]
	if current == nil {
		return fmt.Errorf("it has no context %q, which is its current-context", config.CurrentContext)
	}
	cluster := config.Clusters[current.Cluster]
	if cluster == nil {
		return fmt.Errorf("it has no cluster %q, which its current context names", current.Cluster)
	}
	if cluster.Server == "" {
		return fmt.Errorf("its cluster %q has no server", current.Cluster)
	}
	if data := cluster.CertificateAuthorityData; len(data) > 0 {
		if _, err := cert.ParseCertsPEM(data); err != nil {
			return fmt.Errorf("certificate-authority-data of its cluster %q must be PEM certificates in base64", current.Cluster)
		}
	}
	return nil
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

// readAuthorizers returns the webhooks of an AuthorizationConfiguration. Known are those that have a kubeconfig.
func readAuthorizers(k versions.Kubernetes, content []byte, known []string) ([]Authorizer, error) {
	var config authorizationConfiguration
	if err := decodeStrictly(content, &config); err != nil {
		return nil, fmt.Errorf("decode %s: %w", authorizationKind, err)
	}
	if err := ofKind(config.APIVersion, config.Kind, authorizationKind, k, []string{"v1alpha1", "v1beta1", "v1"}); err != nil {
		return nil, err
	}
	names := []string{nameRBAC}
	for _, each := range gardenerAuthorizers {
		names = append(names, each.authorizer())
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

// decodeStrictly refuses fields that do not exist, also if only their case is wrong, as kube-apiserver does.
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
	if kind == wanted && group == configGroup && slices.Contains(served, version) {
		return nil
	}
	return fmt.Errorf("it must be of kind %s and apiVersion %s/{%s} for Kubernetes %s", wanted, configGroup, strings.Join(served, ","), k)
}
