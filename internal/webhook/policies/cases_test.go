package policies_test

import (
	"fmt"
	"slices"
	"strings"
)

// operation is the operation of the request in an example.
type operation int

const (
	create operation = iota
	update
	remove
)

// example is one request and its expected result, which is the same with a policy and with the server.
type example struct {
	handler, name string
	// id is the name of the object in the request.
	id        string
	operation operation
	// before is the object that exists before an update or deletion, as YAML.
	before string
	// object is the object in the request, as YAML; empty for a deletion. $NAME stands for the id, $NS and $DISABLED for namespaces.
	object string
	// change is a JSON patch of the object: the API server must store the same if it gets the patched object without a handler, or the
	// unpatched one with the handler. Empty: the handler changes nothing.
	change string
	// denied is part of the error text. Empty: the request is allowed.
	denied string
}

// The settings of the handlers in all examples.
const (
	scheduler  = "bin-packing-scheduler"
	host       = "api.example.com"
	expiration = 43200
)

// examples returns all examples. The first one of each handler passes only if the handler is enabled.
func examples() []example {
	all := slices.Concat(seccompExamples(), schedulerExamples(), hostExamples(), spreadExamples(), tokenMountExamples(),
		hintExamples(), invalidatorExamples(), resourceDeletionExamples(), definitionDeletionExamples())
	for i := range all {
		all[i].id = fmt.Sprintf("e%d", i)
	}
	return all
}

// pod returns a Pod with one container, as YAML. The arguments contain members of metadata and spec in one line; they may be empty.
func pod(metadata, spec string) string {
	return podOf(metadata, strings.TrimPrefix(spec+", containers: [{name: c, image: i}]", ", "))
}

// podOf returns a Pod, as YAML. The argument spec contains its containers.
func podOf(metadata, spec string) string {
	if !strings.Contains(metadata, "namespace:") {
		metadata = strings.TrimPrefix(metadata+", namespace: $NS", ", ")
	}
	return "{apiVersion: v1, kind: Pod, metadata: {name: $NAME, " + metadata + "}, spec: {" + spec + "}}"
}

func seccompExamples() []example {
	const (
		whole   = `[{"op":"add","path":"/spec/securityContext","value":{"seccompProfile":{"type":"RuntimeDefault"}}}]`
		profile = `[{"op":"add","path":"/spec/securityContext/seccompProfile","value":{"type":"RuntimeDefault"}}]`
	)
	return withHandler("seccomp-profile", []example{
		{name: "a Pod without security context", object: pod("", ""), change: whole},
		{name: "a Pod with an empty security context", object: pod("", "securityContext: {}"), change: profile},
		{
			name:   "a Pod with other security settings",
			object: pod("", "securityContext: {runAsUser: 3, runAsNonRoot: false, supplementalGroups: [4, 5, 6]}"), change: profile,
		},
		{name: "a Pod with an empty profile", object: pod("", "securityContext: {seccompProfile: {}}"), change: profile},
		{
			name: "a Pod with a file but no type", object: pod("", "securityContext: {seccompProfile: {localhostProfile: x.json}}"),
			change: profile,
		},
		{name: "a Pod that wants to be unconfined", object: pod("", "securityContext: {seccompProfile: {type: Unconfined}}")},
		{
			name:   "a container with its own profile",
			object: podOf("", "containers: [{name: c, image: i, securityContext: {seccompProfile: {type: Unconfined}}}]"), change: whole,
		},
		{name: "a Pod for Windows", object: pod("", "os: {name: windows}")},
		{name: "a Pod for Linux", object: pod("", "os: {name: linux}"), change: whole},
		{name: "a Pod that opts out with any value", object: pod(`labels: {seccompprofile.resources.gardener.cloud/skip: "false"}`, "")},
		{name: "a Pod of the resource manager", object: pod("labels: {app: gardener-resource-manager}", "")},
		{name: "a mirror of a static Pod", object: pod(`labels: {static-pod: "true"}`, "")},
		{name: "a Pod in kube-system", object: pod("namespace: kube-system", "")},
	})
}

func schedulerExamples() []example {
	const change = `[{"op":"add","path":"/spec/schedulerName","value":"` + scheduler + `"}]`
	return withHandler("pod-scheduler-name", []example{
		{name: "a Pod without scheduler", object: pod("", ""), change: change},
		{name: "a Pod with an empty name", object: pod("", `schedulerName: ""`), change: change},
		{name: "a Pod that names the default", object: pod("", "schedulerName: default-scheduler"), change: change},
		{name: "a Pod of the resource manager", object: pod("labels: {app: gardener-resource-manager}", "")},
		{name: "a Pod that names another", object: pod("", "schedulerName: bar-scheduler")},
		{name: "a Pod in kube-system", object: pod("namespace: kube-system", "")},
	})
}

func hostExamples() []example {
	const variable = `{"name":"KUBERNETES_SERVICE_HOST","value":"` + host + `"}`
	const first = `[{"op":"add","path":"/spec/containers/0/env","value":[` + variable + `]}]`
	return withHandler("kubernetes-service-host", []example{
		{
			name: "a container of each sort", object: podOf("", "initContainers: [{name: a, image: i}], containers: [{name: c, image: i}]"),
			change: `[{"op":"add","path":"/spec/initContainers/0/env","value":[` + variable +
				`]},{"op":"add","path":"/spec/containers/0/env","value":[` + variable + `]}]`,
		},
		{
			name: "both have set it",
			object: podOf("", "initContainers: [{name: a, image: i, env: [{name: KUBERNETES_SERVICE_HOST, value: already-set}]}], "+
				"containers: [{name: c, image: i, env: [{name: KUBERNETES_SERVICE_HOST, value: already-set}]}]"),
		},
		{
			name:   "one of two has set it",
			object: podOf("", "containers: [{name: c, image: i}, {name: d, image: i, env: [{name: KUBERNETES_SERVICE_HOST, value: already-set}]}]"),
			change: first,
		},
		{name: "it is set to nothing", object: podOf("", "containers: [{name: c, image: i, env: [{name: KUBERNETES_SERVICE_HOST}]}]")},
		{
			name: "it is set from elsewhere",
			object: podOf("", "containers: [{name: c, image: i, env: [{name: KUBERNETES_SERVICE_HOST, valueFrom: {fieldRef: {fieldPath: "+
				"spec.nodeName}}}]}]"),
		},
		{
			name: "others stay before it", object: podOf("", "containers: [{name: c, image: i, env: [{name: Z, value: z}, {name: A, value: a}]}]"),
			change: `[{"op":"add","path":"/spec/containers/0/env/-","value":` + variable + `}]`,
		},
		{name: "the Pod opts out", object: pod("labels: {apiserver-proxy.networking.gardener.cloud/inject: disable}", "")},
		{
			name: "another value does not opt out", object: pod("labels: {apiserver-proxy.networking.gardener.cloud/inject: enable}", ""),
			change: first,
		},
		{name: "the namespace opts out", object: pod("namespace: $DISABLED", "")},
		{name: "a Pod in kube-system", object: pod("namespace: kube-system", "")},
	})
}

func spreadExamples() []example {
	of := func(metadata string, selectors ...string) string {
		constraints := make([]string, len(selectors))
		for i, selector := range selectors {
			constraints[i] = strings.TrimSuffix(fmt.Sprintf("{maxSkew: 1, whenUnsatisfiable: DoNotSchedule, topologyKey: zone-%d, %s", i, selector),
				", ") + "}"
		}
		return pod(metadata, "topologySpreadConstraints: ["+strings.Join(constraints, ", ")+"]")
	}
	const hash = "labels: {pod-template-hash: 123abc}"
	const labelled = `[{"op":"add","path":"/spec/topologySpreadConstraints/0/labelSelector",` +
		`"value":{"matchLabels":{"pod-template-hash":"123abc"}}}]`
	return withHandler("pod-topology-spread-constraints", []example{
		{
			name:   "three constraints",
			object: of(hash, "", "labelSelector: {matchLabels: {app: test}}", "labelSelector: {matchLabels: {pod-template-hash: 123abc}}"),
			change: `[{"op":"add","path":"/spec/topologySpreadConstraints/0/labelSelector",` +
				`"value":{"matchLabels":{"pod-template-hash":"123abc"}}},` +
				`{"op":"add","path":"/spec/topologySpreadConstraints/1/labelSelector/matchLabels/pod-template-hash","value":"123abc"}]`,
		},
		{name: "a Pod without the hash", object: of("", "")},
		{name: "a Pod without constraints", object: pod(hash, "")},
		{name: "an empty selector", object: of(hash, "labelSelector: {}"), change: labelled},
		{
			name:   "a constraint that matches the hash by itself",
			object: of(hash, "labelSelector: {matchLabels: {app: test}}, matchLabelKeys: [pod-template-hash]"),
		},
		{
			name:   "a constraint that matches another label by itself",
			object: of("labels: {app: test, pod-template-hash: 123abc}", "labelSelector: {matchLabels: {tier: one}}, matchLabelKeys: [app]"),
			change: `[{"op":"add","path":"/spec/topologySpreadConstraints/0/labelSelector/matchLabels/pod-template-hash","value":"123abc"}]`,
		},
		{name: "a selector of another hash", object: of(hash, "labelSelector: {matchLabels: {pod-template-hash: 789xyz}}")},
		{
			name:   "an expression that names hashes",
			object: of(hash, "labelSelector: {matchExpressions: [{key: pod-template-hash, operator: In, values: [x]}]}"),
		},
		{
			name:   "an expression that excludes hashes",
			object: of(hash, "labelSelector: {matchExpressions: [{key: pod-template-hash, operator: NotIn, values: [x]}]}"),
			change: `[{"op":"add","path":"/spec/topologySpreadConstraints/0/labelSelector/matchLabels","value":{"pod-template-hash":"123abc"}}]`,
		},
		{
			name:   "a Pod that opts out with an empty value",
			object: of(`labels: {pod-template-hash: 123abc, topology-spread-constraints.resources.gardener.cloud/skip: ""}`, ""),
		},
		{name: "a Pod of the resource manager", object: of("labels: {pod-template-hash: 123abc, app: gardener-resource-manager}", "")},
		{name: "a Pod in kube-system", object: of("namespace: kube-system, "+hash, "")},
	})
}

func tokenMountExamples() []example {
	volume := func(seconds int) string {
		return fmt.Sprintf(`{"name":"kube-api-access-gardener","projected":{"defaultMode":420,`+
			`"sources":[{"serviceAccountToken":{"path":"token","expirationSeconds":%d}},`+
			`{"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}},`+
			`{"downwardAPI":{"items":[{"path":"namespace","fieldRef":{"apiVersion":"v1","fieldPath":"metadata.namespace"}}]}}]}}`, seconds)
	}
	const path = "/var/run/secrets/kubernetes.io/serviceaccount"
	const mount = `{"name":"kube-api-access-gardener","mountPath":"` + path + `","readOnly":true}`
	simple := func(seconds int) string {
		return `[{"op":"add","path":"/spec/volumes","value":[` + volume(seconds) +
			`]},{"op":"add","path":"/spec/containers/0/volumeMounts","value":[` + mount + `]}]`
	}
	const optedOut = "serviceAccountName: opted-out"
	seconds := func(value string) string {
		return fmt.Sprintf("annotations: {projected-token-mount.resources.gardener.cloud/expiration-seconds: %q}", value)
	}
	return withHandler("projected-token-mount", []example{
		{
			name: "two containers and one before them",
			object: podOf("", optedOut+", volumes: [{name: v, emptyDir: {}}], initContainers: [{name: a, image: i}], "+
				"containers: [{name: c, image: i, volumeMounts: [{name: v, mountPath: /v}]}, {name: d, image: i}]"),
			change: `[{"op":"add","path":"/spec/volumes/-","value":` + volume(expiration) + `},` +
				`{"op":"add","path":"/spec/initContainers/0/volumeMounts","value":[` + mount + `]},` +
				`{"op":"add","path":"/spec/containers/0/volumeMounts/-","value":` + mount + `},` +
				`{"op":"add","path":"/spec/containers/1/volumeMounts","value":[` + mount + `]}]`,
		},
		{
			name: "a container that mounts something at that path",
			object: podOf("", optedOut+", volumes: [{name: v, emptyDir: {}}], "+
				"initContainers: [{name: a, image: i, volumeMounts: [{name: v, mountPath: "+path+"/}]}], "+
				"containers: [{name: c, image: i, volumeMounts: [{name: v, mountPath: "+path+"}]}, {name: d, image: i}]"),
			change: `[{"op":"add","path":"/spec/volumes/-","value":` + volume(expiration) + `},` +
				`{"op":"add","path":"/spec/containers/1/volumeMounts","value":[` + mount + `]}]`,
		},
		{
			name: "only containers that mount something at that path",
			object: podOf("", optedOut+", volumes: [{name: v, emptyDir: {}}], "+
				"containers: [{name: c, image: i, volumeMounts: [{name: v, mountPath: "+path+"}]}]"),
		},
		{name: "a Pod without volumes", object: pod("", optedOut), change: simple(expiration)},
		{name: "a Pod that asks for the token", object: pod("", optedOut+", automountServiceAccountToken: true")},
		{name: "the default ServiceAccount, unnamed", object: pod("", "")},
		{name: "the default ServiceAccount, named", object: pod("", "serviceAccountName: default")},
		{name: "a ServiceAccount that says nothing", object: pod("", "serviceAccountName: silent, automountServiceAccountToken: false")},
		{name: "a ServiceAccount that mounts", object: pod("", "serviceAccountName: mounting, automountServiceAccountToken: false")},
		{name: "a ServiceAccount whose token is mounted already", object: pod("", "serviceAccountName: mounting")},
		{name: "a Pod that wants no token", object: pod("", optedOut+", automountServiceAccountToken: false")},
		{name: "a Pod with a volume of that sort", object: pod("", optedOut+", volumes: [{name: kube-api-access-2138h, emptyDir: {}}]")},
		{name: "a Pod with its own lifetime", object: pod(seconds("8998"), optedOut), change: simple(8998)},
		{name: "a lifetime that is no number", object: pod(seconds("x"), optedOut), denied: `strconv.ParseInt: parsing "x": invalid syntax`},
		{name: "an empty lifetime", object: pod(seconds(""), optedOut), denied: `strconv.ParseInt: parsing "": invalid syntax`},
		{name: "a lifetime in words", object: pod(seconds("12h"), optedOut), denied: `strconv.ParseInt: parsing "12h": invalid syntax`},
		{name: "a lifetime with a sign", object: pod(seconds("+8998"), optedOut), change: simple(8998)},
		{name: "a lifetime with zeros before it", object: pod(seconds("0000000000000000600"), optedOut), change: simple(600)},
		{name: "a lifetime with a sign and zeros before it", object: pod(seconds("+0000000000000000000008998"), optedOut), change: simple(8998)},
		{name: "a lifetime that no volume asks for", object: pod(seconds("x"), "")},
		{
			name:   "a Pod that opts out with any value",
			object: pod(`labels: {projected-token-mount.resources.gardener.cloud/skip: "false"}`, optedOut),
		},
		{name: "a Pod of the resource manager", object: pod("labels: {app: gardener-resource-manager}", optedOut)},
		{name: "a Pod in kube-system", object: pod("namespace: kube-system", "")},
	})
}

func hintExamples() []example {
	slice := func(label string, endpoints ...string) string {
		return "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: $NAME, namespace: $NS, labels: {" + label +
			"}}, addressType: IPv4, endpoints: [" + strings.Join(endpoints, ", ") + "]}"
	}
	const consider = `endpoint-slice-hints.resources.gardener.cloud/consider: "true"`
	hint := func(i int, zone string) string {
		return fmt.Sprintf(`{"op":"add","path":"/endpoints/%d/hints","value":{"forZones":[{"name":%q}]}}`, i, zone)
	}
	many, hints := make([]string, 300), make([]string, 300)
	for i := range many {
		many[i] = fmt.Sprintf("{addresses: [10.1.%d.%d], zone: z%d}", i/200, i%200, i%3)
		hints[i] = hint(i, fmt.Sprintf("z%d", i%3))
	}
	return withHandler("endpoint-slice-hints", []example{
		{
			name:   "three zones",
			object: slice(consider, "{addresses: [10.0.0.1], zone: a}", "{addresses: [10.0.0.2], zone: b}", "{addresses: [10.0.0.3], zone: c}"),
			change: "[" + hint(0, "a") + "," + hint(1, "b") + "," + hint(2, "c") + "]",
		},
		{
			name:   "one zone of three",
			object: slice(consider, "{addresses: [10.0.0.1]}", `{addresses: [10.0.0.2], zone: ""}`, "{addresses: [10.0.0.3], zone: europe-1c}"),
			change: "[" + hint(2, "europe-1c") + "]",
		},
		{name: "hints without a zone stay", object: slice(consider, "{addresses: [10.0.0.1], hints: {forZones: [{name: x}]}}")},
		{name: "no annotation asks for hints", object: slice("a: b", "{addresses: [10.0.0.1], zone: a}")},
		{name: "no endpoints", object: slice(consider)},
		{name: "three hundred endpoints", object: slice(consider, many...), change: "[" + strings.Join(hints, ",") + "]"},
		{
			name: "an update with other hints", operation: update, before: slice(consider, "{addresses: [10.0.0.1], zone: a}"),
			object: slice(consider, "{addresses: [10.0.0.1], zone: a, hints: {forZones: [{name: u}, {name: v}]}}"), change: "[" + hint(0, "a") + "]",
		},
	})
}

func invalidatorExamples() []example {
	secret := func(labels, members string) string {
		return "{apiVersion: v1, kind: Secret, metadata: {name: $NAME, namespace: $NS, labels: {" + labels + "}}" + members + "}"
	}
	const (
		purpose    = "resources.gardener.cloud/purpose: token-invalidator"
		considered = purpose + ", token-invalidator.resources.gardener.cloud/consider: any"
		invalid    = `[{"op":"add","path":"/data/token","value":"AAAA"}]`
		gone       = `[{"op":"remove","path":"/data/token"}]`
	)
	return withHandler("token-invalidator", []example{
		{name: "a considered token", object: secret(considered, ", data: {token: Zm9v, other: YmFy}"), change: invalid},
		{name: "a considered Secret without token", object: secret(considered, ", data: {other: YmFy}"), change: invalid},
		{
			name: "a considered Secret with text", object: secret(considered, ", stringData: {token: foo}"),
			change: `[{"op":"add","path":"/data","value":{"token":"AAAA"}},{"op":"remove","path":"/stringData"}]`,
		},
		{name: "a considered Secret without data", object: secret(considered, "")},
		{name: "an invalidated token that is considered no more", object: secret(purpose, ", data: {token: AAAA, other: YmFy}"), change: gone},
		{
			name: "an update that stops considering", operation: update, before: secret(considered, ", data: {token: Zm9v}"),
			object: secret(purpose, ", data: {token: AAAA}"), change: gone,
		},
		{name: "a valid token", object: secret(purpose, ", data: {token: Zm9v}")},
		{name: "more than three zeros", object: secret(purpose, ", data: {token: AAAAAA==}")},
		{name: "an empty token", object: secret(purpose, `, data: {token: ""}`)},
		{name: "other data", object: secret(purpose, ", data: {other: AAAA}")},
		{name: "another purpose", object: secret("token-invalidator.resources.gardener.cloud/consider: any", ", data: {token: Zm9v}")},
	})
}

const unconfirmed = `must have a "confirmation.gardener.cloud/deletion" annotation to delete`

func resourceDeletionExamples() []example {
	object := func(kind, value string) string {
		annotations := ""
		if value != "" {
			annotations = ", annotations: {confirmation.gardener.cloud/deletion: " + value + "}"
		}
		return "{apiVersion: extensions.gardener.cloud/v1alpha1, kind: " + kind + ", metadata: {name: $NAME, namespace: $NS" + annotations + "}}"
	}
	all := []example{
		{name: "no annotation", before: object("Infrastructure", ""), denied: unconfirmed},
		{
			name: "an unconfirmed object of the cluster", before: strings.Replace(object("BackupBucket", ""), ", namespace: $NS", "", 1),
			denied: unconfirmed,
		},
		{name: "an unconfirmed Etcd", before: strings.Replace(object("Etcd", ""), "extensions.", "druid.", 1), denied: unconfirmed},
		{name: "an unconfirmed Bastion", before: object("Bastion", "")},
		{name: "a Pod", before: pod("", "")},
		{name: "an unconfirmed object in kube-system", before: strings.Replace(object("Infrastructure", ""), "$NS", "kube-system", 1)},
	}
	for _, value := range []string{"1", "t", "T", "true", "TRUE", "True"} {
		all = append(all, example{name: "confirmed by " + value, before: object("Infrastructure", fmt.Sprintf("%q", value))})
	}
	for _, value := range []string{"0", "yes", "false", "tRUE", " true", ""} {
		all = append(all, example{
			name: fmt.Sprintf("not confirmed by %q", value), before: object("Infrastructure", fmt.Sprintf("%q", value)), denied: unconfirmed,
		})
	}
	for i := range all {
		all[i].operation = remove
	}
	return withHandler("cr-deletion-protection", all)
}

func definitionDeletionExamples() []example {
	definition := func(metadata string) string {
		return "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.$NAME.example.com" + metadata +
			"}, " +
			"spec: {group: $NAME.example.com, names: {kind: Thing, plural: things}, scope: Namespaced, versions: [{name: v1, served: true, " +
			"storage: true, " +
			"schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}"
	}
	const protected = `, labels: {gardener.cloud/deletion-protected: "true"}`
	return withHandler("crd-deletion-protection", []example{
		{name: "a protected definition", operation: remove, before: definition(protected), denied: unconfirmed},
		{
			name: "a protected definition that is confirmed", operation: remove,
			before: definition(protected + `, annotations: {confirmation.gardener.cloud/deletion: "true"}`),
		},
		{name: "a definition without protection", operation: remove, before: definition("")},
		{name: "another value of the label", operation: remove, before: definition(`, labels: {gardener.cloud/deletion-protected: "yes"}`)},
	})
}

func withHandler(handler string, all []example) []example {
	for i := range all {
		all[i].handler = handler
	}
	return all
}
