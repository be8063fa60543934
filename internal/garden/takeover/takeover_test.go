package takeover_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/takeover"
)

var now = time.Date(2026, time.February, 28, 12, 0, 0, 0, time.UTC)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	content, err := yaml.YAMLToJSON([]byte(text))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	o := &unstructured.Unstructured{}
	NewWithT(t).Expect(o.UnmarshalJSON(content)).To(Succeed())
	return o
}

// complete is the inventory of a garden from which nothing is lost: of Gardener's operator, scaled down.
func complete(t *testing.T) takeover.Inventory {
	t.Helper()
	in := takeover.Inventory{
		Garden:    &operatorv1alpha1.Garden{ObjectMeta: metav1.ObjectMeta{Name: "garden", Finalizers: []string{"gardener.cloud/operator"}}},
		Namespace: "garden", Identity: "gardener-operator", Now: now,
		IsKnown:    func(o *unstructured.Unstructured) bool { return strings.HasPrefix(o.GetName(), "virtual-garden-") },
		IsInSet:    func(o *unstructured.Unstructured) bool { return o.GetName() == "gardener-scheduler" },
		IsReplaced: func(o *unstructured.Unstructured) bool { return o.GetName() == "virtual-garden-other-selector" },
	}
	for _, name := range []string{"ca", "ca-client", "ca-front-proxy", "service-account-key"} {
		in.Runtime = append(in.Runtime, managed(t, name, ""))
	}
	for _, name := range []string{"kube-apiserver-etcd-encryption-key", "gardener-apiserver-etcd-encryption-key"} {
		in.Runtime = append(in.Runtime, managed(t, name, `{key: a2V5MQ==, secret: MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ub3BxcnN0dXY=}`))
	}
	for _, name := range []string{
		"main-virtual-garden-etcd-virtual-garden-etcd-main-0", "virtual-garden-etcd-events-virtual-garden-etcd-events-0",
	} {
		in.Runtime = append(in.Runtime, object(t, "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: garden, name: "+name+"}}"))
	}
	return in
}

func managed(t *testing.T, name, data string) *unstructured.Unstructured {
	t.Helper()
	if data == "" {
		data = "{}"
	}
	return object(t, "{apiVersion: v1, kind: Secret, metadata: {namespace: garden, name: "+name+"-12345678, labels: {name: "+name+
		", managed-by: secrets-manager, manager-identity: gardener-operator}}, data: "+data+"}")
}

func TestNothingIsToKnowAboutACompleteGarden(t *testing.T) {
	g, report := NewWithT(t), takeover.Judge(complete(t))
	g.Expect(report).To(Equal(&takeover.Report{
		Restarts: []takeover.Finding{}, Unmanaged: []takeover.Finding{}, Remove: []takeover.Finding{}, Lost: []takeover.Finding{},
	}))
	g.Expect(report.Blocks()).To(BeFalse())
	g.Expect((*takeover.Report)(nil).Blocks()).To(BeFalse())
}

// Each row adds an object to a complete garden. Want is the list, ! if the finding blocks, and a part of the message; empty: no finding.
func TestRulesForObjects(t *testing.T) {
	held := func(holder, renewed string) string {
		return "{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {namespace: garden, name: gardener-operator-leader-election}, " +
			"spec: {holderIdentity: " + holder + ", renewTime: '2026-02-28T" + renewed + ".000000Z', leaseDurationSeconds: 15}}"
	}
	workload := func(kind, name, rest string) string {
		return "{apiVersion: apps/v1, kind: " + kind + ", metadata: {namespace: garden, name: " + name + rest + "}"
	}
	set := func(namespace, name string) string {
		return "{apiVersion: resources.gardener.cloud/v1alpha1, kind: ManagedResource, metadata: {namespace: " + namespace +
			", name: " + name + "}}"
	}
	const secret = "MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ub3BxcnN0dXY="
	key := func(data string) string {
		return "{apiVersion: v1, kind: Secret, metadata: {namespace: garden, name: mine, labels: " +
			"{secrets-manager-use-data-for-name: kube-apiserver-etcd-encryption-key}}, data: " + data + "}"
	}
	for name, tc := range map[string]struct{ object, want string }{
		"Gardener's operator runs": {
			workload("Deployment", "gardener-operator", "}, spec: {replicas: 1}"), "remove! scale deployment gardener-operator --replicas=0",
		},
		"without a number of replicas":       {workload("Deployment", "gardener-operator", "}, spec: {}"), "remove! still runs"},
		"Gardener's operator is scaled down": {workload("Deployment", "gardener-operator", "}, spec: {replicas: 0}"), ""},
		"a lease of another process": {
			held("gardener-operator-1_a", "11:59:50"), "remove! holds the lease",
		},
		"a lease that has ended":      {held("gardener-operator-1_a", "11:59:40"), ""},
		"a lease that was given back": {held("''", "11:59:59"), ""},
		"a lease of garden-operator": {
			held("espalier-garden-operator-1_a", "11:59:50"), "",
		},
		"webhooks of Gardener's operator": {
			"{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: gardener-operator}, " +
				"webhooks: [{clientConfig: {service: {namespace: garden, name: gardener-operator}}}]}", "remove! refuses the write",
		},
		"webhooks of garden-operator": {
			"{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: gardener-operator}, " +
				"webhooks: [{clientConfig: {service: {namespace: espalier-system, name: espalier-garden-operator}}}]}", "",
		},
		"an etcd by hand on a volume of the etcds": {
			workload("StatefulSet", "virtual-garden-etcd-main", "}, spec: {volumeClaimTemplates: [{metadata: {name: main-virtual-garden-etcd}}]}"),
			"remove! two etcds on one volume",
		},
		"an etcd by hand that mounts such a volume": {
			workload("StatefulSet", "etcd", "}, spec: {template: {spec: {volumes: [{name: data, persistentVolumeClaim: "+
				"{claimName: virtual-garden-etcd-events-virtual-garden-etcd-events-0}}]}}}"), "remove! two etcds on one volume",
		},
		"an etcd of etcd-druid": {
			workload("StatefulSet", "virtual-garden-etcd-main", ", ownerReferences: [{kind: Etcd, controller: true}]}, "+
				"spec: {volumeClaimTemplates: [{metadata: {name: main-virtual-garden-etcd}}]}"), "",
		},
		"a workload with another selector":  {workload("Deployment", "virtual-garden-other-selector", "}"), "remove! another selector"},
		"a workload that is written":        {workload("Deployment", "virtual-garden-kube-apiserver", "}"), ""},
		"a workload that a set takes over":  {workload("Deployment", "gardener-scheduler", "}"), "restarts its Pods restart"},
		"a workload that nothing knows":     {workload("Deployment", "old-apiserver", "}"), "unmanaged does not deploy it; if it is a part"},
		"a workload of a controller":        {workload("StatefulSet", "a", ", ownerReferences: [{kind: Alertmanager, controller: true}]}"), ""},
		"a workload of a ManagedResource":   {workload("Deployment", "dashboard", ", annotations: {resources.gardener.cloud/origin: a}}"), ""},
		"a dashboard":                       {set("garden", "gardener-dashboard-runtime"), "unmanaged no program updates or rotates them"},
		"a terminal controller":             {set("garden", "terminal-virtual"), "unmanaged no program updates or rotates them"},
		"a discovery server":                {set("garden", "gardener-discovery-server-runtime"), "unmanaged keys of workload identities"},
		"a ManagedResource of an extension": {set("garden", "extension-provider-local-garden"), "unmanaged keeps its objects"},
		"TLS that the gateway ends":         {set("garden", "kube-apiserver-sni"), "remove! end the TLS connections"},
		"certificates of the gateway":       {set("istio-system", "istio-tls-secrets"), "remove! end the TLS connections"},
		"kube-state-metrics of 1.84":        {set("garden", "kube-state-metrics"), "remove! would run twice"},
		"a Service of TLS termination": {
			"{apiVersion: v1, kind: Service, metadata: {namespace: garden, name: virtual-garden-kube-apiserver-mtls}}",
			"remove! end the TLS connections",
		},
		"a Service that clients use": {
			"{apiVersion: v1, kind: Service, metadata: {namespace: garden, name: apiserver}, spec: {type: LoadBalancer}}",
			"unmanaged until the DNS names",
		},
		"another Service": {"{apiVersion: v1, kind: Service, metadata: {namespace: garden, name: apiserver}}", "unmanaged does not deploy it"},
		"a donor":         {key("{key: a2V5MQ==, secret: " + secret + "}"), "remove label secret mine secrets-manager-use-data-for-name-"},
		"a key without a name": {
			key("{secret: " + secret + "}"), "lost! cannot be used as a key",
		},
		"a key of a wrong length":        {key("{key: a2V5MQ==, secret: YWJj}"), "lost! cannot be used as a key"},
		"a key with an unknown encoding": {key("{key: a2V5MQ==, secret: " + secret + ", encoding: aGV4}"), "lost! cannot be used as a key"},
		"a key with an unknown provider": {key("{key: a2V5MQ==, secret: " + secret + ", provider: a21z}"), "lost! cannot be used as a key"},
		"a volume without a user": {
			"{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: garden, name: etcd-0}}",
			"unmanaged no workload of garden-operator uses it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, in := NewWithT(t), complete(t)
			o := object(t, tc.object)
			in.Runtime = append(in.Runtime, o)
			expectFinding(g, takeover.Judge(in), tc.want, o.GetName())
		})
	}
}

// expectFinding expects a finding as in TestRulesForObjects.
func expectFinding(g *WithT, report *takeover.Report, want, object string) {
	var found []string
	for list, findings := range map[string][]takeover.Finding{
		"restarts": report.Restarts, "unmanaged": report.Unmanaged, "remove": report.Remove, "lost": report.Lost,
	} {
		for _, f := range findings {
			g.Expect(f.Object).To(HaveSuffix(object))
			found = append(found, list+map[bool]string{true: "!"}[f.Blocks]+" "+f.Message)
		}
	}
	if want == "" {
		g.Expect(found).To(BeEmpty())
		return
	}
	list, text, _ := strings.Cut(want, " ")
	g.Expect(found).To(ConsistOf(And(HavePrefix(list+" "), ContainSubstring(text))))
	g.Expect(report.Blocks()).To(Equal(strings.HasSuffix(list, "!")))
}

func TestSomethingThatIsMissingIsLost(t *testing.T) {
	without := func(name string) func(*takeover.Inventory) {
		return func(in *takeover.Inventory) {
			var rest []*unstructured.Unstructured
			for _, each := range in.Runtime {
				if !strings.HasPrefix(each.GetName(), name) {
					rest = append(rest, each)
				}
			}
			in.Runtime = rest
		}
	}
	for name, tc := range map[string]struct {
		change func(*takeover.Inventory)
		want   string
	}{
		"an authority":         {without("ca-front-proxy"), "lost! ca-front-proxy: no Secret has this credential"},
		"a key":                {without("gardener-apiserver-etcd-encryption-key"), "lost! ShootStates, cannot be read any more"},
		"the main volume":      {without("main-"), "lost! is called main-virtual-garden-etcd-virtual-garden-etcd-main-0"},
		"the volume of Events": {without("virtual-garden-etcd-events-"), "lost starts without Events"},
		"the main volume, with a bucket": {func(in *takeover.Inventory) {
			without("main-")(in)
			in.Garden.Spec.VirtualCluster.ETCD = &operatorv1alpha1.ETCD{Main: &operatorv1alpha1.ETCDMain{Backup: &operatorv1alpha1.Backup{}}}
		}, "lost restores the last snapshot"},
		"the status of a rotation": {func(in *takeover.Inventory) {
			in.Runtime = append(in.Runtime, managed(t, "ca", ""))
		}, "lost! there are Secrets of 2 generations"},
		"nothing, if the status has the rotation": {func(in *takeover.Inventory) {
			in.Runtime = append(in.Runtime, managed(t, "ca", ""))
			in.Garden.Status.Credentials = &operatorv1alpha1.Credentials{Rotation: &operatorv1alpha1.CredentialsRotation{}}
		}, ""},
		"a controller for a finalizer": {func(in *takeover.Inventory) {
			in.Garden.Finalizers = append(in.Garden.Finalizers, "example.com/mine")
		}, "unmanaged does not remove the finalizer example.com/mine"},
	} {
		t.Run(name, func(t *testing.T) {
			in := complete(t)
			tc.change(&in)
			expectFinding(NewWithT(t), takeover.Judge(in), tc.want, "")
		})
	}
}

func TestLeftoversAreConfirmedOneByOne(t *testing.T) {
	g, in := NewWithT(t), complete(t)
	sni := object(t, "{apiVersion: resources.gardener.cloud/v1alpha1, kind: ManagedResource, "+
		"metadata: {namespace: garden, name: kube-apiserver-sni, uid: a}}")
	service := object(t, "{apiVersion: v1, kind: Service, metadata: {namespace: garden, name: gardener-apiserver, uid: b}}")
	in.Runtime, in.Virtual = append(in.Runtime, sni), append(in.Virtual, service)
	report := takeover.Judge(in)
	g.Expect(report.Remove).To(ConsistOf(
		And(HaveField("Object", "ManagedResource garden/kube-apiserver-sni"), HaveField("Blocks", true)),
		And(HaveField("Object", "Service garden/gardener-apiserver"), HaveField("Cluster", takeover.Virtual), HaveField("Blocks", true)),
	))
	first, second := takeover.Digest(takeover.Runtime, sni), takeover.Digest(takeover.Virtual, service)
	g.Expect(strings.Split(report.Confirm, ",")).To(ConsistOf(first, second))

	in.Garden.Annotations = map[string]string{"espalier.dev/confirm-leftovers": first}
	report = takeover.Judge(in)
	g.Expect(report.Blocks()).To(BeTrue())
	g.Expect(strings.Split(report.Confirm, ",")).To(ConsistOf(first, second))

	in.Garden.Annotations["espalier.dev/confirm-leftovers"] = report.Confirm
	report = takeover.Judge(in)
	g.Expect(report.Blocks()).To(BeFalse())
	g.Expect(report.Confirm).To(BeEmpty())
	g.Expect(report.Remove).To(HaveEach(HaveField("Message", HaveSuffix("the operator removes it, as confirmed"))))

	again := service.DeepCopy()
	again.SetUID("c")
	g.Expect(takeover.Digest(takeover.Virtual, again)).NotTo(Equal(second), "it was created anew")
	g.Expect(takeover.Digest(takeover.Runtime, service)).NotTo(Equal(second), "it is in the other cluster")
}
