package shared

// VirtualAPIServer is the name of the Service of kube-apiserver of the virtual cluster.
const VirtualAPIServer = "virtual-garden-kube-apiserver"

// VirtualClients returns the labels of Pods that connect to the DNS of the runtime cluster and to the API server of the virtual cluster.
func VirtualClients() map[string]string {
	return Union(DNSClients(), ClientsOf(VirtualAPIServer+"-tcp-443"))
}
