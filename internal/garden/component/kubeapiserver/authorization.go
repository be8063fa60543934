package kubeapiserver

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/garden/component/apiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/gardeneradmission"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/garden/versions"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

const (
	authorizationFolder            = "/etc/kubernetes/structured/authorization"
	authorizationKubeconfigsFolder = "/etc/kubernetes/structured/authorization-kubeconfigs"

	typeRBAC, nameRBAC = "RBAC", "rbac"
	typeWebhook        = "Webhook"

	webhookTimeout = 10 * time.Second
)

// authorizerName returns the name of an authorizer of gardener-admission-controller.
func authorizerName(a gardeneradmission.Authorizer) string { return a.Name + "-authorizer" }

// authorizationParts configures who authorizes requests: RBAC, then gardener-admission-controller, then the webhooks of the user.
// gardener-admission-controller may be absent: only seeds and shoots depend on it.
func authorizationParts(v values.Values, in Input) ([]apiserver.Part, error) {
	config := authorizationConfiguration{
		TypeMeta: object.Type(inV1Beta1, authorizationKind), Authorizers: []Authorizer{{Type: typeRBAC, Name: nameRBAC}},
	}
	kubeconfigs := map[string][]byte{}
	for _, each := range gardeneradmission.Authorizers() {
		config.Authorizers = append(config.Authorizers, Authorizer{
			Type: typeWebhook, Name: authorizerName(each), Webhook: gardenerWebhook(v, each),
		})
		generated, err := secretconfig.Kubeconfig{
			Name: authorizerName(each), ContextName: each.Name + "-authorization-webhook",
			Cluster: secretconfig.Cluster{Server: each.URL(), CAData: in.Secrets.GardenerAuthority},
		}.Generate(secretconfig.Source{})
		if err != nil {
			return nil, fmt.Errorf("render kubeconfig of %s: %w", authorizerName(each), err)
		}
		kubeconfigs[authorizerFile(authorizerName(each))] = generated[secretconfig.DataKeyKubeconfig]
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
	data := map[string]string{configFile: string(text)}
	return []apiserver.Part{
		{
			Volume: "authorization-config", Folder: authorizationFolder,
			Object: object.Owner{Namespace: v.Namespace}.UniqueConfigMap("kube-apiserver-authorization-config", data),
			Args:   []string{"--authorization-config=" + authorizationFolder + "/" + configFile},
		},
		{
			Volume: "authorization-kubeconfigs", Folder: authorizationKubeconfigsFolder, Private: true,
			Object: object.UniqueSecret(v.Namespace, "kube-apiserver-authorization-webhooks-kubeconfigs", nil, kubeconfigs),
		},
	}, nil
}

// gardenerWebhook returns the settings of a webhook whose answers are not kept, because they change with every Shoot.
func gardenerWebhook(v values.Values, a gardeneradmission.Authorizer) *AuthorizerWebhook {
	// The shortest duration, because 0 stands for the default.
	shortest := metav1.Duration{Duration: time.Nanosecond}
	webhook := &AuthorizerWebhook{
		AuthorizedTTL: shortest, UnauthorizedTTL: shortest, Timeout: metav1.Duration{Duration: webhookTimeout},
		SubjectAccessReviewVersion: "v1", MatchConditionSubjectAccessReviewVersion: "v1", FailurePolicy: "Deny",
		ConnectionInfo:  connection(authorizerName(a)),
		MatchConditions: []MatchCondition{{Expression: a.Condition("request.groups", "request.user")}},
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
	return authorizer + "-" + apiserver.KubeconfigFile
}
