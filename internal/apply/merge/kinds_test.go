package merge

import (
	"testing"

	. "github.com/onsi/gomega"
)

// specCase is the test case of a rule that changes only the spec of the merged object.
type specCase struct {
	kind           string // "<apiVersion> <Kind>" in flow YAML
	metadata       string // more metadata of live
	annotations    string // of the manifest, in flow YAML
	live, manifest string // spec
	want           string // spec
	options        Options
}

func (c specCase) run(t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	annotations := c.annotations
	if annotations == "" {
		annotations = "{}"
	}
	live := object(t, "{"+c.kind+", metadata: {name: a"+c.metadata+"}, spec: "+c.live+"}")
	manifest := object(t, "{"+c.kind+", metadata: {name: a, annotations: "+annotations+"}, spec: "+c.manifest+"}")
	want := object(t, "{"+c.kind+", spec: "+c.want+"}")
	g.Expect(merged(t, live, manifest, c.options).Object["spec"]).To(Equal(want.Object["spec"]))
}

// optionsWithoutLabels returns options without injected labels, so that templates stay short.
func optionsWithoutLabels(modify ...func(*Options)) Options {
	o := options(modify...)
	o.InjectLabels = nil
	return o
}

const (
	deployment    = "apiVersion: apps/v1, kind: Deployment"
	oldDeployment = "apiVersion: extensions/v1beta1, kind: Deployment"
	statefulSet   = "apiVersion: apps/v1, kind: StatefulSet"
	oldStateful   = "apiVersion: extensions/v1beta1, kind: StatefulSet"
	daemonSet     = "apiVersion: apps/v1, kind: DaemonSet"
	oldDaemonSet  = "apiVersion: extensions/v1beta1, kind: DaemonSet"
	fleet         = "apiVersion: example.com/v1, kind: Fleet"
	replicaSet    = "apiVersion: apps/v1, kind: ReplicaSet"
	job           = "apiVersion: batch/v1, kind: Job"
	cronJob       = "apiVersion: batch/v1, kind: CronJob"
	oldCronJob    = "apiVersion: batch/v1beta1, kind: CronJob"
)

func TestMergeReplicas(t *testing.T) {
	for name, tc := range map[string]specCase{
		"the manifest's replicas are used": {
			kind: deployment, live: "{replicas: 5}", manifest: "{replicas: 1}", want: "{replicas: 1}", options: optionsWithoutLabels(),
		},
		"preserve-replicas keeps live's replicas": {
			kind: deployment, annotations: `{resources.gardener.cloud/preserve-replicas: "true"}`, live: "{replicas: 5}",
			manifest: "{replicas: 1}", want: "{replicas: 5}", options: optionsWithoutLabels(),
		},
		"an autoscaler keeps live's replicas": {
			kind: deployment, live: "{replicas: 5}", manifest: "{replicas: 1}", want: "{replicas: 5}",
			options: optionsWithoutLabels(preserveReplicas),
		},
		"a manifest without replicas keeps live's replicas": {
			kind: deployment, live: "{replicas: 5}", manifest: "{}", want: "{replicas: 5}", options: optionsWithoutLabels(),
		},
		"replicas that are null count as missing": {
			kind: deployment, live: "{replicas: 5}", manifest: "{replicas: null}", want: "{replicas: 5}", options: optionsWithoutLabels(),
		},
		"zero replicas are used": {
			kind: deployment, live: "{replicas: 5}", manifest: "{replicas: 0}", want: "{replicas: 0}", options: optionsWithoutLabels(),
		},
		"preserve-replicas with another truthy value does nothing": {
			kind: deployment, annotations: `{resources.gardener.cloud/preserve-replicas: "True"}`, live: "{replicas: 5}",
			manifest: "{replicas: 1}", want: "{replicas: 1}", options: optionsWithoutLabels(),
		},
		"preserve-replicas on live does nothing": {
			kind: deployment, metadata: `, annotations: {resources.gardener.cloud/preserve-replicas: "true"}`, live: "{replicas: 5}",
			manifest: "{replicas: 1}", want: "{replicas: 1}", options: optionsWithoutLabels(),
		},
		"live has no replicas": {
			kind: deployment, live: "{}", manifest: "{replicas: 1}", want: "{replicas: 1}", options: optionsWithoutLabels(preserveReplicas),
		},
		"Deployments of extensions": {
			kind: oldDeployment, live: "{replicas: 5}", manifest: "{replicas: 1}", want: "{replicas: 5}",
			options: optionsWithoutLabels(preserveReplicas),
		},
		"StatefulSets": {
			kind: statefulSet, live: "{replicas: 5}", manifest: "{replicas: 1}", want: "{replicas: 5}",
			options: optionsWithoutLabels(preserveReplicas),
		},
		"StatefulSets without replicas": {
			kind: oldStateful, live: "{replicas: 5}", manifest: "{}", want: "{replicas: 5}", options: optionsWithoutLabels(),
		},
		"ReplicaSets": {
			kind: replicaSet, live: "{replicas: 5}", manifest: "{}", want: "{replicas: 5}", options: optionsWithoutLabels(),
		},
		"ReplicationControllers": {
			kind: "apiVersion: v1, kind: ReplicationController", live: "{replicas: 5}", manifest: "{replicas: 1}", want: "{replicas: 5}",
			options: optionsWithoutLabels(preserveReplicas),
		},
		"a custom kind has its own path": {
			kind: fleet, live: "{size: {want: 5}, replicas: 5}", manifest: "{}", want: "{size: {want: 5}}",
			options: optionsWithoutLabels(replicasAt("spec", "size", "want")),
		},
		"an autoscaler of a custom kind": {
			kind: fleet, live: "{size: {want: 5}, replicas: 5}", manifest: "{size: {want: 1}, replicas: 1}",
			want:    "{size: {want: 5}, replicas: 1}",
			options: optionsWithoutLabels(preserveReplicas, replicasAt("spec", "size", "want")),
		},
		"a custom kind whose path is not known": {
			kind: fleet, live: "{replicas: 5}", manifest: "{replicas: 1}", want: "{replicas: 5}", options: optionsWithoutLabels(preserveReplicas),
		},
		"a custom kind without a path": {
			kind: fleet, live: "{replicas: 5}", manifest: "{}", want: "{}", options: optionsWithoutLabels(),
		},
	} {
		t.Run(name, tc.run)
	}
}

func TestMergeContainerResources(t *testing.T) {
	const (
		live = `{template: {spec: {initContainers: [{name: i, resources: {requests: {cpu: 9}}}], containers: [{name: a, resources: ` +
			`{requests: {cpu: 1, memory: 1Gi, storage: 1Gi}, limits: {cpu: 2}}}, {name: gone, resources: {requests: {cpu: 9}}}, {name: c}]}}}`
		manifest = `{template: {spec: {initContainers: [{name: i, resources: {requests: {cpu: 3}}}], containers: [{name: new, resources: ` +
			`{requests: {cpu: 3}}}, {name: c, resources: {limits: {memory: 3Gi}}}, {name: a, resources: {requests: {cpu: 3, storage: 3Gi}, ` +
			`limits: {memory: 3Gi, gpu: 3}}}]}}}`
		kept = `{template: {spec: {initContainers: [{name: i, resources: {requests: {cpu: 3}}}], containers: [{name: new, resources: ` +
			`{requests: {cpu: 3}}}, {name: c, resources: {limits: {memory: 3Gi}}}, {name: a, resources: {requests: {cpu: 1, memory: 1Gi, ` +
			`storage: 3Gi}, limits: {cpu: 2, memory: 3Gi, gpu: 3}}}]}}}`
		annotate = `{resources.gardener.cloud/preserve-resources: "true"}`
	)
	for name, tc := range map[string]specCase{
		"the manifest's resources are used": {
			kind: deployment, live: live, manifest: manifest, want: manifest, options: optionsWithoutLabels(),
		},
		"preserve-resources keeps CPU and memory": {
			kind: deployment, annotations: annotate, live: live, manifest: manifest, want: kept, options: optionsWithoutLabels(),
		},
		"an autoscaler keeps CPU and memory": {
			kind: deployment, live: live, manifest: manifest, want: kept, options: optionsWithoutLabels(preserveResources),
		},
		"preserve-resources with another truthy value does nothing": {
			kind: deployment, annotations: `{resources.gardener.cloud/preserve-resources: "1"}`, live: live, manifest: manifest, want: manifest,
			options: optionsWithoutLabels(),
		},
		"containers without resources get those of live": {
			kind: deployment, live: "{template: {spec: {containers: [{name: a, resources: {limits: {memory: 1Gi}}}]}}}",
			manifest: "{template: {spec: {containers: [{name: a}]}}}",
			want:     "{template: {spec: {containers: [{name: a, resources: {limits: {memory: 1Gi}}}]}}}",
			options:  optionsWithoutLabels(preserveResources),
		},
		"containers without name never match": {
			kind: deployment, live: "{template: {spec: {containers: [{resources: {limits: {memory: 1Gi}}}]}}}",
			manifest: "{template: {spec: {containers: [{}]}}}", want: "{template: {spec: {containers: [{}]}}}",
			options: optionsWithoutLabels(preserveResources),
		},
		"Deployments of extensions": {
			kind: oldDeployment, live: live, manifest: manifest, want: kept, options: optionsWithoutLabels(preserveResources),
		},
		"StatefulSets": {
			kind: statefulSet, live: live, manifest: manifest, want: kept, options: optionsWithoutLabels(preserveResources),
		},
		"DaemonSets": {
			kind: daemonSet, live: live, manifest: manifest, want: kept, options: optionsWithoutLabels(preserveResources),
		},
		"DaemonSets of extensions have no rule": {
			kind: oldDaemonSet, live: live, manifest: manifest, want: manifest, options: optionsWithoutLabels(preserveResources),
		},
		"Jobs": {
			kind: job, live: live, manifest: manifest, want: kept, options: optionsWithoutLabels(preserveResources),
		},
		"CronJobs": {
			kind: cronJob, live: "{jobTemplate: {spec: " + live + "}}", manifest: "{jobTemplate: {spec: " + manifest + "}}",
			want: "{jobTemplate: {spec: " + kept + "}}", options: optionsWithoutLabels(preserveResources),
		},
		"old CronJobs": {
			kind: oldCronJob, live: "{jobTemplate: {spec: " + live + "}}", manifest: "{jobTemplate: {spec: " + manifest + "}}",
			want: "{jobTemplate: {spec: " + kept + "}}", options: optionsWithoutLabels(preserveResources),
		},
		"other kinds have no rule": {
			kind: replicaSet, live: live, manifest: manifest, want: manifest, options: optionsWithoutLabels(preserveResources),
		},
	} {
		t.Run(name, tc.run)
	}
}

func TestMergeRestartedAt(t *testing.T) {
	const (
		live     = `{template: {metadata: {annotations: {kubectl.kubernetes.io/restartedAt: live, other: live}}}}`
		manifest = `{template: {metadata: {annotations: {other: manifest}}}}`
		kept     = `{template: {metadata: {annotations: {kubectl.kubernetes.io/restartedAt: live, other: manifest}}}}`
	)
	for name, tc := range map[string]specCase{
		"Deployments":               {kind: deployment, live: live, manifest: manifest, want: kept, options: optionsWithoutLabels()},
		"Deployments of extensions": {kind: oldDeployment, live: live, manifest: manifest, want: kept, options: optionsWithoutLabels()},
		"StatefulSets":              {kind: statefulSet, live: live, manifest: manifest, want: kept, options: optionsWithoutLabels()},
		"DaemonSets":                {kind: daemonSet, live: live, manifest: manifest, want: kept, options: optionsWithoutLabels()},
		"Jobs":                      {kind: job, live: live, manifest: manifest, want: kept, options: optionsWithoutLabels()},
		"CronJobs": {
			kind: cronJob, live: "{jobTemplate: {spec: " + live + "}}", manifest: "{jobTemplate: {spec: " + manifest + "}}",
			want: "{jobTemplate: {spec: " + kept + "}}", options: optionsWithoutLabels(),
		},
		"live wins over the manifest": {
			kind: deployment, live: live,
			manifest: `{template: {metadata: {annotations: {kubectl.kubernetes.io/restartedAt: manifest, other: manifest}}}}`, want: kept,
			options: optionsWithoutLabels(),
		},
		"the manifest's annotation stays if live has none": {
			kind: deployment, live: "{template: {}}", manifest: kept, want: kept, options: optionsWithoutLabels(),
		},
		"a template without metadata": {
			kind: deployment, live: live, manifest: "{template: {}}",
			want: "{template: {metadata: {annotations: {kubectl.kubernetes.io/restartedAt: live}}}}", options: optionsWithoutLabels(),
		},
		"no template in the manifest": {
			kind: deployment, live: live, manifest: "{}", want: "{}", options: optionsWithoutLabels(),
		},
		"other kinds have no rule": {
			kind: replicaSet, live: live, manifest: manifest, want: manifest, options: optionsWithoutLabels(),
		},
	} {
		t.Run(name, tc.run)
	}
}

func TestMergeVolumeClaimTemplates(t *testing.T) {
	const created = `, creationTimestamp: "2024-01-02T03:04:05Z"`
	for name, tc := range map[string]specCase{
		"live's templates are kept": {
			kind: statefulSet, metadata: created, live: "{volumeClaimTemplates: [{metadata: {name: live}}]}",
			manifest: "{volumeClaimTemplates: [{metadata: {name: manifest}}]}", want: "{volumeClaimTemplates: [{metadata: {name: live}}]}",
			options: options(),
		},
		"live has no templates": {
			kind: oldStateful, metadata: created, live: "{}", manifest: "{volumeClaimTemplates: [{metadata: {name: manifest}}]}", want: "{}",
			options: options(),
		},
		"the manifest has no templates": {
			kind: statefulSet, metadata: created, live: "{volumeClaimTemplates: [{metadata: {name: live}}]}", manifest: "{}",
			want: "{volumeClaimTemplates: [{metadata: {name: live}}]}", options: options(),
		},
		"an object that does not exist yet gets the manifest's templates, labelled": {
			kind: statefulSet, live: "{volumeClaimTemplates: [{metadata: {name: live}}]}",
			manifest: "{volumeClaimTemplates: [{metadata: {name: manifest}}]}",
			want:     "{volumeClaimTemplates: [{metadata: {name: manifest, labels: {resources.gardener.cloud/managed-by: gardener}}}]}",
			options:  options(),
		},
		"other kinds have no rule": {
			kind: deployment, metadata: created, live: "{volumeClaimTemplates: [{metadata: {name: live}}]}",
			manifest: "{volumeClaimTemplates: [{metadata: {name: manifest}}]}", want: "{volumeClaimTemplates: [{metadata: {name: manifest}}]}",
			options: optionsWithoutLabels(),
		},
	} {
		t.Run(name, tc.run)
	}
}

func TestMergeJob(t *testing.T) {
	for name, tc := range map[string]specCase{
		"labels that the API server added are kept": {
			kind: job,
			live: "{selector: {matchLabels: {controller-uid: u}}, template: {metadata: {labels: {controller-uid: u, job-name: a, b: live}}," +
				" spec: {restartPolicy: Never}}}",
			manifest: "{template: {metadata: {labels: {b: manifest, c: d}}, spec: {restartPolicy: OnFailure}}}",
			want: "{selector: {matchLabels: {controller-uid: u}}, template: {metadata: {labels: {controller-uid: u, job-name: a, b: " +
				"manifest, c: d}}, spec: {restartPolicy: OnFailure}}}",
			options: optionsWithoutLabels(),
		},
		"a template without metadata gets the labels that the API server added": {
			kind: job, live: "{template: {metadata: {labels: {job-name: a}}}}", manifest: "{template: {}}",
			want: "{template: {metadata: {labels: {job-name: a}}}}", options: optionsWithoutLabels(),
		},
		"live's selector is kept": {
			kind: job, live: "{selector: {a: live}}", manifest: "{selector: {a: manifest}}", want: "{selector: {a: live}}",
			options: optionsWithoutLabels(),
		},
		"the selector is removed if live has none": {
			kind: job, live: "{}", manifest: "{selector: {a: manifest}}", want: "{}", options: optionsWithoutLabels(),
		},
		"a Job of another group has no rules": {
			kind: "apiVersion: example.com/v1, kind: Job", live: "{selector: {a: live}}", manifest: "{selector: {a: manifest}}",
			want: "{selector: {a: manifest}}", options: optionsWithoutLabels(),
		},
	} {
		t.Run(name, tc.run)
	}
}

func TestMergeService(t *testing.T) {
	const service = "apiVersion: v1, kind: Service"
	for name, tc := range map[string]specCase{
		"the cluster IP never changes": {
			kind: service, live: "{clusterIP: 10.0.0.1}", manifest: "{clusterIP: 10.0.0.2}", want: "{clusterIP: 10.0.0.1}",
			options: optionsWithoutLabels(),
		},
		"a manifest without cluster IP keeps live's": {
			kind: service, live: "{clusterIP: 10.0.0.1, type: ClusterIP}", manifest: "{}", want: "{clusterIP: 10.0.0.1}",
			options: optionsWithoutLabels(),
		},
		"the cluster IP None is sent": {
			kind: service, live: "{clusterIP: 10.0.0.1}", manifest: "{clusterIP: None}", want: "{clusterIP: None}",
			options: optionsWithoutLabels(),
		},
		"a headless Service stays headless": {
			kind: service, live: "{clusterIP: None}", manifest: "{clusterIP: 10.0.0.2}", want: "{clusterIP: None}",
			options: optionsWithoutLabels(),
		},
		"a former ExternalName Service gets the cluster IP of the manifest": {
			kind: service, live: "{type: ExternalName, externalName: a.b}", manifest: "{clusterIP: 10.0.0.2}", want: "{clusterIP: 10.0.0.2}",
			options: optionsWithoutLabels(),
		},
		"a Service that becomes an ExternalName keeps no cluster IP": {
			kind: service, live: "{clusterIP: 10.0.0.1}", manifest: "{type: ExternalName, externalName: a.b}",
			want: "{type: ExternalName, externalName: a.b}", options: optionsWithoutLabels(),
		},
		"node ports are kept by number": {
			kind: service, live: "{type: LoadBalancer, ports: [{name: a, port: 80, nodePort: 30080}]}",
			manifest: "{type: LoadBalancer, ports: [{name: b, port: 80}]}",
			want:     "{type: LoadBalancer, ports: [{name: b, port: 80, nodePort: 30080}]}", options: optionsWithoutLabels(),
		},
		"node ports are kept by name": {
			kind: service, live: "{type: NodePort, ports: [{name: a, port: 80, nodePort: 30080}]}",
			manifest: "{type: NodePort, ports: [{name: a, port: 81, nodePort: 0}]}",
			want:     "{type: NodePort, ports: [{name: a, port: 81, nodePort: 30080}]}",
			options:  optionsWithoutLabels(),
		},
		"node ports of other ports are not kept": {
			kind: service, live: "{type: NodePort, ports: [{name: a, port: 80, nodePort: 30080}]}",
			manifest: "{type: NodePort, ports: [{name: b, port: 81}]}", want: "{type: NodePort, ports: [{name: b, port: 81}]}",
			options: optionsWithoutLabels(),
		},
		"a node port of the manifest is used": {
			kind: service, live: "{type: NodePort, ports: [{port: 80, nodePort: 30080}]}",
			manifest: "{type: NodePort, ports: [{port: 80, nodePort: 30081}]}", want: "{type: NodePort, ports: [{port: 80, nodePort: 30081}]}",
			options: optionsWithoutLabels(),
		},
		"the protocol distinguishes ports of the same number": {
			kind:     service,
			live:     "{type: NodePort, ports: [{name: a, port: 53, nodePort: 1, protocol: UDP}, {name: b, port: 53, nodePort: 2}]}",
			manifest: "{type: NodePort, ports: [{name: c, port: 53, protocol: TCP}, {name: d, port: 53, protocol: UDP}]}",
			want:     "{type: NodePort, ports: [{name: c, port: 53, protocol: TCP, nodePort: 2}, {name: d, port: 53, protocol: UDP, nodePort: 1}]}",
			options:  optionsWithoutLabels(),
		},
		"the number counts more than the name": {
			kind:     service,
			live:     "{type: NodePort, ports: [{name: http, port: 80, nodePort: 30080}, {name: https, port: 443, nodePort: 30443}]}",
			manifest: "{type: NodePort, ports: [{name: web, port: 443}, {name: https, port: 8443}]}",
			want:     "{type: NodePort, ports: [{name: web, port: 443, nodePort: 30443}, {name: https, port: 8443}]}",
			options:  optionsWithoutLabels(),
		},
		"ports that exchange their numbers": {
			kind:     service,
			live:     "{type: NodePort, ports: [{name: a, port: 1, nodePort: 30001}, {name: b, port: 2, nodePort: 30002}]}",
			manifest: "{type: NodePort, ports: [{name: a, port: 2}, {name: b, port: 1}]}",
			want:     "{type: NodePort, ports: [{name: a, port: 2, nodePort: 30002}, {name: b, port: 1, nodePort: 30001}]}",
			options:  optionsWithoutLabels(),
		},
		"a port whose live port another one uses is found by name": {
			kind:     service,
			live:     "{type: NodePort, ports: [{name: a, port: 1, nodePort: 30001}, {name: b, port: 2, nodePort: 30002}]}",
			manifest: "{type: NodePort, ports: [{name: c, port: 1}, {name: b, port: 3}]}",
			want:     "{type: NodePort, ports: [{name: c, port: 1, nodePort: 30001}, {name: b, port: 3, nodePort: 30002}]}",
			options:  optionsWithoutLabels(),
		},
		"a node port that the manifest gives to another port is not kept": {
			kind:     service,
			live:     "{type: NodePort, ports: [{name: a, port: 1, nodePort: 30001}, {name: b, port: 2, nodePort: 30002}]}",
			manifest: "{type: NodePort, ports: [{name: a, port: 1}, {name: b, port: 2, nodePort: 30001}]}",
			want:     "{type: NodePort, ports: [{name: a, port: 1}, {name: b, port: 2, nodePort: 30001}]}",
			options:  optionsWithoutLabels(),
		},
		"a node port that the manifest gives to a port of another protocol is kept": {
			kind:     service,
			live:     "{type: NodePort, ports: [{name: a, port: 53, protocol: UDP, nodePort: 30053}]}",
			manifest: "{type: NodePort, ports: [{name: a, port: 53, protocol: UDP}, {name: b, port: 53, nodePort: 30053}]}",
			want: "{type: NodePort, ports: [{name: a, port: 53, protocol: UDP, nodePort: 30053}, " +
				"{name: b, port: 53, nodePort: 30053}]}",
			options: optionsWithoutLabels(),
		},
		"a single port without a name keeps its node port with another number": {
			kind:     service,
			live:     "{type: NodePort, ports: [{port: 80, nodePort: 30080}]}",
			manifest: "{type: NodePort, ports: [{port: 81}]}",
			want:     "{type: NodePort, ports: [{port: 81, nodePort: 30080}]}",
			options:  optionsWithoutLabels(),
		},
		"a live port without node port gives none": {
			kind:     service,
			live:     "{type: NodePort, ports: [{port: 80}]}",
			manifest: "{type: NodePort, ports: [{port: 80, nodePort: 0}]}",
			want:     "{type: NodePort, ports: [{port: 80}]}",
			options:  optionsWithoutLabels(),
		},
		"numbers of different types are equal": {
			kind: service, live: "{type: NodePort, ports: [{name: a, port: 80.0, nodePort: 30080}]}",
			manifest: "{type: NodePort, ports: [{name: b, port: 80}]}", want: "{type: NodePort, ports: [{name: b, port: 80, nodePort: 30080}]}",
			options: optionsWithoutLabels(),
		},
		"a ClusterIP keeps its IP and the manifest's ports": {
			kind: service, live: "{type: LoadBalancer, clusterIP: 10.0.0.1, loadBalancerIP: 1.2.3.4, ports: [{port: 80, nodePort: 30080}]}",
			manifest: "{type: ClusterIP, ports: [{port: 80}]}", want: "{type: ClusterIP, clusterIP: 10.0.0.1, ports: [{port: 80}]}",
			options: optionsWithoutLabels(),
		},
		"an empty type is a ClusterIP": {
			kind: service, live: "{type: LoadBalancer, clusterIP: 10.0.0.1, ports: [{port: 80, nodePort: 30080}]}",
			manifest: `{type: "", ports: [{port: 80}]}`, want: `{type: "", clusterIP: 10.0.0.1, ports: [{port: 80}]}`,
			options: optionsWithoutLabels(),
		},
		"loadBalancerIP is kept": {
			kind: service, live: "{type: LoadBalancer, loadBalancerIP: 1.2.3.4}", manifest: `{type: LoadBalancer, loadBalancerIP: ""}`,
			want: "{type: LoadBalancer, loadBalancerIP: 1.2.3.4}", options: optionsWithoutLabels(),
		},
		"a loadBalancerIP of the manifest is used": {
			kind: service, live: "{type: LoadBalancer, loadBalancerIP: 1.2.3.4}", manifest: "{type: LoadBalancer, loadBalancerIP: 1.2.3.5}",
			want: "{type: LoadBalancer, loadBalancerIP: 1.2.3.5}", options: optionsWithoutLabels(),
		},
		"healthCheckNodePort is kept if both are Local": {
			kind: service, live: "{type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 31000}",
			manifest: "{type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 0}",
			want:     "{type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 31000}", options: optionsWithoutLabels(),
		},
		"a healthCheckNodePort of the manifest is used": {
			kind: service, live: "{type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 31000}",
			manifest: "{type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 31001}",
			want:     "{type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 31001}", options: optionsWithoutLabels(),
		},
		"healthCheckNodePort is not kept if live is not Local": {
			kind: service, live: "{type: LoadBalancer, externalTrafficPolicy: Cluster, healthCheckNodePort: 31000}",
			manifest: "{type: LoadBalancer, externalTrafficPolicy: Local}", want: "{type: LoadBalancer, externalTrafficPolicy: Local}",
			options: optionsWithoutLabels(),
		},
		"healthCheckNodePort is not kept if the manifest is not Local": {
			kind: service, live: "{type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 31000}",
			manifest: "{type: LoadBalancer}", want: "{type: LoadBalancer}", options: optionsWithoutLabels(),
		},
		"healthCheckNodePort is not kept by a NodePort": {
			kind: service, live: "{type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 31000}",
			manifest: "{type: NodePort, externalTrafficPolicy: Local}", want: "{type: NodePort, externalTrafficPolicy: Local}",
			options: optionsWithoutLabels(),
		},
		"a Service of another group has no rules": {
			kind: "apiVersion: serving.knative.dev/v1, kind: Service", live: "{clusterIP: 10.0.0.1}", manifest: "{clusterIP: 10.0.0.2}",
			want: "{clusterIP: 10.0.0.2}", options: optionsWithoutLabels(),
		},
	} {
		t.Run(name, tc.run)
	}
}

func TestMergeServiceAnnotations(t *testing.T) {
	for name, tc := range map[string]struct {
		manifest string
		options  Options
		want     map[string]string
	}{
		"OpenStack's annotations are kept with forced annotations": {
			manifest: "{}", options: options(forceAnnotations), want: map[string]string{"loadbalancer.openstack.org/x": "live"},
		},
		"an annotation of the manifest replaces OpenStack's": {
			manifest: "{loadbalancer.openstack.org/x: manifest}", options: options(forceAnnotations),
			want: map[string]string{"loadbalancer.openstack.org/x": "manifest"},
		},
		"OpenStack's annotations are kept if the manifest drops them": {
			manifest: "{}", options: options(previous(nil, map[string]string{"loadbalancer.openstack.org/x": "live", "user": "live"})),
			want: map[string]string{"loadbalancer.openstack.org/x": "live"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			live := object(t, "{apiVersion: v1, kind: Service, metadata: {name: a, annotations: {loadbalancer.openstack.org/x: live, user: live}}}")
			manifest := object(t, "{apiVersion: v1, kind: Service, metadata: {name: a, annotations: "+tc.manifest+"}}")
			want := overlay(map[string]string{
				"resources.gardener.cloud/description": "DO NOT EDIT - This resource is managed by gardener-resource-manager.\nAny modifications " +
					"are discarded and the resource is returned to the original state.",
				"resources.gardener.cloud/origin": "ns/mr",
			}, tc.want)
			NewWithT(t).Expect(merged(t, live, manifest, tc.options).GetAnnotations()).To(Equal(want))
		})
	}
}
