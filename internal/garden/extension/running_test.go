package extension_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/extension/health"
	"github.com/espalier-dev/espalier/internal/garden/extension/installations"
	"github.com/espalier-dev/espalier/internal/garden/extension/required"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

// definition defines a kind of extension objects, as far as the controllers read them.
func (s *scene) definition(kind, plural string) *unstructured.Unstructured {
	s.t.Helper()
	return s.object(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ` + plural + `.extensions.gardener.cloud}
spec:
  group: extensions.gardener.cloud
  scope: Namespaced
  names: {kind: ` + kind + `, plural: ` + plural + `}
  versions:
  - {name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`)
}

// object returns an object in YAML.
func (s *scene) object(text string) *unstructured.Unstructured {
	s.t.Helper()
	object := &unstructured.Unstructured{}
	s.Expect(yaml.Unmarshal([]byte(text), &object.Object)).To(Succeed())
	return object
}

// Running controllers react to Gardens, ManagedResources, Secrets, extension objects and ControllerInstallations.
func TestControllersFollowTheirObjects(t *testing.T) {
	s := newScene(t)
	servers, err := local.ForTests()
	s.Expect(err).NotTo(HaveOccurred())
	skip := true // other tests of this process may have controllers of these names
	mgr, err := manager.New(s.config, manager.Options{
		Scheme: s.admin.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"}, Controller: ctrlconfig.Controller{SkipNameValidation: &skip},
	})
	s.Expect(err).NotTo(HaveOccurred())
	virtual, err := client.NewWithWatch(servers.Source.Config, client.Options{})
	s.Expect(err).NotTo(HaveOccurred())
	var connected atomic.Bool
	installed := installations.NewWatch(100*time.Millisecond, func(context.Context) (client.WithWatch, error) {
		if !connected.Load() {
			return nil, errors.New("there is no virtual cluster")
		}
		return virtual, nil
	})
	s.Expect(mgr.Add(installed)).To(Succeed())
	s.reconciler.Client = mgr.GetClient()
	for _, each := range []interface{ SetupWithManager(mgr ctrl.Manager) error }{
		s.reconciler,
		&required.Runtime{Client: mgr.GetClient(), Clock: clock.RealClock{}, Workers: 1},
		&required.Virtual{Client: mgr.GetClient(), Clock: clock.RealClock{}, Workers: 1, Installations: installed},
		&health.Reconciler{
			Client: mgr.GetClient(), Clock: clock.RealClock{}, Namespace: s.namespace, Installations: installed, Period: time.Hour,
		},
	} {
		s.Expect(each.SetupWithManager(mgr)).To(Succeed())
	}
	done := make(chan error, 1)
	ctx, stop := context.WithCancel(s.ctx)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() { stop(); s.Expect(<-done).To(Succeed()) })

	condition := func(of corev1beta1.ConditionType) func() string {
		return func() string {
			if found := corev1beta1.GetCondition(s.get().Status.Conditions, of); found != nil {
				return string(found.Status) + " " + found.Reason
			}
			return ""
		}
	}
	s.create(resources + "  deployment:\n    extension: {helm: {rawChart: " + raw(t, configMapChart()) + "}}\n" +
		"    admission:\n      runtimeCluster: {helm: {rawChart: " + raw(t, runtimeChart()) + "}}\n" +
		"      values: {image: '{{ .resources.image.data.name }}'}\n" +
		"    resources: [{name: image, resourceRef: {apiVersion: v1, kind: Secret, name: image}}]\n")
	s.Eventually(condition(operatorv1alpha1.ExtensionInstalled), binary.Patience).Should(Equal("False NoGardenFound"))
	s.Eventually(condition(operatorv1alpha1.ExtensionRequiredRuntime), binary.Patience).Should(Equal("False ExtensionNotRequired"))

	garden := s.garden(operatorv1alpha1.LastOperationProcessing)
	s.Eventually(condition(operatorv1alpha1.ExtensionRequiredRuntime), binary.Patience).Should(Equal("True ExtensionRequired"))
	s.Eventually(s.sets, binary.Patience).Should(ConsistOf("extension-shop-garden"))
	s.Eventually(condition(operatorv1alpha1.ExtensionRuntimeHealthy), binary.Patience).Should(Equal("False ExtensionComponentsNotRunning"))
	s.apply("extension-shop-garden")
	s.Eventually(condition(operatorv1alpha1.ExtensionRuntimeHealthy), binary.Patience).Should(Equal("True ExtensionComponentsRunning"))

	s.operation(garden, operatorv1alpha1.LastOperationSucceeded)
	s.Eventually(condition(operatorv1alpha1.ExtensionInstalled), binary.Patience).Should(Equal("False ReconcileFailed"))
	image := s.object("{apiVersion: v1, kind: Secret, metadata: {name: image, labels: {gardener.cloud/role: resource-reference}}, " +
		"stringData: {name: first}}")
	image.SetNamespace(s.namespace)
	s.Expect(s.admin.Create(s.ctx, image)).To(Succeed())
	const admission = "extension-admission-runtime-shop"
	s.Eventually(s.sets, binary.Patience).Should(ContainElement(admission))
	s.apply(admission)
	s.Eventually(condition(operatorv1alpha1.ExtensionInstalled), binary.Patience).Should(Equal("True ReconcileSuccessful"))
	s.Eventually(condition(operatorv1alpha1.ExtensionAdmissionHealthy), binary.Patience).
		Should(Equal("True ExtensionAdmissionComponentsRunning"))
	s.Expect(s.admin.Patch(s.ctx, image, client.RawPatch("application/merge-patch+json", []byte(`{"stringData":{"name":"second"}}`)))).
		To(Succeed())
	s.Eventually(func() string { return s.contents(admission)["shop_templates_deployment.yaml"] }, binary.Patience).
		Should(ContainSubstring("image: second"))

	for kind, plural := range map[string]string{
		"BackupBucket": "backupbuckets", "BackupEntry": "backupentries", "DNSRecord": "dnsrecords", "Extension": "extensions",
	} {
		definition := s.definition(kind, plural)
		s.Expect(s.admin.Create(s.ctx, definition)).To(Succeed())
		t.Cleanup(func() { s.erase(definition) })
	}
	message := func() string {
		return corev1beta1.GetCondition(s.get().Status.Conditions, operatorv1alpha1.ExtensionRequiredRuntime).Message
	}
	record := s.object("{apiVersion: extensions.gardener.cloud/v1alpha1, kind: DNSRecord, metadata: {name: a}, " +
		"spec: {type: shop, class: garden}}")
	record.SetNamespace(s.namespace)
	s.Eventually(func() error { return s.admin.Create(s.ctx, record.DeepCopy()) }, binary.Patience).Should(Succeed())
	s.Eventually(message, binary.Patience).Should(Equal("Extension required for kinds [DNSRecord Extension]"))
	s.Expect(s.admin.Delete(s.ctx, record)).To(Succeed())
	s.Eventually(message, binary.Patience).Should(Equal("Extension required for kinds [Extension]"))

	_, err = binary.Install(s.ctx, s.admin, "deploy/project-controller/crds/core.gardener.cloud_controllerinstallations.yaml")
	s.Expect(err).NotTo(HaveOccurred())
	connected.Store(true)
	s.Eventually(condition(operatorv1alpha1.ExtensionRequiredVirtual), binary.Patience).Should(Equal("False NoRequiredControllerInstallation"))
	installation := s.object("{apiVersion: core.gardener.cloud/v1beta1, kind: ControllerInstallation, metadata: {name: shop-1}, " +
		"spec: {registrationRef: {name: shop}, seedRef: {name: seed}}}")
	s.Eventually(func() error { return s.admin.Create(s.ctx, installation) }, binary.Patience).Should(Succeed())
	t.Cleanup(func() { s.erase(installation) })
	now := "lastTransitionTime: '2026-01-01T00:00:00Z', lastUpdateTime: '2026-01-01T00:00:00Z', reason: Test, message: test}"
	installation.Object["status"] = s.object("{conditions: [{type: Required, status: 'True', " + now + "]}").Object
	s.Expect(s.admin.Status().Update(s.ctx, installation)).To(Succeed())
	s.Eventually(condition(operatorv1alpha1.ExtensionRequiredVirtual), binary.Patience).Should(Equal("True RequiredControllerInstallation"))
	s.Eventually(condition(operatorv1alpha1.ControllerInstallationsHealthy), binary.Patience).
		Should(Equal("False ControllerInstallationsNotRunning"))
	s.Expect(s.admin.Delete(s.ctx, installation)).To(Succeed())
	s.Eventually(condition(operatorv1alpha1.ExtensionRequiredVirtual), binary.Patience).Should(Equal("False NoRequiredControllerInstallation"))
	s.Eventually(condition(operatorv1alpha1.ControllerInstallationsHealthy), binary.Patience).Should(BeEmpty())

	// A controller whose cache did not have its last write yet judges the Extension again when the cache gets it.
	for _, each := range []corev1beta1.ConditionType{
		operatorv1alpha1.ExtensionRequiredRuntime, operatorv1alpha1.ExtensionRequiredVirtual, operatorv1alpha1.ExtensionRuntimeHealthy,
	} {
		before := condition(each)()
		s.Eventually(func() error {
			e := s.get()
			for i := range e.Status.Conditions {
				if e.Status.Conditions[i].Type == each {
					e.Status.Conditions[i].Reason = "Outdated"
				}
			}
			return s.admin.Status().Update(s.ctx, e)
		}, binary.Patience).Should(Succeed())
		s.Eventually(condition(each), binary.Patience).Should(Equal(before))
	}

	s.Expect(s.admin.Delete(s.ctx, garden)).To(Succeed())
	s.Eventually(condition(operatorv1alpha1.ExtensionInstalled), binary.Patience).Should(Equal("False DeleteSuccessful"))
	s.Eventually(func() []string { return s.get().Finalizers }, binary.Patience).Should(BeEmpty())
	s.Expect(s.sets()).To(BeEmpty())
}
