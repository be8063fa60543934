package merge

import (
	"testing"

	. "github.com/onsi/gomega"
)

// specCase is a rule that shows in the spec of the merged object only.
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

// bare injects no labels, so that templates stay short.
func bare(modify ...func(*Options)) Options {
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
	replicaSet    = "apiVersion: apps/v1, kind: ReplicaSet"
	job           = "apiVersion: batch/v1, kind: Job"
	cronJob       = "apiVersion: batch/v1, kind: CronJob"
	oldCronJob    = "apiVersion: batch/v1beta1, kind: CronJob"
)

func TestMergeReplicas(t *testing.T) {
	for name, tc := range map[string]specCase{
		"acceptance 47: the manifest's replicas win":                        {kind: deployment, live: "{replicas: 5}", manifest: "{replicas: 1}", want: "{replicas: 1}", options: bare()},
		"acceptance 47: preserve-replicas keeps live's":                     {kind: deployment, annotations: `{resources.gardener.cloud/preserve-replicas: "true"}`, live: "{replicas: 5}", manifest: "{replicas: 1}", want: "{replicas: 5}", options: bare()},
		"edge 22, acceptance 49: an autoscaler keeps live's":                {kind: deployment, live: "{replicas: 5}", manifest: "{replicas: 1}", want: "{replicas: 5}", options: bare(preserveReplicas)},
		"edge 23: a manifest without replicas keeps live's":                 {kind: deployment, live: "{replicas: 5}", manifest: "{}", want: "{replicas: 5}", options: bare()},
		"edge 23: null is no number either":                                 {kind: deployment, live: "{replicas: 5}", manifest: "{replicas: null}", want: "{replicas: 5}", options: bare()},
		"edge 23: zero is a number":                                         {kind: deployment, live: "{replicas: 5}", manifest: "{replicas: 0}", want: "{replicas: 0}", options: bare()},
		"edge 24: preserve-replicas with another truthy value does nothing": {kind: deployment, annotations: `{resources.gardener.cloud/preserve-replicas: "True"}`, live: "{replicas: 5}", manifest: "{replicas: 1}", want: "{replicas: 1}", options: bare()},
		"preserve-replicas on live does nothing":                            {kind: deployment, metadata: `, annotations: {resources.gardener.cloud/preserve-replicas: "true"}`, live: "{replicas: 5}", manifest: "{replicas: 1}", want: "{replicas: 1}", options: bare()},
		"there is nothing to keep":                                          {kind: deployment, live: "{}", manifest: "{replicas: 1}", want: "{replicas: 1}", options: bare(preserveReplicas)},
		"acceptance 50: Deployments of extensions":                          {kind: oldDeployment, live: "{replicas: 5}", manifest: "{replicas: 1}", want: "{replicas: 5}", options: bare(preserveReplicas)},
		"StatefulSets":                  {kind: statefulSet, live: "{replicas: 5}", manifest: "{replicas: 1}", want: "{replicas: 5}", options: bare(preserveReplicas)},
		"StatefulSets without replicas": {kind: oldStateful, live: "{replicas: 5}", manifest: "{}", want: "{replicas: 5}", options: bare()},
		"other kinds have no rule":      {kind: replicaSet, live: "{replicas: 5}", manifest: "{replicas: 1}", want: "{replicas: 1}", options: bare(preserveReplicas)},
	} {
		t.Run(name, tc.run)
	}
}

func TestMergeContainerResources(t *testing.T) {
	const (
		live     = `{template: {spec: {initContainers: [{name: i, resources: {requests: {cpu: 9}}}], containers: [{name: a, resources: {requests: {cpu: 1, memory: 1Gi, storage: 1Gi}, limits: {cpu: 2}}}, {name: gone, resources: {requests: {cpu: 9}}}, {name: c}]}}}`
		manifest = `{template: {spec: {initContainers: [{name: i, resources: {requests: {cpu: 3}}}], containers: [{name: new, resources: {requests: {cpu: 3}}}, {name: c, resources: {limits: {memory: 3Gi}}}, {name: a, resources: {requests: {cpu: 3, storage: 3Gi}, limits: {memory: 3Gi, gpu: 3}}}]}}}`
		kept     = `{template: {spec: {initContainers: [{name: i, resources: {requests: {cpu: 3}}}], containers: [{name: new, resources: {requests: {cpu: 3}}}, {name: c, resources: {limits: {memory: 3Gi}}}, {name: a, resources: {requests: {cpu: 1, memory: 1Gi, storage: 3Gi}, limits: {cpu: 2, memory: 3Gi, gpu: 3}}}]}}}`
		annotate = `{resources.gardener.cloud/preserve-resources: "true"}`
	)
	for name, tc := range map[string]specCase{
		"acceptance 48: the manifest's resources win":                        {kind: deployment, live: live, manifest: manifest, want: manifest, options: bare()},
		"acceptance 48: preserve-resources keeps CPU and memory":             {kind: deployment, annotations: annotate, live: live, manifest: manifest, want: kept, options: bare()},
		"acceptance 51: an autoscaler keeps CPU and memory":                  {kind: deployment, live: live, manifest: manifest, want: kept, options: bare(preserveResources)},
		"edge 24: preserve-resources with another truthy value does nothing": {kind: deployment, annotations: `{resources.gardener.cloud/preserve-resources: "1"}`, live: live, manifest: manifest, want: manifest, options: bare()},
		"containers without resources get those of live":                     {kind: deployment, live: "{template: {spec: {containers: [{name: a, resources: {limits: {memory: 1Gi}}}]}}}", manifest: "{template: {spec: {containers: [{name: a}]}}}", want: "{template: {spec: {containers: [{name: a, resources: {limits: {memory: 1Gi}}}]}}}", options: bare(preserveResources)},
		"containers without name never match":                                {kind: deployment, live: "{template: {spec: {containers: [{resources: {limits: {memory: 1Gi}}}]}}}", manifest: "{template: {spec: {containers: [{}]}}}", want: "{template: {spec: {containers: [{}]}}}", options: bare(preserveResources)},
		"Deployments of extensions":                                          {kind: oldDeployment, live: live, manifest: manifest, want: kept, options: bare(preserveResources)},
		"StatefulSets":                                                       {kind: statefulSet, live: live, manifest: manifest, want: kept, options: bare(preserveResources)},
		"DaemonSets":                                                         {kind: daemonSet, live: live, manifest: manifest, want: kept, options: bare(preserveResources)},
		"DaemonSets of extensions have no rule":                              {kind: oldDaemonSet, live: live, manifest: manifest, want: manifest, options: bare(preserveResources)},
		"Jobs":                                                               {kind: job, live: live, manifest: manifest, want: kept, options: bare(preserveResources)},
		"CronJobs":                                                           {kind: cronJob, live: "{jobTemplate: {spec: " + live + "}}", manifest: "{jobTemplate: {spec: " + manifest + "}}", want: "{jobTemplate: {spec: " + kept + "}}", options: bare(preserveResources)},
		"old CronJobs":                                                       {kind: oldCronJob, live: "{jobTemplate: {spec: " + live + "}}", manifest: "{jobTemplate: {spec: " + manifest + "}}", want: "{jobTemplate: {spec: " + kept + "}}", options: bare(preserveResources)},
		"other kinds have no rule":                                           {kind: replicaSet, live: live, manifest: manifest, want: manifest, options: bare(preserveResources)},
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
		"Deployments":                   {kind: deployment, live: live, manifest: manifest, want: kept, options: bare()},
		"Deployments of extensions":     {kind: oldDeployment, live: live, manifest: manifest, want: kept, options: bare()},
		"StatefulSets":                  {kind: statefulSet, live: live, manifest: manifest, want: kept, options: bare()},
		"DaemonSets":                    {kind: daemonSet, live: live, manifest: manifest, want: kept, options: bare()},
		"Jobs":                          {kind: job, live: live, manifest: manifest, want: kept, options: bare()},
		"CronJobs":                      {kind: cronJob, live: "{jobTemplate: {spec: " + live + "}}", manifest: "{jobTemplate: {spec: " + manifest + "}}", want: "{jobTemplate: {spec: " + kept + "}}", options: bare()},
		"live wins over the manifest":   {kind: deployment, live: live, manifest: `{template: {metadata: {annotations: {kubectl.kubernetes.io/restartedAt: manifest, other: manifest}}}}`, want: kept, options: bare()},
		"the manifest's stays if alone": {kind: deployment, live: "{template: {}}", manifest: kept, want: kept, options: bare()},
		"a template without metadata":   {kind: deployment, live: live, manifest: "{template: {}}", want: "{template: {metadata: {annotations: {kubectl.kubernetes.io/restartedAt: live}}}}", options: bare()},
		"no template in the manifest":   {kind: deployment, live: live, manifest: "{}", want: "{}", options: bare()},
		"other kinds have no rule":      {kind: replicaSet, live: live, manifest: manifest, want: manifest, options: bare()},
	} {
		t.Run(name, tc.run)
	}
}

func TestMergeVolumeClaimTemplates(t *testing.T) {
	const created = `, creationTimestamp: "2024-01-02T03:04:05Z"`
	for name, tc := range map[string]specCase{
		"edge 20, acceptance 61: live's are kept":                         {kind: statefulSet, metadata: created, live: "{volumeClaimTemplates: [{metadata: {name: live}}]}", manifest: "{volumeClaimTemplates: [{metadata: {name: manifest}}]}", want: "{volumeClaimTemplates: [{metadata: {name: live}}]}", options: options()},
		"edge 20, acceptance 61: live has none":                           {kind: oldStateful, metadata: created, live: "{}", manifest: "{volumeClaimTemplates: [{metadata: {name: manifest}}]}", want: "{}", options: options()},
		"edge 20, acceptance 61: the manifest has none":                   {kind: statefulSet, metadata: created, live: "{volumeClaimTemplates: [{metadata: {name: live}}]}", manifest: "{}", want: "{volumeClaimTemplates: [{metadata: {name: live}}]}", options: options()},
		"an object that does not exist yet gets the manifest's, labelled": {kind: statefulSet, live: "{volumeClaimTemplates: [{metadata: {name: live}}]}", manifest: "{volumeClaimTemplates: [{metadata: {name: manifest}}]}", want: "{volumeClaimTemplates: [{metadata: {name: manifest, labels: {resources.gardener.cloud/managed-by: gardener}}}]}", options: options()},
		"other kinds have no rule":                                        {kind: deployment, metadata: created, live: "{volumeClaimTemplates: [{metadata: {name: live}}]}", manifest: "{volumeClaimTemplates: [{metadata: {name: manifest}}]}", want: "{volumeClaimTemplates: [{metadata: {name: manifest}}]}", options: bare()},
	} {
		t.Run(name, tc.run)
	}
}

func TestMergeJob(t *testing.T) {
	for name, tc := range map[string]specCase{
		"edge 21, acceptance 60: labels that the API server added are kept": {
			kind:     job,
			live:     "{selector: {matchLabels: {controller-uid: u}}, template: {metadata: {labels: {controller-uid: u, job-name: a, b: live}}, spec: {restartPolicy: Never}}}",
			manifest: "{template: {metadata: {labels: {b: manifest, c: d}}, spec: {restartPolicy: OnFailure}}}",
			want:     "{selector: {matchLabels: {controller-uid: u}}, template: {metadata: {labels: {controller-uid: u, job-name: a, b: manifest, c: d}}, spec: {restartPolicy: OnFailure}}}",
			options:  bare(),
		},
		"edge 21, acceptance 60: a template without metadata gets them": {
			kind: job, live: "{template: {metadata: {labels: {job-name: a}}}}", manifest: "{template: {}}", want: "{template: {metadata: {labels: {job-name: a}}}}", options: bare(),
		},
		"the selector is live's": {kind: job, live: "{selector: {a: live}}", manifest: "{selector: {a: manifest}}", want: "{selector: {a: live}}", options: bare()},
		"also if live has none":  {kind: job, live: "{}", manifest: "{selector: {a: manifest}}", want: "{}", options: bare()},
		"a Job of another group has no rules": {
			kind: "apiVersion: example.com/v1, kind: Job", live: "{selector: {a: live}}", manifest: "{selector: {a: manifest}}", want: "{selector: {a: manifest}}", options: bare(),
		},
	} {
		t.Run(name, tc.run)
	}
}

func TestMergeService(t *testing.T) {
	const service = "apiVersion: v1, kind: Service"
	for name, tc := range map[string]specCase{
		"acceptance 56: the cluster IP never changes":                        {kind: service, live: "{clusterIP: 10.0.0.1}", manifest: "{clusterIP: 10.0.0.2}", want: "{clusterIP: 10.0.0.1}", options: bare()},
		"acceptance 56: a manifest without one keeps it":                     {kind: service, live: "{clusterIP: 10.0.0.1, type: ClusterIP}", manifest: "{}", want: "{clusterIP: 10.0.0.1}", options: bare()},
		"acceptance 56: None is sent":                                        {kind: service, live: "{clusterIP: 10.0.0.1}", manifest: "{clusterIP: None}", want: "{clusterIP: None}", options: bare()},
		"headless does not become a cluster IP":                              {kind: service, live: "{clusterIP: None}", manifest: "{clusterIP: 10.0.0.2}", want: "{clusterIP: None}", options: bare()},
		"what was an external name gets what it asks for":                    {kind: service, live: "{type: ExternalName, externalName: a.b}", manifest: "{clusterIP: 10.0.0.2}", want: "{clusterIP: 10.0.0.2}", options: bare()},
		"what becomes an external name keeps no cluster IP":                  {kind: service, live: "{clusterIP: 10.0.0.1}", manifest: "{type: ExternalName, externalName: a.b}", want: "{type: ExternalName, externalName: a.b}", options: bare()},
		"acceptance 57: node ports are kept by number":                       {kind: service, live: "{type: LoadBalancer, ports: [{name: a, port: 80, nodePort: 30080}]}", manifest: "{type: LoadBalancer, ports: [{name: b, port: 80}]}", want: "{type: LoadBalancer, ports: [{name: b, port: 80, nodePort: 30080}]}", options: bare()},
		"acceptance 57: node ports are kept by name":                         {kind: service, live: "{type: NodePort, ports: [{name: a, port: 80, nodePort: 30080}]}", manifest: "{type: NodePort, ports: [{name: a, port: 81, nodePort: 0}]}", want: "{type: NodePort, ports: [{name: a, port: 81, nodePort: 30080}]}", options: bare()},
		"acceptance 57: node ports of others are not taken":                  {kind: service, live: "{type: NodePort, ports: [{name: a, port: 80, nodePort: 30080}]}", manifest: "{type: NodePort, ports: [{name: b, port: 81}]}", want: "{type: NodePort, ports: [{name: b, port: 81}]}", options: bare()},
		"acceptance 57: a node port of the manifest wins":                    {kind: service, live: "{type: NodePort, ports: [{port: 80, nodePort: 30080}]}", manifest: "{type: NodePort, ports: [{port: 80, nodePort: 30081}]}", want: "{type: NodePort, ports: [{port: 80, nodePort: 30081}]}", options: bare()},
		"the protocol does not tell ports apart, the last match wins":        {kind: service, live: "{type: NodePort, ports: [{name: a, port: 53, nodePort: 1, protocol: TCP}, {name: b, port: 53, nodePort: 2, protocol: UDP}]}", manifest: "{type: NodePort, ports: [{name: a, port: 53, protocol: TCP}]}", want: "{type: NodePort, ports: [{name: a, port: 53, protocol: TCP, nodePort: 2}]}", options: bare()},
		"edge 50: ports without name match any such port, the last one wins": {kind: service, live: "{type: NodePort, ports: [{port: 80, nodePort: 30080}, {port: 81, nodePort: 30081}]}", manifest: "{type: NodePort, ports: [{port: 80}]}", want: "{type: NodePort, ports: [{port: 80, nodePort: 30081}]}", options: bare()},
		"edge 50: a last match without node port gives none":                 {kind: service, live: "{type: NodePort, ports: [{port: 80, nodePort: 30080}, {port: 81}]}", manifest: "{type: NodePort, ports: [{port: 80, nodePort: 0}]}", want: "{type: NodePort, ports: [{port: 80}]}", options: bare()},
		"numbers are equal whatever their type":                              {kind: service, live: "{type: NodePort, ports: [{name: a, port: 80.0, nodePort: 30080}]}", manifest: "{type: NodePort, ports: [{name: b, port: 80}]}", want: "{type: NodePort, ports: [{name: b, port: 80, nodePort: 30080}]}", options: bare()},
		"edge 51: a ClusterIP keeps its IP and the manifest's ports":         {kind: service, live: "{type: LoadBalancer, clusterIP: 10.0.0.1, loadBalancerIP: 1.2.3.4, ports: [{port: 80, nodePort: 30080}]}", manifest: "{type: ClusterIP, ports: [{port: 80}]}", want: "{type: ClusterIP, clusterIP: 10.0.0.1, ports: [{port: 80}]}", options: bare()},
		"edge 51: an empty type is a ClusterIP":                              {kind: service, live: "{type: LoadBalancer, clusterIP: 10.0.0.1, ports: [{port: 80, nodePort: 30080}]}", manifest: `{type: "", ports: [{port: 80}]}`, want: `{type: "", clusterIP: 10.0.0.1, ports: [{port: 80}]}`, options: bare()},
		"acceptance 57: loadBalancerIP is kept":                              {kind: service, live: "{type: LoadBalancer, loadBalancerIP: 1.2.3.4}", manifest: `{type: LoadBalancer, loadBalancerIP: ""}`, want: "{type: LoadBalancer, loadBalancerIP: 1.2.3.4}", options: bare()},
		"a loadBalancerIP of the manifest wins":                              {kind: service, live: "{type: LoadBalancer, loadBalancerIP: 1.2.3.4}", manifest: "{type: LoadBalancer, loadBalancerIP: 1.2.3.5}", want: "{type: LoadBalancer, loadBalancerIP: 1.2.3.5}", options: bare()},
		"acceptance 57: healthCheckNodePort is kept if both are Local":       {kind: service, live: "{type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 31000}", manifest: "{type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 0}", want: "{type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 31000}", options: bare()},
		"a healthCheckNodePort of the manifest wins":                         {kind: service, live: "{type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 31000}", manifest: "{type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 31001}", want: "{type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 31001}", options: bare()},
		"healthCheckNodePort is not kept if live is not Local":               {kind: service, live: "{type: LoadBalancer, externalTrafficPolicy: Cluster, healthCheckNodePort: 31000}", manifest: "{type: LoadBalancer, externalTrafficPolicy: Local}", want: "{type: LoadBalancer, externalTrafficPolicy: Local}", options: bare()},
		"healthCheckNodePort is not kept if it will not be Local":            {kind: service, live: "{type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 31000}", manifest: "{type: LoadBalancer}", want: "{type: LoadBalancer}", options: bare()},
		"healthCheckNodePort is not kept by a NodePort":                      {kind: service, live: "{type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 31000}", manifest: "{type: NodePort, externalTrafficPolicy: Local}", want: "{type: NodePort, externalTrafficPolicy: Local}", options: bare()},
		"a Service of another group has no rules":                            {kind: "apiVersion: serving.knative.dev/v1, kind: Service", live: "{clusterIP: 10.0.0.1}", manifest: "{clusterIP: 10.0.0.2}", want: "{clusterIP: 10.0.0.2}", options: bare()},
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
		"acceptance 58: OpenStack's annotations survive force": {manifest: "{}", options: options(forceAnnotations), want: map[string]string{"loadbalancer.openstack.org/x": "live"}},
		"the manifest wins": {manifest: "{loadbalancer.openstack.org/x: manifest}", options: options(forceAnnotations), want: map[string]string{"loadbalancer.openstack.org/x": "manifest"}},
		"they survive being dropped from the manifest": {
			manifest: "{}", options: options(previous(nil, map[string]string{"loadbalancer.openstack.org/x": "live", "user": "live"})), want: map[string]string{"loadbalancer.openstack.org/x": "live"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			live := object(t, "{apiVersion: v1, kind: Service, metadata: {name: a, annotations: {loadbalancer.openstack.org/x: live, user: live}}}")
			manifest := object(t, "{apiVersion: v1, kind: Service, metadata: {name: a, annotations: "+tc.manifest+"}}")
			want := overlay(map[string]string{
				"resources.gardener.cloud/description": "DO NOT EDIT - This resource is managed by gardener-resource-manager.\nAny modifications are discarded and the resource is returned to the original state.",
				"resources.gardener.cloud/origin":      "ns/mr",
			}, tc.want)
			NewWithT(t).Expect(merged(t, live, manifest, tc.options).GetAnnotations()).To(Equal(want))
		})
	}
}
