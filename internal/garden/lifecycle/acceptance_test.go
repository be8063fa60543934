package lifecycle_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/test/binary"
)

func TestFirstReconciliationPreparesTheRuntimeCluster(t *testing.T) {
	s := newBareScene(t)
	created := s.create()
	s.Expect(s.mustReconcile()).To(Equal(ctrl.Result{RequeueAfter: time.Hour}))

	g := s.get()
	s.Expect(g.Finalizers).To(Equal([]string{"gardener.cloud/operator"}))
	s.Expect(g.Status.Gardener).To(HaveValue(Equal(operatorv1alpha1.OperatorIdentity{ID: "id", Name: "operator-0", Version: "v1.149.3"})))
	s.Expect(g.Status.ObservedGeneration).To(Equal(created.Generation))
	s.Expect(g.Status.AdvertisedAddresses).To(
		Equal([]operatorv1alpha1.AdvertisedAddress{{Name: "virtual-garden", URL: "https://api.example.com"}}),
	)
	s.Expect(*g.Status.LastOperation).To(BeComparableTo(operatorv1alpha1.LastOperation{
		Type: "Reconcile", State: "Succeeded", Progress: 100, Description: "Garden cluster has been successfully reconciled.",
		LastUpdateTime: metav1.NewTime(start),
	}))
	states := map[string]string{}
	for _, task := range g.Status.Tasks {
		states[task.Name] = string(task.State)
	}
	s.Expect(states).To(Equal(map[string]string{
		"Generating generic token kubeconfig":                                                        "Succeeded",
		"Removing confirmed leftovers of a former garden":                                            "Skipped",
		"Removing confirmed leftovers of a former garden in virtual garden cluster":                  "Skipped",
		"Deploying ETCD-related custom resource definitions":                                         "Succeeded",
		"Deploying custom resource definitions for VPA":                                              "Succeeded",
		"Reconciling custom resource definitions for HVPA":                                           "Succeeded",
		"Deploying custom resource definitions for Istio":                                            "Succeeded",
		"Deploying custom resource definitions for fluent-operator":                                  "Succeeded",
		"Deploying custom resource definitions for prometheus-operator":                              "Succeeded",
		"Deploying custom resource definitions for OpenTelemetry operator":                           "Succeeded",
		"Deploying custom resource definitions for victoria-operator":                                "Succeeded",
		"Deploying custom resource definitions for perses-operator":                                  "Succeeded",
		"Deploying custom resource definitions for extensions":                                       "Succeeded",
		"Deploying and waiting for gardener-resource-manager to be healthy":                          "Succeeded",
		"Deploying nginx-ingress controller":                                                         "Succeeded",
		"Deploying runtime system resources":                                                         "Succeeded",
		"Deploying Kubernetes vertical pod autoscaler":                                               "Succeeded",
		"Deploying ETCD Druid":                                                                       "Succeeded",
		"Deploying Istio":                                                                            "Succeeded",
		"Reconciling main ETCD backup bucket":                                                        "Skipped",
		"Reconciling main ETCD backup entry":                                                         "Skipped",
		"Reconciling DNSRecords for virtual garden cluster and ingress controller":                   "Skipped",
		"Deploying extension resources before kube-apiserver":                                        "Succeeded",
		"Deploying extension resources":                                                              "Succeeded",
		"Deploying main and events ETCDs of virtual garden":                                          "Succeeded",
		"Waiting until main and event ETCDs report readiness":                                        "Succeeded",
		"Checking preconditions of virtual garden":                                                   "Succeeded",
		"Generating keys of virtual garden":                                                          "Succeeded",
		"Deploying and waiting for kube-apiserver service in the runtime cluster":                    "Succeeded",
		"Deploying Kubernetes API server service SNI":                                                "Succeeded",
		"Deploying Kubernetes API Server":                                                            "Succeeded",
		"Deploying Kubernetes Controller Manager":                                                    "Succeeded",
		"Deploying gardener-resource-manager for virtual garden":                                     "Succeeded",
		"Waiting until gardener-resource-manager for virtual garden rolled out":                      "Succeeded",
		"Deploying virtual system resources":                                                         "Succeeded",
		"Deploying resources for gardener-operator access to virtual garden":                         "Succeeded",
		"Renewing virtual garden access secrets after creation of new ServiceAccount signing key":    "Skipped",
		"Initializing connection to virtual garden cluster":                                          "Succeeded",
		"Deploying credentials of global monitoring into virtual garden":                             "Succeeded",
		"Proving that all servers use the rotated credentials":                                       "Skipped",
		"Labeling encrypted resources to re-encrypt them with new ETCD encryption key":               "Skipped",
		"Snapshotting ETCD after encrypted resources were re-encrypted with new ETCD encryption key": "Skipped",
		"Removing label from re-encrypted resources after rotation of ETCD encryption key":           "Skipped",
		"Waiting until Kubernetes API server rolled out":                                             "Succeeded",
		"Deploying Gardener API Server":                                                              "Succeeded",
		"Waiting until Gardener API server rolled out":                                               "Succeeded",
		"Deploying Gardener Admission Controller":                                                    "Succeeded",
		"Deploying Gardener Controller Manager":                                                      "Succeeded",
		"Deploying project-controller":                                                               "Succeeded",
		"Deploying Gardener Scheduler":                                                               "Succeeded",
		"Label seeds to trigger renewal of their garden access secrets":                              "Skipped",
		"Check if all seeds finished the renewal of their garden access secrets":                     "Skipped",
		"Label seeds to trigger renewal of their workload identity tokens":                           "Skipped",
		"Check if all seeds finished the renewal of their workload identity tokens":                  "Skipped",
		"Label seeds to trigger renewal of their gardenlet kubeconfig":                               "Skipped",
		"Check if all seeds finished the renewal of their gardenlet kubeconfig":                      "Skipped",
		"Waiting until all seeds have the new credentials of global monitoring":                      "Skipped",
		"Reconciling all seeds with the new credentials of global monitoring":                        "Skipped",
		"Deploying prometheus-operator":                                                              "Succeeded",
		"Deploying kube-state-metrics":                                                               "Succeeded",
		"Deploying gardener-metrics-exporter":                                                        "Succeeded",
		"Deploying Alertmanager":                                                                     "Succeeded",
		"Deploying Prometheus for the garden":                                                        "Succeeded",
		"Deploying long-term Prometheus":                                                             "Succeeded",
		"Deploying blackbox-exporter":                                                                "Succeeded",
		"Deploying fluent-operator":                                                                  "Succeeded",
		"Deploying custom resources for fluent-operator":                                             "Succeeded",
		"Deploying fluent-bit":                                                                       "Succeeded",
		"Deploying OpenTelemetry operator":                                                           "Succeeded",
		"Deploying OpenTelemetry collector":                                                          "Succeeded",
		"Deploying victoria-operator":                                                                "Succeeded",
		"Deploying VictoriaLogs":                                                                     "Succeeded",
		"Deploying Vali":                                                                             "Succeeded",
		"Deploying Plutono":                                                                          "Succeeded",
		"Deploying server for passwords of the gateway":                                              "Succeeded",
		"Deploying web UIs at the gateway":                                                           "Succeeded",
		"Deploying perses-operator":                                                                  "Succeeded",
	}))

	namespace := &corev1.Namespace{}
	s.Expect(s.exists(namespace, "", s.namespace())).To(BeTrue())
	s.Expect(namespace.Labels).To(And(
		HaveKeyWithValue("pod-security.kubernetes.io/enforce", "privileged"),
		HaveKeyWithValue("high-availability-config.resources.gardener.cloud/consider", "true"),
	))
	s.Expect(namespace.Annotations).To(HaveKeyWithValue("high-availability-config.resources.gardener.cloud/zones", "a,b,c"))

	authorities := map[string]string{}
	for _, name := range []string{"ca-garden-runtime", "ca-etcd", "ca-etcd-peer", "ca", "ca-client", "ca-front-proxy", "ca-gardener"} {
		s.Expect(s.secrets(name)).To(HaveLen(1), name)
		authorities[name] = s.secrets(name)[0].Name
	}
	s.Expect(authorities).To(Equal(map[string]string{
		"ca-garden-runtime": "ca-garden-runtime-03768586", "ca-etcd": "ca-etcd-f7594faa", "ca-etcd-peer": "ca-etcd-peer-23be1f02",
		"ca": "ca-f6032ea0", "ca-client": "ca-client-58f8e9ac", "ca-front-proxy": "ca-front-proxy-4841e85d",
		"ca-gardener": "ca-gardener-39044a95",
	}))
	kubeconfig := g.Annotations["generic-token-kubeconfig.secret.gardener.cloud/name"]
	s.Expect(kubeconfig).To(HavePrefix("generic-token-kubeconfig-"))
	secret := &corev1.Secret{}
	s.Expect(s.exists(secret, s.namespace(), kubeconfig)).To(BeTrue())
	s.Expect(string(secret.Data["kubeconfig"])).To(And(
		ContainSubstring("server: https://virtual-garden-kube-apiserver\n"),
		ContainSubstring("tokenFile: /var/run/secrets/gardener.cloud/shoot/generic-kubeconfig/token\n"),
	))
	s.Expect(s.definitions(deployedGroups...)).To(HaveLen(3 + 2 + 14 + 13 + 10 + 4 + 1 + 4 + 1 + 4))
	for _, name := range []string{"", "-webhooks", "-networkpolicies", "-tokens"} {
		s.Expect(s.exists(&appsv1.Deployment{}, s.namespace(), "gardener-resource-manager"+name)).To(BeTrue(), name)
	}
	set := &resourcesv1alpha1.ManagedResource{}
	s.Expect(s.exists(set, s.namespace(), "garden-system")).To(BeTrue())
	s.Expect(set.Spec.Class).To(HaveValue(Equal("seed")))
	s.Expect(s.exists(secret, s.namespace(), set.Spec.SecretRefs[0].Name)).To(BeTrue())
	s.Expect(secret.Data).To(HaveLen(5))
	s.Expect(s.exists(set, s.namespace(), "garden-networkpolicies")).To(BeTrue())
	s.Expect(s.exists(secret, s.namespace(), set.Spec.SecretRefs[0].Name)).To(BeTrue())
	const ofController = "networkpolicy__garden__garden-networkpolicies-to-runtime-apiserver.yaml"
	s.Expect(string(secret.Data[ofController])).To(ContainSubstring("- port: 443\n"))
	s.restoresDefinitions()
}

// restoresDefinitions requires that the operator restores each definition. Its rights name the definitions.
func (s *scene) restoresDefinitions() {
	s.t.Helper()
	read := func(name string) (*apiextensionsv1.CustomResourceDefinition, map[string]apiextensionsv1.JSONSchemaProps) {
		definition := &apiextensionsv1.CustomResourceDefinition{}
		s.Expect(s.exists(definition, "", name)).To(BeTrue())
		return definition, definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties
	}
	before := map[string]map[string]apiextensionsv1.JSONSchemaProps{}
	for _, name := range s.definitions(deployedGroups...) {
		_, before[name] = read(name)
		definition, fields := read(name)
		if spec := fields["spec"]; spec.Description != "" {
			spec.Description = "other"
			fields["spec"] = spec
		} else {
			s.Expect(fields).To(HaveKey("kind"), name)
			delete(fields, "kind")
		}
		s.Expect(s.admin.Update(s.t.Context(), definition)).To(Succeed())
	}
	s.mustReconcile()
	for name, want := range before {
		_, fields := read(name)
		s.Expect(fields).To(Equal(want), name)
	}
}

// Earlier releases deployed policies that netpol-controller makes now. The Pods need one of both at any time.
func TestFormerNetworkPoliciesStayUntilTheirSuccessorsExist(t *testing.T) {
	s := newInstalledScene(t)
	create := func(namespace, name string, labels map[string]string) {
		t.Helper()
		policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}}
		s.Expect(s.admin.Create(t.Context(), policy)).To(Succeed())
		t.Cleanup(func() { s.Expect(s.admin.Delete(context.WithoutCancel(t.Context()), policy)).To(Succeed()) })
	}
	ofController := map[string]string{"espalier.dev/general-network-policy": "true"}
	create(s.namespace(), "garden-to-dns", nil)
	create("istio-system", "garden-to-runtime-apiserver", nil)
	create("istio-system", "allow-to-runtime-apiserver", nil) // of another client
	done := s.begin()
	const resourceManager = "Deploying and waiting for gardener-resource-manager to be healthy"
	s.task(resourceManager, operatorv1alpha1.TaskRunning,
		ContainSubstring("NetworkPolicy garden/allow-to-dns of netpol-controller does not exist yet, which takes the place of garden-to-dns"))
	create(s.namespace(), "allow-to-dns", ofController)
	s.task(resourceManager, operatorv1alpha1.TaskRunning, ContainSubstring("NetworkPolicy istio-system/allow-to-runtime-apiserver"))
	s.Expect(done).NotTo(Receive())
	policy := &networkingv1.NetworkPolicy{}
	s.Expect(s.exists(policy, "istio-system", "allow-to-runtime-apiserver")).To(BeTrue())
	policy.Labels = ofController
	s.Expect(s.admin.Update(t.Context(), policy)).To(Succeed())
	s.Eventually(done, binary.Patience).Should(Receive(BeNil()))
}

func TestDeletionRemovesEverythingThatWasCreated(t *testing.T) {
	s := newBareScene(t)
	s.create()
	s.mustReconcile()
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace(), Name: "foreign"}}
	s.Expect(s.admin.Create(t.Context(), foreign)).To(Succeed())
	t.Cleanup(func() { s.Expect(s.admin.Delete(context.WithoutCancel(t.Context()), foreign)).To(Succeed()) })
	for name, origin := range map[string]string{"brought": "garden/vpa", "brought-from-elsewhere": "cluster:garden/vpa"} {
		brought := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: s.namespace(), Name: name, Annotations: map[string]string{"resources.gardener.cloud/origin": origin},
			Labels: map[string]string{"resources.gardener.cloud/garbage-collectable-reference": "true"},
		}}
		s.Expect(s.admin.Create(t.Context(), brought)).To(Succeed())
		t.Cleanup(func() {
			s.Expect(client.IgnoreNotFound(s.admin.Delete(context.WithoutCancel(t.Context()), brought))).To(Succeed())
		})
	}
	s.delete()
	s.Expect(s.mustReconcile()).To(Equal(ctrl.Result{}))
	s.Expect(s.exists(&corev1.ConfigMap{}, s.namespace(), "brought")).To(BeFalse(), "no garbage collector runs any more")
	s.Expect(s.exists(&corev1.ConfigMap{}, s.namespace(), "brought-from-elsewhere")).To(BeTrue())
	s.Expect(s.isGone()).To(BeTrue())
	s.expectNothingLeft()
	s.Expect(s.exists(&corev1.ConfigMap{}, s.namespace(), "foreign")).To(BeTrue())
	s.Expect(s.exists(&corev1.Namespace{}, "", s.namespace())).To(BeTrue())
	s.Expect(s.definitions("operator.gardener.cloud")).To(Equal([]string{
		"extensions.operator.gardener.cloud", "gardens.operator.gardener.cloud",
	}))
}

// expectNothingLeft requires that the deletion of the Garden left nothing of the operator but the namespace.
func (s *scene) expectNothingLeft() {
	s.t.Helper()
	s.Expect(s.definitions(deployedGroups...)).To(BeEmpty())
	s.Expect(s.secrets("")).To(BeEmpty())
	ours := client.MatchingLabels{"espalier.dev/created-by": "garden-operator"}
	for _, list := range []client.ObjectList{
		&appsv1.DeploymentList{}, &corev1.ServiceList{}, &corev1.ConfigMapList{}, &corev1.ServiceAccountList{}, &corev1.SecretList{},
		&rbacv1.RoleList{}, &rbacv1.RoleBindingList{},
	} {
		s.Expect(s.admin.List(s.t.Context(), list, ours, client.InNamespace(s.namespace()))).To(Succeed())
		s.Expect(list).To(HaveField("Items", BeEmpty()))
	}
	for _, list := range []client.ObjectList{
		&rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{}, &corev1.SecretList{}, &corev1.NamespaceList{},
	} {
		s.Expect(s.admin.List(s.t.Context(), list, ours)).To(Succeed())
		s.Expect(list).To(HaveField("Items", BeEmpty()))
	}
}

// kept returns the Secrets that deleted Gardens have left.
func (s *scene) kept() []corev1.Secret {
	s.t.Helper()
	list, kept := &corev1.SecretList{}, client.HasLabels{"espalier.dev/kept-credential"}
	s.Expect(s.admin.List(s.t.Context(), list, client.InNamespace(s.namespace()), kept)).To(Succeed())
	return list.Items
}

func TestKeysOfADeletedGardenAreDonorsOfANewOne(t *testing.T) {
	s := newScene(t)
	s.reconciler.Random.RSAKey = func(int) (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 1024) } // no key comes twice
	kept := []string{
		"ca", "ca-client", "ca-etcd", "ca-etcd-peer", "ca-front-proxy", "ca-gardener", "gardener-apiserver-etcd-encryption-key",
		"gardener-apiserver-workload-identity-signing-key", "kube-apiserver-etcd-encryption-key", "service-account-key",
	}
	data := func() map[string]map[string][]byte {
		t.Helper()
		all := map[string]map[string][]byte{}
		for _, name := range kept {
			found := s.secrets(name)
			s.Expect(found).To(HaveLen(1), name)
			all[name] = found[0].Data
		}
		return all
	}
	install := func() types.UID {
		t.Helper()
		s.create()
		s.mustReconcile()
		return s.get().UID
	}
	remove := func() {
		t.Helper()
		s.delete()
		s.mustReconcile()
		s.Expect(s.isGone()).To(BeTrue())
		s.expectNothingLeft()
	}
	first := install()
	original := data()
	remove()
	s.event(Equal("Normal CredentialsKept Kept 10 keys and certificate authorities, which etcd volumes and backups need (see kubectl " +
		"-n garden get secrets -l espalier.dev/kept-from=" + string(first) + ")"))
	for _, each := range s.kept() {
		s.Expect(each.Labels).To(Equal(map[string]string{
			"espalier.dev/kept-credential": each.Labels["espalier.dev/kept-credential"], "espalier.dev/kept-from": string(first),
			"espalier.dev/kept-generation": "current",
		}))
		s.Expect(each.Data).To(Equal(original[each.Labels["espalier.dev/kept-credential"]]))
	}

	// A Garden on other volumes has other keys. Its deletion keeps them in addition to the keys of the first Garden.
	install()
	s.Expect(data()).NotTo(HaveKeyWithValue("kube-apiserver-etcd-encryption-key", original["kube-apiserver-etcd-encryption-key"]))
	remove()
	s.Expect(s.kept()).To(HaveLen(2 * len(kept)))

	for _, each := range s.kept() {
		if each.Labels["espalier.dev/kept-from"] != string(first) {
			continue
		}
		donor := each.DeepCopy()
		donor.Labels["secrets-manager-use-data-for-name"] = each.Labels["espalier.dev/kept-credential"]
		s.Expect(s.admin.Patch(t.Context(), donor, client.MergeFrom(&each))).To(Succeed())
	}
	third := install()
	s.Expect(data()).To(Equal(original))
	remove()
	s.Expect(s.kept()).To(HaveLen(2 * len(kept)))
	s.Expect(s.kept()).To(ContainElement(HaveField("Labels", HaveKeyWithValue("espalier.dev/kept-from", string(third)))))
	s.Expect(s.kept()).NotTo(ContainElement(HaveField("Labels", HaveKeyWithValue("espalier.dev/kept-from", string(first)))))
}

func TestSecondReconciliationWritesOnlyStartAndEnd(t *testing.T) {
	s := newInstalledScene(t)
	before := s.get()
	s.clock.SetTime(start.Add(time.Hour))
	s.requests.Reset()
	s.mustReconcile()
	const status = "PATCH /apis/operator.gardener.cloud/v1alpha1/gardens/garden/status"
	s.Expect(s.requests.Writes()).To(Equal([]string{status, status}))
	s.Expect(s.get().Status.LastOperation.LastUpdateTime.Time.UTC()).To(Equal(start.Add(time.Hour)))
	s.Expect(s.get().Annotations).To(Equal(before.Annotations))
}

func TestManagedResourcesHaveTheTypeOfTheirCondition(t *testing.T) {
	const label, runtimeHealthy, virtualHealthy = "care.gardener.cloud/condition-type", "RuntimeComponentsHealthy", "VirtualComponentsHealthy"
	s := newInstalledScene(t)
	old := &resourcesv1alpha1.ManagedResource{} // the operator did not always set the label
	s.Expect(s.exists(old, s.namespace(), "etcd-druid")).To(BeTrue())
	delete(old.Labels, label)
	s.Expect(s.admin.Update(t.Context(), old)).To(Succeed())
	s.mustReconcile()
	all := &resourcesv1alpha1.ManagedResourceList{}
	s.Expect(s.admin.List(t.Context(), all)).To(Succeed())
	conditions := map[string]string{}
	for i := range all.Items {
		conditions[all.Items[i].Name] = all.Items[i].Labels[label]
	}
	s.Expect(conditions).To(Equal(map[string]string{
		"garden-networkpolicies": runtimeHealthy, "garden-system": runtimeHealthy, "vpa": runtimeHealthy, "etcd-druid": runtimeHealthy,
		"istio-system": runtimeHealthy, "virtual-garden-istio": runtimeHealthy, "nginx-ingress": runtimeHealthy,
		"shoot-core-gardener-resource-manager": virtualHealthy, "shoot-core-kube-controller-manager": virtualHealthy,
		"garden-system-virtual": virtualHealthy, "shoot-core-gardeneraccess": virtualHealthy, "global-monitoring-virtual": virtualHealthy,
		"gardener-apiserver-virtual": virtualHealthy, "gardener-apiserver-runtime": virtualHealthy,
		"gardener-admission-controller-virtual": virtualHealthy, "gardener-admission-controller-runtime": virtualHealthy,
		"gardener-controller-manager-virtual": virtualHealthy, "gardener-controller-manager-runtime": virtualHealthy,
		"gardener-scheduler-virtual": virtualHealthy, "gardener-scheduler-runtime": virtualHealthy,
	}))
}

func TestWhatOthersChangedIsRestored(t *testing.T) {
	s := newInstalledScene(t)
	d := &appsv1.Deployment{}
	s.Expect(s.exists(d, s.namespace(), "gardener-resource-manager")).To(BeTrue())
	d.Spec.Template.Spec.Containers[0].Image = "example.com/other:v1"
	d.Labels["team"] = "a"
	s.Expect(s.admin.Update(t.Context(), d)).To(Succeed())
	s.mustReconcile()
	s.Expect(s.exists(d, s.namespace(), "gardener-resource-manager")).To(BeTrue())
	s.Expect(d.Spec.Template.Spec.Containers[0].Image).To(Equal("example.com/managedresource-controller:v1"))
	s.Expect(d.Labels).To(HaveKeyWithValue("team", "a"))
}

// Another controller of the operator sets the eviction requirements of etcds.
func TestEvictionRequirementsStayWhenAnAutoscalerIsRestored(t *testing.T) {
	s := newInstalledScene(t)
	autoscaler := &unstructured.Unstructured{}
	autoscaler.SetAPIVersion("autoscaling.k8s.io/v1")
	autoscaler.SetKind("VerticalPodAutoscaler")
	s.Expect(s.exists(autoscaler, s.namespace(), etcdEvents)).To(BeTrue())
	s.Expect(s.admin.Patch(t.Context(), autoscaler, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"updatePolicy":`+
		`{"updateMode":"Off","evictionRequirements":[{"resources":["cpu"],"changeRequirement":"TargetHigherThanRequests"}]}}}`)))).To(Succeed())
	s.mustReconcile()
	s.Expect(s.exists(autoscaler, s.namespace(), etcdEvents)).To(BeTrue())
	policy, _, err := unstructured.NestedMap(autoscaler.Object, "spec", "updatePolicy")
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(policy).To(Equal(map[string]any{
		"updateMode":           "InPlaceOrRecreate",
		"evictionRequirements": []any{map[string]any{"resources": []any{"cpu"}, "changeRequirement": "TargetHigherThanRequests"}},
	}))
}

func TestEveryObjectIsRestored(t *testing.T) {
	s := newInstalledScene(t)
	collectable := client.HasLabels{"resources.gardener.cloud/garbage-collectable-reference"}
	s.Expect(s.admin.DeleteAllOf(t.Context(), &corev1.Secret{}, client.InNamespace(s.namespace()), collectable)).To(Succeed())
	s.mustReconcile() // without Secrets that the garbage collector would delete
	before := s.ours()
	s.Expect(len(before)).To(BeNumerically(">=", 50))
	for _, each := range before {
		_, isCollectable := each.GetLabels()["resources.gardener.cloud/garbage-collectable-reference"]
		patch := map[string]string{
			"Role": `{"rules":null}`, "ClusterRole": `{"rules":null}`, "PriorityClass": `{"description":"other"}`,
			"VerticalPodAutoscaler": `{"spec":{"updatePolicy":{"updateMode":"Off"}}}`, "ManagedResource": `{"spec":{"keepObjects":true}}`,
			"Secret":    `{"metadata":{"labels":{"resources.gardener.cloud/class":"other"}}}`,
			"Namespace": `{"metadata":{"labels":{"istio":"other"}}}`,
			"Etcd":      `{"spec":{"etcd":{"metrics":"basic"},"backup":{"port":8081}},"metadata":{"labels":{"role":"other"}}}`,
		}[each.GetKind()]
		switch {
		case isCollectable:
			patch = `{"metadata":{"labels":{"resources.gardener.cloud/garbage-collectable-reference":"other"}}}`
		case patch == "":
			patch = `{"metadata":{"labels":{"app":"other"}}}`
		}
		s.Expect(s.admin.Patch(t.Context(), each.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
	}
	definition := &apiextensionsv1.CustomResourceDefinition{}
	s.Expect(s.exists(definition, "", "etcds.druid.gardener.cloud")).To(BeTrue())
	definition.Labels["gardener.cloud/deletion-protected"] = "other"
	s.Expect(s.admin.Update(t.Context(), definition)).To(Succeed())
	s.mustReconcile()
	s.Expect(s.ours()).To(BeComparableTo(before))
	s.Expect(s.exists(definition, "", "etcds.druid.gardener.cloud")).To(BeTrue())
	s.Expect(definition.Labels).To(HaveKeyWithValue("gardener.cloud/deletion-protected", "true"))
}

func TestDeletionWaitsForObjectsWithFinalizersOfOthers(t *testing.T) {
	s := newInstalledScene(t)
	held := map[string]unstructured.Unstructured{} // by resource and name
	for _, each := range s.ours() {
		// No task waits for immutable objects and Secrets, and the test plays the controller of Deployments.
		_, isCollectable := each.GetLabels()["resources.gardener.cloud/garbage-collectable-reference"]
		if isCollectable || each.GetKind() == "Secret" || each.GetKind() == "Deployment" {
			continue
		}
		mapping, err := s.admin.RESTMapper().RESTMapping(each.GroupVersionKind().GroupKind())
		s.Expect(err).NotTo(HaveOccurred())
		s.setFinalizers(each, `["example.com/test"]`)
		held[mapping.Resource.Resource+"/"+each.GetName()] = each
	}
	var lock sync.Mutex
	var released []string
	s.requests.SetHook(func(r *http.Request) error {
		name, isOne := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
		key := path.Base(r.URL.Path) + "/" + name
		lock.Lock()
		defer lock.Unlock()
		if each, isHeld := held[key]; isOne && isHeld && r.URL.Query().Get("watch") != "" && !slices.Contains(released, key) {
			released = append(released, key)
			s.setFinalizers(each, "null")
		}
		return nil
	})
	s.delete()
	s.mustReconcile()
	s.requests.SetHook(nil)
	s.Expect(s.isGone()).To(BeTrue())
	s.Expect(released).To(ConsistOf(slices.Collect(maps.Keys(held))))
	s.expectNothingLeft()
}

func (s *scene) setFinalizers(o unstructured.Unstructured, finalizers string) {
	s.t.Helper()
	s.Expect(
		s.admin.Patch(s.t.Context(), &o, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":`+finalizers+`}}`))),
	).To(Succeed())
}

// ours returns all objects that the operator created, except for definitions, without the fields that the API server counts.
func (s *scene) ours() []unstructured.Unstructured {
	s.t.Helper()
	var all []unstructured.Unstructured
	for _, kind := range append(slices.Clone(createdKinds),
		schedulingv1.SchemeGroupVersion.WithKind("PriorityClass"), corev1.SchemeGroupVersion.WithKind("Namespace"),
	) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		s.Expect(s.admin.List(s.t.Context(), list, client.MatchingLabels{"espalier.dev/created-by": "garden-operator"})).To(Succeed())
		for _, each := range list.Items {
			each.SetResourceVersion("")
			each.SetManagedFields(nil)
			each.SetGeneration(0)
			delete(each.Object, "status")
			all = append(all, each)
		}
	}
	return all
}

func TestNothingIsDeployedBeforeTheResourceManagerIsHealthy(t *testing.T) {
	s := newScene(t)
	s.stop("Deployment")
	s.create()
	done := s.begin()
	waiting := func() string {
		for _, task := range s.get().Status.Tasks {
			if task.State == "Running" {
				return task.Name + ": " + task.WaitingFor
			}
		}
		return ""
	}
	s.Eventually(waiting, binary.Patience).Should(And(
		HavePrefix("Deploying and waiting for gardener-resource-manager to be healthy: "),
		ContainSubstring("Deployment "+s.namespace()+"/gardener-resource-manager is not healthy"),
	))
	s.Expect(s.get().Status.LastOperation).To(HaveValue(And(
		HaveField("Type", BeEquivalentTo("Reconcile")), HaveField("State", BeEquivalentTo("Processing")),
		HaveField("Progress", BeNumerically("<", 100)),
	)))
	s.Expect(s.get().Status.Gardener).To(HaveValue(HaveField("Name", "operator-0")))
	s.Expect(s.exists(&resourcesv1alpha1.ManagedResource{}, s.namespace(), "garden-system")).To(BeFalse())
	s.heal("Deployment")
	s.Eventually(done, binary.Patience).Should(Receive(BeNil()))
	s.Expect(s.exists(&resourcesv1alpha1.ManagedResource{}, s.namespace(), "garden-system")).To(BeTrue())
}

func TestFailureOfATaskIsRecordedAndRetried(t *testing.T) {
	s := newScene(t)
	s.stop("Deployment")
	s.reconciler.Timing.Runtime.ResourceManager = 2 * time.Second
	s.create()
	_, err := s.reconcile()
	s.Expect(err).To(MatchError(ContainSubstring(`task "Deploying and waiting for gardener-resource-manager to be healthy" failed:`)))
	g := s.get()
	s.Expect(g.Status.LastOperation.State).To(BeEquivalentTo("Error"))
	s.Expect(g.Status.LastOperation.Description).To(Equal(err.Error() + " Operation will be retried."))
	s.Expect(g.Status.Tasks).To(ContainElement(HaveField("State", BeEquivalentTo("Failed"))))
	s.reconciler.Timing.Runtime.ResourceManager = 0
	s.heal("Deployment")
	s.mustReconcile()
	s.Expect(s.get().Status.LastOperation.State).To(BeEquivalentTo("Succeeded"))
}

func TestOperationIsHandledAndItsAnnotationRemoved(t *testing.T) {
	s := newScene(t)
	s.create(annotated("gardener.cloud/operation", "foo;reconcile; rotate-ca-start"), annotated("espalier.dev/skipped-checks", "seeds"))
	s.mustReconcile()
	g := s.get()
	s.Expect(g.Annotations).To(HaveKeyWithValue("gardener.cloud/operation", "foo"))
	now := metav1.NewTime(start)
	s.Expect(g.Status.Credentials.Rotation).To(BeComparableTo(&operatorv1alpha1.CredentialsRotation{
		CertificateAuthorities: &operatorv1alpha1.Rotation{Phase: "Prepared", LastInitiationTime: &now, LastInitiationFinishedTime: &now},
	}))
}

func TestRotationOfAuthoritiesKeepsTheOldOnesUntilItCompletes(t *testing.T) {
	s := newInstalledScene(t)
	s.clock.SetTime(start.Add(time.Hour))
	s.edit(annotated("gardener.cloud/operation", "rotate-ca-start"))
	s.mustReconcile()
	s.Expect(s.get().Annotations).NotTo(HaveKey("gardener.cloud/operation"))
	s.Expect(s.secrets("ca")).To(HaveLen(2))
	s.Expect(s.secrets("ca-garden-runtime")).To(HaveLen(1))
	s.Expect(s.secrets("generic-token-kubeconfig")).To(HaveLen(2))

	s.edit(annotated("gardener.cloud/operation", "rotate-ca-complete"))
	s.clock.SetTime(start.Add(2 * time.Hour))
	s.mustReconcile()
	s.Expect(s.get().Status.Credentials.Rotation.CertificateAuthorities.Phase).To(BeEquivalentTo("Completed"))
	s.Expect(s.secrets("ca")).To(HaveLen(1))
	s.Expect(s.secrets("ca")[0].Name).NotTo(Equal("ca-f6032ea0"))
}

func TestOperationThatDoesNotFitThePhaseHasNoEffect(t *testing.T) {
	s := newInstalledScene(t)
	s.edit(annotated("gardener.cloud/operation", "rotate-ca-complete"))
	s.mustReconcile()
	s.Expect(s.get().Status.Credentials.Rotation).To(BeNil())
	s.Expect(s.recorder.Events).To(
		Receive(ContainSubstring("The rotation of the certificate authorities does not complete, because there is none.")),
	)
}

func TestRotationsDoNotStartWhileSeedsAreBusy(t *testing.T) {
	s := newInstalledScene(t)
	virtual, reached := s.connect(s.virtual, nil), s.virtual
	seed := s.createSeed(virtual)
	annotate := func(annotations string) {
		t.Helper()
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":`+annotations+`}}`))
		s.Expect(virtual.Patch(t.Context(), seed, patch)).To(Succeed())
	}
	annotate(`{"gardener.cloud/operation":"reconcile"}`)
	for cause, change := range map[string]func(){
		"of the Seeds, local has the operation reconcile": func() {},
		"connection refused":                              func() { s.virtual = &rest.Config{Host: "https://127.0.0.1:1"} },
	} {
		change()
		s.reconciler.Connection.Forget()
		s.edit(annotated("gardener.cloud/operation", "rotate-credentials-start"))
		s.mustReconcile()
		g := s.get()
		s.Expect(g.Annotations).NotTo(HaveKey("gardener.cloud/operation"))
		s.Expect(g.Status.Credentials.Rotation).To(BeNil())
		s.Expect(g.Status.LastOperation.Description).To(And(
			HavePrefix("Garden cluster has been successfully reconciled. The operation rotate-credentials-start is refused: "),
			ContainSubstring(cause), ContainSubstring("espalier.dev/skipped-checks=seeds"),
		))
		s.Expect(s.recorder.Events).To(Receive(And(ContainSubstring("OperationRefused"), ContainSubstring(cause))))
		s.Expect(s.secrets("ca")).To(HaveLen(1))
		s.virtual = reached
		s.reconciler.Connection.Forget()
	}

	s.edit(annotated("espalier.dev/skipped-checks", "seeds/local"))
	s.edit(annotated("gardener.cloud/operation", "rotate-ca-start"))
	s.mustReconcile()
	s.Expect(s.get().Status.Credentials.Rotation.CertificateAuthorities.Phase).To(BeEquivalentTo("Prepared"))
	s.Expect(s.get().Status.LastOperation.Description).To(Equal("Garden cluster has been successfully reconciled."))
	s.Expect(virtual.Get(t.Context(), client.ObjectKeyFromObject(seed), seed)).To(Succeed())
	s.Expect(seed.GetAnnotations()).To(Equal(map[string]string{"gardener.cloud/operation": "reconcile"}))
}

func TestRotationsDoNotStartWhileTheControlPlaneIsNotReady(t *testing.T) {
	s := newInstalledScene(t)
	s.stop("Etcd")
	s.reconciler.Timing.Runtime.ETCDs = time.Millisecond
	live := &druidcorev1alpha1.Etcd{}
	s.Expect(s.exists(live, s.namespace(), "virtual-garden-etcd-main")).To(BeTrue())
	live.Status.Ready = new(bool)
	s.Expect(s.admin.Status().Update(t.Context(), live)).To(Succeed())
	s.edit(annotated("gardener.cloud/operation", "rotate-etcd-encryption-key"))
	_, err := s.reconcile()
	s.Expect(err).To(HaveOccurred(), "the reconciliation waits for the etcd")
	s.Expect(s.get().Status.Credentials.Rotation).To(BeNil())
	s.Expect(s.recorder.Events).To(Receive(ContainSubstring("The operation rotate-etcd-encryption-key is refused: Etcd " +
		"garden/virtual-garden-etcd-main is not ready; repair it, or skip this check with the annotation espalier.dev/skipped-checks=etcds.")))

	s.edit(annotated("espalier.dev/skipped-checks", "etcds"))
	s.edit(annotated("gardener.cloud/operation", "rotate-etcd-encryption-key"))
	_, err = s.reconcile()
	s.Expect(err).To(HaveOccurred())
	s.Expect(s.get().Status.Credentials.Rotation.ETCDEncryptionKey.Phase).To(BeEquivalentTo("Preparing"))
}

func TestDisabledAutoscalerNeedsOneInTheCluster(t *testing.T) {
	s := newBareScene(t)
	s.create(func(g *operatorv1alpha1.Garden) { g.Spec.RuntimeCluster.Settings = nil })
	_, err := s.reconcile()
	s.Expect(err).To(MatchError(ContainSubstring("VPA is required for runtime cluster but CRD is not installed: ")))
	s.Expect(s.get().Status.LastOperation.State).To(BeEquivalentTo("Error"))
	s.Expect(s.get().Status.LastOperation.Description).To(ContainSubstring("VPA is required for runtime cluster but CRD is not installed"))
}

func TestDeletionOfTheAutoscalersDefinitionIsNoticed(t *testing.T) {
	s := newScene(t)
	s.create(func(g *operatorv1alpha1.Garden) { g.Spec.RuntimeCluster.Settings = nil })
	s.mustReconcile() // so the mapper of the operator knows the kind
	definition := &apiextensionsv1.CustomResourceDefinition{}
	s.Expect(s.exists(definition, "", "verticalpodautoscalers.autoscaling.k8s.io")).To(BeTrue())
	s.Expect(s.admin.Delete(t.Context(), definition)).To(Succeed())
	s.awaitUnserved(object.AutoscalerKind)
	_, err := s.reconcile()
	s.Expect(err).To(MatchError(ContainSubstring("VPA is required for runtime cluster but CRD is not installed: ")))
}

func TestOneWildcardCertificateIsAllowed(t *testing.T) {
	s := newScene(t)
	certificate := func(name, role string) {
		t.Helper()
		s.Expect(s.admin.Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace(), Name: name, Labels: map[string]string{"gardener.cloud/role": role}},
			Data:       s.servingCertificate(),
		})).To(Succeed())
	}
	s.create(func(g *operatorv1alpha1.Garden) {
		g.Spec.VirtualCluster.Kubernetes.KubeAPIServer = &operatorv1alpha1.KubeAPIServer{SNI: &operatorv1alpha1.SNI{}}
	})
	_, err := s.reconcile()
	s.Expect(err).To(MatchError(ContainSubstring(
		"spec.virtualCluster.kubernetes.kubeAPIServer.sni has no secretName, and namespace garden has no Secret with a wildcard certificate; " +
			"set the field, or the label gardener.cloud/role=garden-cert on a Secret",
	)))
	certificate("former", "controlplane-cert")
	s.mustReconcile()
	s.Expect(s.apiServer().Spec.Template.Spec.Volumes).To(ContainElement(HaveField("Secret", HaveField("SecretName", "former"))))
	certificate("today", "garden-cert")
	_, err = s.reconcile()
	s.Expect(err).To(
		MatchError("misconfigured cluster: not possible to provide more than one secret with annotation controlplane-cert: former, today"),
	)
	s.Expect(s.get().Status.LastOperation).To(HaveValue(And(
		HaveField("State", BeEquivalentTo("Error")), HaveField("Description", HavePrefix("misconfigured cluster: ")),
	)))
}

func TestUnusableAuditPolicyIsRefused(t *testing.T) {
	s := newScene(t)
	s.create(func(g *operatorv1alpha1.Garden) {
		g.Spec.VirtualCluster.Gardener.APIServer = &operatorv1alpha1.GardenerAPIServer{AuditConfig: &operatorv1alpha1.AuditConfig{
			AuditPolicy: &operatorv1alpha1.AuditPolicy{ConfigMapRef: &corev1.ObjectReference{Name: "policy"}},
		}}
	})
	const at = `spec.virtualCluster.gardener.gardenerAPIServer.auditConfig.auditPolicy.configMapRef.name: Invalid value: "policy": `
	_, err := s.reconcile()
	s.Expect(err).To(MatchError(at + "there is no ConfigMap of this name in the namespace of the Garden"))
	policy := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace(), Name: "policy"}, Data: map[string]string{"policy": "{}"},
	}
	s.Expect(s.admin.Create(t.Context(), policy)).To(Succeed())
	_, err = s.reconcile()
	s.Expect(err).To(MatchError(HavePrefix(at + "the ConfigMap has a policy that API servers cannot use: ")))
	policy.Data["policy"] = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None}]"
	s.Expect(s.admin.Update(t.Context(), policy)).To(Succeed())
	s.mustReconcile()
}

func TestSeveralGardensAreNotTouched(t *testing.T) {
	s := newScene(t)
	s.create()
	s.Expect(s.admin.Create(t.Context(), garden("second"))).To(Succeed())
	s.Expect(s.mustReconcile()).To(Equal(ctrl.Result{}))
	s.Expect(s.get().Status).To(BeZero())
	s.Expect(s.get().Finalizers).To(BeEmpty())
	s.Expect(s.requests.Writes()).To(BeEmpty())
}

func TestGardenOfALaterVersionIsNotTouched(t *testing.T) {
	for sentence, remove := range map[string]bool{"reconciliation": false, "deletion": true} {
		t.Run(sentence, func(t *testing.T) {
			s := newScene(t)
			before := s.create(func(g *operatorv1alpha1.Garden) { g.Finalizers = []string{operatorv1alpha1.FinalizerOperator} })
			after := before.DeepCopy()
			after.Status.Gardener = &operatorv1alpha1.OperatorIdentity{ID: "other", Name: "operator-1", Version: "v1.150.0"}
			s.Expect(s.admin.Status().Patch(t.Context(), after, client.MergeFrom(before))).To(Succeed())
			if remove {
				s.delete()
			}
			_, err := s.reconcile()
			s.Expect(err).To(MatchError(ContainSubstring("downgrading Gardener is not supported")))
			s.Expect(s.requests.Writes()).To(BeEmpty())
			s.event(And(ContainSubstring("OperationFailed"), ContainSubstring("start a version that is not earlier")))
		})
	}
}

// The process of the earlier version has started before the upgrade, and gets the lease after it.
func TestEarlierOperatorThatTakesTheLeaseLateRollsNothingBack(t *testing.T) {
	s := newInstalledScene(t)
	late := *s.reconciler
	late.Operator.Image = func(binary string) string { return "example.com/" + binary + ":v0" }
	s.reconciler.Identity.Version = "v1.150.0"
	s.mustReconcile()
	before := s.snapshot()
	s.edit(annotated("gardener.cloud/operation", "reconcile"))
	s.edit(func(g *operatorv1alpha1.Garden) { g.Spec.VirtualCluster.Kubernetes.Version = "1.34.1" })
	s.requests.Reset()
	for range 2 {
		_, err := late.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(s.get())})
		s.Expect(err).To(MatchError(ContainSubstring("downgrading Gardener is not supported")))
	}
	s.Expect(s.requests.Writes()).To(BeEmpty())
	s.Expect(s.snapshot()).To(Equal(before))
}

func TestInvalidGardenIsRefused(t *testing.T) {
	for sentence, tc := range map[string]struct {
		change func(*operatorv1alpha1.Garden)
		want   string
	}{
		"no domain": {
			func(g *operatorv1alpha1.Garden) { g.Spec.VirtualCluster.DNS.Domains = nil },
			"spec.virtualCluster.dns.domains must have at least one domain",
		},
		"no version": {
			func(g *operatorv1alpha1.Garden) { g.Spec.VirtualCluster.Kubernetes.Version = "latest" },
			`failed parsing version "latest" for virtual cluster: `,
		},
		"what the webhook denies": {func(g *operatorv1alpha1.Garden) {
			g.Spec.VirtualCluster.Networking.Services = operatorv1alpha1.CIDRList{"no network"}
		}, "spec.virtualCluster.networking.services"},
		"version with a gap": {
			func(g *operatorv1alpha1.Garden) { g.Spec.VirtualCluster.Kubernetes.Version = "1..2" },
			`failed parsing version "1..2" for virtual cluster: `,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newScene(t)
			s.create(tc.change)
			_, err := s.reconcile()
			s.Expect(err).To(MatchError(ContainSubstring(tc.want)))
			s.Expect(s.get().Status.LastOperation.Description).To(ContainSubstring(tc.want))
			s.Expect(s.get().Finalizers).To(BeEmpty())
			s.Expect(s.requests.Writes()).To(Equal([]string{"PATCH /apis/operator.gardener.cloud/v1alpha1/gardens/garden/status"}))
		})
	}
}

func TestHvpaDefinitionIsRemovedUnlessItIsUsed(t *testing.T) {
	s := newInstalledScene(t)
	definition := hvpaDefinition()
	s.Expect(s.admin.Create(t.Context(), definition)).To(Succeed())
	used := &unstructured.Unstructured{
		Object: map[string]any{
			"apiVersion": "autoscaling.k8s.io/v1alpha1", "kind": "Hvpa", "metadata": map[string]any{"name": "used", "namespace": "default"},
		},
	}
	s.Eventually(func() error { return s.admin.Create(t.Context(), used) }, binary.Patience).Should(Succeed())
	s.mustReconcile()
	s.Expect(s.exists(&apiextensionsv1.CustomResourceDefinition{}, "", "hvpas.autoscaling.k8s.io")).To(BeTrue())
	s.Expect(s.admin.Delete(t.Context(), used)).To(Succeed())
	former := &resourcesv1alpha1.ManagedResource{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace(), Name: "hvpa"},
		Spec:       resourcesv1alpha1.ManagedResourceSpec{SecretRefs: []corev1.LocalObjectReference{{Name: "managedresource-hvpa"}}},
	}
	s.Expect(s.admin.Create(t.Context(), former)).To(Succeed())
	s.mustReconcile()
	s.Expect(s.exists(&resourcesv1alpha1.ManagedResource{}, s.namespace(), "hvpa")).To(BeFalse())
	s.Expect(s.exists(&apiextensionsv1.CustomResourceDefinition{}, "", "hvpas.autoscaling.k8s.io")).To(BeFalse())
}

func hvpaDefinition() *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{
			Name: "hvpas.autoscaling.k8s.io", Annotations: map[string]string{"api-approved.kubernetes.io": "unapproved, for a test"},
		},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "autoscaling.k8s.io", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "hvpas", Singular: "hvpa", Kind: "Hvpa", ListKind: "HvpaList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1alpha1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}},
			}},
		},
	}
}

func TestObservedGenerationIsThatOfTheStartOfTheRun(t *testing.T) {
	s := newScene(t)
	created := s.create()
	changed := false
	s.requests.SetHook(func(r *http.Request) error {
		if !changed && r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/secrets") {
			changed = true
			s.edit(func(g *operatorv1alpha1.Garden) { g.Spec.RuntimeCluster.Provider.Zones = []string{"a"} })
		}
		return nil
	})
	s.mustReconcile()
	s.requests.SetHook(nil)
	g := s.get()
	s.Expect(changed).To(BeTrue())
	s.Expect(g.Generation).To(Equal(created.Generation + 1))
	s.Expect(g.Status.ObservedGeneration).To(Equal(created.Generation))
}

func TestPausedGardenIsNotReconciled(t *testing.T) {
	s := newScene(t)
	s.create(annotated("espalier.dev/paused-until", start.Add(30*time.Minute).Format(time.RFC3339)))
	s.Expect(s.mustReconcile()).To(Equal(ctrl.Result{RequeueAfter: 30 * time.Minute}))
	s.mustReconcile()
	s.Expect(s.requests.Writes()).To(Equal([]string{"PATCH /apis/operator.gardener.cloud/v1alpha1/gardens/garden/status"}))
	g := s.get()
	s.Expect(g.Status.LastOperation).To(BeNil())
	s.Expect(g.Status.Conditions).To(HaveLen(1))
	s.Expect(g.Status.Conditions[0]).To(And(
		HaveField("Type", BeEquivalentTo("ReconciliationPaused")), HaveField("Status", BeEquivalentTo("True")),
		HaveField("Reason", "PausedByUser"), HaveField("Message", "The annotation espalier.dev/paused-until stops reconciliation and deletion "+
			"until 2026-02-28T12:30:00Z.")))

	s.edit(annotated("espalier.dev/paused-until", "tomorrow"))
	s.Expect(s.mustReconcile()).To(Equal(ctrl.Result{}))
	s.Expect(s.get().Status.Conditions[0].Reason).To(Equal("PauseInvalid"))

	s.edit(annotated("espalier.dev/paused-until", start.Add(30*time.Minute).Format(time.RFC3339)))
	s.clock.SetTime(start.Add(30 * time.Minute))
	s.mustReconcile()
	s.Expect(s.get().Status.Conditions).To(BeEmpty())
	s.Expect(s.get().Status.LastOperation.State).To(BeEquivalentTo("Succeeded"))
}

func TestSecretsOfOtherComponentsAreKept(t *testing.T) {
	s := newInstalledScene(t)
	const name = "observability-ingress"
	key := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace(), Name: name + "-f08d302c"}}
	key.Labels = map[string]string{
		"name": name, "managed-by": "secrets-manager", "manager-identity": "gardener-operator",
		"last-rotation-initiation-time": "",
	}
	s.Expect(s.admin.Create(t.Context(), key)).To(Succeed())
	s.mustReconcile()
	s.Expect(s.secrets(name)).To(HaveLen(1))
}

// A component for which the reconciliation does not wait may still use its former certificate.
func TestSecretsInUseAreKept(t *testing.T) {
	s := newInstalledScene(t)
	const logicalName = "kube-apiserver"
	former := func(name string) {
		t.Helper()
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace(), Name: name, Labels: map[string]string{
			"name": logicalName, "managed-by": "secrets-manager", "manager-identity": "gardener-operator", "last-rotation-initiation-time": "",
		}}}
		s.Expect(s.admin.Create(t.Context(), secret)).To(Succeed())
	}
	template := func(secret string) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"uses": secret}},
			Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "none", Image: "none"}},
				Volumes: []corev1.Volume{{Name: "server", VolumeSource: corev1.VolumeSource{
					Secret: &corev1.SecretVolumeSource{SecretName: secret},
				}}},
			},
		}
	}
	at := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: s.namespace(), Name: name} }
	selector := func(secret string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"uses": secret}}
	}
	users := []client.Object{
		&corev1.Pod{ObjectMeta: at("user"), Spec: template("of-pod").Spec},
		&appsv1.Deployment{ObjectMeta: at("user"), Spec: appsv1.DeploymentSpec{
			Selector: selector("of-deployment"), Template: template("of-deployment"),
		}},
		&appsv1.StatefulSet{ObjectMeta: at("user"), Spec: appsv1.StatefulSetSpec{
			Selector: selector("of-statefulset"), Template: template("of-statefulset"),
		}},
	}
	names := []string{"of-pod", "of-deployment", "of-statefulset", "unused"}
	for _, each := range names {
		former(each)
	}
	for _, each := range users {
		s.Expect(s.admin.Create(t.Context(), each)).To(Succeed())
		t.Cleanup(func() {
			err := s.admin.Delete(context.WithoutCancel(t.Context()), each)
			s.Expect(client.IgnoreNotFound(err)).To(Succeed())
		})
	}
	left := func() (found []string) {
		t.Helper()
		for _, each := range s.secrets(logicalName) {
			if slices.Contains(names, each.Name) {
				found = append(found, each.Name)
			}
		}
		return found
	}
	s.mustReconcile()
	s.Expect(left()).To(ConsistOf("of-pod", "of-deployment", "of-statefulset"))
	for _, each := range users {
		s.Expect(s.admin.Delete(t.Context(), each)).To(Succeed())
	}
	s.mustReconcile()
	s.Expect(left()).To(BeEmpty())
}

func TestNothingIsDeployedBeforeTheWebhooksOfTheResourceManagerAreRegistered(t *testing.T) {
	s := newInstalledScene(t)
	registration := &admissionregistrationv1.MutatingWebhookConfiguration{}
	s.Expect(s.exists(registration, "", "gardener-resource-manager")).To(BeTrue())
	set := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace(), Name: "garden-system"}}
	bundle := registration.Webhooks[0].ClientConfig.CABundle
	s.stop("Deployment") // the stand-in for its webhook server would register them again
	s.Expect(s.admin.Delete(t.Context(), set)).To(Succeed())
	s.Expect(s.admin.Delete(t.Context(), registration)).To(Succeed())

	done := s.begin()
	message := Equal("MutatingWebhookConfiguration gardener-resource-manager has no webhooks with a CA bundle " +
		"(see kubectl -n garden logs deployment/gardener-resource-manager-webhooks)")
	s.task("Deploying and waiting for gardener-resource-manager to be healthy", "Running", message)
	registration.ResourceVersion, registration.UID, registration.Webhooks[0].ClientConfig.CABundle = "", "", nil
	s.Expect(s.admin.Create(t.Context(), registration)).To(Succeed())
	s.Consistently(done, 100*time.Millisecond).ShouldNot(Receive(), "webhooks without a bundle are not trusted")
	s.Expect(s.exists(set, s.namespace(), set.Name)).To(BeFalse())

	registration.Webhooks[0].ClientConfig.CABundle = bundle
	s.Expect(s.admin.Update(t.Context(), registration)).To(Succeed())
	s.Eventually(done, binary.Patience).Should(Receive(BeNil()))
	s.Expect(s.exists(set, s.namespace(), set.Name)).To(BeTrue())
}

func TestDeletionRemovesWhatTheWebhookServerCreated(t *testing.T) {
	s := newInstalledScene(t)
	name := metav1.ObjectMeta{Name: "gardener-resource-manager"}
	certificate := metav1.ObjectMeta{Namespace: s.namespace(), Name: "gardener-resource-manager-webhooks"}
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: name}
	s.Expect(s.exists(mutating, "", mutating.Name)).To(BeTrue())
	created := []client.Object{
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: name},
		&corev1.Secret{ObjectMeta: certificate},
		&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{
			Namespace: s.namespace(), Name: "of-gardener-resource-manager",
			Labels: map[string]string{"espalier.dev/network-policies-instance": "gardener-resource-manager"},
		}},
	}
	created = append(created, &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "of-gardener-resource-manager",
		Labels: map[string]string{"espalier.dev/network-policies-instance": "gardener-resource-manager"},
	}})
	other := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "of-another-instance", Labels: map[string]string{"espalier.dev/network-policies-instance": "other"},
	}}
	s.Expect(s.admin.Create(t.Context(), other)).To(Succeed())
	t.Cleanup(func() { s.Expect(s.admin.Delete(context.WithoutCancel(t.Context()), other)).To(Succeed()) })
	for _, each := range created {
		s.Expect(s.admin.Create(t.Context(), each)).To(Succeed())
	}
	s.delete()
	s.mustReconcile()
	for _, each := range append(created, mutating) {
		s.Expect(s.exists(each, each.GetNamespace(), each.GetName())).To(BeFalse(), "%T", each)
	}
	s.Expect(s.exists(other, other.Namespace, other.Name)).To(BeTrue())
}

func TestForeignManagedResourceStopsTheDeletion(t *testing.T) {
	s := newInstalledScene(t)
	foreign := &resourcesv1alpha1.ManagedResource{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "foreign"},
		Spec:       resourcesv1alpha1.ManagedResourceSpec{Class: ptr.To("seed"), SecretRefs: []corev1.LocalObjectReference{{Name: "none"}}},
	}
	s.Expect(s.admin.Create(t.Context(), foreign)).To(Succeed())
	s.reconciler.Timing.Limits.ManagedResources = 2 * time.Second
	s.delete()
	s.Eventually(func() error { // other waits may time out first
		_, err := s.reconcile()
		return err
	}, binary.Patience).Should(MatchError(ContainSubstring("at least one ManagedResource still exists: default/foreign")))
	s.Expect(s.get().Status.LastOperation).To(HaveValue(And(
		HaveField("Type", BeEquivalentTo("Delete")), HaveField("State", BeEquivalentTo("Error")),
		HaveField("Description", ContainSubstring("at least one ManagedResource still exists")),
	)))
	s.Expect(s.exists(&appsv1.Deployment{}, s.namespace(), "gardener-resource-manager")).To(BeTrue())
	s.Expect(s.secrets("ca")).To(HaveLen(1))

	s.reconciler.Timing.Limits.ManagedResources = binary.Patience
	done := s.begin()
	s.Expect(s.admin.Delete(t.Context(), foreign)).To(Succeed())
	s.Eventually(done, binary.Patience).Should(Receive(BeNil()))
	s.Expect(s.isGone()).To(BeTrue())
}

func TestDeletionKeepsWhatOthersCreatedOrUse(t *testing.T) {
	s := newInstalledScene(t)
	account := &corev1.ServiceAccount{}
	s.Expect(s.exists(account, s.namespace(), "gardener-resource-manager")).To(BeTrue())
	delete(account.Labels, "espalier.dev/created-by")
	s.Expect(s.admin.Update(t.Context(), account)).To(Succeed())
	gateway := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "networking.istio.io/v1beta1", "kind": "Gateway", "metadata": map[string]any{"name": "shop", "namespace": "default"},
		"spec": map[string]any{},
	}}
	s.Expect(s.admin.Create(t.Context(), gateway)).To(Succeed())
	t.Cleanup(func() { _ = s.admin.Delete(t.Context(), gateway) })
	s.delete()
	s.mustReconcile()
	s.Expect(s.isGone()).To(BeTrue())
	s.Expect(s.exists(&corev1.ServiceAccount{}, s.namespace(), "gardener-resource-manager")).To(BeTrue())
	s.Expect(s.definitions("istio.io")).To(Equal([]string{"gateways.networking.istio.io"}))
	s.event(ContainSubstring("gateways.networking.istio.io, for example default/shop"))
	s.Expect(s.admin.Delete(t.Context(), gateway)).To(Succeed())
}

func TestEtcdsKeepTheirDefinitionsAndTheGarden(t *testing.T) {
	s := newInstalledScene(t)
	task := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "druid.gardener.cloud/v1alpha1", "kind": "EtcdCopyBackupsTask",
		"metadata": map[string]any{"name": "copy", "namespace": "default"},
		"spec":     map[string]any{"sourceStore": map[string]any{"prefix": "a"}, "targetStore": map[string]any{"prefix": "b"}},
	}}
	s.Expect(s.admin.Create(t.Context(), task)).To(Succeed())
	s.delete()
	_, err := s.reconcile()
	s.Expect(err).To(MatchError(ContainSubstring("cannot delete etcd-druid because there are still objects: ")))
	s.Expect(s.exists(&resourcesv1alpha1.ManagedResource{}, s.namespace(), "etcd-druid")).To(BeTrue())
	s.Expect(s.definitions("druid.gardener.cloud")).To(HaveLen(2))
	s.Expect(s.isGone()).To(BeFalse())
	s.Expect(s.admin.Delete(t.Context(), task)).To(Succeed())
	s.mustReconcile()
	s.Expect(s.isGone()).To(BeTrue())
}

func TestDefinitionThatIsBeingDeletedIsCreatedAgainWhenItIsGone(t *testing.T) {
	s := newInstalledScene(t)
	s.editDefinition(func(d *apiextensionsv1.CustomResourceDefinition) {
		d.Finalizers = append(d.Finalizers, "example.com/test")
	})
	s.deleteDefinition()
	done := s.begin()
	s.Eventually(func() []operatorv1alpha1.Task { return s.get().Status.Tasks }, binary.Patience).Should(ContainElement(
		HaveField("WaitingFor", "CustomResourceDefinition gateways.networking.istio.io is being deleted, and is created again when it is gone"),
	))
	s.editDefinition(func(d *apiextensionsv1.CustomResourceDefinition) {
		d.Finalizers = slices.DeleteFunc(d.Finalizers, func(each string) bool { return each == "example.com/test" })
	})
	s.Eventually(done, 4*binary.Patience).Should(Receive(BeNil()))
	s.Expect(s.definition().DeletionTimestamp).To(BeNil())
}

func TestDefinitionThatIsDeletedMeanwhileIsCreatedAgain(t *testing.T) {
	s := newInstalledScene(t)
	reads := 0
	s.requests.SetHook(func(r *http.Request) error {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/"+definitionOfGateways) {
			reads++
			if reads == 2 {
				s.deleteDefinition()
			}
		}
		return nil
	})
	before := s.definition().UID
	s.mustReconcile()
	s.requests.SetHook(nil)
	s.Expect(s.definition().UID).NotTo(Equal(before))
	s.Expect(s.definition().DeletionTimestamp).To(BeNil())
}

const definitionOfGateways = "gateways.networking.istio.io"

func (s *scene) definition() *apiextensionsv1.CustomResourceDefinition {
	s.t.Helper()
	d := &apiextensionsv1.CustomResourceDefinition{}
	s.Expect(s.admin.Get(s.t.Context(), client.ObjectKey{Name: definitionOfGateways}, d)).To(Succeed())
	return d
}

func (s *scene) editDefinition(change func(*apiextensionsv1.CustomResourceDefinition)) {
	s.t.Helper()
	s.Eventually(func() error {
		after := s.definition()
		change(after)
		return s.admin.Update(s.t.Context(), after)
	}, binary.Patience).Should(Succeed())
}

func (s *scene) deleteDefinition() {
	s.t.Helper()
	s.Expect(s.admin.Delete(s.t.Context(), s.definition())).To(Succeed())
}

func TestGardenWithoutTheFinalizerIsNotDestroyed(t *testing.T) {
	s := newScene(t)
	s.create(func(g *operatorv1alpha1.Garden) { g.Finalizers = []string{"example.com/other"} })
	s.delete()
	s.requests.Reset()
	s.mustReconcile()
	s.Expect(s.requests.Writes()).To(BeEmpty())
}

func TestDeletionAndChangeEndAReconciliationThatWaits(t *testing.T) {
	for name, change := range map[string]func(*scene){
		"deletion": (*scene).delete,
		"change": func(s *scene) {
			s.edit(func(g *operatorv1alpha1.Garden) { g.Spec.VirtualCluster.Maintenance.TimeWindow.Begin = "210000+0100" })
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.reconciler.Timing.Limits.ManagedResources = time.Hour
			s.stop("ManagedResource")
			s.create()
			done := s.begin()
			s.task("Deploying ETCD Druid", "Running", Not(BeEmpty()))
			s.task("Deploying Istio", "Running", Not(BeEmpty()))
			change(s)
			s.Eventually(done, binary.Patience).Should(Receive(BeNil()))
			s.Expect(s.get().Status.LastOperation.State).To(BeEquivalentTo("Processing"))
			s.heal("ManagedResource")
			s.mustReconcile()
			s.Expect(s.isGone()).To(Equal(name == "deletion"))
		})
	}
}

func TestInvalidGardenCanBeDeleted(t *testing.T) {
	s := newInstalledScene(t)
	s.edit(func(g *operatorv1alpha1.Garden) { g.Spec.VirtualCluster.Kubernetes.Version = "none" })
	s.delete()
	s.mustReconcile()
	s.Expect(s.isGone()).To(BeTrue())
}
