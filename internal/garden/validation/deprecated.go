package validation

import operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"

// The only uses of deprecated fields, which are validated as long as they are in the API.

func oldIngressDomain(ingress operatorv1alpha1.Ingress) *string {
	return ingress.Domain //nolint:staticcheck // see above
}

func oldOIDCConfig(server *operatorv1alpha1.KubeAPIServer) *operatorv1alpha1.OIDCConfig {
	return server.OIDCConfig //nolint:staticcheck // see above
}

func hasOldCertManagement(cluster operatorv1alpha1.RuntimeCluster) bool {
	return cluster.CertManagement != nil //nolint:staticcheck // see above
}
