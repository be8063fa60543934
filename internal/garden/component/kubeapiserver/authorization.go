package kubeapiserver

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/garden/component/shared"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/garden/versions"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

const (
	authorizationFolder            = "/etc/kubernetes/structured/authorization"
	authorizationKubeconfigsFolder = "/etc/kubernetes/structured/authorization-kubeconfigs"

	typeRBAC, nameRBAC = "RBAC", "rbac"
	typeWebhook        = "Webhook"

	// authorizationServer is gardener-admission-controller. It may be absent: only seeds and shoots depend on it.
	authorizationServer = "https://gardener-admission-controller/webhooks/auth/"
	webhookTimeout      = 10 * time.Second
)

// gardenerAuthorizer is a webhook of gardener-admission-controller, with the users that it is asked about.
type gardenerAuthorizer struct{ name, condition string }

func (a gardenerAuthorizer) authorizer() string { return a.name + "-authorizer" }

// gardenerAuthorizers are asked about gardenlets, and about extensions for self-hosted shoots, after RBAC.
var gardenerAuthorizers = []gardenerAuthorizer{
	{name: "seed", condition: `'gardener.cloud:system:seeds' in request.groups || ` +
		`request.groups.exists(e, e.startsWith('system:serviceaccounts:seed-'))`},
	{name: "shoot", condition: `'gardener.cloud:system:shoots' in request.groups || ` +
		`(request.groups.exists(e, e == 'system:serviceaccounts:garden' || e.startsWith('system:serviceaccounts:garden-')) && ` +
		`request.user.contains(':extension-shoot--'))`},
}

// authorizationParts configures who authorizes requests: RBAC, then Gardener, then the webhooks of the user.
func authorizationParts(v values.Values, in Input) ([]part, error) {
	config := authorizationConfiguration{
		TypeMeta: shared.Type(inV1Beta1, authorizationKind), Authorizers: []Authorizer{{Type: typeRBAC, Name: nameRBAC}},
	}
	kubeconfigs := map[string][]byte{}
	for _, each := range gardenerAuthorizers {
		config.Authorizers = append(config.Authorizers, Authorizer{
			Type: typeWebhook, Name: each.authorizer(), Webhook: gardenerWebhook(v, each),
		})
		generated, err := secretconfig.Kubeconfig{
			Name: each.authorizer(), ContextName: each.name + "-authorization-webhook",
			Cluster: secretconfig.Cluster{Server: authorizationServer + each.name, CAData: in.Secrets.GardenerAuthority},
		}.Generate(secretconfig.Source{})
		if err != nil {
			return nil, fmt.Errorf("render kubeconfig of %s: %w", each.authorizer(), err)
		}
		kubeconfigs[authorizerFile(each.authorizer())] = generated[secretconfig.DataKeyKubeconfig]
	}
	for _, each := range in.References.Authorizers {
		webhook := *each.Webhook
		webhook.ConnectionInfo = connection(each.Name)
		config.Authorizers = append(config.Authorizers, Authorizer{Type: typeWebhook, Name: each.Name, Webhook: &webhook})
		kubeconfigs[authorizerFile(each.Name)] = in.References.AuthorizerKubeconfigs[each.Name]
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("encode authorization configuration: %w", err)
	}
	return []part{
		{
			volume: "authorization-config", folder: authorizationFolder,
			object: configMap(v, "kube-apiserver-authorization-config", map[string]string{configFile: string(text)}),
			args:   []string{"--authorization-config=" + authorizationFolder + "/" + configFile},
		},
		{
			volume: "authorization-kubeconfigs", folder: authorizationKubeconfigsFolder, private: true,
			object: secret(v, "kube-apiserver-authorization-webhooks-kubeconfigs", nil, kubeconfigs),
		},
	}, nil
}

// gardenerWebhook returns the settings of a webhook whose answers are not kept, because they change with every Shoot.
func gardenerWebhook(v values.Values, a gardenerAuthorizer) *AuthorizerWebhook {
	// A duration of 0 stands for the default.
	shortest := metav1.Duration{Duration: time.Nanosecond}
	webhook := &AuthorizerWebhook{
		AuthorizedTTL: shortest, UnauthorizedTTL: shortest, Timeout: metav1.Duration{Duration: webhookTimeout},
		SubjectAccessReviewVersion: "v1", MatchConditionSubjectAccessReviewVersion: "v1", FailurePolicy: "Deny",
		ConnectionInfo:  connection(a.authorizer()),
		MatchConditions: []MatchCondition{{Expression: a.condition}},
	}
	if kubernetes(v).Has(versions.AuthorizerCacheSwitches) {
		webhook.CacheAuthorizedRequests, webhook.CacheUnauthorizedRequests = ptr.To(false), ptr.To(false)
	}
	return webhook
}

func connection(authorizer string) ConnectionInfo {
	return ConnectionInfo{
		Type: "KubeConfigFile", KubeConfigFile: authorizationKubeconfigsFolder + "/" + authorizerFile(authorizer),
	}
}

func authorizerFile(authorizer string) string {
	return authorizer + "-" + kubeconfigFile
}
