package kubeapiserver

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/apiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

const (
	configFile = "config.yaml"

	authenticationFolder        = "/etc/kubernetes/structured/authentication"
	authenticationWebhookFolder = "/etc/kubernetes/webhook/authentication"
	authenticationVersion       = "v1beta1"

	// anonymousEndpoints is the feature gate for the setting anonymous in the file, which has been on since Kubernetes 1.32.
	anonymousEndpoints = "AnonymousAuthConfigurableEndpoints"

	oidcFolder = "/srv/kubernetes/oidc"
	oidcFile   = "ca.crt"
)

// oidc returns the provider in the deprecated field, nil if there is none.
func oidc(v values.Values) *operatorv1alpha1.OIDCConfig {
	config := v.KubeAPIServer.OIDCConfig //nolint:staticcheck // the field works as long as it is in the API
	if config == nil || config.IssuerURL == nil {
		return nil
	}
	return config
}

// enabled reports whether the Garden does not switch off a feature gate that is on by default. A gate that the version does not have is on.
func enabled(v values.Values, gate string) bool {
	value, set := v.KubeAPIServer.FeatureGates[gate]
	return !set || value || !kubernetes(v).TakesGate(gate, value)
}

// probesAreAnonymous reports whether anonymous users may request the paths of the probes and nothing else, so that the probes need no
// token. A token would be in the Deployment, and users of the runtime cluster who may read Deployments could read it. A setting of the
// Garden for anonymous users has precedence.
func probesAreAnonymous(v values.Values, refs References) bool {
	_, set := refs.Authentication["anonymous"]
	return !set && !ptr.Deref(v.KubeAPIServer.EnableAnonymousAuthentication, false) && oidc(v) == nil &&
		enabled(v, "StructuredAuthenticationConfiguration") && enabled(v, anonymousEndpoints)
}

// authenticationParts configures how users are authenticated. A configuration file and the flags for OpenID Connect exclude each other, as
// do the setting for anonymous users in the file and the flag for it.
func authenticationParts(v values.Values, refs References) ([]apiserver.Part, error) {
	anonymous := ptr.Deref(v.KubeAPIServer.EnableAnonymousAuthentication, false)
	flag := "--anonymous-auth=" + strconv.FormatBool(anonymous)
	parts := authenticationWebhookParts(v, refs)
	if config := oidc(v); config != nil {
		own, err := oidcPart(v, config)
		own.Args = append(own.Args, flag)
		return append(parts, own), err
	}
	if !enabled(v, "StructuredAuthenticationConfiguration") {
		return append(parts, apiserver.Part{Args: []string{flag}}), nil
	}
	config := map[string]any{"apiVersion": inV1Beta1, "kind": authenticationKind, "jwt": []any{}}
	if refs.Authentication != nil {
		config = maps.Clone(refs.Authentication)
	}
	args := []string{"--authentication-config=" + authenticationFolder + "/" + configFile}
	_, set := config["anonymous"]
	switch {
	case set:
	case probesAreAnonymous(v, refs):
		config["anonymous"] = map[string]any{"enabled": true, "conditions": []any{
			map[string]any{"path": livePath}, map[string]any{"path": readyPath},
		}}
	case enabled(v, anonymousEndpoints):
		config["anonymous"] = map[string]any{"enabled": anonymous}
	default:
		args = append(args, flag)
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("encode authentication configuration: %w", err)
	}
	data := map[string]string{configFile: string(text)}
	return append(parts, apiserver.Part{
		Volume: "authentication-config", Folder: authenticationFolder, Args: args,
		Object: object.Owner{Namespace: v.Namespace}.UniqueConfigMap("kube-apiserver-authentication-config", data),
	}), nil
}

func authenticationWebhookParts(v values.Values, refs References) []apiserver.Part {
	if v.KubeAPIServer.Authentication == nil || v.KubeAPIServer.Authentication.Webhook == nil {
		return nil
	}
	webhook := v.KubeAPIServer.Authentication.Webhook
	const flag = "--authentication-token-webhook-"
	args := []string{
		flag + "config-file=" + authenticationWebhookFolder + "/" + apiserver.KubeconfigFile,
		flag + "version=" + ptr.Deref(webhook.Version, authenticationVersion),
	}
	if webhook.CacheTTL != nil {
		args = append(args, flag+"cache-ttl="+webhook.CacheTTL.Duration.String())
	}
	return []apiserver.Part{{
		Volume: "authentication-webhook-kubeconfig", Folder: authenticationWebhookFolder, Private: true, Args: args,
		Object: object.UniqueSecret(v.Namespace, "kube-apiserver-authentication-webhook-kubeconfig", nil, map[string][]byte{
			apiserver.KubeconfigFile: refs.AuthenticationWebhook,
		}),
	}}
}

func oidcPart(v values.Values, config *operatorv1alpha1.OIDCConfig) (apiserver.Part, error) {
	var own apiserver.Part
	add := func(name string, value *string) {
		if value != nil {
			own.Args = append(own.Args, "--oidc-"+name+"="+*value)
		}
	}
	if config.CABundle != nil {
		if _, err := cert.ParseCertsPEM([]byte(*config.CABundle)); err != nil {
			return apiserver.Part{}, fmt.Errorf("%s.oidcConfig.caBundle must be PEM certificates: %w; correct or remove it", settingsPath, err)
		}
		own = apiserver.Part{
			Volume: "oidc-cabundle", Folder: oidcFolder,
			Object: object.UniqueSecret(v.Namespace, "kube-apiserver-oidc-cabundle", nil, map[string][]byte{oidcFile: []byte(*config.CABundle)}),
		}
		add("ca-file", ptr.To(oidcFolder+"/"+oidcFile))
	}
	add("issuer-url", config.IssuerURL)
	add("client-id", config.ClientID)
	add("username-claim", config.UsernameClaim)
	add("groups-claim", config.GroupsClaim)
	add("username-prefix", config.UsernamePrefix)
	add("groups-prefix", config.GroupsPrefix)
	if len(config.SigningAlgs) > 0 {
		add("signing-algs", ptr.To(strings.Join(config.SigningAlgs, ",")))
	}
	for _, claim := range slices.Sorted(maps.Keys(config.RequiredClaims)) {
		add("required-claim", ptr.To(claim+"="+config.RequiredClaims[claim]))
	}
	return own, nil
}
