package lifecycle_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/components"
	"github.com/espalier-dev/espalier/test/binary"
)

// contents returns the texts of the objects of a ManagedResource, by their keys.
func (s *scene) contents(name string) map[string][]byte {
	s.t.Helper()
	set := &resourcesv1alpha1.ManagedResource{}
	s.Expect(s.exists(set, s.namespace(), name)).To(BeTrue(), name)
	secret := &corev1.Secret{}
	s.Expect(s.exists(secret, s.namespace(), set.Spec.SecretRefs[0].Name)).To(BeTrue(), name)
	return secret.Data
}

func TestProgramsOfGardenerAreDeployed(t *testing.T) {
	s := newInstalledScene(t)
	for _, name := range []string{"gardener-apiserver", "gardener-admission-controller", "gardener-controller-manager", "gardener-scheduler"} {
		s.Expect(s.contents(name+"-runtime")).To(HaveKey("deployment__garden__"+name+".yaml"), name)
		s.Expect(s.set(s.namespace(), name+"-virtual")).To(BeTrue(), name)
		access := &corev1.Secret{}
		s.Expect(s.exists(access, s.namespace(), "shoot-access-"+name)).To(BeTrue(), name)
		s.Expect(access.Annotations).To(HaveKeyWithValue("serviceaccount.resources.gardener.cloud/name", name))
	}
	service := &corev1.Service{}
	s.Expect(s.exists(service, s.namespace(), "gardener-apiserver")).To(BeTrue())
	served := s.contents("gardener-apiserver-virtual")
	s.Expect(string(served["endpoints__kube-system__gardener-apiserver.yaml"])).To(ContainSubstring("ip: " + service.Spec.ClusterIP))
	s.Expect(string(served["configmap__gardener-system-public__gardener-info.yaml"])).To(ContainSubstring("version: v1.149.3"))
	s.Expect(served).To(HaveKey("apiservice____v1beta1.core.gardener.cloud.yaml"))
	s.Expect(s.contents("gardener-admission-controller-virtual")).To(
		HaveKey("validatingwebhookconfiguration____gardener-admission-controller.yaml"))
}

func TestUsersLearnTheVersionThatGardenerServerReports(t *testing.T) {
	s := newInstalledScene(t)
	info := func() string {
		return string(s.contents("gardener-apiserver-virtual")["configmap__gardener-system-public__gardener-info.yaml"])
	}
	status := http.StatusOK
	s.answer("gardener-apiserver", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"gitVersion": "v1.151.2"}`))
	})
	s.mustReconcile()
	s.Expect(info()).To(ContainSubstring("version: v1.151.2"))

	status = http.StatusForbidden
	s.mustReconcile()
	s.Expect(info()).To(ContainSubstring("version: v1.149.3"))
}

func TestSeedsGetCredentialsOfGlobalMonitoring(t *testing.T) {
	s := newInstalledScene(t)
	generated := s.secrets("global-observability-ingress")
	s.Expect(generated).To(HaveLen(1))
	s.Expect(generated[0].Name).To(Equal("global-observability-ingress-d701e4a9"))
	s.Expect(generated[0].Labels).To(And(HaveKeyWithValue("persist", "true"), HaveKeyWithValue("gardener.cloud/role", "global-monitoring")))
	const replica = "secret__garden__observability-ingress-d701e4a9.yaml"
	s.Expect(string(s.contents("global-monitoring-virtual")[replica])).To(And(
		ContainSubstring("username: "), ContainSubstring("password: "), ContainSubstring("auth: "),
		ContainSubstring("gardener.cloud/role: global-monitoring\n"),
	))

	virtual := s.connect(s.virtual, nil)
	create := func(name string) {
		t.Helper()
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: "garden", Name: name, Labels: map[string]string{"gardener.cloud/role": "global-monitoring"},
		}}
		s.Expect(virtual.Create(t.Context(), secret)).To(Succeed())
		t.Cleanup(func() { s.Expect(virtual.Delete(context.WithoutCancel(t.Context()), secret)).To(Succeed()) })
	}
	garden := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "garden"}} // the virtual cluster of all scenes is the same
	s.Expect(client.IgnoreAlreadyExists(virtual.Create(t.Context(), garden))).To(Succeed())
	create("of-user")
	s.mustReconcile()
	s.Expect(s.contents("global-monitoring-virtual")).NotTo(HaveKey(replica))
	create("of-other-user")
	_, err := s.reconcile()
	s.Expect(err).To(MatchError(ContainSubstring("there must be one Secret of a user with the label gardener.cloud/role=global-monitoring")))
}

// gardenerServer creates a Deployment of gardener-apiserver whose Pods are ready but not available, and returns it. Its ManagedResource
// reports that.
func (s *scene) gardenerServer(revision string) *appsv1.Deployment {
	s.t.Helper()
	s.stop("Deployment")
	labels := map[string]string{"app": "gardener", "role": "apiserver"}
	pod := corev1.PodSpec{Containers: []corev1.Container{{Name: "none", Image: "none"}}}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.namespace(), Name: "gardener-apiserver", Annotations: map[string]string{"deployment.kubernetes.io/revision": revision},
		},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod},
		},
	}
	s.Expect(s.admin.Create(s.t.Context(), d)).To(Succeed())
	meta := metav1.ObjectMeta{Namespace: s.namespace(), Name: "gardener-apiserver", Labels: labels}
	s.Expect(s.admin.Create(s.t.Context(), &corev1.Pod{ObjectMeta: meta, Spec: pod})).To(Succeed())
	d.Status = appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, UnavailableReplicas: 1,
		Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionFalse, Message: "too few"}},
	}
	s.Expect(s.admin.Status().Update(s.t.Context(), d)).To(Succeed())
	set := &resourcesv1alpha1.ManagedResource{}
	s.Expect(s.exists(set, s.namespace(), "gardener-apiserver-runtime")).To(BeTrue())
	before := set.DeepCopy()
	for i := range set.Status.Conditions {
		if each := &set.Status.Conditions[i]; each.Type == resourcesv1alpha1.ResourcesHealthy {
			each.Status = corev1beta1.ConditionFalse
		}
	}
	s.Expect(s.admin.Status().Patch(s.t.Context(), set, client.MergeFrom(before))).To(Succeed())
	return d
}

func TestFirstRolloutOfGardenerAPIServerNeedsReadyPodsOnly(t *testing.T) {
	const task = "Waiting until Gardener API server rolled out"
	s := newInstalledScene(t)
	server := s.gardenerServer("2")
	done := s.begin()
	s.task(task, "Running", HavePrefix(
		`Deployment garden/gardener-apiserver is not rolled out: condition "Available" has invalid status False`,
	))
	before := server.DeepCopy()
	server.Annotations["deployment.kubernetes.io/revision"] = "1"
	s.Expect(s.admin.Status().Patch(t.Context(), server, client.MergeFrom(before))).To(Succeed())
	s.Eventually(done, binary.Patience).Should(Receive(BeNil()))
}

func TestGardenerAPIServerIsNotRolledOutBeforeItIsApplied(t *testing.T) {
	s := newInstalledScene(t)
	s.gardenerServer("1")
	s.stop("ManagedResource")
	s.edit(func(g *operatorv1alpha1.Garden) {
		g.Spec.VirtualCluster.Gardener.APIServer = &operatorv1alpha1.GardenerAPIServer{
			Logging: &operatorv1alpha1.APIServerLogging{Verbosity: ptr.To[int32](9)},
		}
	})
	done := s.begin()
	s.task("Waiting until Gardener API server rolled out", "Running", ContainSubstring("observed generation of managed resource "))
	s.heal("ManagedResource")
	s.Eventually(done, binary.Patience).Should(Receive(BeNil()))
}

func TestProjectControllerTakesTheProjectsOfGardenerControllerManager(t *testing.T) {
	const policy, binding = "validatingadmissionpolicy____project-controller.espalier.dev.yaml",
		"validatingadmissionpolicybinding____project-controller.espalier.dev.yaml"
	s := newInstalledScene(t)
	s.Expect(s.contents("gardener-controller-manager-virtual")).NotTo(Or(HaveKey(policy), HaveKey(binding)))
	s.reconciler.Operator.ProjectController = true
	s.mustReconcile()
	s.Expect(s.contents("gardener-controller-manager-virtual")).To(And(HaveKey(policy), HaveKey(binding)))
}

func TestProjectControllerIsDeployedAndRemovedAsTheOperatorIsConfigured(t *testing.T) {
	s := newInstalledScene(t)
	isThere := func() []bool {
		return []bool{
			s.set(s.namespace(), "project-controller-virtual"), s.set(s.namespace(), "project-controller-runtime"),
			s.exists(&corev1.Secret{}, s.namespace(), "shoot-access-project-controller"),
		}
	}
	s.Expect(isThere()).To(HaveEach(false))
	s.reconciler.Operator.ProjectController = true
	s.mustReconcile()
	s.Expect(isThere()).To(HaveEach(true))
	s.Expect(s.contents("project-controller-virtual")).To(HaveKey("clusterrolebinding____project-controller-source.yaml"))
	runtime := s.contents("project-controller-runtime")
	s.Expect(string(runtime["deployment__garden__project-controller.yaml"])).To(
		ContainSubstring("image: example.com/project-controller:v1"))
	s.reconciler.Operator.ProjectController = false
	s.mustReconcile()
	s.Expect(isThere()).To(HaveEach(false))
}

func TestObservabilityIsDeployedAndRemovedAsTheOperatorIsConfigured(t *testing.T) {
	s := newInstalledScene(t)
	const name = "kube-state-metrics-runtime"
	s.Expect(s.set(s.namespace(), name)).To(BeFalse())
	s.reconciler.Operator.SkipComponents = slices.DeleteFunc(components.Skippable(), func(each string) bool { return each == name })
	s.mustReconcile()
	set := &resourcesv1alpha1.ManagedResource{}
	s.Expect(s.exists(set, s.namespace(), name)).To(BeTrue())
	s.Expect(set.Labels).To(HaveKeyWithValue("care.gardener.cloud/condition-type", "ObservabilityComponentsHealthy"))
	const needed = "prometheus-operator"
	instances := []string{"prometheus-garden", "prometheus-longterm", "alertmanager-garden", "blackbox-exporter"}
	s.reconciler.Operator.SkipComponents = slices.DeleteFunc(components.Skippable(), func(each string) bool {
		return each == needed || slices.Contains(instances, each)
	})
	s.mustReconcile()
	s.Expect(s.set(s.namespace(), name)).To(BeFalse())
	for _, each := range append(instances, needed, "prometheus-garden-target") {
		s.Expect(s.set(s.namespace(), each)).To(BeTrue(), each)
	}
	s.Expect(s.exists(&corev1.Secret{}, s.namespace(), "shoot-access-prometheus-garden")).To(BeTrue())

	gardenlet := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace(), Name: "gardenlet"}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "gardenlet"}},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "gardenlet"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "gardenlet", Image: "example.com/gardenlet"}}},
		},
	}}
	s.Expect(s.admin.Create(t.Context(), gardenlet)).To(Succeed())
	s.reconciler.Operator.SkipComponents = components.Skippable()
	s.mustReconcile()
	s.Expect(s.set(s.namespace(), needed)).To(BeTrue())
	for _, each := range append(instances, "prometheus-garden-target") {
		s.Expect(s.set(s.namespace(), each)).To(BeFalse(), each)
	}
	s.Expect(s.exists(&corev1.Secret{}, s.namespace(), "shoot-access-prometheus-garden")).To(BeFalse())
}

// The store of logs that takes the place of vali does not have the log lines of the last 15 days yet.
func TestValiStaysUntilItsSuccessorHasItsLines(t *testing.T) {
	s := newInstalledScene(t)
	stores := []string{"vali", "victoria-operator", "victoria-logs"}
	s.reconciler.Operator.SkipComponents = slices.DeleteFunc(components.Skippable(), func(each string) bool {
		return slices.Contains(stores, each)
	})
	s.mustReconcile()
	s.Expect(s.set(s.namespace(), "vali")).To(BeTrue())
	s.reconciler.Operator.VictoriaLogs, s.reconciler.Operator.RemoveVali = true, true
	for range 2 {
		s.mustReconcile()
		for _, each := range stores {
			s.Expect(s.set(s.namespace(), each)).To(BeTrue(), each)
		}
	}
	s.Expect(s.recorder.Events).NotTo(Receive(ContainSubstring("ValiRemoved")))
	s.edit(annotated("espalier.dev/confirm-lost-logs", "vali"))
	s.mustReconcile()
	s.event(And(HavePrefix("Warning ValiRemoved "), ContainSubstring("PersistentVolumeClaim vali-vali-0")))
	s.Eventually(func() bool { return s.set(s.namespace(), "vali") }).Should(BeFalse())
	s.edit(annotated("espalier.dev/confirm-lost-logs", ""))
	s.mustReconcile()
	s.Expect(s.set(s.namespace(), "vali")).To(BeFalse(), "it does not come back")
}

// Requests that call a webhook, or that need an API of Gardener, would fail before the programs run.
func TestVirtualClusterCallsProgramsOfGardenerOnlyWhenTheyRun(t *testing.T) {
	s := newScene(t)
	s.create()
	s.mustReconcile()
	extended := func() (names []string) {
		const prefix = "PUT /apis/resources.gardener.cloud/v1alpha1/namespaces/garden/managedresources/"
		for _, each := range s.requests.Writes() {
			if name, is := strings.CutPrefix(each, prefix); is {
				names = append(names, name)
			}
		}
		return names
	}
	s.Expect(extended()).To(ConsistOf("gardener-apiserver-virtual", "gardener-admission-controller-virtual"))
	s.requests.Reset()
	s.mustReconcile()
	s.Expect(extended()).To(BeEmpty())
}

func TestReferencesOfGardenerAPIServerAreChecked(t *testing.T) {
	s := newInstalledScene(t)
	before := s.contents("gardener-apiserver-runtime")
	s.edit(func(g *operatorv1alpha1.Garden) {
		g.Spec.VirtualCluster.Gardener.APIServer = &operatorv1alpha1.GardenerAPIServer{
			AuditWebhook: &operatorv1alpha1.AuditWebhook{KubeconfigSecretName: "missing"},
		}
	})
	_, err := s.reconcile()
	s.Expect(err).To(MatchError(ContainSubstring(`task "Deploying Gardener API Server" failed: failed reading kubeconfig for audit webhook ` +
		`from referenced secret garden/missing: it does not exist, and must have the key "kubeconfig"; correct it, or change ` +
		"spec.virtualCluster.gardener.gardenerAPIServer.auditWebhook.kubeconfigSecretName")))
	s.Expect(s.contents("gardener-apiserver-runtime")).To(Equal(before))
}

// The scheduler of former versions had another default, which shoots may need.
func TestStrategyOfARunningSchedulerIsKept(t *testing.T) {
	s := newInstalledScene(t)
	configs := func() (names []string) {
		list := &corev1.ConfigMapList{}
		s.Expect(s.admin.List(t.Context(), list, client.InNamespace(s.namespace()))).To(Succeed())
		for _, each := range list.Items {
			if strings.HasPrefix(each.Name, "gardener-scheduler-config-") {
				names = append(names, each.Name)
			}
		}
		slices.Sort(names)
		return names
	}
	s.Expect(configs()).To(HaveLen(1))
	meta := metav1.ObjectMeta{Namespace: s.namespace(), Name: "gardener-scheduler"}
	labels := map[string]string{"app": "scheduler"}
	for _, each := range []client.Object{
		&corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{
			"schedulerconfiguration.yaml": "schedulers: {shoot: {candidateDeterminationStrategy: MinimalDistance}}",
		}},
		&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "none", Image: "none"}},
				Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: meta.Name},
				}}}},
			}},
		}},
	} {
		s.Expect(s.admin.Create(t.Context(), each)).To(Succeed())
		t.Cleanup(func() { s.Expect(s.admin.Delete(context.WithoutCancel(t.Context()), each)).To(Succeed()) })
	}
	s.mustReconcile()
	s.Expect(configs()).To(HaveLen(2))
}
