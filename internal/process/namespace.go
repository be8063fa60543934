package process

import "strings"

// namespaceFile is the file in which Kubernetes gives a Pod its namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// ownNamespace returns the namespace of this process: POD_NAMESPACE, else the ServiceAccount's, else that of its lease. Empty: not known.
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
