package process

import "strings"

// namespaceFile is where Kubernetes tells a Pod its namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// ownNamespace returns the namespace that this process runs in: what POD_NAMESPACE says, else the ServiceAccount's, else
// where its lease is. Empty: not known.
func ownNamespace(getenv func(string) string, readFile func(string) ([]byte, error), leaseNamespace string) string {
	if namespace := getenv("POD_NAMESPACE"); namespace != "" {
		return namespace
	}
	if data, err := readFile(namespaceFile); err == nil {
		if namespace := strings.TrimSpace(string(data)); namespace != "" {
			return namespace
		}
	}
	return leaseNamespace
}
