package gardenlets

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	seedmanagementv1alpha1 "github.com/espalier-dev/espalier/api/seedmanagement/v1alpha1"
	"github.com/espalier-dev/espalier/internal/chart"
	"github.com/espalier-dev/espalier/internal/garden/charts"
)

// reachesVirtual is a label of Pods that connect to the API server of the virtual cluster inside the runtime cluster.
const reachesVirtual = "networking.resources.gardener.cloud/to-virtual-garden-kube-apiserver-tcp-443"

// settings are the parts of a GardenletConfiguration that the operator reads.
type settings struct {
	// address is the address of the virtual cluster that gardenlet uses.
	address string
	// kubeconfig and bootstrap are the Secrets with the kubeconfig of gardenlet, and with the kubeconfig by which it requests the former.
	kubeconfig, bootstrap client.ObjectKey
	// backup is the Secret in the virtual cluster with the credentials for the backups of the Seed. It is nil if there is no such Secret.
	backup *client.ObjectKey
}

// settingsOf reads the configuration of a Gardenlet. The parameter address is the default address of the virtual cluster. The Secrets with
// kubeconfigs must be in the given namespace, and their names must begin with secretPrefix, because the operator deletes and replaces
// these Secrets.
func settingsOf(g *seedmanagementv1alpha1.Gardenlet, address, namespace string) (settings, error) {
	var read struct {
		GardenClientConnection struct {
			GardenClusterAddress string                  `json:"gardenClusterAddress"`
			Kubeconfig           string                  `json:"kubeconfig"`
			KubeconfigSecret     *corev1.SecretReference `json:"kubeconfigSecret"`
			BootstrapKubeconfig  *corev1.SecretReference `json:"bootstrapKubeconfig"`
		} `json:"gardenClientConnection"`
		SeedClientConnection struct {
			Kubeconfig string `json:"kubeconfig"`
		} `json:"seedClientConnection"`
		SeedConfig *struct {
			Spec struct {
				Backup *struct {
					CredentialsRef corev1.ObjectReference `json:"credentialsRef"`
				} `json:"backup"`
			} `json:"spec"`
		} `json:"seedConfig"`
	}
	if len(g.Spec.Config.Raw) > 0 {
		if err := json.Unmarshal(g.Spec.Config.Raw, &read); err != nil {
			return settings{}, charts.Mistakef("spec.config: decode GardenletConfiguration: %w", err)
		}
	}
	garden := read.GardenClientConnection
	switch {
	case read.SeedConfig == nil:
		return settings{}, charts.Mistakef("spec.config.seedConfig is missing; add the spec of the Seed")
	case garden.Kubeconfig != "":
		return settings{}, charts.Mistakef("spec.config.gardenClientConnection.kubeconfig: the chart has no such file; remove the field")
	case read.SeedClientConnection.Kubeconfig != "":
		return settings{}, charts.Mistakef("spec.config.seedClientConnection.kubeconfig: the chart has no such file; remove the field")
	}
	s := settings{
		address:    cmp.Or(garden.GardenClusterAddress, address),
		kubeconfig: client.ObjectKey{Namespace: namespace, Name: secretPrefix},
		bootstrap:  client.ObjectKey{Namespace: namespace, Name: secretPrefix + "-bootstrap"},
	}
	for _, each := range []struct {
		field string
		given *corev1.SecretReference
		into  *client.ObjectKey
	}{{"kubeconfigSecret", garden.KubeconfigSecret, &s.kubeconfig}, {"bootstrapKubeconfig", garden.BootstrapKubeconfig, &s.bootstrap}} {
		if each.given == nil {
			continue
		}
		if *each.into = keyOf(each.given); each.into.Namespace != namespace || !strings.HasPrefix(each.into.Name, secretPrefix) {
			return settings{}, charts.Mistakef("spec.config.gardenClientConnection.%s: the namespace must be %s, and the name must begin with %s",
				each.field, namespace, secretPrefix)
		}
	}
	if s.kubeconfig == s.bootstrap {
		return settings{}, charts.Mistakef("spec.config.gardenClientConnection: kubeconfigSecret and bootstrapKubeconfig are the same Secret")
	}
	if backup := read.SeedConfig.Spec.Backup; backup != nil && backup.CredentialsRef.Kind == "Secret" {
		s.backup = &client.ObjectKey{Namespace: backup.CredentialsRef.Namespace, Name: backup.CredentialsRef.Name}
	}
	return s, nil
}

// seedIn returns the name of the Seed in a GardenletConfiguration in YAML, "" if it cannot be read.
func seedIn(config string) string {
	var read struct {
		SeedConfig struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
		} `json:"seedConfig"`
	}
	if err := yaml.Unmarshal([]byte(config), &read); err != nil {
		return ""
	}
	return read.SeedConfig.Metadata.Name
}

// inputs are the inputs of the values besides the Gardenlet and its settings.
type inputs struct {
	namespace string
	// image is the image of gardenlet if the Gardenlet names none.
	image string
	// bootstrap is the content of the kubeconfig for the first connection; "" if gardenlet has its own kubeconfig already.
	bootstrap string
	// isGarden is true if the cluster is the runtime cluster of a Garden.
	isGarden bool
	// backup are the contents of the Secret for backups.
	backup map[string][]byte
}

// valuesOf returns the values of the chart. Deployment and config are the fields of a Gardenlet, and are not changed.
func valuesOf(name string, deployment, config map[string]any, s settings, in inputs) (chart.Values, error) {
	values := runtime.DeepCopyJSON(deployment)
	delete(values, "helm")
	delete(values, "componentImageVectorOverwrite")
	if given, has := deployment["componentImageVectorOverwrite"]; has {
		values["componentImageVectorOverwrites"] = given
	}
	values["image"] = imageOf(child(values, "image"), in.image)
	if in.isGarden {
		labels := child(values, "podLabels")
		if _, has := labels[reachesVirtual]; !has {
			labels[reachesVirtual] = "allowed"
		}
	}
	if s.backup != nil {
		child(values, "podAnnotations")["checksum/seed-backup-secret"] = s.backup.Name + "-" + checksum(in.backup)[:8]
	}
	own := runtime.DeepCopyJSON(config)
	child(child(own, "seedConfig"), "metadata")["name"] = name
	child(own, "leaderElection")["resourceNamespace"] = in.namespace
	garden := child(own, "gardenClientConnection")
	garden["gardenClusterAddress"] = s.address
	garden["kubeconfigSecret"] = map[string]any{"namespace": s.kubeconfig.Namespace, "name": s.kubeconfig.Name}
	delete(garden, "bootstrapKubeconfig")
	if in.bootstrap != "" {
		garden["bootstrapKubeconfig"] = map[string]any{
			"namespace": s.bootstrap.Namespace, "name": s.bootstrap.Name, "kubeconfig": in.bootstrap,
		}
	}
	values["config"] = own
	encoded, err := json.Marshal(values)
	if err != nil {
		return nil, fmt.Errorf("encode values: %w", err)
	}
	return chart.Values{encoded}, nil
}

// child returns the object of a field, and adds it if it is missing.
func child(of map[string]any, field string) map[string]any {
	found, ok := of[field].(map[string]any)
	if !ok {
		found = map[string]any{}
		of[field] = found
	}
	return found
}

// imageOf completes the image of a Gardenlet by a reference. Without it, the chart would use the tag latest.
func imageOf(given map[string]any, reference string) map[string]any {
	if ref, _ := given["ref"].(string); ref != "" {
		return given
	}
	repository, tag, hasDigest := strings.Cut(reference, "@")
	if at := strings.LastIndex(reference, ":"); !hasDigest && at > strings.LastIndex(reference, "/") {
		repository, tag = reference[:at], reference[at+1:]
	}
	for field, value := range map[string]string{"repository": repository, "tag": tag} {
		if set, _ := given[field].(string); set == "" {
			given[field] = value
		}
	}
	return given
}

// checksum returns the checksum of the contents of a Secret, calculated in the same way as in gardenlet. With another checksum, the first
// upgrade of gardenlet by itself would replace its Pods.
func checksum(data map[string][]byte) string {
	all := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(data)) {
		each := sha256.Sum256(data[key])
		all.Write([]byte(hex.EncodeToString(each[:])))
	}
	return hex.EncodeToString(all.Sum(nil))
}
