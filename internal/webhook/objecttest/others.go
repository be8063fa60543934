package objecttest

// Secret has what handlers read and change of Secrets.
func Secret() Value {
	return Object(
		Member{"apiVersion", Text("v1")},
		Member{"kind", Text("Secret")},
		Member{"metadata", Object(
			Member{"name", Text("robot-token")},
			Member{
				"labels",
				Map(Text("", "true", "false"), "token-invalidator.resources.gardener.cloud/consider", "resources.gardener.cloud/purpose"),
			},
		)},
		Member{"data", Map(Text("", "AAAA", "AAA=", "c2VjcmV0"), "token", "ca.crt")},
		Member{"type", Text("Opaque", "kubernetes.io/service-account-token")},
	)
}

// EndpointSlice has what handlers read and change of EndpointSlices.
func EndpointSlice() Value {
	return Object(
		Member{"apiVersion", Text("discovery.k8s.io/v1")},
		Member{"kind", Text("EndpointSlice")},
		Member{"addressType", Text("IPv4")},
		Member{"endpoints", List(Object(
			Member{"addresses", List(Text("192.0.2.1", "192.0.2.2"))},
			Member{"zone", Text("europe-1a", "europe-1b", "")},
			Member{"hints", Object(
				Member{"forZones", List(One(map[string]any{"name": "europe-1a"}, map[string]any{"name": "europe-1b"}, map[string]any{}))},
				Member{"forNodes", List(Object(Member{"name", Text("node-1")}))},
			)},
		))},
	)
}
