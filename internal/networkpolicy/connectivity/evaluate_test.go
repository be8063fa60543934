package connectivity

import (
	"bytes"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

func pod(namespace, name string, of map[string]string, changes ...func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: of},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "http", Protocol: "TCP", ContainerPort: 8080}}}},
		},
	}
	for _, change := range changes {
		change(&p)
	}
	return p
}

func policy(t *testing.T, text string) networkingv1.NetworkPolicy {
	t.Helper()
	p := networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p"}}
	NewWithT(t).Expect(yaml.UnmarshalStrict([]byte(text), &p.Spec)).To(Succeed())
	return p
}

func evaluate(t *testing.T, namespace string, pods []corev1.Pod, policies ...networkingv1.NetworkPolicy) *Report {
	t.Helper()
	report, err := Evaluate(Cluster{
		Namespaces: map[string]labels.Set{"shop": {"kubernetes.io/metadata.name": "shop"}, "lb": {"kubernetes.io/metadata.name": "lb"}},
		Pods:       pods, Policies: policies,
	}, namespace)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return report
}

const (
	ingressToDB = `{podSelector: {matchLabels: {app: db}}, policyTypes: [Ingress], ingress: [{from: [{podSelector: {matchLabels: ` +
		`{to-db: allowed}}}], ports: [{protocol: TCP, port: 5432}]}]}`
	egressToDB = `{podSelector: {matchLabels: {to-db: allowed}}, policyTypes: [Egress], egress: [{to: [{podSelector: {matchLabels: ` +
		`{app: db}}}], ports: [{protocol: TCP, port: 5432}]}]}`
	nothing     = `{podSelector: {}, policyTypes: [Ingress, Egress]}`
	worldToHTTP = `{podSelector: {matchLabels: {app: web}}, policyTypes: [Ingress], ingress: [{ports: [{protocol: TCP, port: http}]}]}`
	blocks      = `{podSelector: {matchLabels: {app: web}}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8, except: ` +
		`[10.1.0.0/16]}}], ports: [{protocol: UDP, port: 53, endPort: 54}, {protocol: TCP, port: dns}]}]}`
	fromLB = `{podSelector: {matchLabels: {app: web}}, policyTypes: [Ingress], ingress: [{from: [{namespaceSelector: {matchLabels: ` +
		`{kubernetes.io/metadata.name: lb}}, podSelector: {}}], ports: [{protocol: TCP, port: http}, {protocol: SCTP}]}]}`
	emptyIngress = `{podSelector: {matchLabels: {app: web}}, policyTypes: [Ingress], ingress: [{}]}`
)

func TestEvaluate(t *testing.T) {
	db, web := pod("shop", "db", map[string]string{"app": "db"}), pod("shop", "web", map[string]string{"app": "web", "to-db": "allowed"})
	other, lb := pod("shop", "other", nil), pod("lb", "lb", nil)
	for name, tc := range map[string]struct {
		pods     []corev1.Pod
		policies []string
		want     Report
	}{
		"without policies nothing is listed": {
			pods: []corev1.Pod{db, web}, want: Report{OpenIngress: []string{"shop/db", "shop/web"}, OpenEgress: []string{"shop/db", "shop/web"}},
		},
		"a client with its label": {
			pods: []corev1.Pod{db, web, other}, policies: []string{nothing, ingressToDB, egressToDB},
			want: Report{Edges: []Edge{{"shop/web", "shop/db", "TCP/5432"}}},
		},
		"only one side allows": {
			pods: []corev1.Pod{db, web}, policies: []string{nothing, ingressToDB},
		},
		"only the receiver is restricted": {
			pods: []corev1.Pod{db, web, other}, policies: []string{ingressToDB},
			want: Report{
				Edges: []Edge{{"shop/web", "shop/db", "TCP/5432"}}, OpenIngress: []string{"shop/other", "shop/web"},
				OpenEgress: []string{"shop/db", "shop/other", "shop/web"},
			},
		},
		"all peers, by a named port": {
			pods: []corev1.Pod{web, lb}, policies: []string{worldToHTTP},
			want: Report{
				Edges: []Edge{{"(anywhere)", "shop/web", "TCP/8080"}}, OpenIngress: []string{"lb/lb"}, OpenEgress: []string{"lb/lb", "shop/web"},
			},
		},
		"all peers include those whose own policies let them": {
			pods: []corev1.Pod{db, web}, policies: []string{emptyIngress, egressToDB},
			want: Report{
				Edges: []Edge{{"(anywhere)", "shop/web", "all"}, {"shop/web", "shop/db", "TCP/5432"}}, OpenIngress: []string{"shop/db"},
				OpenEgress: []string{"shop/db"},
			},
		},
		"address ranges": {
			pods: []corev1.Pod{web}, policies: []string{blocks},
			want: Report{Edges: []Edge{{"shop/web", "10.0.0.0/8 except 10.1.0.0/16", "TCP/dns, UDP/53-54"}}, OpenIngress: []string{"shop/web"}},
		},
		"another namespace": {
			pods: []corev1.Pod{web, lb, other}, policies: []string{fromLB},
			want: Report{
				Edges: []Edge{{"lb/lb", "shop/web", "SCTP, TCP/8080"}}, OpenIngress: []string{"lb/lb", "shop/other"},
				OpenEgress: []string{"lb/lb", "shop/other", "shop/web"},
			},
		},
		"Pods that are finished or on their node's network": {
			pods: []corev1.Pod{
				pod("shop", "done", nil, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
				pod("shop", "host", nil, func(p *corev1.Pod) { p.Spec.HostNetwork = true }),
			},
			want: Report{OnHostNetwork: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var policies []networkingv1.NetworkPolicy
			for _, text := range tc.policies {
				policies = append(policies, policy(t, text))
			}
			got := evaluate(t, "", tc.pods, policies...)
			got.namespaces = nil
			NewWithT(t).Expect(*got).To(Equal(tc.want))
		})
	}
}

func TestOneNamespaceOnly(t *testing.T) {
	g := NewWithT(t)
	web, lb, other := pod("shop", "web", map[string]string{"app": "web"}), pod("lb", "lb", nil), pod("far", "off", nil)
	report := evaluate(t, "lb", []corev1.Pod{web, lb, other}, policy(t, fromLB))
	g.Expect(report.Edges).To(Equal([]Edge{{"lb/lb", "shop/web", "SCTP, TCP/8080"}}))
	g.Expect(report.OpenIngress).To(Equal([]string{"lb/lb"}))
}

func TestGroupsAreWorkloadsUnlessPoliciesTellTheirPodsApart(t *testing.T) {
	owned := func(kind, name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, Controller: ptr.To(true)}}
		}
	}
	replica := func(name, app string) corev1.Pod {
		return pod("shop", name, map[string]string{"app": app, "pod-template-hash": "abc"}, owned("ReplicaSet", "web-abc"))
	}
	found, _ := groups([]corev1.Pod{
		replica("1", "web"), replica("2", "web"), replica("3", "new"), pod("shop", "set-0", nil, owned("StatefulSet", "set")),
	}, []networkingv1.NetworkPolicy{policy(t, worldToHTTP)})
	var names []string
	for _, g := range found {
		names = append(names, g.name)
	}
	NewWithT(t).Expect(names).To(Equal([]string{"shop/set", "shop/web", "shop/web#2"}))
}

func TestPorts(t *testing.T) {
	g := NewWithT(t)
	tcp := func(from, to int32) span { return span{protocol: "TCP", from: from, to: to} }
	g.Expect(union(ports{tcp(80, 90)}, ports{tcp(91, 95), tcp(85, 86), tcp(100, 100)}).String()).To(Equal("TCP/80-95, TCP/100"))
	g.Expect(intersection(allPorts(), ports{tcp(5, 6)}).String()).To(Equal("TCP/5-6"))
	g.Expect(intersection(ports{tcp(1, 4)}, ports{tcp(5, 6)})).To(BeEmpty())
	g.Expect(intersection(ports{tcp(5, 6)}, ports{{protocol: "UDP", from: 5, to: 6}})).To(BeEmpty())
	g.Expect(allPorts().String()).To(Equal("all"))
	g.Expect(ports{tcp(1, 65535)}.String()).To(Equal("TCP"))
}

func TestRendering(t *testing.T) {
	g := NewWithT(t)
	db, web := pod("shop", "db", map[string]string{"app": "db"}), pod("shop", "web", map[string]string{"app": "web", "to-db": "allowed"})
	report := evaluate(t, "", []corev1.Pod{db, web, pod("lb", "lb", nil)}, policy(t, ingressToDB), policy(t, blocks), policy(t, egressToDB))
	var out bytes.Buffer
	g.Expect(report.Table(&out)).To(Succeed())
	g.Expect(out.String()).To(Equal(`FROM       TO                              PORTS
shop/web   10.0.0.0/8 except 10.1.0.0/16   TCP/dns, UDP/53-54
shop/web   shop/db                         TCP/5432
Receive from everybody who may send, since no policy selects them: lb/lb, shop/web
Send to everybody who may receive, since no policy selects them: lb/lb, shop/db
`))
	out.Reset()
	g.Expect(report.Dot(&out)).To(Succeed())
	g.Expect(out.String()).To(Equal(`digraph connectivity {
  rankdir=LR;
  node [shape=box];
  subgraph cluster_0 {
    label="shop";
    "shop/web";
    "shop/db";
  }
  subgraph cluster_1 {
    label="lb";
    "lb/lb";
  }
  "shop/web" -> "10.0.0.0/8 except 10.1.0.0/16" [label="TCP/dns, UDP/53-54"];
  "shop/web" -> "shop/db" [label="TCP/5432"];
  // Receive from everybody who may send, since no policy selects them: lb/lb, shop/web
  // Send to everybody who may receive, since no policy selects them: lb/lb, shop/db
}
`))
}
