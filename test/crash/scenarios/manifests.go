package scenarios

import (
	"fmt"
	"strings"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/test/crash/harness"
)

// do returns a list of one step, which is complete when all sets are applied.
func do(change func(*harness.World)) []harness.Step { return []harness.Step{{Do: change}} }

// created returns a step that creates the set "set" with documents. change, which may be nil, changes the set before its creation.
func created(change func(*resourcesv1alpha1.ManagedResource), documents ...string) []harness.Step {
	return do(func(w *harness.World) { w.Set("set", change, documents...) })
}

// updated returns a step that replaces the documents of the set "set".
func updated(documents ...string) []harness.Step {
	return do(func(w *harness.World) { w.Secret("set", documents...) })
}

// changed returns a step that changes the ManagedResource "set" itself.
func changed(change func(*resourcesv1alpha1.ManagedResource)) []harness.Step {
	return do(func(w *harness.World) { w.Change("set", change) })
}

// deleted returns a step that deletes the set "set".
func deleted() []harness.Step {
	return do(func(w *harness.World) { w.DeleteSet("set") })
}

// configMap returns the manifest of a ConfigMap with one key. Each line of metadata is added to its metadata.
func configMap(name, value string, metadata ...string) string {
	return manifest("v1", "ConfigMap", name, fmt.Sprintf("data: {key: %q}", value), metadata...)
}

// manifest returns the manifest of an object in the scenario's namespace.
func manifest(apiVersion, kind, name, rest string, metadata ...string) string {
	lines := strings.Join(append([]string{"name: " + name, "namespace: $NS"}, metadata...), "\n  ")
	return fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata:\n  %s\n%s\n", apiVersion, kind, lines, rest)
}

const configMapKind = "v1/ConfigMap"

func deployment(name, app, image string, metadata ...string) string {
	return manifest("apps/v1", "Deployment", name, fmt.Sprintf(`spec:
  replicas: 0
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec: {containers: [{name: main, image: "registry.example.com/web:%[2]s"}]}`, app, image), metadata...)
}

func statefulSet(name string) string {
	return manifest("apps/v1", "StatefulSet", name, fmt.Sprintf(`spec:
  replicas: 0
  serviceName: %[1]s
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec: {containers: [{name: main, image: "registry.example.com/db:1"}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}`, name))
}

// claim returns a PersistentVolumeClaim as the StatefulSet controller creates it. It is never bound.
func claim(name, app string) string {
	return manifest("v1", "PersistentVolumeClaim", name,
		"spec: {storageClassName: none, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}",
		fmt.Sprintf("labels: {app: %s}", app))
}

func service(name string, port int) string {
	return manifest("v1", "Service", name,
		fmt.Sprintf("spec: {selector: {app: %s}, ports: [{name: http, port: %d, protocol: TCP}]}", name, port))
}

func secret(name, value string) string {
	return manifest("v1", "Secret", name, fmt.Sprintf("stringData: {key: %q}", value))
}

func serviceAccount(name string) string { return manifest("v1", "ServiceAccount", name, "") }

func role(name, resource string) string {
	return manifest("rbac.authorization.k8s.io/v1", "Role", name,
		fmt.Sprintf("rules: [{apiGroups: [\"\"], resources: [%s], verbs: [get]}]", resource))
}
