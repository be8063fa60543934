package v1alpha1_test

import (
	"testing"

	. "github.com/onsi/gomega"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// The values are the contract with everyone who writes or reads token Secrets, so they are spelled out.
func TestTokenNames(t *testing.T) {
	for want, got := range map[string]string{
		"resources.gardener.cloud/purpose":                                  resourcesv1alpha1.ResourcePurpose,
		"token-requestor":                                                   resourcesv1alpha1.PurposeTokenRequestor,
		"token-invalidator":                                                 resourcesv1alpha1.PurposeTokenInvalidator,
		"resources.gardener.cloud/class":                                    resourcesv1alpha1.ResourceClass,
		"serviceaccount.resources.gardener.cloud/name":                      resourcesv1alpha1.ServiceAccountName,
		"serviceaccount.resources.gardener.cloud/namespace":                 resourcesv1alpha1.ServiceAccountNamespace,
		"serviceaccount.resources.gardener.cloud/labels":                    resourcesv1alpha1.ServiceAccountLabels,
		"serviceaccount.resources.gardener.cloud/token-expiration-duration": resourcesv1alpha1.ServiceAccountTokenExpirationDuration,
		"serviceaccount.resources.gardener.cloud/inject-ca-bundle":          resourcesv1alpha1.ServiceAccountInjectCABundle,
		"serviceaccount.resources.gardener.cloud/token-renew-timestamp":     resourcesv1alpha1.ServiceAccountTokenRenewTimestamp,
		"token-requestor.resources.gardener.cloud/target-secret-name":       resourcesv1alpha1.TokenRequestorTargetSecretName,
		"token-requestor.resources.gardener.cloud/target-secret-namespace":  resourcesv1alpha1.TokenRequestorTargetSecretNamespace,
		"token-invalidator.resources.gardener.cloud/skip":                   resourcesv1alpha1.StaticTokenSkip,
		"token-invalidator.resources.gardener.cloud/consider":               resourcesv1alpha1.StaticTokenConsider,
		"espalier.dev/token-audiences":                                      resourcesv1alpha1.TokenAudiences,
		"espalier.dev/renew-token":                                          resourcesv1alpha1.RenewToken,
		"token":                                                             resourcesv1alpha1.DataKeyToken,
		"kubeconfig":                                                        resourcesv1alpha1.DataKeyKubeconfig,
		"bundle.crt":                                                        resourcesv1alpha1.DataKeyCABundle,
	} {
		NewWithT(t).Expect(got).To(Equal(want))
	}
}
