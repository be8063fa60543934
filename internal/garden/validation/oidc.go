package validation

import (
	"net/url"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/util/cert"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// signingAlgorithms are the signing algorithms for tokens that kube-apiserver accepts, and none, which Gardener accepts.
var signingAlgorithms = []string{"ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512", "none"}

func oidcConfig(path *field.Path, settings *operatorv1alpha1.KubeAPIServer) field.ErrorList {
	config := oldOIDCConfig(settings)
	if config == nil {
		return nil
	}
	var found field.ErrorList
	if config.ClientID != nil && *config.ClientID == "" {
		found = append(found, field.Invalid(path.Child("clientID"), "", "clientID must not be empty if it is set"))
	}
	if config.IssuerURL != nil {
		found = append(found, issuerURL(path.Child("issuerURL"), *config.IssuerURL)...)
	}
	if config.ClientID == nil && config.IssuerURL != nil {
		found = append(found, field.Invalid(path.Child("clientID"), "", "clientID must be set if issuerURL is set"))
	}
	if config.ClientID != nil && config.IssuerURL == nil {
		found = append(found, field.Invalid(path.Child("issuerURL"), "", "issuerURL must be set if clientID is set"))
	}
	if config.CABundle != nil {
		if _, err := cert.ParseCertsPEM([]byte(*config.CABundle)); err != nil {
			found = append(found, field.Invalid(path.Child("caBundle"), *config.CABundle, "must be PEM certificates"))
		}
	}
	for _, each := range []struct {
		name  string
		value *string
	}{
		{"groupsClaim", config.GroupsClaim},
		{"groupsPrefix", config.GroupsPrefix},
		{"usernameClaim", config.UsernameClaim},
		{"usernamePrefix", config.UsernamePrefix},
	} {
		if each.value != nil && *each.value == "" {
			found = append(found, field.Invalid(path.Child(each.name), "", each.name+" must not be empty if it is set"))
		}
	}
	for i, algorithm := range config.SigningAlgs {
		found = append(found, oneOf(path.Child("signingAlgs").Index(i), algorithm, signingAlgorithms...)...)
	}
	return found
}

func issuerURL(path *field.Path, text string) field.ErrorList {
	if text == "" {
		return field.ErrorList{field.Invalid(path, text, "issuerURL must not be empty if it is set")}
	}
	parsed, err := url.Parse(text)
	switch {
	case err != nil || parsed.Host == "":
		return field.ErrorList{field.Invalid(path, text, "must be a URL with a host")}
	case parsed.Scheme != "https":
		return field.ErrorList{field.Invalid(path, text, "must have the scheme https")}
	}
	return nil
}
