package chart

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// manifests parses the output of one template, templates/a.yaml.
func manifests(t *testing.T, output string) Manifests {
	t.Helper()
	parsed, _, err := parse("shop", map[string]string{"a.yaml": output})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return parsed
}

const (
	deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a, namespace: shop}\nspec: {template: {spec: "
	role       = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: a}\n"
	binding    = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: a}\n"
	webhook    = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: a}\n"
	account    = "subjects: [{kind: ServiceAccount, name: a, namespace: shop}]\n"
)

func TestPolicyFindsBreaches(t *testing.T) {
	for name, tc := range map[string]struct {
		output string
		want   []string
		// policy allows the same objects; nil if none does.
		policy *Policy
		// given is the policy that has the breaches.
		given Policy
	}{
		"an extension that keeps to itself": {
			output: deployment + "{containers: [{name: a, ports: [{containerPort: 80}], " +
				"securityContext: {privileged: false, capabilities: {add: [NET_BIND_SERVICE]}}}]," +
				"hostNetwork: false, volumes: [{name: a, emptyDir: {}}]}}}\n---\n" +
				"apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: a, namespace: shop}\n---\n" +
				role + "rules: [{apiGroups: [\"\"], resources: [secrets], verbs: [get, list]}]\n---\n" +
				binding + "roleRef: {kind: ClusterRole, name: a}\n" + account + "---\n" +
				"apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: a, namespace: shop}\n" +
				"rules: [{apiGroups: ['*'], resources: ['*'], verbs: ['*']}]",
		},
		"a kind that reaches beyond the chart": {
			output: "apiVersion: resources.gardener.cloud/v1alpha1\nkind: ManagedResource\nmetadata: {name: a, namespace: garden}",
			want:   []string{`ManagedResource.resources.gardener.cloud garden/a in a.yaml: kind is not allowed`},
			policy: &Policy{Kinds: []string{"ManagedResource.resources.gardener.cloud"}, Namespaces: []string{"garden"}},
		},
		"a role with rights of other programs that is not trusted by its name": {
			output: role + "rules: [{apiGroups: ['*'], resources: ['*'], verbs: [bind]}]",
			want: []string{
				`ClusterRole.rbac.authorization.k8s.io a in a.yaml: rules[0].apiGroups has a wildcard`,
				`ClusterRole.rbac.authorization.k8s.io a in a.yaml: rules[0].resources has a wildcard`,
				`ClusterRole.rbac.authorization.k8s.io a in a.yaml: rules[0].verbs has the verb bind`,
			},
			policy: &Policy{TrustedRoles: []string{"a"}}, given: Policy{TrustedRoles: []string{"ab"}},
		},
		"a kind without a namespace": {
			output: "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}",
			want:   []string{`Namespace a in a.yaml: kind is not allowed`},
			policy: &Policy{ClusterKinds: []string{"Namespace"}},
		},
		"a kind of another group with a usual name": {
			output: "apiVersion: example.org/v1\nkind: Deployment\nmetadata: {name: a, namespace: shop}",
			want:   []string{`Deployment.example.org shop/a in a.yaml: kind is not allowed`},
			policy: &Policy{Kinds: []string{"Deployment.example.org"}},
		},
		"an apiVersion that is none": {
			output: "apiVersion: a/b/c\nkind: Deployment\nmetadata: {name: a, namespace: shop}",
			want:   []string{` shop/a in a.yaml: kind is not allowed`},
		},
		"another namespace": {
			output: "apiVersion: v1\nkind: Secret\nmetadata: {name: a, namespace: kube-system}",
			want:   []string{`Secret kube-system/a in a.yaml: metadata.namespace is not "shop"`},
			policy: &Policy{Namespaces: []string{"kube-system"}},
		},
		"another namespace, in a list": {
			output: "apiVersion: v1\nkind: List\n" +
				"items: [{apiVersion: v1, kind: SecretList, items: [{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: garden}}]}]",
			want:   []string{`Secret garden/a in a.yaml: metadata.namespace is not "shop"`},
			policy: &Policy{Namespaces: []string{"garden"}},
		},
		"no namespace": {
			output: "apiVersion: v1\nkind: Secret\nmetadata: {name: a}",
			want:   []string{`Secret a in a.yaml: metadata.namespace is missing; the object would be in the namespace "default"`},
			policy: &Policy{Namespaces: []string{""}},
		},
		"a namespace on objects without a namespace": {
			output: strings.Replace(role, "{name: a}", "{name: a, namespace: shop}", 1) + "---\n" +
				strings.Replace(webhook, "{name: a}", "{name: a, namespace: shop}", 1) + "---\n" +
				"apiVersion: v1\nkind: Namespace\nmetadata: {name: a, namespace: shop}",
			want: []string{
				`ClusterRole.rbac.authorization.k8s.io shop/a in a.yaml: metadata.namespace is set on an object without a namespace`,
				`ValidatingWebhookConfiguration.admissionregistration.k8s.io shop/a in a.yaml: metadata.namespace is set on an object ` +
					`without a namespace`,
				`Namespace shop/a in a.yaml: metadata.namespace is set on an object without a namespace`,
			},
			given: Policy{Webhooks: true, ClusterKinds: []string{"Namespace"}},
		},
		"a name that is reserved": {
			output: "apiVersion: v1\nkind: Secret\nmetadata: {name: b, namespace: shop}",
			want:   []string{`Secret shop/b in a.yaml: metadata.name is reserved for the object with which the extension is installed`},
		},
		"a name that two objects have, in two versions": {
			output: "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: a, namespace: shop}\n---\n" +
				"apiVersion: batch/v1beta1\nkind: CronJob\nmetadata: {name: a, namespace: shop}",
			want: []string{`CronJob.batch shop/a in a.yaml: metadata.name is the name of another object of this chart`},
		},
		"no name": {
			output: "apiVersion: v1\nkind: Secret\nmetadata: {generateName: a, namespace: shop}",
			want:   []string{`Secret shop/ in a.yaml: metadata.name is missing`},
		},
		"a role of Kubernetes, replaced so that a binding to it is one to a role of the chart": {
			output: "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: cluster-admin}\n---\n" +
				binding + "roleRef: {kind: ClusterRole, name: cluster-admin}\n" + account,
			want: []string{`ClusterRole.rbac.authorization.k8s.io cluster-admin in a.yaml: metadata.name belongs to Kubernetes`},
		},
		"cluster-admin": {
			output: binding + "roleRef: {kind: ClusterRole, name: cluster-admin}\n" + account,
			want:   []string{`ClusterRoleBinding.rbac.authorization.k8s.io a in a.yaml: roleRef is not a role of this chart`},
			policy: &Policy{ClusterRoles: []string{"cluster-admin"}},
		},
		"rights of others": {
			output: role + "---\n" + binding + "roleRef: {kind: ClusterRole, name: a}\n" +
				"subjects: [{kind: Group, name: 'system:authenticated'}, " +
				"{kind: ServiceAccount, name: a, namespace: shop}, {kind: ServiceAccount, name: a, namespace: b}]",
			want: []string{
				`ClusterRoleBinding.rbac.authorization.k8s.io a in a.yaml: subjects[0] is not a ServiceAccount in "shop"`,
				`ClusterRoleBinding.rbac.authorization.k8s.io a in a.yaml: subjects[2] is not a ServiceAccount in "shop"`,
			},
		},
		"wildcards": {
			output: role + "rules: [{verbs: [get]}, {apiGroups: ['*'], resources: ['*/status'], verbs: [get], nonResourceURLs: ['/a/*']}]",
			want: []string{
				`ClusterRole.rbac.authorization.k8s.io a in a.yaml: rules[1].apiGroups has a wildcard`,
				`ClusterRole.rbac.authorization.k8s.io a in a.yaml: rules[1].resources has a wildcard`,
				`ClusterRole.rbac.authorization.k8s.io a in a.yaml: rules[1].nonResourceURLs has a wildcard`,
			},
			policy: &Policy{Wildcards: true},
		},
		"escalation": {
			output: role + "rules: [{verbs: [get, escalate, bind, impersonate]}]\naggregationRule: {clusterRoleSelectors: [{}]}",
			want: []string{
				`ClusterRole.rbac.authorization.k8s.io a in a.yaml: rules[0].verbs has the verb escalate`,
				`ClusterRole.rbac.authorization.k8s.io a in a.yaml: rules[0].verbs has the verb bind`,
				`ClusterRole.rbac.authorization.k8s.io a in a.yaml: rules[0].verbs has the verb impersonate`,
				`ClusterRole.rbac.authorization.k8s.io a in a.yaml: aggregationRule collects the rights of other roles`,
			},
			policy: &Policy{Escalation: true},
		},
		"an extension of other roles": {
			output: "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\n" +
				"metadata: {name: a, labels: {rbac.authorization.k8s.io/aggregate-to-view: 'true'}}",
			want:   []string{`ClusterRole.rbac.authorization.k8s.io a in a.yaml: metadata.labels extends a role of Kubernetes`},
			policy: &Policy{Escalation: true},
		},
		"a role with wildcards in another namespace": {
			output: "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: a, namespace: b}\nrules: [{verbs: ['*']}]",
			want: []string{
				`Role.rbac.authorization.k8s.io b/a in a.yaml: metadata.namespace is not "shop"`,
				`Role.rbac.authorization.k8s.io b/a in a.yaml: rules[0].verbs has a wildcard`,
			},
			policy: &Policy{Wildcards: true, Namespaces: []string{"b"}},
		},
		"webhooks": {
			output: webhook + "webhooks: [{clientConfig: {service: {name: a, namespace: shop}}}, " +
				"{clientConfig: {service: {name: a, namespace: b}}}]",
			want: []string{
				`ValidatingWebhookConfiguration.admissionregistration.k8s.io a in a.yaml: kind is a webhook`,
				`ValidatingWebhookConfiguration.admissionregistration.k8s.io a in a.yaml: webhooks[1].clientConfig.service.namespace is not "shop"`,
			},
			policy: &Policy{Webhooks: true, Namespaces: []string{"b"}},
		},
		"the node, by a Pod template": {
			output: deployment + "{containers: [{ports: [{containerPort: 1}, {hostPort: 80}]}], " +
				"hostNetwork: true, hostPID: true, hostIPC: true, volumes: [{}, {hostPath: {path: /}}]}}}",
			want: []string{
				`Deployment.apps shop/a in a.yaml: spec.template.spec.hostNetwork uses the node`,
				`Deployment.apps shop/a in a.yaml: spec.template.spec.hostPID uses the node`,
				`Deployment.apps shop/a in a.yaml: spec.template.spec.hostIPC uses the node`,
				`Deployment.apps shop/a in a.yaml: spec.template.spec.volumes[1].hostPath uses files of the node`,
				`Deployment.apps shop/a in a.yaml: spec.template.spec.containers[0].ports[1].hostPort uses a port of the node`,
			},
			policy: &Policy{HostAccess: true},
		},
		"the node, by containers": {
			output: deployment + "{containers: [{securityContext: {privileged: true}}], " +
				"initContainers: [{}, {securityContext: {capabilities: {add: [SYS_ADMIN]}}}]," +
				"ephemeralContainers: [{securityContext: {procMount: Unmasked}}]}}}",
			want: []string{
				`Deployment.apps shop/a in a.yaml: spec.template.spec.initContainers[1].securityContext.capabilities.add gives rights on the node`,
				`Deployment.apps shop/a in a.yaml: spec.template.spec.containers[0].securityContext.privileged gives all rights on the node`,
				`Deployment.apps shop/a in a.yaml: spec.template.spec.ephemeralContainers[0].securityContext.procMount uses the node`,
			},
			policy: &Policy{HostAccess: true},
		},
		"the node, in a CronJob": {
			output: "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: a, namespace: shop}\n" +
				"spec: {jobTemplate: {spec: {template: {spec: {containers: [], hostPID: true}}}}}",
			want:   []string{`CronJob.batch shop/a in a.yaml: spec.jobTemplate.spec.template.spec.hostPID uses the node`},
			policy: &Policy{HostAccess: true},
		},
		"addresses of others": {
			output: "apiVersion: v1\nkind: Service\nmetadata: {name: a, namespace: shop}\nspec: {externalIPs: [10.0.0.1]}",
			want:   []string{`Service shop/a in a.yaml: spec.externalIPs takes over addresses`},
			policy: &Policy{HostAccess: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var got []string
			tc.given.Reserved = []string{"Secret/b"}
			for _, breach := range tc.given.Breaches("shop", manifests(t, tc.output)) {
				got = append(got, breach.String())
			}
			g.Expect(got).To(Equal(tc.want))
			if tc.policy != nil {
				g.Expect(tc.policy.Breaches("shop", manifests(t, tc.output))).To(BeEmpty(), "the policy allows it")
			}
		})
	}
}

func TestPolicyOfSharedNamespaces(t *testing.T) {
	const (
		ownAccount  = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: a, namespace: shop}\n---\n"
		ownRole     = "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: a, namespace: shop}\n---\n"
		roleBinding = "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: a, namespace: shop}\n"
		borrows     = "Role.rbac.authorization.k8s.io shop/a in a.yaml: rules["
		labelled    = "Secret shop/a in a.yaml: metadata.labels has "

		networkPolicy = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: a, namespace: shop}\nspec: "
		budget        = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: a, namespace: shop}\nspec: "
		hpa           = "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: a, namespace: shop}\nspec: {scaleTargetRef: "
		vpa           = "apiVersion: autoscaling.k8s.io/v1\nkind: VerticalPodAutoscaler\nmetadata: {name: a, namespace: shop}\nspec: {targetRef: "
	)
	for name, tc := range map[string]struct {
		output string
		want   []string // in the shared namespace; in a namespace of the chart alone, all is allowed
		allow  Policy   // besides
	}{
		"own roles and accounts": {
			output: ownAccount + ownRole + roleBinding + "roleRef: {kind: Role, name: a}\n" + account + "---\n" +
				deployment + "{serviceAccountName: a, containers: []}}}",
		},
		"the account default": {output: deployment + "{serviceAccountName: default, containers: []}}}"},
		"a Role of another program": {
			output: ownAccount + roleBinding + "roleRef: {kind: Role, name: a}\n" + account,
			want:   []string{`RoleBinding.rbac.authorization.k8s.io shop/a in a.yaml: roleRef is not a role of this chart`},
		},
		"a right for an account of another program": {
			output: ownRole + roleBinding + "roleRef: {kind: Role, name: a}\n" + account,
			want:   []string{`RoleBinding.rbac.authorization.k8s.io shop/a in a.yaml: subjects[0] is not a ServiceAccount of this chart`},
		},
		"Pods with the account of another program": {
			output: deployment + "{serviceAccountName: a, serviceAccount: b, containers: []}}}",
			want: []string{
				`Deployment.apps shop/a in a.yaml: spec.template.spec.serviceAccountName is not a ServiceAccount of this chart`,
				`Deployment.apps shop/a in a.yaml: spec.template.spec.serviceAccount is not a ServiceAccount of this chart`,
			},
		},
		"the token of an account": {
			output: "apiVersion: v1\nkind: Secret\nmetadata: {name: a, namespace: shop}\ntype: kubernetes.io/service-account-token",
			want:   []string{`Secret shop/a in a.yaml: type gets the token of a ServiceAccount`},
		},
		"Secrets and ConfigMaps that other programs would use": {
			output: "apiVersion: v1\nkind: Secret\nmetadata: {name: a, namespace: shop, labels: {resources.gardener.cloud/purpose: " +
				"token-requestor, managed-by: secrets-manager, manager-identity: garden, espalier.dev/kept-credential: ca}}\n---\n" +
				"apiVersion: v1\nkind: Secret\nmetadata: {name: b, namespace: shop, labels: " +
				"{role: gardener-apiserver-etcd-encryption-configuration}}\n---\n" +
				"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop, labels: {gardener.cloud/role: a}}",
			want: []string{
				labelled + "resources.gardener.cloud/purpose, by which other programs find their objects",
				labelled + "managed-by, by which other programs find their objects",
				labelled + "manager-identity, by which other programs find their objects",
				labelled + "espalier.dev/kept-credential, by which other programs find their objects",
				`Secret shop/b in a.yaml: metadata.labels makes it the encryption configuration of an API server`,
				`ConfigMap shop/a in a.yaml: metadata.labels has gardener.cloud/role, by which other programs find their objects`,
			},
		},
		"labels that no other program reads": {
			output: "apiVersion: v1\nkind: Secret\nmetadata: {name: a, namespace: shop, labels: {role: webhook, " +
				"app.kubernetes.io/managed-by: Helm}}\n---\n" +
				strings.Replace(deployment, "{name: a, namespace: shop}",
					"{name: a, namespace: shop, labels: {gardener.cloud/role: a, managed-by: a}}", 1) + "{containers: []}}}",
		},
		"policies for all Pods": {
			output: networkPolicy + "{podSelector: {}}\n---\n" + strings.Replace(networkPolicy, "name: a", "name: b", 1) + "{}\n---\n" +
				budget + "{selector: {matchLabels: {}, matchExpressions: []}}",
			want: []string{
				`NetworkPolicy.networking.k8s.io shop/a in a.yaml: spec.podSelector selects the Pods of all programs`,
				`NetworkPolicy.networking.k8s.io shop/b in a.yaml: spec.podSelector selects the Pods of all programs`,
				`PodDisruptionBudget.policy shop/a in a.yaml: spec.selector selects the Pods of all programs`,
			},
		},
		"policies for some Pods": {
			output: networkPolicy + "{podSelector: {matchLabels: {a: b}}}\n---\n" +
				budget + "{selector: {matchExpressions: [{key: a, operator: Exists}]}}",
		},
		"autoscalers of other programs": {
			output: hpa + "{apiVersion: apps/v1, kind: Deployment, name: b}}\n---\n" + vpa + "{apiVersion: apps/v1, kind: StatefulSet, name: a}}" +
				"\n---\n" + deployment + "{containers: []}}}",
			want: []string{
				`HorizontalPodAutoscaler.autoscaling shop/a in a.yaml: spec.scaleTargetRef is not an object of this chart`,
				`VerticalPodAutoscaler.autoscaling.k8s.io shop/a in a.yaml: spec.targetRef is not an object of this chart`,
			},
		},
		"autoscalers of own workloads": {
			output: hpa + "{apiVersion: apps/v1, kind: Deployment, name: a}}\n---\n" + vpa + "{apiVersion: apps/v1, kind: Deployment, name: a}}" +
				"\n---\n" + deployment + "{containers: []}}}",
		},
		"rights that need no account of another program": {
			output: strings.Replace(ownRole, "\n---\n", "\nrules: [{apiGroups: [''], resources: [pods, pods/log, secrets], verbs: [get, list]}, "+
				"{apiGroups: [''], resources: [serviceaccounts/token], verbs: [get]}, "+
				"{apiGroups: [''], resources: [secrets, events, configmaps], verbs: [create, update, patch, delete]}]", 1),
		},
		"rights to act with the accounts of other programs": {
			output: strings.Replace(ownRole, "\n---\n", "\nrules: [{apiGroups: [''], resources: [serviceaccounts/token, pods, configmaps], "+
				"verbs: [create]}, {apiGroups: [''], resources: [pods/exec, pods/attach], verbs: [get]}, "+
				"{apiGroups: [''], resources: [pods, pods/ephemeralcontainers], verbs: [patch]}, "+
				"{apiGroups: [apps, batch], resources: [deployments, statefulsets, daemonsets, replicasets, jobs, cronjobs], verbs: [update]}, "+
				"{apiGroups: [resources.gardener.cloud, druid.gardener.cloud, monitoring.coreos.com], resources: [managedresources, etcds, "+
				"prometheuses, prometheusagents, alertmanagers, thanosrulers], verbs: [create]}]", 1),
			want: []string{
				borrows + "0].resources gives the rights of other programs by serviceaccounts/token",
				borrows + "0].resources gives the rights of other programs by pods",
				borrows + "1].resources gives the rights of other programs by pods/exec",
				borrows + "1].resources gives the rights of other programs by pods/attach",
				borrows + "2].resources gives the rights of other programs by pods",
				borrows + "2].resources gives the rights of other programs by pods/ephemeralcontainers",
				borrows + "3].resources gives the rights of other programs by deployments",
				borrows + "3].resources gives the rights of other programs by statefulsets",
				borrows + "3].resources gives the rights of other programs by daemonsets",
				borrows + "3].resources gives the rights of other programs by replicasets",
				borrows + "3].resources gives the rights of other programs by jobs",
				borrows + "3].resources gives the rights of other programs by cronjobs",
				borrows + "4].resources gives the rights of other programs by managedresources",
				borrows + "4].resources gives the rights of other programs by etcds",
				borrows + "4].resources gives the rights of other programs by prometheuses",
				borrows + "4].resources gives the rights of other programs by prometheusagents",
				borrows + "4].resources gives the rights of other programs by alertmanagers",
				borrows + "4].resources gives the rights of other programs by thanosrulers",
			},
		},
		"wildcards that include rights to act with the accounts of other programs": {
			output: strings.Replace(ownRole, "\n---\n", "\nrules: [{apiGroups: [''], resources: ['*'], verbs: [get]}, "+
				"{apiGroups: ['*'], resources: ['*/exec', '*/status'], verbs: [get]}, {apiGroups: [''], resources: ['*/token'], verbs: [create]}, "+
				"{apiGroups: [apps], resources: ['*'], verbs: ['*']}]", 1),
			allow: Policy{Wildcards: true},
			want: []string{
				borrows + "0].resources gives the rights of other programs by *",
				borrows + "1].resources gives the rights of other programs by */exec",
				borrows + "2].resources gives the rights of other programs by */token",
				borrows + "3].resources gives the rights of other programs by *",
			},
		},
		"wildcards that need no account of another program": {
			output: strings.Replace(ownRole, "\n---\n", "\nrules: [{apiGroups: [example.org], resources: ['*'], verbs: ['*']}, "+
				"{apiGroups: [apps], resources: ['*'], verbs: [get, list]}, {apiGroups: ['*'], resources: ['*/status'], verbs: ['*']}]", 1),
			allow: Policy{Wildcards: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var got []string
			tc.allow.Shared = true
			for _, breach := range tc.allow.Breaches("shop", manifests(t, tc.output)) {
				got = append(got, breach.String())
			}
			g.Expect(got).To(Equal(tc.want))
			g.Expect(Policy{}.Breaches("shop", manifests(t, tc.output))).To(BeEmpty())
			if strings.Contains(tc.output, "rules: ") {
				tc.allow.Escalation = true
				g.Expect(tc.allow.Breaches("shop", manifests(t, tc.output))).To(BeEmpty())
			}
		})
	}
}

func TestBreachesNameTemplateObjectAndField(t *testing.T) {
	NewWithT(t).Expect(Policy{}.Breaches("shop", manifests(t, "apiVersion: v1\nkind: Node\nmetadata: {name: a}"))).To(Equal([]Breach{
		{Template: "a.yaml", Object: "Node a", Field: "kind", Reason: "is not allowed"},
	}))
}

func TestSummaryIsSortedAndBounded(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Summary(nil)).To(BeEmpty())
	var breaches []Breach
	for _, each := range "lkjihgfedcba" {
		breaches = append(breaches, Breach{Template: "t", Object: string(each), Field: "kind", Reason: "is not allowed"})
	}
	g.Expect(Summary(breaches[10:])).To(Equal("a in t: kind is not allowed; b in t: kind is not allowed"))
	g.Expect(Summary(breaches)).To(And(HavePrefix("a in t: "), HaveSuffix("; j in t: kind is not allowed; and 2 more")))
}
