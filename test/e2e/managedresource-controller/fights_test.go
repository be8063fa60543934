//go:build e2e

package managedresourcecontroller_test

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/test/local"
)

const (
	// defaultObservation is how long the controllers of the cluster have time to change objects. In the second half of this time the
	// controller must send no requests. The environment variable FIGHTS sets another time.
	defaultObservation = 10 * time.Minute
	// corpus is the folder of the manifests that other tests change.
	corpus = "../../../internal/managedresource/managedresourcetest/corpus"
	// resting is a configuration with which the audits, which read all objects once an hour, do not run during the spec.
	resting = `apiVersion: resourcemanager.config.gardener.cloud/v1alpha1
kind: ResourceManagerConfiguration
leaderElection: {resourceNamespace: espalier-system}
espalier: {managedResource: {auditPeriod: 24h}}
`
)

// neverHealthy are the objects of the corpus that cannot be healthy in the cluster, as "Kind/name", with the reason.
var neverHealthy = map[string]string{"Service/balanced": "no controller assigns addresses to load balancers"}

var _ = Describe("the controllers of Kubernetes", Serial, slow, Label("fights"), func() {
	It("complete objects of all kinds, and are not fought", func(ctx SpecContext) {
		DeferCleanup(func(ctx SpecContext) { Expect(c.Ensure(ctx, binary)).To(Succeed()) })
		Expect(c.Configure(ctx, binary, resting)).To(Succeed())
		s := newScene(ctx)
		healthy, unhealthy := s.corpus()
		s.apply(ctx, "unhealthy", unhealthy...)
		s.apply(ctx, "set", healthy...)
		s.reports(ctx, "set", settled())
		s.reports(ctx, "unhealthy", map[string]string{"ResourcesApplied": "True ApplySucceeded"})
		s.completed(ctx)
		s.reports(ctx, "set", settled())

		observed, err := time.ParseDuration(cmp.Or(os.Getenv("FIGHTS"), defaultObservation.String()))
		Expect(err).NotTo(HaveOccurred())
		auditLog := filepath.Join(filepath.Dir(c.Kubeconfig), "logs", "audit.log")
		restarted := restarts(ctx)
		for half := range 2 {
			begin, err := os.Stat(auditLog)
			if err != nil {
				Skip("the cluster has no audit log that the suite can read: " + err.Error())
			}
			Consistently(func(g Gomega, ctx context.Context) {
				conditions, err := s.conditions(ctx, "set")
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(conditions).To(Equal(settled()))
				for _, reason := range []string{"DriftRepaired", "DriftRepairPaused", "FieldsNotApplied"} {
					g.Expect(c.Notes(ctx, s.namespace, reason)).To(BeEmpty(), reason)
				}
			}).WithContext(ctx).WithTimeout(observed / 2).WithPolling(5 * time.Second).Should(Succeed())
			if half == 1 {
				Expect(restarts(ctx)).To(Equal(restarted), "restarts of the controller, which reads everything at its start")
				Expect(requestsSince(auditLog, begin.Size())).To(BeEmpty(), "requests of the controller in the last %s", observed/2)
			}
		}
		s.completed(ctx)
	})
})

// corpus returns the objects of the corpus, and the objects that Kubernetes adds to them, divided by whether they can be healthy.
func (s scene) corpus() (healthy, unhealthy []client.Object) {
	GinkgoHelper()
	for _, file := range []string{corpus + "/definition.yaml", corpus + "/builtin.yaml", corpus + "/custom.yaml", "testdata/completed.yaml"} {
		text, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		image := c.Image("workload")
		fill := strings.NewReplacer("$NS", s.namespace, "$IMAGE", image, "image: i,", "image: "+image+", args: [serve],")
		for document := range strings.SplitSeq(fill.Replace(string(text)), "\n---\n") {
			object := &unstructured.Unstructured{}
			Expect(yaml.Unmarshal([]byte(document), &object.Object)).To(Succeed(), document)
			if neverHealthy[object.GetKind()+"/"+object.GetName()] != "" {
				unhealthy = append(unhealthy, object)
			} else {
				healthy = append(healthy, object)
			}
		}
	}
	return healthy, unhealthy
}

// completed waits until the controllers of Kubernetes, and the other clients that the spec imitates, have completed the objects.
func (s scene) completed(ctx context.Context) {
	GinkgoHelper()
	var authority corev1.ConfigMap
	s.get(ctx, &authority, "kube-root-ca.crt")
	bundle, err := json.Marshal(base64.StdEncoding.EncodeToString([]byte(authority.Data["ca.crt"])))
	Expect(err).NotTo(HaveOccurred())
	for _, each := range [][]string{
		{"validatingwebhookconfiguration", s.namespace + "-injected", `[{"op":"add","path":"/webhooks/0/clientConfig/caBundle","value":` +
			string(bundle) + `}]`},
		{"configmap", "shared", `[{"op":"replace","path":"/data/theirs","value":"b"}]`},
	} {
		_, err := c.Kubectl(ctx, "-n", s.namespace, "patch", each[0], each[1], "--field-manager=injector", "--type=json", "-p", each[2])
		Expect(err).NotTo(HaveOccurred())
	}
	Eventually(func(g Gomega, ctx context.Context) {
		get := func(object client.Object, name string) {
			g.Expect(c.Client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, object)).To(Succeed())
		}
		var claim corev1.PersistentVolumeClaim
		get(&claim, "reserved")
		g.Expect(claim.Status.Phase).To(Equal(corev1.ClaimBound))
		var token corev1.Secret
		get(&token, "robot-token")
		g.Expect(token.Data).To(HaveKey("token"))
		for _, name := range []string{"scaled-controller", "scaled-set"} {
			var autoscaler autoscalingv2.HorizontalPodAutoscaler
			get(&autoscaler, name)
			g.Expect(autoscaler.Status.CurrentReplicas).To(BeEquivalentTo(2))
		}
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "passing", Namespace: s.namespace}}
		g.Expect(client.IgnoreNotFound(c.Client.Get(ctx, client.ObjectKeyFromObject(job), job))).To(Succeed())
		g.Expect(job.UID).To(BeEmpty(), "the Job has finished, and its time is over")
		var shared corev1.ConfigMap
		get(&shared, "shared")
		g.Expect(shared.Data).To(Equal(map[string]string{"ours": "a", "theirs": "b"}))
	}).WithContext(ctx).WithTimeout(rolloutPatience).Should(Succeed())
}

// restarts returns the number of restarts of the controller's containers, by Pod.
func restarts(ctx context.Context) map[string]int32 {
	GinkgoHelper()
	var pods corev1.PodList
	Expect(c.Client.List(ctx, &pods, client.InNamespace("espalier-system"))).To(Succeed())
	counts := map[string]int32{}
	for i := range pods.Items {
		for _, each := range pods.Items[i].Status.ContainerStatuses {
			if strings.HasPrefix(pods.Items[i].Name, "espalier-"+binary) {
				counts[pods.Items[i].Name] += each.RestartCount
			}
		}
	}
	return counts
}

// requestsSince returns the requests of the controller in the audit log from an offset on, as "time verb URI". It omits watches, requests
// for the lease, and lists of the Events of the Service that never gets an address: the condition of its ManagedResource contains the
// newest Event.
func requestsSince(auditLog string, place int64) (requests []string, err error) {
	for line, failure := range local.AuditLines(auditLog, place) {
		if failure != nil {
			return nil, failure
		}
		event := auditv1.Event{}
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, err
		}
		if event.User.Username != "system:serviceaccount:espalier-system:espalier-"+binary || event.Verb == "watch" {
			continue
		}
		if ref := event.ObjectRef; ref != nil && (ref.Resource == "leases" ||
			ref.Resource == "events" && strings.Contains(event.RequestURI, "balanced")) {
			continue
		}
		requests = append(requests, event.RequestReceivedTimestamp.Format(time.TimeOnly)+" "+event.Verb+" "+event.RequestURI)
	}
	return requests, nil
}
