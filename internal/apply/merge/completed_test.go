package merge

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestMergeKeepsWhatKubernetesCompletes(t *testing.T) {
	const (
		claim    = "apiVersion: v1, kind: PersistentVolumeClaim"
		volume   = "apiVersion: v1, kind: PersistentVolume"
		pod      = "apiVersion: v1, kind: Pod"
		node     = "apiVersion: v1, kind: Node"
		job      = "apiVersion: batch/v1, kind: Job"
		balancer = "apiVersion: v1, kind: Service"
		ingress  = "apiVersion: networking.k8s.io/v1, kind: Ingress"
		service  = "apiVersion: apiregistration.k8s.io/v1, kind: APIService"
		crd      = "apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition"
		running  = "{nodeName: n, tolerations: [{key: a, operator: Exists}], volumes: [{name: token}], containers: [{name: c, image: i, " +
			"volumeMounts: [{name: token, mountPath: /token}]}]}"
	)
	for name, tc := range map[string]specCase{
		"a volume that the manifest reserves keeps the UID of its claim": {
			kind: volume, live: "{claimRef: {namespace: n, name: c, uid: u, resourceVersion: '1'}}", manifest: "{claimRef: {namespace: n, name: c}}",
			want: "{claimRef: {namespace: n, name: c, uid: u, resourceVersion: '1'}}",
		},
		"a volume that the manifest reserves for another claim": {
			kind: volume, live: "{claimRef: {namespace: n, name: c, uid: u}}", manifest: "{claimRef: {namespace: n, name: d}}",
			want: "{claimRef: {namespace: n, name: d}}",
		},
		"a volume that was released": {
			kind: volume, live: "{}", manifest: "{claimRef: {namespace: n, name: c}}", want: "{claimRef: {namespace: n, name: c}}",
		},
		"a claim keeps class, volume and everything else that the manifest lacks": {
			kind: claim, live: "{storageClassName: fast, volumeName: v, volumeMode: Filesystem, resources: {requests: {storage: 1Gi}}}",
			manifest: "{volumeName: '', storageClassName: null, accessModes: [ReadWriteOnce], resources: {requests: {storage: 2Gi}}}",
			want: "{storageClassName: fast, volumeName: v, volumeMode: Filesystem, accessModes: [ReadWriteOnce], " +
				"resources: {requests: {storage: 2Gi}}}",
		},
		"a claim of the manifest without a class": {
			kind: claim, live: "{storageClassName: fast}", manifest: "{storageClassName: ''}", want: "{storageClassName: ''}",
		},
		"a Pod keeps everything but images, deadline and new tolerations": {
			kind: pod, live: running,
			manifest: "{activeDeadlineSeconds: 5, tolerations: [{key: b, operator: ''}, {key: a, operator: Exists, value: ''}], " +
				"containers: [{name: c, image: j, command: [x]}, {name: d, image: k}]}",
			want: "{activeDeadlineSeconds: 5, nodeName: n, tolerations: [{key: a, operator: Exists}, {key: b, operator: ''}], " +
				"volumes: [{name: token}], containers: [{name: c, image: j, volumeMounts: [{name: token, mountPath: /token}]}]}",
		},
		"the deadline of a Pod becomes only earlier": {
			kind: pod, live: "{activeDeadlineSeconds: 5}", manifest: "{activeDeadlineSeconds: 6}", want: "{activeDeadlineSeconds: 5}",
		},
		"a Pod that may be replaced keeps what the manifest lacks": {
			kind: pod, annotations: `{resources.gardener.cloud/delete-on-invalid-update: "true"}`, live: running,
			manifest: "{tolerations: [{key: b}], containers: [{name: c, image: j, command: [x]}]}",
			want: "{nodeName: n, tolerations: [{key: a, operator: Exists}, {key: b}], volumes: [{name: token}], " +
				"containers: [{name: c, image: j, command: [x], volumeMounts: [{name: token, mountPath: /token}]}]}",
		},
		"a volume keeps the nodes that can reach it": {
			kind: volume, live: "{nodeAffinity: {required: {}}}", manifest: "{capacity: {storage: 1Gi}}",
			want: "{capacity: {storage: 1Gi}, nodeAffinity: {required: {}}}",
		},
		"a Node keeps what controllers have set": {
			kind: node, live: "{podCIDR: 10.0.0.0/24, podCIDRs: [10.0.0.0/24], providerID: x, taints: [{key: a}], unschedulable: true}",
			manifest: "{}", want: "{podCIDR: 10.0.0.0/24, podCIDRs: [10.0.0.0/24], providerID: x, taints: [{key: a}]}",
		},
		"a Node has the taints of the manifest": {
			kind: node, live: "{taints: [{key: a}]}", manifest: "{taints: [{key: b}]}", want: "{taints: [{key: b}]}",
		},
		"a Job keeps its manager": {
			kind: job, live: "{managedBy: example.com/x}", manifest: "{parallelism: 1}", want: "{parallelism: 1, managedBy: example.com/x}",
		},
		"a load balancer keeps its class": {
			kind: balancer, live: "{type: LoadBalancer, loadBalancerClass: a.example.com/b}", manifest: "{type: LoadBalancer}",
			want: "{type: LoadBalancer, loadBalancerClass: a.example.com/b}",
		},
		"a load balancer has the class of the manifest": {
			kind: balancer, live: "{type: LoadBalancer, loadBalancerClass: a.example.com/b}",
			manifest: "{type: LoadBalancer, loadBalancerClass: a.example.com/c}",
			want:     "{type: LoadBalancer, loadBalancerClass: a.example.com/c}",
		},
		"a Service that is no load balancer any more has no class": {
			kind: balancer, live: "{type: LoadBalancer, loadBalancerClass: a.example.com/b}", manifest: "{type: NodePort}",
			want: "{type: NodePort}",
		},
		"an injected authority of an APIService stays": {
			kind: service, live: "{caBundle: eA==, service: {name: s}}", manifest: "{service: {name: s}}",
			want: "{caBundle: eA==, service: {name: s}}",
		},
		"a line end is no authority": {
			kind: service, live: "{caBundle: eA==}", manifest: "{caBundle: Cg==}", want: "{caBundle: eA==}",
		},
		"an Ingress keeps the default class": {
			kind: ingress, live: "{ingressClassName: default}", manifest: "{rules: []}", want: "{rules: [], ingressClassName: default}",
		},
		"an Ingress has the class of the manifest": {
			kind: ingress, live: "{ingressClassName: default}", manifest: "{ingressClassName: other}", want: "{ingressClassName: other}",
		},
		"an Ingress has the class in the annotation of the manifest": {
			kind: ingress, annotations: "{kubernetes.io/ingress.class: other}", live: "{ingressClassName: default}", manifest: "{rules: []}",
			want: "{rules: []}",
		},
		"an authority of the manifest is used": {
			kind: service, live: "{caBundle: eA==}", manifest: "{caBundle: eQ==}", want: "{caBundle: eQ==}",
		},
		"an APIService that skips verification has no authority": {
			kind: service, live: "{caBundle: eA==}", manifest: "{insecureSkipTLSVerify: true}", want: "{insecureSkipTLSVerify: true}",
		},
		"an injected authority of a conversion webhook stays": {
			kind: crd, live: "{conversion: {strategy: Webhook, webhook: {clientConfig: {caBundle: eA==, url: u}}}}",
			manifest: "{conversion: {strategy: Webhook, webhook: {clientConfig: {url: u}}}}",
			want:     "{conversion: {strategy: Webhook, webhook: {clientConfig: {caBundle: eA==, url: u}}}}",
		},
		"a definition without a conversion webhook gets no authority": {
			kind: crd, live: "{conversion: {strategy: Webhook, webhook: {clientConfig: {caBundle: eA==}}}}",
			manifest: "{conversion: {strategy: None}}", want: "{conversion: {strategy: None}}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.options = optionsWithoutLabels()
			tc.run(t)
		})
	}
}

// TestMergeKeepsWhatKubernetesCompletesOutsideOfSpec compares the fields of an object that are not metadata.
func TestMergeKeepsWhatKubernetesCompletesOutsideOfSpec(t *testing.T) {
	const (
		role    = "apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, "
		webhook = "apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, "
		token   = "apiVersion: v1, kind: Secret, type: kubernetes.io/service-account-token, "
	)
	for name, tc := range map[string]struct{ live, manifest, want string }{
		"an aggregated role keeps its rules": {
			live: role + "aggregationRule: {x: y}, rules: [{verbs: [get]}]", manifest: role + "aggregationRule: {x: y}, rules: []",
			want: role + "aggregationRule: {x: y}, rules: [{verbs: [get]}]",
		},
		"an aggregated role whose manifest has no rules keeps its rules": {
			live: role + "aggregationRule: {x: y}, rules: [{verbs: [get]}]", manifest: role + "aggregationRule: {x: y}",
			want: role + "aggregationRule: {x: y}, rules: [{verbs: [get]}]",
		},
		"an aggregated role without rules gets none": {
			live: role, manifest: role + "aggregationRule: {x: y}, rules: []", want: role + "aggregationRule: {x: y}",
		},
		"another role has the rules of the manifest": {
			live: role + "aggregationRule: {x: y}, rules: [{verbs: [get]}]", manifest: role + "rules: []", want: role + "rules: []",
		},
		"the Secret of a ServiceAccount keeps its token": {
			live: token + "data: {token: eA==, ca.crt: eA==, namespace: eA==, other: eA==}", manifest: token + "data: {token: eQ==, mine: eQ==}",
			want: token + "data: {token: eA==, ca.crt: eA==, namespace: eA==, other: eA==, mine: eQ==}",
		},
		"another Secret has the data of the manifest": {
			live: "apiVersion: v1, kind: Secret, type: Opaque, data: {token: eA==}", manifest: "apiVersion: v1, kind: Secret, type: Opaque",
			want: "apiVersion: v1, kind: Secret, type: Opaque",
		},
		"webhooks keep injected authorities by name": {
			live: webhook + "webhooks: [{name: b, clientConfig: {caBundle: eA==}}, {name: a, clientConfig: {caBundle: eQ==}}]",
			manifest: webhook + "webhooks: [{name: a, clientConfig: {url: u}}, {name: b, clientConfig: {caBundle: eg==}}, " +
				"{name: c, clientConfig: {url: u}}]",
			want: webhook + "webhooks: [{name: a, clientConfig: {url: u, caBundle: eQ==}}, {name: b, clientConfig: {caBundle: eg==}}, " +
				"{name: c, clientConfig: {url: u}}]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			result := merged(t, object(t, "{"+tc.live+"}"), object(t, "{"+tc.manifest+"}"), options())
			delete(result.Object, "metadata")
			NewWithT(t).Expect(result.Object).To(Equal(object(t, "{"+tc.want+"}").Object))
		})
	}
}

func TestMergeKeepsTheFieldsThatAnAnnotationNames(t *testing.T) {
	const live = "{a: live, list: [{name: x, v: live}, {name: z1, v: live}], map: {'k.1': live}}"
	for name, tc := range map[string]struct{ paths, manifest, want string }{
		"a field":                           {"spec.a", "{a: m}", "{a: live}"},
		"a field that the manifest lacks":   {"spec.a, spec.map['k.1']", "{}", "{a: live, map: {'k.1': live}}"},
		"a field that live lacks":           {"spec.b", "{b: m}", "{}"},
		"a field below one that live lacks": {"spec.b.c", "{b: {c: m, d: m}}", "{b: {d: m}}"},
		"lines, and a name in quotes": {
			"spec.a\nspec.map['k.1']\n", "{a: m, map: {'k.1': m, o: m}}", "{a: live, map: {'k.1': live, o: m}}",
		},
		"a field of an item": {
			"spec.list[name=z1].v", "{list: [{name: z1, v: m, w: m}]}", "{list: [{name: z1, v: live, w: m}]}",
		},
		"an item": {
			"spec.list[name=z1]", "{list: [{name: x, v: m}]}", "{list: [{name: x, v: m}, {name: z1, v: live}]}",
		},
		"an item that live lacks": {
			"spec.list[name=z]", "{list: [{name: x, v: m}, {name: z}]}", "{list: [{name: x, v: m}]}",
		},
		"a field of a new item":                   {"spec.list[name=z].v", "{list: [{name: z, v: m}]}", "{list: [{name: z, v: m}]}"},
		"a field of an item by its position":      {"spec.list[0].v", "{list: [{name: z1, v: m}]}", "{list: [{name: z1, v: live}]}"},
		"a value of another type in the manifest": {"spec.list[name=z1].v, spec.map.x", "{list: 1, map: 2}", "{list: 1, map: 2}"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			liveObject := object(t, "{apiVersion: example.com/v1, kind: Widget, metadata: {name: a}, spec: "+live+"}")
			manifest := object(t, "{apiVersion: example.com/v1, kind: Widget, metadata: {name: a}, spec: "+tc.manifest+"}")
			manifest.SetAnnotations(map[string]string{"espalier.dev/keep-fields": tc.paths})
			want := object(t, "{spec: "+tc.want+"}").Object["spec"]
			g.Expect(merged(t, liveObject, manifest, options()).Object["spec"]).To(Equal(want))
			created, err := ForCreate(manifest, options())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(created.Object["spec"]).To(Equal(manifest.Object["spec"]))
		})
	}
}

func TestMergeRefusesAnnotationsThatNameNoFields(t *testing.T) {
	for paths, want := range map[string]string{
		"metadata.name": "only fields outside of apiVersion, kind, metadata and status can be kept",
		"[0]":           "only fields outside of apiVersion, kind, metadata and status can be kept",
		"spec..a":       "write the field \"\" in brackets",
		"spec.a b":      "write the field \"a b\" in brackets",
		"spec[a]":       "must contain a number, fields such as name=x, or a name in single quotes",
		"spec['a":       "must end with ']",
		"spec[name=a":   "a bracket is not closed",
		"spec['a']b":    `expected "." or "[" before "b"`,
		".spec":         `expected "." or "[" before ".spec"`,
	} {
		manifest := object(t, "{apiVersion: example.com/v1, kind: Widget, metadata: {name: a}}")
		manifest.SetAnnotations(map[string]string{"espalier.dev/keep-fields": paths})
		_, err := ForCreate(manifest, options())
		NewWithT(t).Expect(err).To(MatchError(And(ContainSubstring("annotation espalier.dev/keep-fields: path"), ContainSubstring(want))), paths)
	}
}
