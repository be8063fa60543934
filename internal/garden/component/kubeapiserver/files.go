package kubeapiserver

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/garden/component/apiserver"
)

// The kinds of the configuration files of kube-apiserver.
const (
	// inV1Beta1 is the version of files for authentication and authorization that all supported versions of Kubernetes read.
	inV1Beta1 = apiserver.ConfigGroup + "/v1beta1"

	authenticationKind = "AuthenticationConfiguration"
	authorizationKind  = "AuthorizationConfiguration"
)

type authorizationConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	Authorizers []Authorizer `json:"authorizers"`
}

// Authorizer is an entry of an AuthorizationConfiguration.
type Authorizer struct {
	Type    string             `json:"type"`
	Name    string             `json:"name"`
	Webhook *AuthorizerWebhook `json:"webhook,omitempty"`
}

// AuthorizerWebhook is the configuration with which an authorizer asks a webhook.
type AuthorizerWebhook struct {
	AuthorizedTTL                            metav1.Duration  `json:"authorizedTTL"`
	CacheAuthorizedRequests                  *bool            `json:"cacheAuthorizedRequests,omitempty"`
	UnauthorizedTTL                          metav1.Duration  `json:"unauthorizedTTL"`
	CacheUnauthorizedRequests                *bool            `json:"cacheUnauthorizedRequests,omitempty"`
	Timeout                                  metav1.Duration  `json:"timeout"`
	SubjectAccessReviewVersion               string           `json:"subjectAccessReviewVersion"`
	MatchConditionSubjectAccessReviewVersion string           `json:"matchConditionSubjectAccessReviewVersion,omitempty"`
	FailurePolicy                            string           `json:"failurePolicy"`
	ConnectionInfo                           ConnectionInfo   `json:"connectionInfo"`
	MatchConditions                          []MatchCondition `json:"matchConditions,omitempty"`
}

func (w AuthorizerWebhook) hasCacheSwitches() bool {
	return w.CacheAuthorizedRequests != nil || w.CacheUnauthorizedRequests != nil
}

// ConnectionInfo names the kubeconfig with the address of a webhook.
type ConnectionInfo struct {
	Type           string `json:"type"`
	KubeConfigFile string `json:"kubeConfigFile"`
}

// MatchCondition is a condition, in CEL, that a request must satisfy for the API server to ask a webhook about it.
type MatchCondition struct {
	Expression string `json:"expression"`
}

// authenticationConfiguration is decoded to check the file of a user, which kube-apiserver gets as it is.
type authenticationConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	JWT []struct {
		Issuer struct {
			URL                  string   `json:"url"`
			DiscoveryURL         string   `json:"discoveryURL"`
			CertificateAuthority string   `json:"certificateAuthority"`
			Audiences            []string `json:"audiences"`
			AudienceMatchPolicy  string   `json:"audienceMatchPolicy"`
			EgressSelectorType   string   `json:"egressSelectorType"`
		} `json:"issuer"`
		ClaimValidationRules []struct {
			Claim         string `json:"claim"`
			RequiredValue string `json:"requiredValue"`
			Expression    string `json:"expression"`
			Message       string `json:"message"`
		} `json:"claimValidationRules"`
		ClaimMappings struct {
			Username claimMapping `json:"username"`
			Groups   claimMapping `json:"groups"`
			UID      claimMapping `json:"uid"`
			Extra    []struct {
				Key             string `json:"key"`
				ValueExpression string `json:"valueExpression"`
			} `json:"extra"`
		} `json:"claimMappings"`
		UserValidationRules []struct {
			Expression string `json:"expression"`
			Message    string `json:"message"`
		} `json:"userValidationRules"`
	} `json:"jwt"`
	Anonymous *struct {
		Enabled    bool `json:"enabled"`
		Conditions []struct {
			Path string `json:"path"`
		} `json:"conditions"`
	} `json:"anonymous"`
}

type claimMapping struct {
	Claim      string  `json:"claim"`
	Prefix     *string `json:"prefix"`
	Expression string  `json:"expression"`
}
