package validation

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/versions"
)

// Warnings returns a sentence for each part of a Garden that is deprecated or has no effect, in the order of the spec. The webhook returns
// these sentences to the client, even if it denies the Garden. Available are the Extensions of the runtime cluster.
func Warnings(g *operatorv1alpha1.Garden, available []operatorv1alpha1.Extension) []string {
	const runtime, virtual = "spec.runtimeCluster", "spec.virtualCluster"
	all := runtimeClusterWarnings(runtime, g)
	all = append(all, domainWarnings(virtual+".dns", g.Spec.VirtualCluster.DNS.Domains, g.Spec.DNS)...)
	all = append(all, backupWarnings(g, available)...)
	all = append(all, gardenerWarnings(virtual+".gardener", g.Spec.VirtualCluster.Gardener)...)
	all = append(all, kubeAPIServerWarnings(virtual+".kubernetes.kubeAPIServer", g.Spec.VirtualCluster.Kubernetes.KubeAPIServer)...)
	if manager := g.Spec.VirtualCluster.Kubernetes.KubeControllerManager; manager != nil && manager.NodeCIDRMaskSizeIPv6 != nil {
		all = append(all, withoutEffect(virtual+".kubernetes.kubeControllerManager.nodeCIDRMaskSizeIPv6"))
	}
	return all
}

func runtimeClusterWarnings(path string, g *operatorv1alpha1.Garden) []string {
	cluster := g.Spec.RuntimeCluster
	var all []string
	if hasOldCertManagement(cluster) {
		all = append(all, withoutEffect(path+".certManagement"))
	}
	if oldIngressDomain(cluster.Ingress) != nil {
		all = append(all, fmt.Sprintf("%s.ingress.domain is deprecated, use %s.ingress.domains", path, path))
	}
	all = append(all, domainWarnings(path+".ingress", cluster.Ingress.Domains, g.Spec.DNS)...)
	if main, _ := etcdSettings(g); cluster.Provider.Region != nil && (main.Backup == nil || !main.Backup.CreatesBucket()) {
		all = append(all, path+".provider.region has no effect, because the operator creates no bucket for backups")
	}
	if slices.Equal(cluster.Networking.IPFamilies, []corev1.IPFamily{corev1.IPv6Protocol}) {
		all = append(all, path+".networking.ipFamilies has an effect only with both families: Services get the family of the runtime cluster")
	}
	if settings := cluster.Settings; settings != nil && settings.VerticalPodAutoscaler != nil {
		all = append(all, retiredGates(path+".settings.verticalPodAutoscaler", settings.VerticalPodAutoscaler.FeatureGates,
			versions.RetiredVPAFeatureGate)...)
	}
	return all
}

func domainWarnings(path string, domains []operatorv1alpha1.Domain, dns *operatorv1alpha1.DNSManagement) []string {
	var all []string
	for i := range domains {
		if domains[i].Provider != nil && dns == nil {
			all = append(all, fmt.Sprintf("%s.domains[%d].provider has no effect without spec.dns", path, i))
		}
	}
	return all
}

func backupWarnings(g *operatorv1alpha1.Garden, available []operatorv1alpha1.Extension) []string {
	main, _ := etcdSettings(g)
	if main.Backup == nil {
		return nil
	}
	var all []string
	const unused = " has no effect, because the operator does not create the bucket that bucketName names"
	if main.Backup.Region != nil && !main.Backup.CreatesBucket() {
		all = append(all, backupPath+".region"+unused)
	}
	if main.Backup.ProviderConfig != nil && !main.Backup.CreatesBucket() {
		all = append(all, backupPath+".providerConfig"+unused)
	}
	if problem := IncompleteBackup(g, available); problem != "" {
		all = append(all, problem)
	}
	return all
}

func gardenerWarnings(path string, gardener operatorv1alpha1.Gardener) []string {
	var all []string
	server := ptr.Deref(gardener.APIServer, operatorv1alpha1.GardenerAPIServer{})
	if sizes := server.WatchCacheSizes; sizes != nil && sizes.Default != nil {
		all = append(all, notYet(path+".gardenerAPIServer.watchCacheSizes.default"))
	}
	all = append(all, auditWarnings(path+".gardenerAPIServer", server.AuditConfig, server.AuditWebhook)...)
	all = append(all, retiredGates(path+".gardenerAPIServer", server.FeatureGates, versions.RetiredGardenerFeatureGate)...)
	for i, plugin := range server.AdmissionPlugins {
		if versions.RetiredGardenerAdmissionPlugin(plugin.Name) {
			all = append(all, withoutEffect(fmt.Sprintf("%s.gardenerAPIServer.admissionPlugins[%d]: %s", path, i, plugin.Name)))
		}
	}
	manager := ptr.Deref(gardener.ControllerManager, operatorv1alpha1.GardenerControllerManager{})
	all = append(all, retiredGates(path+".gardenerControllerManager", manager.FeatureGates, versions.RetiredGardenerFeatureGate)...)
	scheduler := ptr.Deref(gardener.Scheduler, operatorv1alpha1.GardenerScheduler{})
	all = append(all, retiredGates(path+".gardenerScheduler", scheduler.FeatureGates, versions.RetiredGardenerFeatureGate)...)
	if gardener.Dashboard != nil {
		all = append(all, path+".gardenerDashboard has no effect, this operator does not deploy the dashboard")
	}
	if gardener.DiscoveryServer != nil {
		all = append(all, path+".gardenerDiscoveryServer has no effect, this operator does not deploy the discovery server")
	}
	return all
}

// auditWarnings returns a warning if an API server has an audit webhook and no audit policy: it then records no events for the webhook.
func auditWarnings(path string, audit *operatorv1alpha1.AuditConfig, webhook *operatorv1alpha1.AuditWebhook) []string {
	if webhook == nil || audit.PolicyRef() != nil {
		return nil
	}
	return []string{path + ".auditWebhook has no effect without auditConfig.auditPolicy.configMapRef"}
}

func retiredGates(path string, gates map[string]bool, retired func(name string) bool) []string {
	var all []string
	for _, name := range sortedKeys(gates) {
		if retired(name) {
			all = append(all, withoutEffect(path+".featureGates."+name))
		}
	}
	return all
}

func withoutEffect(subject string) string { return subject + " has no effect, remove it" }

// notYet is for fields that no program of this release reads.
func notYet(field string) string { return field + " has no effect in this release" }

func kubeAPIServerWarnings(path string, server *operatorv1alpha1.KubeAPIServer) []string {
	if server == nil {
		return nil
	}
	var all []string
	if set := server.EnableAnonymousAuthentication; set != nil && *set {
		// There is no warning for the value false: below Kubernetes 1.35, it is the default that the operator sets, so users cannot avoid it.
		all = append(all, fmt.Sprintf("%s.enableAnonymousAuthentication is deprecated and not supported for Kubernetes 1.%d and later, "+
			"use anonymous in the AuthenticationConfiguration of structuredAuthentication", path, fieldsGoneFrom))
	}
	if ttl := server.EventTTL; ttl != nil && ttl.Duration > longestEventTTL {
		all = append(all, path+".eventTTL can not be longer than 24h")
	}
	if config := oldOIDCConfig(server); config != nil {
		all = append(all, fmt.Sprintf("%s.oidcConfig is deprecated, use structuredAuthentication with %s",
			path, authenticationConfiguration(*config)))
		if config.ClientAuthentication != nil {
			all = append(all, notYet(path+".oidcConfig.clientAuthentication"))
		}
	}
	all = append(all, auditWarnings(path, server.AuditConfig, server.AuditWebhook)...)
	if sizes := server.WatchCacheSizes; sizes != nil && sizes.Default != nil {
		all = append(all, fmt.Sprintf("%s.watchCacheSizes.default is deprecated and not supported for Kubernetes 1.%d and later",
			path, fieldsGoneFrom), notYet(path+".watchCacheSizes.default"))
	}
	return all
}

// Parts of an AuthenticationConfiguration.
type (
	jwtConfiguration struct {
		APIVersion string             `json:"apiVersion"`
		Kind       string             `json:"kind"`
		JWT        []jwtAuthenticator `json:"jwt"`
	}
	jwtAuthenticator struct {
		Issuer        jwtIssuer       `json:"issuer"`
		ClaimMappings jwtMappings     `json:"claimMappings"`
		ClaimRules    []requiredClaim `json:"claimValidationRules,omitempty"`
	}
	jwtIssuer struct {
		URL                  string   `json:"url"`
		Audiences            []string `json:"audiences"`
		CertificateAuthority string   `json:"certificateAuthority,omitempty"`
	}
	jwtMappings struct {
		Username jwtMapping  `json:"username"`
		Groups   *jwtMapping `json:"groups,omitempty"`
	}
	jwtMapping struct {
		Claim  string `json:"claim"`
		Prefix string `json:"prefix"`
	}
	requiredClaim struct {
		Claim         string `json:"claim"`
		RequiredValue string `json:"requiredValue"`
	}
)

// authenticationConfiguration returns the AuthenticationConfiguration for an OpenID Connect provider, in one line. It leaves out
// certificates because they are long. It leaves out signing algorithms because an AuthenticationConfiguration has no field for them.
func authenticationConfiguration(config operatorv1alpha1.OIDCConfig) string {
	username := jwtMapping{Claim: ptr.Deref(config.UsernameClaim, "sub")}
	// If the settings contain no prefix, kube-apiserver uses the issuer and "#" as the prefix of user names, unless the user names come from
	// the claim email. The setting "-" means that user names have no prefix.
	switch prefix := ptr.Deref(config.UsernamePrefix, ""); {
	case prefix == "" && username.Claim != "email":
		username.Prefix = ptr.Deref(config.IssuerURL, "") + "#"
	case prefix != "-":
		username.Prefix = prefix
	}
	authenticator := jwtAuthenticator{
		Issuer:        jwtIssuer{URL: ptr.Deref(config.IssuerURL, ""), Audiences: []string{ptr.Deref(config.ClientID, "")}},
		ClaimMappings: jwtMappings{Username: username},
	}
	if config.CABundle != nil {
		authenticator.Issuer.CertificateAuthority = "the value of caBundle"
	}
	if config.GroupsClaim != nil {
		authenticator.ClaimMappings.Groups = &jwtMapping{Claim: *config.GroupsClaim, Prefix: ptr.Deref(config.GroupsPrefix, "")}
	}
	for _, claim := range sortedKeys(config.RequiredClaims) {
		authenticator.ClaimRules = append(authenticator.ClaimRules, requiredClaim{Claim: claim, RequiredValue: config.RequiredClaims[claim]})
	}
	text, err := json.Marshal(jwtConfiguration{
		APIVersion: "apiserver.config.k8s.io/v1beta1", Kind: "AuthenticationConfiguration", JWT: []jwtAuthenticator{authenticator},
	})
	if err != nil {
		return "an AuthenticationConfiguration"
	}
	return string(text)
}
