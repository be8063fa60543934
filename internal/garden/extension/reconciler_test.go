package extension_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/chart"
	"github.com/espalier-dev/espalier/internal/chart/charttest"
)

// virtualChart is a chart of admission controllers for the virtual cluster.
func virtualChart() charttest.Files {
	return charttest.Files{"templates/rbac.yaml": `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: shop}
rules: [{apiGroups: [core.gardener.cloud], resources: [shoots], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: shop}
subjects:
- kind: ServiceAccount
  {{- toYaml .Values.gardener.virtualCluster.serviceAccount | nindent 2 }}
`}
}

// runtimeChart is a chart of admission controllers for the runtime cluster.
func runtimeChart() charttest.Files {
	return charttest.Files{"templates/deployment.yaml": `
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop-admission, namespace: {{ .Release.Namespace }}}
spec:
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      priorityClassName: {{ .Values.gardener.runtimeCluster.priorityClassName }}
      containers: [{name: shop, image: {{ .Values.image }}}]
`}
}

func configMapChart() charttest.Files {
	return charttest.Files{"templates/configmap.yaml": "apiVersion: v1\nkind: ConfigMap\n" +
		"metadata: {name: shop, namespace: {{ .Release.Namespace }}}\ndata: {enabled: {{ .Values.gardener.runtimeCluster.enabled }}}\n"}
}

const resources = `
  resources:
  - {kind: Extension, type: shop, autoEnable: [garden, shoot], clusterCompatibility: [shoot, garden]}
  - {kind: DNSRecord, type: shop}
`

func TestExtensionIsInstalledFromARegistry(t *testing.T) {
	s := newScene(t)
	garden := s.garden(operatorv1alpha1.LastOperationSucceeded)
	registry := charttest.NewRegistry(t)
	registry.Password = "hunter2"
	own := registry.Push(t, "own", charttest.Archive(t, configMapChart()))
	virtual := registry.Push(t, "virtual", charttest.Archive(t, virtualChart()))
	pushed := registry.Push(t, "runtime", charttest.Archive(t, runtimeChart()))
	auth := base64.StdEncoding.EncodeToString([]byte("me:hunter2"))
	s.secret("login", map[string]string{".dockerconfigjson": fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, registry.Host(), auth)})
	s.secret("authority", map[string]string{"bundle.crt": string(registry.CA())})
	s.secret("image", map[string]string{"name": "example.org/shop:1"})
	oci := func(tag string) string {
		return fmt.Sprintf("helm: {ociRepository: {repository: %q, tag: %s, pullSecretRef: {name: login}, caBundleSecretRef: {name: authority}}}",
			registry.Repository(), tag)
	}
	s.create(resources + `
  deployment:
    extension:
      ` + oci("own") + `
      values: {a: '{{ .resources.image.data.name }}'}
      policy: Always
      injectGardenKubeconfig: true
    admission:
      runtimeCluster:
        ` + oci("runtime") + `
      virtualCluster:
        ` + oci("virtual") + `
      values: {image: '{{ .resources.image.data.name }}'}
    resources:
    - {name: image, resourceRef: {apiVersion: v1, kind: Secret, name: image}}
`)

	state, err := s.reconcile()
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(state).To(HavePrefix(
		"Progressing ReconcilePending: waiting for ManagedResource " + s.namespace + "/extension-admission-virtual-shop: "))
	s.Expect(s.sets()).To(ConsistOf("extension-admission-virtual-shop", "extension-registration-shop"))
	s.Expect(s.get().Finalizers).To(ConsistOf("gardener.cloud/operator"))
	s.Expect(s.contents("extension-admission-virtual-shop")["shop_templates_rbac.yaml"]).To(
		ContainSubstring("name: extension-admission-shop\n  namespace: kube-system"))
	registration := s.contents("extension-registration-shop")
	s.Expect(registration["controllerregistration.yaml"]).To(MatchYAML(`
apiVersion: core.gardener.cloud/v1beta1
kind: ControllerRegistration
metadata: {name: shop}
spec:
  resources:
  - {kind: Extension, type: shop, autoEnable: [shoot], clusterCompatibility: [shoot]}
  - {kind: DNSRecord, type: shop}
  deployment: {policy: Always, deploymentRefs: [{name: shop}]}
`))
	s.Expect(registration["controllerdeployment.yaml"]).To(MatchYAML(`
apiVersion: core.gardener.cloud/v1
kind: ControllerDeployment
metadata: {name: shop}
helm:
  ociRepository:
    repository: ` + registry.Repository() + `
    tag: own
    pullSecretRef: {name: shop-login}
    caBundleSecretRef: {name: shop-authority}
  values: {a: '{{ .resources.image.data.name }}'}
injectGardenKubeconfig: true
resources: [{name: image, resourceRef: {apiVersion: v1, kind: Secret, name: shop-image}}]
`))
	s.Expect(registration["copy_Secret_image.yaml"]).To(MatchYAML(`
apiVersion: v1
kind: Secret
metadata: {name: shop-image, namespace: ` + s.namespace + `, labels: {gardener.cloud/role: resource-reference}}
type: Opaque
data: {name: ZXhhbXBsZS5vcmcvc2hvcDox}
`))

	s.apply("extension-admission-virtual-shop")
	state, err = s.reconcile()
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(state).To(ContainSubstring("waiting for ManagedResource " + s.namespace + "/extension-admission-runtime-shop: "))
	access := &corev1.Secret{}
	s.Expect(s.admin.Get(s.ctx, client.ObjectKey{Namespace: s.namespace, Name: "shoot-access-extension-admission-shop"}, access)).To(Succeed())
	s.Expect(access.Labels).To(HaveKeyWithValue("resources.gardener.cloud/class", "shoot"))
	s.Expect(access.Annotations).To(HaveKeyWithValue("serviceaccount.resources.gardener.cloud/name", "extension-admission-shop"))
	s.Expect(s.contents("extension-admission-runtime-shop")["shop_templates_deployment.yaml"]).To(And(
		ContainSubstring("value: /var/run/secrets/gardener.cloud/shoot/generic-kubeconfig/kubeconfig"),
		ContainSubstring("name: generic-token-kubeconfig-12345678"), ContainSubstring("name: shoot-access-extension-admission-shop"),
		ContainSubstring("priorityClassName: gardener-garden-system-400"), ContainSubstring("image: example.org/shop:1"),
	))

	s.apply("extension-admission-runtime-shop")
	state, err = s.reconcile()
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(state).To(Equal(`True ReconcileSuccessful: Extension "shop" has been reconciled successfully`))
	s.Expect(s.get().Status.Charts).To(Equal([]operatorv1alpha1.ResolvedChart{
		{Name: "admission-runtime", Reference: registry.Repository() + ":runtime", Digest: pushed},
		{Name: "admission-virtual", Reference: registry.Repository() + ":virtual", Digest: virtual},
	}))
	s.Expect(s.recorder.Events).To(Receive(Equal(`Normal Reconciled Extension "shop" has been reconciled successfully`)))

	s.require("True")
	state, err = s.reconcile()
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(state).To(ContainSubstring("waiting for ManagedResource " + s.namespace + "/extension-shop-garden: "))
	s.apply("extension-shop-garden")
	s.Expect(s.contents("extension-shop-garden")).To(And(
		HaveKeyWithValue("00-namespace.yaml", And(ContainSubstring("name: runtime-extension-shop"), ContainSubstring("zones: a,b"))),
		HaveKeyWithValue("shop_templates_configmap.yaml", ContainSubstring("namespace: runtime-extension-shop")),
	))
	s.Expect(s.get().Status.Charts[2].Digest).To(Equal(own))

	// A tag that moves changes nothing, not even after a restart.
	registry.Push(t, "runtime", charttest.Archive(t, configMapChart()))
	s.reconciler = s.reconcilerAnew()
	s.operation(garden, operatorv1alpha1.LastOperationSucceeded)
	state, err = s.reconcile()
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(state).To(HavePrefix("True ReconcileSuccessful"))
	s.Expect(s.contents("extension-admission-runtime-shop")).To(HaveKey("shop_templates_deployment.yaml"))

	// A reconciliation of the Garden does not change the state.
	s.operation(garden, operatorv1alpha1.LastOperationProcessing)
	s.Expect(s.reconcile()).To(HavePrefix("True ReconcileSuccessful"))

	s.require("False")
	s.operation(garden, operatorv1alpha1.LastOperationSucceeded)
	s.Expect(s.reconcile()).To(HavePrefix("True ReconcileSuccessful"))
	s.Expect(s.sets()).NotTo(ContainElement("extension-shop-garden"))

	s.Expect(s.admin.Delete(s.ctx, s.get())).To(Succeed())
	s.Expect(s.reconcile()).To(Equal("gone"))
	s.Expect(s.sets()).To(BeEmpty())
	s.Expect(s.admin.Get(s.ctx, client.ObjectKeyFromObject(access), access)).To(MatchError(ContainSubstring("not found")))
}

func TestPartsAreDeletedInOrder(t *testing.T) {
	s := newScene(t)
	garden := s.garden(operatorv1alpha1.LastOperationSucceeded)
	s.create(resources + "  deployment:\n    extension: {helm: {rawChart: " + raw(t, configMapChart()) + "}}\n" +
		"    admission:\n      runtimeCluster: {helm: {rawChart: " + raw(t, runtimeChart()) + "}}\n" +
		"      virtualCluster: {helm: {rawChart: " + raw(t, virtualChart()) + "}}\n      values: {image: a}\n")
	s.require("True")
	_, err := s.reconcile()
	s.Expect(err).NotTo(HaveOccurred())
	s.apply("extension-admission-virtual-shop")
	_, err = s.reconcile()
	s.Expect(err).NotTo(HaveOccurred())
	all := []string{
		"extension-registration-shop", "extension-admission-runtime-shop", "extension-admission-virtual-shop", "extension-shop-garden",
	}
	s.Expect(s.sets()).To(ConsistOf(all))
	for _, name := range all { // the controller of ManagedResources deletes their objects first
		s.hold(name)
	}

	s.Expect(s.admin.Delete(s.ctx, garden)).To(Succeed())
	for i, name := range all[:3] {
		state, err := s.reconcile()
		s.Expect(err).NotTo(HaveOccurred())
		s.Expect(state).To(Equal("False DeletePending: waiting until ManagedResource " + s.namespace + "/" + name + " is gone"))
		s.Expect(s.inDeletion()).To(ConsistOf(name), "%d", i)
		s.release(name)
	}
	s.Expect(s.reconcile()).To(HavePrefix("True InstalledInRuntime: "), "an object of the Garden still needs the extension")
	s.Expect(s.sets()).To(ConsistOf("extension-shop-garden"))
	s.require("False")
	s.Expect(s.reconcile()).To(Equal("False DeletePending: waiting until ManagedResource " + s.namespace + "/extension-shop-garden is gone"))
	s.release("extension-shop-garden")
	s.Expect(s.reconcile()).To(Equal(`False DeleteSuccessful: Extension "shop" has been deleted successfully`))
	s.Expect(s.get().Finalizers).To(BeEmpty())

	s.erase(garden)
	s.Expect(s.reconcile()).To(HavePrefix("False DeleteSuccessful"))
}

func TestWithoutAGardenNothingIsInstalled(t *testing.T) {
	s := newScene(t)
	s.create(resources + "  deployment: {extension: {helm: {rawChart: " + raw(t, configMapChart()) + "}}}\n")
	s.Expect(s.reconcile()).To(Equal("False NoGardenFound: No garden found"))
	s.Expect(s.get().Finalizers).To(BeEmpty())

	s.garden(operatorv1alpha1.LastOperationError)
	s.require("True")
	s.Expect(s.reconcile()).To(Equal("False ReconcileFailed: waiting until the Garden is reconciled successfully"))
	s.Expect(s.sets()).To(ConsistOf("extension-shop-garden"), "the Garden may need the extension for its success")
}

func TestBadInputIsNamed(t *testing.T) {
	registry := charttest.NewRegistry(t)
	registry.Push(t, "1.0", charttest.Archive(t, virtualChart()))
	at := func(oci string) string {
		return "  deployment: {admission: {virtualCluster: {helm: {ociRepository: {" + oci + "}}}}}\n"
	}
	reference := fmt.Sprintf("ref: %q", registry.Repository()+":1.0")
	inRuntime := func(files charttest.Files) string {
		return "  deployment: {admission: {runtimeCluster: {helm: {rawChart: " + raw(t, files) + "}}}}\n"
	}
	const helm = "spec.deployment.admission.virtualCluster.helm.ociRepository"
	for name, tc := range map[string]struct {
		spec     string
		contains []string
		terminal bool
	}{
		"no deployment": {spec: "  resources: []\n", contains: []string{"spec.deployment: Required value"}, terminal: true},
		"a missing Secret": {
			spec:     at(reference + ", pullSecretRef: {name: absent}"),
			contains: []string{helm + ".pullSecretRef: Secret ", "/absent does not exist; create it, or correct the name"},
		},
		"a Secret without its key": {
			spec:     at(reference + ", caBundleSecretRef: {name: empty}"),
			contains: []string{helm + ".caBundleSecretRef: Secret ", "/empty has no key bundle.crt; add it"},
		},
		"a Secret with a key of the Garden": {
			spec: "  deployment:\n    extension: {helm: {rawChart: " + raw(t, configMapChart()) + "}}\n" +
				"    resources: [{name: a, resourceRef: {apiVersion: v1, kind: Secret, name: key}}]\n",
			contains: []string{
				"spec.deployment.resources[0].resourceRef: Secret ", "/key contains credentials of the Garden itself",
				"name another Secret",
			},
		},
		"a registry that is not trusted": {spec: at(reference), contains: []string{helm + ": pull chart ", "unknown authority"}},
		"a chart that fails": {
			spec: inRuntime(charttest.Files{"templates/a.yaml": "\n{{ .Values.a.b }}"}), terminal: true,
			contains: []string{"spec.deployment.admission.runtimeCluster.helm: render chart", "template shop/templates/a.yaml, line 2"},
		},
		"a chart that breaks the policy": {
			spec: inRuntime(charttest.Files{"templates/a.yaml": "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\n" +
				"metadata: {name: a, namespace: {{ .Release.Namespace }}}\nrules: [{apiGroups: [''], resources: [secrets], verbs: ['*']}]"}),
			terminal: true, contains: []string{
				"the chart policy does not allow Role.rbac.authorization.k8s.io", "rules[0].verbs has a wildcard",
				"espalier.garden.extensionCharts",
			},
		},
		"a chart that takes the Secret with its token": {
			spec: inRuntime(charttest.Files{"templates/a.yaml": "apiVersion: v1\nkind: Secret\n" +
				"metadata: {name: shoot-access-extension-admission-shop, namespace: {{ .Release.Namespace }}}"}),
			terminal: true, contains: []string{"metadata.name is reserved"},
		},
		"a chart that takes an object of another program": {
			spec: inRuntime(charttest.Files{"templates/a.yaml": "apiVersion: v1\nkind: Secret\n" +
				"metadata: {name: empty, namespace: {{ .Release.Namespace }}}"}),
			contains: []string{"/empty in shop/templates/a.yaml exists already and does not belong to this Extension"},
		},
		"a value that refers to a missing key": {
			spec: "  deployment:\n    admission: {values: {image: '{{ .resources.a.data.b }}'}, runtimeCluster: {helm: {rawChart: " +
				raw(t, runtimeChart()) + "}}}\n    resources: [{name: a, resourceRef: {apiVersion: v1, kind: Secret, name: empty}}]\n",
			contains: []string{`spec.deployment.admission.values: image: resource "a" has no key "b"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.garden(operatorv1alpha1.LastOperationSucceeded)
			s.secret("empty", map[string]string{"a": "hunter2"})
			key := s.object("{apiVersion: v1, kind: Secret, metadata: {name: key, labels: {managed-by: secrets-manager}}, stringData: {a: hunter2}}")
			key.SetNamespace(s.namespace)
			s.Expect(s.admin.Create(s.ctx, key)).To(Succeed())
			s.create(tc.spec)
			state, err := s.reconcile()
			s.Expect(err).To(HaveOccurred())
			s.Expect(strings.HasPrefix(err.Error(), "terminal error")).To(Equal(tc.terminal), err.Error())
			s.Expect(state).To(HavePrefix("False ReconcileFailed: "))
			s.Expect(state).NotTo(ContainSubstring("hunter2"))
			for _, text := range tc.contains {
				s.Expect(state).To(ContainSubstring(text))
			}
			s.Expect(s.recorder.Events).To(Receive(HavePrefix("Warning ExtensionFailed ")))
		})
	}
}

func TestChartsTakeNoObjectsOfOtherPrograms(t *testing.T) {
	s := newScene(t)
	s.garden(operatorv1alpha1.LastOperationSucceeded)
	const (
		job       = "{template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}}"
		workloads = "{selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: a}]}}}"
	)
	s.reconciler.Policy = chart.Policy{Webhooks: true, ClusterRoles: []string{"view"}}
	const rbac, webhooks = "{apiVersion: rbac.authorization.k8s.io/v1", "{apiVersion: admissionregistration.k8s.io/v1"
	inNamespace, ofCluster := "metadata: {name: a, namespace: "+s.namespace+"}", "metadata: {name: "+s.namespace+"}"
	for kind, text := range map[string]string{
		"ClusterRole":                    rbac,
		"ClusterRoleBinding":             rbac + ", roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}",
		"MutatingWebhookConfiguration":   webhooks,
		"ValidatingWebhookConfiguration": webhooks,
		"Pod":                            "{apiVersion: v1, spec: {containers: [{name: a, image: a}]}",
		"PersistentVolumeClaim":          "{apiVersion: v1, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}",
		"NetworkPolicy":                  "{apiVersion: networking.k8s.io/v1, spec: {podSelector: {matchLabels: {a: b}}}",
		"Lease":                          "{apiVersion: coordination.k8s.io/v1, spec: {}",
		"Job":                            "{apiVersion: batch/v1, spec: " + job,
		"CronJob":                        "{apiVersion: batch/v1, spec: {schedule: '* * * * *', jobTemplate: {spec: " + job + "}}",
		"StatefulSet":                    "{apiVersion: apps/v1, spec: " + workloads,
		"DaemonSet":                      "{apiVersion: apps/v1, spec: " + workloads,
	} {
		metadata, name := inNamespace, s.namespace+"/a"
		if strings.HasPrefix(text, rbac) || strings.HasPrefix(text, webhooks) {
			metadata, name = ofCluster, s.namespace
		}
		text += ", kind: " + kind + ", " + metadata + "}"
		object := s.object(text)
		s.Expect(s.admin.Create(s.ctx, object)).To(Succeed(), kind)
		t.Cleanup(func() { s.erase(object) })
		s.create("  deployment: {admission: {runtimeCluster: {helm: {rawChart: " + raw(t, charttest.Files{"templates/a.yaml": text}) + "}}}}\n")
		state, err := s.reconcile()
		s.Expect(err).To(HaveOccurred(), kind)
		s.Expect(state).To(ContainSubstring(kind + " " + name + " in shop/templates/a.yaml exists already and does not belong"))
		s.erase(s.get())
	}
}

func TestResolvedTagsStayWhenARunEndsEarly(t *testing.T) {
	s := newScene(t)
	garden := s.garden(operatorv1alpha1.LastOperationSucceeded)
	registry := charttest.NewRegistry(t)
	registry.Push(t, "1", charttest.Archive(t, configMapChart()))
	s.secret("authority", map[string]string{"bundle.crt": string(registry.CA())})
	s.create("  deployment: {extension: {helm: {ociRepository: {" + fmt.Sprintf("repository: %q", registry.Repository()) +
		", tag: '1', caBundleSecretRef: {name: authority}}}}}\n")
	s.require("True")
	_, err := s.reconcile()
	s.Expect(err).NotTo(HaveOccurred())
	resolved := s.get().Status.Charts
	s.Expect(resolved).To(HaveLen(1))

	e := s.get()
	e.Spec.Resources = []operatorv1alpha1.ExtensionResource{{Kind: "Shoot", Type: "a"}}
	s.Expect(s.admin.Update(s.ctx, e)).To(Succeed())
	_, err = s.reconcile()
	s.Expect(err).To(MatchError(ContainSubstring("spec.resources[0].kind")))
	s.Expect(s.get().Status.Charts).To(Equal(resolved))

	s.require("False")
	s.Expect(s.admin.Delete(s.ctx, garden)).To(Succeed())
	s.Expect(s.reconcile()).To(HavePrefix("False DeleteSuccessful"))
	s.Expect(s.get().Status.Charts).To(Equal(resolved), "a new Garden gets the same chart")
}

func TestExtensionsWaitForManagedResourcesToBeServed(t *testing.T) {
	s := newScene(t)
	s.garden(operatorv1alpha1.LastOperationSucceeded)
	s.create("  deployment: {admission: {virtualCluster: {helm: {rawChart: " + raw(t, virtualChart()) + "}}}}\n")
	refuse := func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		if gvk, err := c.GroupVersionKindFor(o); err == nil && gvk.Kind == "ManagedResource" {
			return &meta.NoKindMatchError{GroupKind: gvk.GroupKind()}
		}
		return c.Get(ctx, key, o, opts...)
	}
	s.reconciler.Cluster.Client = interceptor.NewClient(s.reconciler.Cluster.Client, interceptor.Funcs{
		Get: refuse,
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if err := refuse(ctx, c, client.ObjectKey{}, o); meta.IsNoMatchError(err) {
				return err
			}
			return c.Create(ctx, o, opts...)
		},
	})
	_, _ = s.reconcile() // writes finalizer and status
	result, err := s.reconciler.Reconcile(s.ctx, s.get())
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(result.RequeueAfter).NotTo(BeZero())
}

func TestPartsOfChartsWithoutEffectAreNamed(t *testing.T) {
	s := newScene(t)
	s.garden(operatorv1alpha1.LastOperationSucceeded)
	files := virtualChart()
	files["crds/a.yaml"] = "{}"
	s.create("  deployment: {admission: {virtualCluster: {helm: {rawChart: " + raw(t, files) + "}}}}\n")
	_, err := s.reconcile()
	s.Expect(err).NotTo(HaveOccurred())
	s.apply("extension-admission-virtual-shop")
	s.Expect(s.reconcile()).To(HaveSuffix("; parts of the charts have no effect: crds shop/crds/a.yaml"))
}

func (s *scene) set(name string) *resourcesv1alpha1.ManagedResource {
	s.t.Helper()
	set := &resourcesv1alpha1.ManagedResource{}
	s.Expect(s.admin.Get(s.ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, set)).To(Succeed())
	return set
}

// hold adds a finalizer to a ManagedResource.
func (s *scene) hold(name string) {
	s.t.Helper()
	s.Expect(s.admin.Patch(s.ctx, s.set(name),
		client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":["test.local/held"]}}`)))).To(Succeed())
}

// release removes the finalizers of a ManagedResource.
func (s *scene) release(name string) {
	s.t.Helper()
	s.Expect(s.admin.Patch(s.ctx, s.set(name),
		client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
}

func (s *scene) inDeletion() []string {
	s.t.Helper()
	list := &resourcesv1alpha1.ManagedResourceList{}
	s.Expect(s.admin.List(s.ctx, list, client.InNamespace(s.namespace))).To(Succeed())
	names := []string{}
	for _, each := range list.Items {
		if each.DeletionTimestamp != nil {
			names = append(names, each.Name)
		}
	}
	return names
}
