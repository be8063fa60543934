package merge

import (
	"os"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestUnapplied(t *testing.T) {
	const (
		account  = `{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}, `
		stateful = `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a, creationTimestamp: "2026-01-01T00:00:00Z"}, ` +
			`spec: {volumeClaimTemplates: [{metadata: {name: c}, spec: `
		address  = `{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {type: `
		pod      = `{apiVersion: v1, kind: Pod, metadata: {name: a`
		volume   = `{apiVersion: v1, kind: PersistentVolume, metadata: {name: a}, spec: {claimRef: {namespace: ns, name: c`
		role     = `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: a}`
		token    = `{apiVersion: v1, kind: Secret, metadata: {name: a}, type: kubernetes.io/service-account-token, `
		template = `metadata: {name: a}, spec: {template: {metadata: {annotations: {kubectl.kubernetes.io/restartedAt: `
		scaled   = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a`
	)
	for name, tc := range map[string]struct {
		live, manifest string
		want           []string
	}{
		"everything is applied": {live: account + `imagePullSecrets: [{name: a}]}`, manifest: account + `imagePullSecrets: [{name: a}]}`},
		"live has more":         {live: account + `secrets: [{name: a}, {name: b}]}`, manifest: account + `secrets: [{name: b}]}`},
		"live has other items": {
			live: account + `secrets: [{name: a}]}`, manifest: account + `secrets: [{name: b}], imagePullSecrets: [{name: c}]}`,
			want: []string{"imagePullSecrets", "secrets"},
		},
		"finalizers and owners": {
			live: `{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}`,
			manifest: `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, finalizers: [example.com/a], ownerReferences: ` +
				`[{apiVersion: v1, kind: Node, name: n, uid: u}]}}`,
			want: []string{"metadata.finalizers", "metadata.ownerReferences"},
		},
		"the same claims with defaults and another notation": {
			live:     stateful + `{volumeMode: Filesystem, resources: {requests: {storage: 1Gi}}}, status: {phase: Pending}}]}}`,
			manifest: stateful + `{resources: {requests: {storage: 1024Mi}}}}]}}`,
		},
		"larger claims": {
			live:     stateful + `{resources: {requests: {storage: 1Gi}}}}]}}`,
			manifest: stateful + `{resources: {requests: {storage: 2Gi}}}}]}}`, want: []string{"spec.volumeClaimTemplates"},
		},
		"a selector of a Job": {
			live:     `{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {selector: {matchLabels: {controller-uid: u}}}}`,
			manifest: `{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {selector: {matchLabels: {a: b}}}}`,
			want:     []string{"spec.selector.matchLabels.a"},
		},
		"an address that the API server chose": {live: address + `ClusterIP, clusterIP: 10.0.0.1}}`, manifest: address + `ClusterIP}}`},
		"another address": {
			live: address + `ClusterIP, clusterIP: 10.0.0.1}}`, manifest: address + `ClusterIP, clusterIP: 10.0.0.2}}`,
			want: []string{"spec.clusterIP"},
		},
		"no address where one is wanted": {
			live: address + `ClusterIP, clusterIP: None}}`, manifest: address + `NodePort}}`, want: []string{"spec.clusterIP"},
		},
		"an address where none is wanted is sent": {
			live: address + `ClusterIP, clusterIP: 10.0.0.1}}`, manifest: address + `ClusterIP, clusterIP: None}}`,
		},
		"an external name has no address": {live: address + `ClusterIP, clusterIP: None}}`, manifest: address + `ExternalName}}`},
		"the address of a former external name is sent": {
			live: address + `ExternalName}}`, manifest: address + `ClusterIP, clusterIP: 10.0.0.1}}`,
		},
		"fields of a Pod that cannot be changed": {
			live: pod + `}, spec: {hostNetwork: true, nodeName: node, volumes: [{name: added}], containers: [{name: c, image: a, args: [a], env: ` +
				`[{name: E, value: a}], volumeMounts: [{name: added, mountPath: /added}], resources: {requests: {cpu: 1}}}]}}`,
			manifest: pod + `}, spec: {hostNetwork: false, activeDeadlineSeconds: 9, tolerations: [{key: t}], containers: [{name: c, image: b, ` +
				`args: [b], env: [{name: E, value: b}], volumeMounts: [], resources: {requests: {cpu: 1000m}, limits: {cpu: 2}}}, {name: d}]}}`,
			want: []string{
				"spec.containers[name=c].args", "spec.containers[name=c].env[name=E].value", "spec.containers[name=c].resources.limits",
				"spec.containers", "spec.hostNetwork",
			},
		},
		"more fields of a Pod than a message can list": {
			live: pod + `}, spec: {containers: []}}`,
			manifest: pod + `}, spec: {nodeSelector: {a: a, b: b, c: c, d: d, e: e, f: f, g: g, h: h, i: i, j: j}, hostname: a, subdomain: b, ` +
				`nodeName: node, priority: 1, hostPID: true, hostIPC: true, hostNetwork: true, runtimeClassName: r, schedulerName: s, ` +
				`serviceAccountName: s, enableServiceLinks: false}}`,
			want: []string{
				"spec.enableServiceLinks", "spec.hostIPC", "spec.hostNetwork", "spec.hostPID", "spec.hostname", "spec.nodeName",
				"spec.nodeSelector", "spec.priority", "spec.runtimeClassName", "spec.schedulerName", "and 2 more",
			},
		},
		"a Pod that is replaced": {
			live:     pod + `}, spec: {hostNetwork: true}}`,
			manifest: pod + `, annotations: {resources.gardener.cloud/delete-on-invalid-update: "true"}}, spec: {hostname: h}}`,
		},
		"a volume reserved for the claim that it is bound to": {live: volume + `, uid: u, resourceVersion: "1"}}}`, manifest: volume + `}}}`},
		"a volume reserved for a former claim of the name": {
			live: volume + `, uid: u}}}`, manifest: volume + `, uid: v}}}`, want: []string{"spec.claimRef.uid"},
		},
		"rules of a role that a controller fills in": {
			live:     role + `, aggregationRule: {}, rules: [{verbs: [get], resources: [a], apiGroups: [""]}]}`,
			manifest: role + `, aggregationRule: {}, rules: [{verbs: [get], resources: [b], apiGroups: [""]}]}`,
			want:     []string{"rules"},
		},
		"empty rules of a role that a controller fills in": {
			live:     role + `, aggregationRule: {}, rules: [{verbs: [get], resources: [a], apiGroups: [""]}]}`,
			manifest: role + `, aggregationRule: {}, rules: []}`,
		},
		"rules of another role are applied": {
			live: role + `, rules: []}`, manifest: role + `, rules: [{verbs: [get], resources: [b], apiGroups: [""]}]}`,
		},
		"data of a token": {
			live:     token + `data: {token: YQ==, namespace: bnM=}}`,
			manifest: token + `data: {token: Yg==, other: Yg==}, stringData: {namespace: ns, ca.crt: c}}`,
			want:     []string{"data.token", "data['ca.crt']"},
		},
		"a restart of another time": {
			live:     `{apiVersion: apps/v1, kind: DaemonSet, ` + template + `b}}}}}`,
			manifest: `{apiVersion: apps/v1, kind: DaemonSet, ` + template + `a}}}}}`,
			want:     []string{"spec.template.metadata.annotations['kubectl.kubernetes.io/restartedAt']"},
		},
		"a restart that the manifest does not know": {
			live: `{apiVersion: apps/v1, kind: DaemonSet, ` + template + `b}}}}}`, manifest: `{apiVersion: apps/v1, kind: DaemonSet}`,
		},
		"fields that the manifest asks to keep": {
			live:     scaled + `}, spec: {replicas: 3, paused: true}}`,
			manifest: scaled + `, annotations: {espalier.dev/keep-fields: spec.paused}}, spec: {replicas: 1, paused: false}}`,
		},
		"a manifest of another shape": {
			live: account + `secrets: text}`, manifest: account + `secrets: {a: b}}`, want: []string{"secrets"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			live, manifest := object(t, tc.live), object(t, tc.manifest)
			g.Expect(Unapplied(live, manifest)).To(Equal(tc.want))
			if tc.want != nil && manifest.GetKind() != "Service" {
				g.Expect(MayBeUnapplied(manifest)).To(BeTrue())
			}
			g.Expect(Unapplied(live, live)).To(BeEmpty())
		})
	}
}

// Every field of a manifest that a merge does not apply is listed, whatever differs in the live object.
func TestUnappliedListsEveryFieldThatMergeKeepsFromLive(t *testing.T) {
	documents := []string{
		`{apiVersion: v1, kind: ServiceAccount, secrets: [{name: a}], imagePullSecrets: [{name: b}], automountServiceAccountToken: false}`,
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, aggregationRule: {clusterRoleSelectors: [{matchLabels: {a: b}}]}, ` +
			`rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}`,
		`{apiVersion: v1, kind: Secret, type: kubernetes.io/service-account-token, data: {token: YQ==, other: Yg==}}`,
		`{apiVersion: batch/v1, kind: Job, spec: {selector: {matchLabels: {a: b}}, parallelism: 2, template: {metadata: {labels: {a: b}}}}}`,
		`{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 2, template: {metadata: {annotations: ` +
			`{kubectl.kubernetes.io/restartedAt: a}}, spec: {containers: [{name: c, resources: {limits: {cpu: 1}}}]}}}}`,
	}
	for _, file := range []string{"managedresourcetest/corpus/builtin", "managedresourcetest/corpus/custom", "applier/testdata/corpus"} {
		text, err := os.ReadFile("../../managedresource/" + file + ".yaml")
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		documents = append(documents, strings.Split(string(text), "\n---\n")...)
	}
	unapplied := 0
	for _, document := range documents {
		manifest := object(t, document)
		for _, changed := range changedLeaves(manifest.Object) {
			live := &unstructured.Unstructured{Object: changed.(map[string]any)} //nolint:errcheck // a change of a map is a map
			if live.GetKind() != manifest.GetKind() || live.GetAPIVersion() != manifest.GetAPIVersion() {
				continue
			}
			live.Object["metadata"] = map[string]any{"creationTimestamp": "2026-01-01T00:00:00Z"}
			merged, err := Merge(live, manifest, options())
			if err != nil {
				continue
			}
			var fields [][]string
			for field := range manifest.Object {
				if field != "metadata" && field != "status" && field != "stringData" {
					fields = append(fields, []string{field})
				}
			}
			slices.SortFunc(fields, slices.Compare)
			kept := missing(withData(merged), withData(manifest), fields)
			unapplied += len(kept)
			NewWithT(t).Expect(Unapplied(live, manifest)).To(Equal(kept), "%s: %v", document, live)
			NewWithT(t).Expect(len(kept) == 0 || MayBeUnapplied(manifest)).To(BeTrue(), document)
		}
	}
	NewWithT(t).Expect(unapplied).To(BeNumerically(">", 20))
}

// changedLeaves returns copies of a value with one leaf changed or removed.
func changedLeaves(value any) []any {
	var all []any
	switch typed := value.(type) {
	case map[string]any:
		for name, field := range typed {
			for _, each := range append(changedLeaves(field), nil) {
				changed := runtime.DeepCopyJSON(typed)
				changed[name] = each
				if each == nil {
					delete(changed, name)
				}
				all = append(all, changed)
			}
		}
	case []any:
		for i, item := range typed {
			for _, each := range changedLeaves(item) {
				changed := runtime.DeepCopyJSONValue(typed).([]any) //nolint:errcheck // the copy of a list is a list
				changed[i] = each
				all = append(all, changed)
			}
		}
	case string:
		all = append(all, typed+"x")
	case bool:
		all = append(all, !typed)
	case int64:
		all = append(all, typed+1)
	}
	return all
}

func TestForcedAnnotationsSpareTheStateOfKubernetes(t *testing.T) {
	for name, tc := range map[string]struct{ kind, kept, own string }{
		"a claim":      {"v1, kind: PersistentVolumeClaim", "pv.kubernetes.io/bind-completed", "volume.kubernetes.io/storage-class"},
		"a volume":     {"v1, kind: PersistentVolume", "pv.kubernetes.io/bound-by-controller", "volume.beta.kubernetes.io/storage-class"},
		"a Deployment": {"apps/v1, kind: Deployment", "deployment.kubernetes.io/revision", "deployment.kubernetes.io/own"},
		"an autoscaler": {
			"autoscaling/v1, kind: HorizontalPodAutoscaler", "autoscaling.alpha.kubernetes.io/conditions", "autoscaling.alpha.kubernetes.io/metrics",
		},
		"a token": {"v1, kind: Secret", "kubernetes.io/service-account.uid", "kubernetes.io/service-account.name"},
	} {
		t.Run(name, func(t *testing.T) {
			live := object(t, "{apiVersion: "+tc.kind+", metadata: {name: a, annotations: {"+tc.kept+": a, "+tc.own+": b, foreign: c}}}")
			manifest := object(t, "{apiVersion: "+tc.kind+", metadata: {name: a}}")
			merged, err := Merge(live, manifest, options(forceAnnotations, previous(nil, map[string]string{tc.own: "b"})))
			g := NewWithT(t)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(merged.GetAnnotations()).To(And(HaveKeyWithValue(tc.kept, "a"), Not(HaveKey(tc.own)), Not(HaveKey("foreign"))))
		})
	}
}

func TestForcedLabelsSpareTheStateOfTokens(t *testing.T) {
	g := NewWithT(t)
	const state = "kubernetes.io/legacy-token-invalid-since"
	live := object(t, "{apiVersion: v1, kind: Secret, metadata: {name: a, labels: {"+state+": now, foreign: b}}}")
	merged, err := Merge(live, object(t, "{apiVersion: v1, kind: Secret, metadata: {name: a}}"), options(forceLabels))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(merged.GetLabels()).To(And(HaveKeyWithValue(state, "now"), Not(HaveKey("foreign"))))
}
