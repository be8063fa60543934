package extension_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/extension/operation"
	"github.com/espalier-dev/espalier/test/binary"
)

func TestPartsOfAChartWithoutEffectAreNamed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Expect(f.Garden.Create(f.Ctx, f.register(f.deployment(files{
		"a.yaml":      configMap,
		"hook.yaml":   `{apiVersion: v1, kind: ConfigMap, metadata: {name: h, namespace: x, annotations: {helm.sh/hook: pre-install}}}`,
		"lookup.yaml": `{{ if lookup "v1" "Secret" "garden" "a" }}{{ end }}`,
		"has.yaml":    `{{ if .Capabilities.APIVersions.Has "monitoring.coreos.com/v1" }}{{ end }}`,
		"crds/c.yaml": "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a.b}\n",
		"NOTES.txt":   "hello",
	}, "", false)))).To(Succeed())
	f.awaitCondition(valid, "True RegistrationValid: chart could be rendered successfully. Parts of the chart without effect: "+
		"capability monitoring.coreos.com/v1 in shop/templates/has.yaml, crds shop/crds/c.yaml, "+
		"hook ConfigMap h in shop/templates/hook.yaml (pre-install), lookup shop/templates/lookup.yaml, notes shop/templates/NOTES.txt.")
}

func TestAccessIsGivenIfItIsAskedFor(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ci := f.register(f.deployment(files{"web.yaml": workload}, "", true))
	f.Expect(f.Garden.Create(f.Ctx, ci)).To(Succeed())
	f.awaitCondition(installed, "True")
	f.expectInjected(f.kubeconfig().Name)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "seed-" + f.seed, Name: "extension-" + f.name}}
	f.Expect(f.Garden.Create(f.Ctx, account)).To(Succeed())

	f.replace(f.deployment(files{"web.yaml": workload}, "", false))
	f.Eventually(func() string { return f.contents()["shop_templates_web.yaml"] }, binary.Patience).
		ShouldNot(ContainSubstring("GARDEN_KUBECONFIG"))
	f.Expect(f.contents()["shop_templates_web.yaml"]).To(MatchRegexp(`name: SEED_NAME\s+value: ` + f.seed))
	f.Eventually(f.secretNames, binary.Patience).WithArguments("extension-" + f.name).Should(BeEmpty())
	f.Eventually(func() error { return f.Garden.Get(f.Ctx, client.ObjectKeyFromObject(account), account) }, binary.Patience).
		Should(MatchError(ContainSubstring("not found")))
}

func TestFormerGardensGiveAccessAlways(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(f *fixture) { f.Settings.AlwaysInject = true })
	f.Expect(f.Garden.Create(f.Ctx, f.register(f.deployment(files{"web.yaml": workload}, "", false)))).To(Succeed())
	f.awaitCondition(installed, "True")
	f.expectInjected(f.kubeconfig().Name)
}

func TestAnInstallationIsPendingUntilItsManagedResourceIsApplied(t *testing.T) {
	sets.held.Store(true)
	t.Cleanup(func() { sets.held.Store(false) })
	f := newFixture(t)
	f.Expect(f.Garden.Create(f.Ctx, f.register(f.deployment(files{"a.yaml": configMap}, "", false)))).To(Succeed())
	f.awaitCondition(healthy, "False ControllerNotHealthy: ")
	f.awaitCondition(progressing, "True ControllerNotRolledOut: ")
	f.awaitCondition(installed, "False InstallationPending: ")
}

// A controller that compares its conditions with a version of the ControllerInstallation from before its last write must judge the
// installation again. Here the test makes the newer version.
func TestConditionsThatAnotherWriterChangedAreJudgedAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Expect(f.Garden.Create(f.Ctx, f.register(f.deployment(files{"a.yaml": configMap}, "", false)))).To(Succeed())
	kinds := []corev1beta1.ConditionType{installed, healthy, progressing, required}
	verdicts := make(map[corev1beta1.ConditionType]string, len(kinds))
	for _, kind := range kinds {
		f.Eventually(f.condition(kind), binary.Patience).Should(SatisfyAny(HavePrefix("True "), HavePrefix("False ControllerRolledOut"),
			HavePrefix("False NoExtensionObjects")))
		verdicts[kind] = f.condition(kind)()
	}
	for _, kind := range kinds {
		f.Eventually(func() error {
			ci := get(f, f.Garden, "", f.name, &corev1beta1.ControllerInstallation{})
			for i := range ci.Status.Conditions {
				if ci.Status.Conditions[i].Type == kind {
					ci.Status.Conditions[i].Message = "outdated"
				}
			}
			return f.Garden.Status().Update(f.Ctx, ci)
		}, binary.Patience).Should(Succeed())
		f.Eventually(f.condition(kind), binary.Patience).Should(Equal(verdicts[kind]))
	}
}

func TestTheDeletionNamesWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ci := f.register(f.deployment(files{"web.yaml": workload}, "", true))
	f.Expect(f.Garden.Create(f.Ctx, ci)).To(Succeed())
	f.awaitCondition(installed, "True")
	set := f.set()
	f.finalize(set, `["example.org/hold"]`)
	f.Expect(f.Garden.Delete(f.Ctx, ci)).To(Succeed())
	f.awaitCondition(installed, fmt.Sprintf(
		"False DeletionPending: deletion is pending: Deletion of ManagedResource %q is still pending.", f.name))
	f.Expect(f.Seed.Get(f.Ctx, client.ObjectKey{Name: "extension-" + f.name}, &corev1.Namespace{})).To(Succeed())

	token := get(f, f.Seed, "extension-"+f.name, "garden-access-extension", &corev1.Secret{})
	f.finalize(token, `["example.org/hold"]`)
	f.finalize(set, `null`)
	f.awaitCondition(installed, fmt.Sprintf(
		"False DeletionPending: deletion is pending: Namespace %q still exists", "extension-"+f.name))
	f.finalize(token, `null`)
	f.awaitGone()
}

func (f *fixture) finalize(o client.Object, finalizers string) {
	f.T.Helper()
	f.Expect(f.Seed.Patch(f.Ctx, o, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":`+finalizers+`}}`)))).
		To(Succeed())
}

func TestAPlanIsAskedForOnTheInstallation(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ci := f.register(f.deployment(files{"a.yaml": configMap}, "", false))
	ci.Annotations = map[string]string{"espalier.dev/plan": "true"}
	f.Expect(f.Garden.Create(f.Ctx, ci)).To(Succeed())
	f.awaitCondition(valid, "True")
	plan := func() string { return f.set().Annotations["espalier.dev/plan"] }
	f.Eventually(func() error {
		return f.Seed.Get(f.Ctx, client.ObjectKey{Namespace: "garden", Name: f.name}, &resourcesv1alpha1.ManagedResource{})
	}, binary.Patience).
		Should(Succeed())
	f.Expect(plan()).To(Equal("true"))
	f.Expect(f.Garden.Patch(f.Ctx, ci, client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"annotations":{"espalier.dev/plan":null}}}`)))).To(Succeed())
	f.Eventually(plan, binary.Patience).Should(Equal("false"))
}

func TestAPlanRemovesNoAccess(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"true", "please"} {
		t.Run(value, func(t *testing.T) {
			t.Parallel()
			expectPlanToRemoveNoAccess(t, value)
		})
	}
}

func expectPlanToRemoveNoAccess(t *testing.T, plan string) {
	t.Helper()
	f := newFixture(t)
	ci := f.register(f.deployment(files{"web.yaml": workload}, "", true))
	f.Expect(f.Garden.Create(f.Ctx, ci)).To(Succeed())
	f.awaitCondition(installed, "True")
	before := f.secretNames("extension-" + f.name)
	f.Expect(before).To(HaveLen(2))
	annotate := func(value string) {
		f.Expect(f.Garden.Patch(f.Ctx, ci, client.RawPatch("application/merge-patch+json",
			[]byte(`{"metadata":{"annotations":{"espalier.dev/plan":`+value+`}}}`)))).To(Succeed())
	}
	annotate(strconv.Quote(plan))
	f.replace(f.deployment(files{"web.yaml": workload}, "", false))
	f.Eventually(func() string { return f.contents()["shop_templates_web.yaml"] }, binary.Patience).
		ShouldNot(ContainSubstring("GARDEN_KUBECONFIG"))
	f.awaitRest()
	f.Expect(f.secretNames("extension-"+f.name)).To(Equal(before), "the workload that runs uses them")
	annotate("null")
	f.Eventually(f.secretNames, binary.Patience).WithArguments("extension-" + f.name).Should(BeEmpty())
}

func TestAccessIsRemovedOnlyAfterTheManagedResourceIsWritten(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Expect(f.Garden.Create(f.Ctx, f.register(f.deployment(files{"web.yaml": workload}, "", true)))).To(Succeed())
	f.awaitCondition(installed, "True")
	before := f.secretNames("extension-" + f.name)
	var refused atomic.Bool
	f.Requests.Disturb(func(request *http.Request, next http.RoundTripper) (*http.Response, error) {
		if request.Method != http.MethodGet && strings.Contains(request.URL.Path, "/namespaces/garden/managedresources") {
			refused.Store(true)
			return nil, errors.New("the connection is lost")
		}
		return next.RoundTrip(request)
	})
	f.replace(f.deployment(files{"web.yaml": workload}, "", false))
	f.Eventually(refused.Load, binary.Patience).Should(BeTrue())
	f.Expect(f.secretNames("extension-" + f.name)).To(Equal(before))
	f.Requests.Disturb(nil)
	f.Eventually(f.secretNames, binary.Patience).WithArguments("extension-" + f.name).Should(BeEmpty())
}

func TestAnInstallationIsRequiredWhileObjectsExist(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Expect(f.Garden.Create(f.Ctx, f.register(f.deployment(files{"a.yaml": configMap}, "", false)))).To(Succeed())
	f.awaitCondition(required, "False NoExtensionObjects")
	f.ensure(f.Seed, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: dnsrecords.extensions.gardener.cloud}
spec:
  group: extensions.gardener.cloud
  names: {kind: DNSRecord, listKind: DNSRecordList, plural: dnsrecords, singular: dnsrecord}
  scope: Namespaced
  versions:
  - {name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`)
	record := func(name, kind, class string) client.Object {
		name += "-" + f.name
		return f.object(fmt.Sprintf(`{apiVersion: extensions.gardener.cloud/v1alpha1, kind: DNSRecord, `+
			`metadata: {namespace: default, name: %s}, spec: {type: %s, class: %s}}`, name, kind, class))
	}
	f.Eventually(func() error { return f.Seed.Create(f.Ctx, record("other", "other", "seed")) }, binary.Patience).Should(Succeed())
	f.Expect(f.Seed.Create(f.Ctx, record("garden", f.name, "garden"))).To(Succeed())
	mine := record("mine", f.name, "shoot")
	t.Cleanup(func() {
		f.Expect(client.IgnoreNotFound(f.Seed.Delete(context.WithoutCancel(t.Context()), mine))).To(Succeed())
	})
	f.Expect(f.Seed.Create(f.Ctx, mine)).To(Succeed())
	f.awaitCondition(required, "True ExtensionObjectsExist: "+
		"Extension objects exist in the seed that the controller is responsible for: DNSRecord/"+f.name+".")
	f.Expect(f.Seed.Delete(f.Ctx, mine)).To(Succeed())
	f.awaitCondition(required, "False NoExtensionObjects")
}

func TestOperationsOfTheSeed(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(f *fixture) {
		f.Settings.KubeconfigSecret = &types.NamespacedName{Namespace: "garden", Name: "gardenlet-kubeconfig"}
	})
	text := func(name, label, annotation string) string {
		return fmt.Sprintf(`{apiVersion: v1, kind: Secret, metadata: {namespace: garden, name: %s, labels: {%s}, annotations: {%s: soon}}}`,
			name, label, annotation)
	}
	const purpose = "resources.gardener.cloud/purpose: token-requestor"
	const renewal = "serviceaccount.resources.gardener.cloud/token-renew-timestamp"
	const workload = "workloadidentity.security.gardener.cloud/token-renew-timestamp"
	f.ensure(f.Seed, text("of-the-garden", purpose+", resources.gardener.cloud/class: garden", renewal))
	f.ensure(f.Seed, text("of-a-shoot", purpose+", resources.gardener.cloud/class: shoot", renewal))
	f.ensure(f.Seed, text("of-a-workload", "security.gardener.cloud/purpose: workload-identity-token-requestor", workload))
	f.ensure(f.Seed, text("gardenlet-kubeconfig", "a: b", "c"))
	annotations := func(name string) map[string]string {
		return get(f, f.Seed, "garden", name, &corev1.Secret{}).Annotations
	}
	f.operate("renew-garden-access-secrets")
	f.Expect(annotations("of-the-garden")).To(BeEmpty())
	f.Expect(annotations("of-a-shoot")).To(HaveKey(renewal))
	f.Expect(annotations("of-a-workload")).To(HaveKey(workload))
	f.operate("renew-workload-identity-tokens")
	f.Expect(annotations("of-a-workload")).To(BeEmpty())
	f.operate("renew-kubeconfig")
	f.Expect(annotations("gardenlet-kubeconfig")).To(HaveKeyWithValue("gardener.cloud/operation", "renew"))
	seed := get(f, f.Garden, "", f.seed, f.object(`{apiVersion: core.gardener.cloud/v1beta1, kind: Seed}`))
	f.Expect(seed.Object["spec"]).To(HaveKey("future"))
}

func TestWorkloadIdentitiesAreLeftToAnotherProgram(t *testing.T) {
	f := newFixture(t)
	f.Stop()
	seed := &corev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: f.seed}}
	f.ensure(f.Seed, `{apiVersion: v1, kind: Secret, metadata: {namespace: garden, name: another-workload, `+
		`labels: {security.gardener.cloud/purpose: workload-identity-token-requestor}}}`)
	f.Expect(f.Garden.Patch(f.Ctx, seed, client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"annotations":{"gardener.cloud/operation":"renew-workload-identity-tokens"}}}`)))).To(Succeed())
	var lines binary.Log
	r := &operation.Reconciler{Garden: f.Garden, Seed: f.Seed, FieldManager: manager}
	_, err := r.Reconcile(log.IntoContext(f.Ctx, lines.Logger()), reconcile.Request{NamespacedName: types.NamespacedName{Name: f.seed}})
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(lines.Containing("another program must renew them")).To(HaveLen(1))
}

// operate annotates the Seed with an operation, and waits until it is done.
func (f *fixture) operate(operation string) {
	f.T.Helper()
	seed := &corev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: f.seed}}
	f.Expect(f.Garden.Patch(f.Ctx, seed, client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"annotations":{"gardener.cloud/operation":"`+operation+`"}}}`)))).To(Succeed())
	f.Eventually(func() map[string]string {
		return get(f, f.Garden, "", f.seed, &corev1beta1.Seed{}).Annotations
	}, binary.Patience).ShouldNot(HaveKey("gardener.cloud/operation"))
}
