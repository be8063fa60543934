package config

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/url"
	"strings"
	"time"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"
)

// minClientCertificateValidity is the shortest validity that the signer of Kubernetes accepts.
const minClientCertificateValidity = 10 * time.Minute

// Validate reports every mistake in a defaulted configuration with the path of its field. It returns nil if there is none.
func (c *GardenletConfiguration) Validate() field.ErrorList {
	garden := field.NewPath("gardenClientConnection")
	const whole = "the process needs objects of all namespaces"
	errs := validateWholeConnection(c.GardenClientConnection.ClientConnection, whole, garden)
	errs = append(errs, validateGardenConnection(c.GardenClientConnection, garden)...)
	errs = append(errs, validateWholeConnection(c.SeedClientConnection, whole, field.NewPath("seedClientConnection"))...)
	errs = append(errs, validateProcess(c.Process())...)
	errs = append(errs, validatePorts(nil, c.Process().Server, nil)...)
	controllers := field.NewPath("controllers")
	errs = append(errs,
		validateWorkers(c.Controllers.ControllerInstallation.ConcurrentSyncs, controllers.Child("controllerInstallation"))...)
	care := controllers.Child("controllerInstallationCare")
	errs = append(errs, validateWorkers(c.Controllers.ControllerInstallationCare.ConcurrentSyncs, care)...)
	errs = append(errs, validateSyncPeriod(c.Controllers.ControllerInstallationCare.SyncPeriod, care)...)
	errs = append(errs,
		validateWorkers(c.Controllers.ControllerInstallationRequired.ConcurrentSyncs, controllers.Child("controllerInstallationRequired"))...)
	if name := c.SeedConfig.Metadata.Name; name != "" {
		// The Seed has a namespace in the garden cluster, whose name contains the name of the Seed.
		errs = append(errs, invalid(field.NewPath("seedConfig", "metadata", "name"), name, validation.IsDNS1123Label("seed-"+name))...)
	}
	own := field.NewPath("espalier", "extension")
	if version := c.Espalier.Extension.GardenerVersion; version != "" {
		if _, err := utilversion.ParseSemantic(version); err != nil {
			errs = append(errs, field.Invalid(own.Child("gardenerVersion"), version, "must be a semantic version, such as v1.149.3"))
		}
	}
	return append(errs, validateChartPolicy(c.Espalier.Extension.ChartPolicy, own.Child("chartPolicy"))...)
}

func validateGardenConnection(c GardenClientConnection, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if address := ptr.Deref(c.GardenClusterAddress, "https://a"); !isAddress(address) {
		errs = append(errs, field.Invalid(at.Child("gardenClusterAddress"), address, "must be https://host or https://host:port"))
	}
	if len(c.GardenClusterCACert) > 0 && !isAuthority(c.GardenClusterCACert) {
		errs = append(errs, field.Invalid(at.Child("gardenClusterCACert"), "", "must be certificates in PEM format"))
	}
	if c.BootstrapKubeconfig != nil {
		errs = append(errs, validateSecretReference(*c.BootstrapKubeconfig, at.Child("bootstrapKubeconfig"))...)
	}
	switch {
	case c.KubeconfigSecret != nil:
		errs = append(errs, validateSecretReference(*c.KubeconfigSecret, at.Child("kubeconfigSecret"))...)
		if c.BootstrapKubeconfig != nil && *c.BootstrapKubeconfig == *c.KubeconfigSecret {
			errs = append(errs, field.Invalid(at.Child("bootstrapKubeconfig"), c.BootstrapKubeconfig.Name,
				"is kubeconfigSecret too, and is deleted after use: name another Secret"))
		}
	case c.BootstrapKubeconfig != nil:
		errs = append(errs, field.Required(at.Child("kubeconfigSecret"), "must name the Secret for the certificate that is requested with "+
			"bootstrapKubeconfig"))
	}
	return append(errs, validateKubeconfigValidity(c.KubeconfigValidity, at.Child("kubeconfigValidity"))...)
}

func isAddress(address string) bool {
	parsed, err := url.Parse(address)
	return err == nil && parsed.Scheme == "https" && parsed.Host != "" && *parsed == url.URL{Scheme: "https", Host: parsed.Host}
}

func isAuthority(text []byte) bool {
	for rest := text; strings.TrimSpace(string(rest)) != ""; {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		if block == nil || block.Type != "CERTIFICATE" {
			return false
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return false
		}
	}
	return true
}

func validateSecretReference(c SecretReference, at *field.Path) field.ErrorList {
	errs := invalid(at.Child("name"), c.Name, apivalidation.NameIsDNSSubdomain(c.Name, false))
	return append(errs, invalid(at.Child("namespace"), c.Namespace, apivalidation.ValidateNamespaceName(c.Namespace, false))...)
}

func validateKubeconfigValidity(c KubeconfigValidity, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if c.Validity != nil {
		errs = validateAtLeast(c.Validity, minClientCertificateValidity, at.Child("validity"))
	}
	least := ptr.Deref(c.AutoRotationJitterPercentageMin, defaultJitterMin)
	most := ptr.Deref(c.AutoRotationJitterPercentageMax, defaultJitterMax)
	if least < 1 {
		errs = append(errs, field.Invalid(at.Child("autoRotationJitterPercentageMin"), least, "must be at least 1"))
	}
	if most > 100 {
		errs = append(errs, field.Invalid(at.Child("autoRotationJitterPercentageMax"), most, "must be at most 100"))
	}
	if least >= most {
		errs = append(errs,
			field.Invalid(at.Child("autoRotationJitterPercentageMin"), least, "must be less than autoRotationJitterPercentageMax"))
	}
	return errs
}

func validateChartPolicy(c EspalierChartPolicy, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, list := range []struct {
		name    string
		entries []string
		valid   func(string) bool
		rule    string
	}{
		{"kinds", c.Kinds, isKind, "must be Kind or Kind.group"},
		{"clusterKinds", c.ClusterKinds, isKind, "must be Kind or Kind.group"},
		{"namespaces", c.Namespaces, isNamespace, "must be the name of a namespace"},
		{"clusterRoles", c.ClusterRoles, isRoleName, "must be the name of a ClusterRole"},
	} {
		errs = append(errs, validateEach(list.entries, at.Child(list.name), list.valid, list.rule)...)
	}
	if c.SignatureKeys != nil && len(c.SignatureKeys) == 0 {
		errs = append(errs, field.Required(at.Child("signatureKeys"), "must not be empty; remove the key to verify no signatures"))
	}
	for i, key := range c.SignatureKeys {
		if block, _ := pem.Decode([]byte(key)); block == nil || block.Type != "PUBLIC KEY" {
			errs = append(errs, field.Invalid(at.Child("signatureKeys").Index(i), "", "must be a public key in PEM format"))
		} else if _, err := x509.ParsePKIXPublicKey(block.Bytes); err != nil {
			errs = append(errs, field.Invalid(at.Child("signatureKeys").Index(i), "", fmt.Sprintf("must be a public key: %v", err)))
		}
	}
	return errs
}

func isKind(text string) bool {
	kind, group, _ := strings.Cut(text, ".")
	return len(validation.IsDNS1035Label(strings.ToLower(kind))) == 0 && kind != strings.ToLower(kind) &&
		(group == "" || len(validation.IsDNS1123Subdomain(group)) == 0)
}

func isNamespace(text string) bool { return len(apivalidation.ValidateNamespaceName(text, false)) == 0 }

func isRoleName(text string) bool { return text != "" && !strings.ContainsAny(text, "/%*") }
