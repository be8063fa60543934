//go:build e2e

package webhookserver_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// considered returns the label of namespaces whose workloads the webhook makes highly available.
func considered() map[string]string { return map[string]string{availability + "consider": "true"} }

// ofType returns the label of a workload whose replicas the webhook sets.
func ofType(kind string) map[string]string { return map[string]string{availability + "type": kind} }

var _ = Describe("workloads of a namespace that must survive the loss of a zone", Label("smoke"), func() {
	It("have two replicas, of which the second waits for another zone", func(ctx SpecContext) {
		zone := inZone(ctx)
		// The webhook sorts the zones, so zzz-nowhere, in which there are no Nodes, is the last one.
		namespace := namespaceOfSpec(ctx, considered(), map[string]string{
			availability + "failure-tolerance-type": "zone", availability + "zones": zone + ",zzz-nowhere",
		})
		press := deployment(namespace, 1, ofType("server"))
		heard(ctx, press, func(made *appsv1.Deployment) bool { return made.Spec.Template.Spec.Affinity != nil })
		Expect(c.Client.Create(ctx, press)).To(Succeed())

		Expect(press.Spec.Replicas).To(Equal(ptr.To[int32](2)))
		template := press.Spec.Template.Spec
		Expect(template.Affinity).To(Equal(&corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: zoneLabel, Operator: "In", Values: []string{zone, "zzz-nowhere"}}},
			}}},
		}}))
		own := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "press"}}
		Expect(template.TopologySpreadConstraints).To(Equal([]corev1.TopologySpreadConstraint{
			{MaxSkew: 1, TopologyKey: "kubernetes.io/hostname", WhenUnsatisfiable: "DoNotSchedule", LabelSelector: own},
			{MaxSkew: 1, TopologyKey: zoneLabel, WhenUnsatisfiable: "DoNotSchedule", MinDomains: ptr.To[int32](2), LabelSelector: own},
		}))
		Expect(template.Tolerations).To(Equal([]corev1.Toleration{
			{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: ptr.To[int64](60)},
			{Key: "node.kubernetes.io/unreachable", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: ptr.To[int64](60)},
		}))
		Eventually(ctx, outcome).WithArguments(namespace).Should(ConsistOf("ready", "Unschedulable"))
	}, SpecTimeout(3*time.Minute))

	It("stay as they are if they opt out, or have no replicas", func(ctx SpecContext) {
		namespace := namespaceOfSpec(ctx, considered(), map[string]string{
			availability + "failure-tolerance-type": "zone", availability + "zones": "a,b",
		})
		none := deployment(namespace, 0, ofType("server"))
		heard(ctx, none, func(made *appsv1.Deployment) bool { return made.Spec.Template.Spec.Affinity != nil })
		out := deployment(namespace, 1, ofType("server"))
		out.Labels[availability+"skip"] = "true"
		want := out.Spec.DeepCopy()
		Expect(c.Client.Create(ctx, out, client.DryRunAll)).To(Succeed())
		Expect(out.Spec.Replicas).To(Equal(want.Replicas))
		Expect(out.Spec.Template.Spec.TopologySpreadConstraints).To(BeEmpty())
		Expect(out.Spec.Template.Spec.Affinity).To(BeNil())

		Expect(c.Client.Create(ctx, none, client.DryRunAll)).To(Succeed())
		Expect(none.Spec.Replicas).To(Equal(ptr.To[int32](0)))
		Expect(none.Spec.Template.Spec.Affinity).NotTo(BeNil(), "zones are for all of them")
	})
})

var _ = Describe("workloads of other namespaces", func() {
	It("run on one host if there is but one, where nothing must be survived", Label("smoke"), func(ctx SpecContext) {
		namespace := namespaceOfSpec(ctx, considered(), nil)
		asked(ctx, namespace)
		press := deployment(namespace, 1, ofType("controller"))
		Expect(c.Client.Create(ctx, press)).To(Succeed())
		Expect(press.Spec.Replicas).To(Equal(ptr.To[int32](2)))
		Expect(press.Spec.Template.Spec.TopologySpreadConstraints).To(Equal([]corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: "kubernetes.io/hostname", WhenUnsatisfiable: "ScheduleAnyway",
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "press"}},
		}}))
		Eventually(ctx, outcome).WithArguments(namespace).Should(ConsistOf("ready", "ready"))
	}, SpecTimeout(3*time.Minute))

	It("are not changed unless a label asks for it", Label("smoke"), func(ctx SpecContext) {
		namespace := namespaceOfSpec(ctx, nil, map[string]string{availability + "failure-tolerance-type": "node"})
		asked(ctx, namespace)
		press := deployment(namespace, 1, ofType("server"))
		Expect(c.Client.Create(ctx, press, client.DryRunAll)).To(Succeed())
		Expect(press.Spec.Replicas).To(Equal(ptr.To[int32](1)))
		Expect(press.Spec.Template.Spec.TopologySpreadConstraints).To(BeEmpty())
		Expect(press.Spec.Template.Spec.Tolerations).To(BeEmpty())
	})

	It("have the replicas of a controller without failure tolerance, and follow the namespace with their next write", func(ctx SpecContext) {
		namespace := namespaceOfSpec(ctx, considered(), map[string]string{availability + "failure-tolerance-type": ""})
		press := deployment(namespace, 3, ofType("controller"))
		heard(ctx, press, func(made *appsv1.Deployment) bool { return ptr.Deref(made.Spec.Replicas, 0) == 1 })
		Expect(c.Client.Create(ctx, press)).To(Succeed())
		Expect(press.Spec.Replicas).To(Equal(ptr.To[int32](1)))

		_, err := c.Kubectl(ctx, "annotate", "--overwrite", "namespace", namespace, availability+"failure-tolerance-type=node")
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			_, err := c.Kubectl(ctx, "annotate", "--overwrite", "-n", namespace, "deployment/press",
				fmt.Sprintf("e2e.espalier.dev/touched=%d", time.Now().UnixNano()))
			g.Expect(err).NotTo(HaveOccurred())
			now := &appsv1.Deployment{}
			g.Expect(c.Client.Get(ctx, client.ObjectKeyFromObject(press), now)).To(Succeed())
			g.Expect(now.Spec.Replicas).To(Equal(ptr.To[int32](2)))
		}).Should(Succeed())
	})

	It("are scaled by an autoscaler whose minimum is raised", func(ctx SpecContext) {
		namespace := namespaceOfSpec(ctx, considered(), nil)
		asked(ctx, namespace)
		scaler := &autoscalingv2.HorizontalPodAutoscaler{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "press", Labels: ofType("server")},
			Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
				ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "press"},
				MinReplicas:    ptr.To[int32](1), MaxReplicas: 1,
			},
		}
		Expect(c.Client.Create(ctx, scaler)).To(Succeed())
		Expect(scaler.Spec.MinReplicas).To(Equal(ptr.To[int32](2)))
		Expect(scaler.Spec.MaxReplicas).To(BeEquivalentTo(2))
	})
})

var _ = Describe("EndpointSlices", Label("smoke"), func() {
	It("hint the zone of each endpoint, which the cluster's own controller leaves there", func(ctx SpecContext) {
		zone, namespace := inZone(ctx), namespaceOfSpec(ctx, nil, nil)
		asked(ctx, namespace)
		for name, labels := range map[string]map[string]string{
			"hinted": {"endpoint-slice-hints.resources.gardener.cloud/consider": "true"}, "plain": nil,
		} {
			Expect(c.Client.Create(ctx, &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
				Spec: corev1.ServiceSpec{
					Selector: map[string]string{"app": "press"},
					Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
				},
			})).To(Succeed())
		}
		pod := c.Pod(namespace, "press", "serve")
		pod.Spec.NodeSelector = map[string]string{zoneLabel: zone}
		Expect(c.Client.Create(ctx, pod)).To(Succeed())
		_, err := c.PodReady(ctx, namespace, "press")
		Expect(err).NotTo(HaveOccurred())

		hint := &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: zone}}}
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			endpoint := sliceOf(ctx, g, namespace, "hinted").Endpoints[0]
			g.Expect(endpoint.Zone).To(Equal(ptr.To(zone)))
			g.Expect(endpoint.Hints).To(Equal(hint))
		}).Should(Succeed())
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(sliceOf(ctx, g, namespace, "plain").Endpoints[0].Zone).To(Equal(ptr.To(zone)))
		}).Should(Succeed())
		Expect(sliceOf(ctx, Default, namespace, "plain").Endpoints[0].Hints).To(BeNil())

		By("seeing that the two do not write it in turns")
		// The EndpointSlice controller writes once more, a second later: it removes its annotation with the time of the change, and tries
		// to remove the hints.
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			before := sliceOf(ctx, g, namespace, "hinted")
			g.Expect(before.Endpoints[0].Hints).To(Equal(hint))
			pause(ctx, 5*time.Second)
			g.Expect(sliceOf(ctx, g, namespace, "hinted").ResourceVersion).To(Equal(before.ResourceVersion))
		}).WithTimeout(30 * time.Second).Should(Succeed())
	}, SpecTimeout(3*time.Minute))
})

// heard waits until the webhooks change a workload according to the annotations of its namespace, which their caches contain after a
// moment. The workload is created only in dry runs.
func heard(ctx context.Context, workload *appsv1.Deployment, sign func(made *appsv1.Deployment) bool) {
	GinkgoHelper()
	asked(ctx, workload.Namespace)
	Eventually(ctx, func(ctx context.Context) (bool, error) {
		made := workload.DeepCopy()
		err := c.Client.Create(ctx, made, client.DryRunAll)
		return sign(made), err
	}).Should(BeTrue())
}

// outcome returns for each Pod of the Deployment "ready", the reason why it cannot be scheduled, or its phase.
func outcome(ctx context.Context, namespace string) ([]string, error) {
	pods, err := podsOf(ctx, namespace)
	found := make([]string, 0, len(pods))
	for _, pod := range pods {
		state := string(pod.Status.Phase)
		for _, condition := range pod.Status.Conditions {
			switch {
			case condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue:
				state = "ready"
			case condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse:
				state = condition.Reason
			}
		}
		found = append(found, state)
	}
	return found, err
}

// sliceOf returns the EndpointSlice of a Service with its only endpoint.
func sliceOf(ctx context.Context, g Gomega, namespace, service string) discoveryv1.EndpointSlice {
	slices := &discoveryv1.EndpointSliceList{}
	g.Expect(c.Client.List(ctx, slices, client.InNamespace(namespace), client.MatchingLabels{"kubernetes.io/service-name": service})).
		To(Succeed())
	g.Expect(slices.Items).To(HaveLen(1))
	g.Expect(slices.Items[0].Endpoints).To(HaveLen(1))
	return slices.Items[0]
}
