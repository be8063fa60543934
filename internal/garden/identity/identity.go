// Package identity returns the identity of the operator's process. status.gardener of a Garden names the process that acted on it last.
package identity

import (
	"math/rand/v2"
	"path"
	"regexp"
	"strings"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// GardenerVersion is the version of Gardener whose programs the operator deploys. The status of a Garden shows this version as the version
// of the operator, because the versions of Gardener must follow one another, also if a user skips releases of Espalier.
const GardenerVersion = "v1.149.3"

// idLength is the length of an ID. Container runtimes use as many hexadecimal digits.
const idLength = 64

// alphanumerics are the characters of random IDs.
const alphanumerics = "abcdefghijklmnopqrstuvwxyz0123456789"

var container = regexp.MustCompile(`^[0-9a-f]{64}$`)

// New returns an identity. Cgroup is the content of /proc/self/cgroup, which may be empty. Random is the source of the ID if the process
// does not run in a container with an ID of its own.
func New(hostname, version string, cgroup []byte, random *rand.Rand) operatorv1alpha1.OperatorIdentity {
	id := containerID(string(cgroup))
	if id == "" {
		id = randomID(random)
	}
	return operatorv1alpha1.OperatorIdentity{ID: id, Name: hostname, Version: version}
}

// containerID returns the ID of the container from the line for version 2 of control groups. If this line contains no ID, it returns the
// ID from the line for systemd in version 1. It returns "" if neither line contains an ID.
func containerID(cgroup string) string {
	for _, hierarchy := range []string{"0::", "1:name=systemd:"} {
		for line := range strings.Lines(cgroup) {
			group, found := strings.CutPrefix(strings.TrimSpace(line), hierarchy)
			if !found {
				continue
			}
			id := strings.TrimSuffix(path.Base(group), ".scope")
			// Container runtimes put their name before the ID: docker-, cri-containerd-, crio-.
			if id = id[strings.LastIndex(id, "-")+1:]; container.MatchString(id) {
				return id
			}
		}
	}
	return ""
}

func randomID(random *rand.Rand) string {
	id := make([]byte, idLength)
	for i := range id {
		id[i] = alphanumerics[random.IntN(len(alphanumerics))]
	}
	return string(id)
}
