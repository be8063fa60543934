package validation

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/espalier-dev/espalier/internal/garden/versions"
)

var (
	// requiredAPIs are the APIs that clusters without nodes need, in the form <version>, <group>/<version>, or <group>/<version>/<resource>.
	// If a version in this list has no resource, all its resources are required.
	requiredAPIs = []string{
		"v1", "networking.k8s.io/v1", "rbac.authorization.k8s.io/v1", "discovery.k8s.io/v1/endpointslices", "events.k8s.io/v1/events",
	}
	// apiSets are keys of kube-apiserver for several APIs. The keys that contain required APIs are true here.
	apiSets = map[string]bool{"api/all": true, "api/ga": true, "api/beta": false, "api/alpha": false}
)

func runtimeConfig(path *field.Path, config map[string]bool, kubernetes versions.Kubernetes) field.ErrorList {
	if !kubernetes.Supported() {
		return nil
	}
	var found field.ErrorList
	for _, key := range sortedKeys(config) {
		at, name := path.Key(key), key
		if rest, legacy := strings.CutPrefix(key, "api/v"); legacy { // kube-apiserver reads api/v1 as v1
			name = "v" + rest
		}
		needed, isSet := apiSets[key]
		if !isSet {
			switch kubernetes.API(name) {
			case versions.Unknown:
				found = append(found, field.Invalid(at, config[key], fmt.Sprintf("unknown API %q", key)))
				continue
			case versions.Elsewhere:
				found = append(found, field.Forbidden(at, fmt.Sprintf("API %q is not served by Kubernetes version %s", key, kubernetes)))
				continue
			case versions.Present:
			}
			needed = disablesRequired(name)
		}
		if needed && !config[key] {
			found = append(found, field.Forbidden(at, fmt.Sprintf("api %q cannot be disabled for workerless clusters", key)))
		}
	}
	return found
}

// disablesRequired reports whether a required API is missing if the API with this name is disabled.
func disablesRequired(name string) bool {
	return slices.ContainsFunc(requiredAPIs, func(required string) bool {
		return name == required || strings.HasPrefix(name, required+"/") || strings.HasPrefix(required, name+"/")
	})
}
