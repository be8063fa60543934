package applier_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
)

func TestSecretsOfAServiceAccountStay(t *testing.T) {
	inBothSetups(t, func(e *managedresourcetest.Env) {
		account := func(metadata string) string {
			return e.Fill("apiVersion: v1\nkind: ServiceAccount\nmetadata: {" + metadata + "name: web, namespace: $NS}\nsecrets: [{name: manifest}]")
		}
		e.Set("mr", account(""))
		before := e.AwaitApplied("mr", "True/ApplySucceeded")
		e.Patch(accountKind, "web", `{"secrets":[{"name":"one"},{"name":"two"}],"imagePullSecrets":[{"name":"three"}]}`)
		e.Expect(e.Look("mr")).To(BeEmpty())
		e.Secret("mr", account("labels: {a: b}, "))
		e.AwaitChange(before)
		live := e.Live(accountKind, "web")
		e.Expect(live.GetLabels()).To(HaveKeyWithValue("a", "b"))
		e.Expect(managedresourcetest.Field(live, "secrets")).To(Equal([]any{map[string]any{"name": "one"}, map[string]any{"name": "two"}}))
		e.Expect(managedresourcetest.Field(live, "imagePullSecrets")).To(Equal([]any{map[string]any{"name": "three"}}))
		e.Expect(e.Look("mr")).To(BeEmpty())
	})
}

func TestLabelsThatTheAPIServerAddsToAJobStay(t *testing.T) {
	inBothSetups(t, func(e *managedresourcetest.Env) {
		e.Set("mr", onceJob(e, ""))
		before := e.AwaitApplied("mr", "True/ApplySucceeded")
		live := e.Live(jobKind, "once")
		labels, selector := managedresourcetest.Field(live, "spec", "template", "metadata", "labels"), managedresourcetest.Field(live, "spec",
			"selector")
		e.Expect(labels).To(And(HaveKeyWithValue("app", "once"), HaveKey("batch.kubernetes.io/controller-uid"), HaveKey("job-name"),
			HaveKeyWithValue(managedBy, "gardener")))
		e.Expect(e.Look("mr")).To(BeEmpty())
		e.Expect(e.Live(jobKind, "once").GetGeneration()).To(Equal(live.GetGeneration()))

		e.Secret("mr", onceJob(e, "labels: {a: b}, "))
		e.AwaitChange(before)
		live = e.Live(jobKind, "once")
		e.Expect(live.GetLabels()).To(HaveKeyWithValue("a", "b"))
		e.Expect(managedresourcetest.Field(live, "spec", "template", "metadata", "labels")).To(Equal(labels))
		e.Expect(managedresourcetest.Field(live, "spec", "selector")).To(Equal(selector))
		e.Expect(e.Look("mr")).To(BeEmpty())
	})
}

func TestVolumeClaimTemplatesOfALiveStatefulSetStay(t *testing.T) {
	inBothSetups(t, func(e *managedresourcetest.Env) {
		e.Set("mr", webStatefulSet(e, "", "1Gi"))
		before := e.AwaitApplied("mr", "True/ApplySucceeded")
		live := e.Live(statefulSetKind, "web")
		e.Secret("mr", webStatefulSet(e, "", "2Gi"))
		e.AwaitChange(before)
		after := e.Live(statefulSetKind, "web")
		e.Expect(after.GetUID()).To(Equal(live.GetUID()))
		e.Expect(after.GetGeneration()).To(Equal(live.GetGeneration()))
		e.Expect(managedresourcetest.Field(after, "spec")).To(Equal(managedresourcetest.Field(live, "spec")))
		e.Expect(e.Look("mr")).To(BeEmpty())
	})
}

func TestASetInSyncCausesNoRequests(t *testing.T) {
	t.Parallel()
	for name, two := range map[string]bool{"one cluster": false, "two clusters": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := managedresourcetest.New(t, managedresourcetest.Options{TwoClusters: two, Configure: everySecond})
			e.Set("mr", e.ConfigMap("c", "1"), webDeployment(e, "", "replicas: 0, ", ""))
			e.AwaitApplied("mr", "True/ApplySucceeded")
			if !two { // the controller reads and checks the Deployment after its own controller has written to it
				e.AwaitCondition("mr", "ResourcesProgressing", "False/ResourcesRolledOut")
				e.AwaitCondition("mr", "ResourcesHealthy", "True/ResourcesHealthy")
			}
			e.Expect(e.Look("mr")).To(BeEmpty())
			e.AwaitRest()
			awaitPasses(e, 2)
			before := []string{e.LiveConfigMap("c").ResourceVersion, e.Get("mr").ResourceVersion}
			e.Requests.Reset()
			awaitPasses(e, 3)
			e.Expect(e.Requests.Seen()).To(BeEmpty())
			e.Expect([]string{e.LiveConfigMap("c").ResourceVersion, e.Get("mr").ResourceVersion}).To(Equal(before))
		})
	}
}

func everySecond(c *config.ResourceManagerConfiguration) {
	c.Controllers.ManagedResource.SyncPeriod = &metav1.Duration{Duration: time.Second}
}

// awaitPasses waits until a set of two objects has been reconciled a number of times without a request.
func awaitPasses(e *managedresourcetest.Env, passes float64) {
	e.T.Helper()
	const spared = "espalier_managedresource_requests_saved_total"
	before := e.Counter(spared)
	e.Eventually(func() float64 { return e.Counter(spared) - before }).WithTimeout(managedresourcetest.Patience).
		Should(BeNumerically(">=", 2*passes))
}

func TestEveryObjectIsUpdatedInEachPeriodIfConfigured(t *testing.T) {
	t.Parallel()
	e := managedresourcetest.New(t, managedresourcetest.Options{TwoClusters: true, Configure: func(c *config.ResourceManagerConfiguration) {
		everySecond(c)
		c.Controllers.ManagedResource.AlwaysUpdate = new(true)
	}})
	e.Set("mr", e.ConfigMap("c", "1"), webDeployment(e, "", "replicas: 0, ", ""))
	e.AwaitApplied("mr", "True/ApplySucceeded")
	before := []string{e.LiveConfigMap("c").ResourceVersion, e.Live(deploymentKind, "web").GetResourceVersion()}
	recording := e.Requests.Record()
	for _, path := range []string{"/api/v1/namespaces/$NS/configmaps/c", "/apis/apps/v1/namespaces/$NS/deployments/web"} {
		e.Eventually(func() int { return len(recording.RequestsTo("PUT", e.Fill(path))) }).WithTimeout(managedresourcetest.Patience).
			Should(BeNumerically(">=", 3))
	}
	e.Expect([]string{e.LiveConfigMap("c").ResourceVersion, e.Live(deploymentKind, "web").GetResourceVersion()}).To(Equal(before))
}

// defaultedKind is a manifest as users write it. "$NS" makes the names of cluster-scoped objects unique.
type defaultedKind struct{ kind, name, manifest string }

// defaulted contains manifests to which an API server adds defaults, or whose values it normalizes.
var defaulted = map[string]defaultedKind{
	"Deployment": {deploymentKind, "d", `
apiVersion: apps/v1
kind: Deployment
metadata: {name: d, namespace: $NS, labels: {}, annotations: {a: ""}, creationTimestamp: null}
spec:
  replicas: 0
  paused: false
  strategy: {rollingUpdate: {maxSurge: 25%, maxUnavailable: 1}}
  selector: {matchLabels: {app: d}}
  template:
    metadata: {creationTimestamp: null, labels: {app: d}}
    spec:
      hostNetwork: false
      nodeSelector: {}
      securityContext: {}
      tolerations: []
      serviceAccount: web
      initContainers: [{name: init, image: "i:1", command: [sh, -c, "exit 0"]}]
      containers:
      - name: c
        image: i
        args: []
        env: [{name: EMPTY, value: ""}, {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
        ports: [{containerPort: 80, name: http}, {containerPort: 53, protocol: UDP}, {containerPort: 53}]
        readinessProbe: {httpGet: {path: /ready, port: http}, initialDelaySeconds: 0}
        livenessProbe: {tcpSocket: {port: 80}}
        resources: {limits: {cpu: 1000m, memory: 1024Mi, ephemeral-storage: 1073741824}, requests: {cpu: 0.5, memory: "1e9"}}
        volumeMounts: [{name: tmp, mountPath: /tmp, readOnly: false}, {name: conf, mountPath: /conf}, {name: all, mountPath: /all}]
      volumes:
      - {name: tmp, emptyDir: {}}
      - {name: conf, configMap: {name: c, optional: false}}
      - {name: all, projected: {sources: [{secret: {name: s}}, {serviceAccountToken: {path: token}}, {downwardAPI: {items: [{path: l, fieldRef: {fieldPath: metadata.labels}}]}}]}}
`},
	"StatefulSet": {statefulSetKind, "s", `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: s, namespace: $NS}
spec:
  replicas: 0
  serviceName: s
  selector: {matchLabels: {app: s}}
  template: {metadata: {labels: {app: s}}, spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "0.1", memory: 64M}}}], terminationGracePeriodSeconds: 30}}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1024Mi}}}
`},
	"DaemonSet": {"apps/v1/DaemonSet", "d", `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: d, namespace: $NS}
spec:
  selector: {matchLabels: {app: d}}
  updateStrategy: {rollingUpdate: {maxUnavailable: 10%}}
  template:
    metadata: {labels: {app: d}}
    spec:
      hostNetwork: true
      containers: [{name: c, image: "i:latest", ports: [{containerPort: 9100}], securityContext: {runAsUser: 0}}]
      volumes: [{name: host, hostPath: {path: /}}]
      nodeSelector: {none: such}
`},
	"Job": {jobKind, "j", `
apiVersion: batch/v1
kind: Job
metadata: {name: j, namespace: $NS}
spec: {suspend: true, template: {spec: {restartPolicy: OnFailure, containers: [{name: c, image: i, resources: {limits: {cpu: "2000m"}}}]}}}
`},
	"Job without template labels": {jobKind, "bare", `
apiVersion: batch/v1
kind: Job
metadata: {name: bare, namespace: $NS, labels: {app: bare}}
spec: {suspend: true, backoffLimit: 0, ttlSecondsAfterFinished: 100, template: {metadata: {}, spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}
`},
	"CronJob": {"batch/v1/CronJob", "c", `
apiVersion: batch/v1
kind: CronJob
metadata: {name: c, namespace: $NS}
spec: {schedule: "0 3 * * *", suspend: true, jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i, resources: {requests: {memory: 1024Ki}}}]}}}}}
`},
	"Service with a cluster IP": {serviceKind, "c", `
apiVersion: v1
kind: Service
metadata: {name: c, namespace: $NS, annotations: {}}
spec: {selector: {app: d}, sessionAffinity: None, ports: [{port: 80, name: http, targetPort: http}, {port: 443, name: https, targetPort: 8443, nodePort: 0}]}
`},
	"headless Service": {serviceKind, "h", `
apiVersion: v1
kind: Service
metadata: {name: h, namespace: $NS}
spec: {type: ClusterIP, clusterIP: None, publishNotReadyAddresses: true, selector: {app: d}, ports: [{port: 53, protocol: UDP, name: dns}, {port: 53, name: dns-tcp}]}
`},
	"NodePort Service": {serviceKind, "node", `
apiVersion: v1
kind: Service
metadata: {name: node, namespace: $NS}
spec: {type: NodePort, selector: {app: d}, ports: [{port: 80}]}
`},
	"LoadBalancer Service": {serviceKind, "l", `
apiVersion: v1
kind: Service
metadata: {name: l, namespace: $NS}
spec: {type: LoadBalancer, externalTrafficPolicy: Local, loadBalancerSourceRanges: [10.0.0.0/8], selector: {app: d}, ports: [{port: 80, name: a}, {port: 81, name: b, protocol: UDP}]}
`},
	"ExternalName Service": {serviceKind, "x", `
apiVersion: v1
kind: Service
metadata: {name: x, namespace: $NS}
spec: {type: ExternalName, externalName: example.test}
`},
	"ServiceAccount": {accountKind, "a", `
apiVersion: v1
kind: ServiceAccount
metadata: {name: a, namespace: $NS}
automountServiceAccountToken: false
secrets: []
`},
	"Secret with stringData": {"v1/Secret", "s", `
apiVersion: v1
kind: Secret
metadata: {name: s, namespace: $NS}
data: {a: "YQ==", both: "bm8="}
stringData: {b: text, both: "yes", n: "1"}
`},
	"Secret of a type": {"v1/Secret", "t", `
apiVersion: v1
kind: Secret
metadata: {name: t, namespace: $NS}
type: kubernetes.io/basic-auth
data:
  username: |
    YWRt
    aW4=
  password: ""
`},
	"ConfigMap": {configMapKind, "c", `
apiVersion: v1
kind: ConfigMap
metadata: {name: c, namespace: $NS}
data: {a: "", b: "1"}
binaryData: {}
immutable: false
`},
	"empty ConfigMap": {configMapKind, "e", `
apiVersion: v1
kind: ConfigMap
metadata: {name: e, namespace: $NS}
data:
`},
	"Role": {"rbac.authorization.k8s.io/v1/Role", "r", `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: r, namespace: $NS}
rules: [{apiGroups: [""], resources: [pods, pods/log], resourceNames: [], verbs: [get, list]}]
`},
	"RoleBinding": {"rbac.authorization.k8s.io/v1/RoleBinding", "r", `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: r, namespace: $NS}
roleRef: {kind: Role, name: r}
subjects: [{kind: ServiceAccount, name: web, namespace: $NS}, {kind: User, name: u}]
`},
	"ClusterRole": {"rbac.authorization.k8s.io/v1/ClusterRole", "$NS-r", `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: $NS-r}
rules: []
`},
	"ClusterRoleBinding": {"rbac.authorization.k8s.io/v1/ClusterRoleBinding", "$NS-r", `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: $NS-r}
roleRef: {kind: ClusterRole, name: $NS-r, apiGroup: rbac.authorization.k8s.io}
subjects: [{kind: Group, name: g, apiGroup: rbac.authorization.k8s.io}, {kind: Group, name: h}]
`},
	"PodDisruptionBudget": {"policy/v1/PodDisruptionBudget", "p", `
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: p, namespace: $NS}
spec: {maxUnavailable: 50%, selector: {matchLabels: {app: d}}}
`},
	"NetworkPolicy": {"networking.k8s.io/v1/NetworkPolicy", "p", `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: p, namespace: $NS}
spec:
  podSelector: {}
  ingress: [{from: [{podSelector: {}}, {namespaceSelector: {}}], ports: [{port: 80}, {port: http}, {port: 53, protocol: UDP}]}]
  egress: [{to: [{ipBlock: {cidr: 0.0.0.0/0, except: []}}]}]
  policyTypes: [Ingress, Egress]
`},
	"Ingress": {"networking.k8s.io/v1/Ingress", "i", `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: i, namespace: $NS}
spec:
  tls: [{hosts: [a.example.test]}]
  rules: [{host: a.example.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: c, port: {number: 80}}}}]}}]
`},
	"IngressClass": {"networking.k8s.io/v1/IngressClass", "$NS-i", `
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: $NS-i}
spec: {controller: example.test/none, parameters: {kind: Parameters, name: p}}
`},
	"HorizontalPodAutoscaler v2": {"autoscaling/v2/HorizontalPodAutoscaler", "h", `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: h, namespace: $NS}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: missing}
  maxReplicas: 3
  metrics:
  - {type: Pods, pods: {metric: {name: m}, target: {type: AverageValue, averageValue: 1000m}}}
  - {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}
  behavior: {scaleDown: {policies: [{type: Pods, value: 1, periodSeconds: 60}]}}
`},
	"HorizontalPodAutoscaler v1": {"autoscaling/v1/HorizontalPodAutoscaler", "h1", `
apiVersion: autoscaling/v1
kind: HorizontalPodAutoscaler
metadata: {name: h1, namespace: $NS}
spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: missing}, maxReplicas: 3}
`},
	"PriorityClass": {"scheduling.k8s.io/v1/PriorityClass", "$NS-p", `
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: $NS-p}
value: 1000
globalDefault: false
description: ""
`},
	"StorageClass": {"storage.k8s.io/v1/StorageClass", "$NS-s", `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: $NS-s}
provisioner: example.test/none
parameters: {}
mountOptions: []
`},
	"PersistentVolume": {"v1/PersistentVolume", "$NS-p", `
apiVersion: v1
kind: PersistentVolume
metadata: {name: $NS-p}
spec: {capacity: {storage: 1024Mi}, accessModes: [ReadWriteOnce], hostPath: {path: /none}, storageClassName: none}
`},
	"PersistentVolumeClaim": {claimKind, "p", `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: p, namespace: $NS}
spec: {accessModes: [ReadWriteOnce], storageClassName: none, resources: {requests: {storage: 1024Mi}}}
`},
	"ResourceQuota": {"v1/ResourceQuota", "q", `
apiVersion: v1
kind: ResourceQuota
metadata: {name: q, namespace: $NS}
spec: {hard: {count/widgets.example.test: 1000m, requests.cpu: 1000000m, requests.memory: 1024Gi}}
`},
	"LimitRange": {"v1/LimitRange", "l", `
apiVersion: v1
kind: LimitRange
metadata: {name: l, namespace: $NS}
spec: {limits: [{type: Container, max: {cpu: 64000m}, default: {cpu: "1"}, defaultRequest: {cpu: 0.5, memory: 1024Ki}}]}
`},
	"Namespace": {"v1/Namespace", "$NS-n", `
apiVersion: v1
kind: Namespace
metadata: {name: $NS-n}
`},
	"CustomResourceDefinition": {"apiextensions.k8s.io/v1/CustomResourceDefinition", "things.$NS-d.example.test", `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.$NS-d.example.test, creationTimestamp: null}
spec:
  group: $NS-d.example.test
  names: {kind: Thing, plural: things}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    additionalPrinterColumns: [{name: Age, type: date, jsonPath: .metadata.creationTimestamp}, {name: Size, type: integer, jsonPath: .spec.size, priority: 0}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {size: {type: integer, format: int32, default: 3}, port: {x-kubernetes-int-or-string: true}}}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
status: {acceptedNames: {kind: "", plural: ""}, conditions: [], storedVersions: []}
`},
	"custom resource": {"$NS-w.example.test/v1/Widget", "w", `
apiVersion: $NS-w.example.test/v1
kind: Widget
metadata: {name: w, namespace: $NS}
spec: {size: 1.0, ratio: 0.5, quantity: 1000m, empty: {}, none: null, list: [], nested: [{a: 1}, {b: "2"}]}
status: {observed: wrong}
`},
	"ValidatingWebhookConfiguration": {"admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration", "$NS-v", `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: $NS-v}
webhooks:
- name: v.example.test
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {service: {namespace: $NS, name: none}}
  rules: [{apiGroups: [none.example.test], apiVersions: ["*"], resources: [nothings], operations: [CREATE]}]
`},
	"MutatingWebhookConfiguration": {"admissionregistration.k8s.io/v1/MutatingWebhookConfiguration", "$NS-m", `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: $NS-m}
webhooks:
- name: m.example.test
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Ignore
  namespaceSelector: {}
  clientConfig: {url: "https://127.0.0.1:1/"}
  rules: [{apiGroups: [none.example.test], apiVersions: ["*"], resources: [nothings], operations: [CREATE]}]
`},
	"APIService": {"apiregistration.k8s.io/v1/APIService", "v1.$NS-a.example.test", `
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.$NS-a.example.test}
spec: {group: $NS-a.example.test, version: v1, groupPriorityMinimum: 100, versionPriority: 100, insecureSkipTLSVerify: true, service: {namespace: $NS, name: none}}
`},
	"Pod": {"v1/Pod", "p", `
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: $NS}
spec:
  serviceAccountName: web
  restartPolicy: Always
  containers: [{name: c, image: i, resources: {limits: {cpu: 1000m, memory: 1024Mi}}}]
`},
	"ReplicaSet": {"apps/v1/ReplicaSet", "r", `
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: r, namespace: $NS}
spec: {replicas: 0, selector: {matchLabels: {app: r}}, template: {metadata: {labels: {app: r}}, spec: {containers: [{name: c, image: i}]}}}
`},
}

// Defaults that the API server adds, and values that it normalizes, must not be repaired like changes by a client.
func TestDefaultsOfTheAPIServerAreNotTakenForDrift(t *testing.T) {
	t.Parallel()
	for setup, two := range map[string]bool{"one cluster": false, "two clusters": true} {
		t.Run(setup, func(t *testing.T) {
			t.Parallel()
			e := managedresourcetest.New(t, managedresourcetest.Options{TwoClusters: two, Stopped: true, Configure: longSyncPeriod})
			e.Define(e.Fill("$NS-w.example.test"), "v1", "Widget")
			e.Start()
			e.Create(e.Fill("{apiVersion: v1, kind: ServiceAccount, metadata: {name: web, namespace: $NS}}"))
			for name, tc := range defaulted {
				t.Run(name, func(t *testing.T) { takesNothingForDrift(e.Within(t), setName(name), tc) })
			}
			e.Restart(nil)
			for name := range defaulted {
				t.Run(name+" after a restart", func(t *testing.T) {
					sub := e.Within(t)
					sub.Expect(requestsOfPass(sub, setName(name))).To(BeEmpty())
				})
			}
		})
	}
}

func setName(kind string) string { return strings.ToLower(strings.ReplaceAll(kind, " ", "-")) }

// requestsOfPass returns the requests of a pass over a set. It leaves out status writes of other sets, whose objects may become ready at
// any time.
func requestsOfPass(e *managedresourcetest.Env, set string) []string {
	e.T.Helper()
	return slices.DeleteFunc(e.Look(set), func(request string) bool {
		return strings.HasSuffix(request, "/status") && !strings.HasSuffix(request, "/managedresources/"+set+"/status")
	})
}

func takesNothingForDrift(e *managedresourcetest.Env, set string, tc defaultedKind) {
	kind, name := e.Fill(tc.kind), e.Fill(tc.name)
	e.Set(set, e.Fill(tc.manifest))
	e.AwaitApplied(set, "True/ApplySucceeded")
	before := e.Live(kind, name)
	e.Expect(requestsOfPass(e, set)).To(BeEmpty())
	after := e.Live(kind, name)
	e.Expect(after.GetUID()).To(Equal(before.GetUID()))
	if e.Source != e.Target { // otherwise controllers of Kubernetes may write at any time
		e.Expect(after.GetResourceVersion()).To(Equal(before.GetResourceVersion()))
	}
}
