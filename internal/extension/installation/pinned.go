package installation

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

// pinned is the provider status of an installation: the chart that was resolved. A chart in a registry keeps its digest until the
// ControllerDeployment names another reference, so that a moved tag changes nothing.
type pinned struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Reference is the reference in the ControllerDeployment; "" for a raw chart.
	Reference string `json:"reference,omitempty"`
	// Digest is the digest of the manifest in the registry, or of the archive of a raw chart.
	Digest string `json:"digest"`
}

const (
	pinnedVersion = "extension.espalier.dev/v1alpha1"
	pinnedKind    = "ResolvedChart"
)

// pinnedChart reads the provider status; the zero value stands for an installation whose chart was not resolved yet.
func pinnedChart(status corev1beta1.ControllerInstallationStatus) (pinned, error) {
	var p pinned
	if status.ProviderStatus == nil || len(status.ProviderStatus.Raw) == 0 || string(status.ProviderStatus.Raw) == "null" {
		return p, nil
	}
	if json.Unmarshal(status.ProviderStatus.Raw, &p) != nil || p.APIVersion != pinnedVersion || p.Kind != pinnedKind {
		return pinned{}, errors.New("status.providerStatus was written by another program, so the digest of the chart cannot be recorded there")
	}
	return p, nil
}

// digestFor returns the digest to pull for a reference; "" if the reference must be resolved. A digest in the reference takes precedence
// over the recorded digest, because any client that writes the status can change the recorded digest.
func (p pinned) digestFor(reference string) string {
	if _, digest, found := strings.Cut(reference, "@"); found {
		return digest
	}
	if reference == "" || p.Reference != reference {
		return ""
	}
	return p.Digest
}

// pin records a resolved chart.
func pin(status *corev1beta1.ControllerInstallationStatus, reference, digest string) error {
	encoded, err := json.Marshal(pinned{APIVersion: pinnedVersion, Kind: pinnedKind, Reference: reference, Digest: digest})
	if err != nil {
		return fmt.Errorf("encode resolved chart: %w", err)
	}
	status.ProviderStatus = &runtime.RawExtension{Raw: encoded}
	return nil
}
