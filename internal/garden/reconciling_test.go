package garden_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/system"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local/standin"
)

// confirmDeletion is a change of a Garden that allows its deletion. It skips the check for Seeds and Shoots, because no API server of the
// virtual cluster runs here.
const confirmDeletion = "{metadata: {annotations: {confirmation.gardener.cloud/deletion: 'true', " +
	"espalier.dev/skipped-checks: seeds-and-shoots}}}"

// patience is for a whole reconciliation or deletion.
const patience = 10 * binary.Patience

func TestOperatorReconcilesAndDeletesAGarden(t *testing.T) {
	o := stoppedOperator(t, reconciling)
	o.playKubelet()
	o.Start()
	o.awaitWebhooks()
	audit := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "audit"}, Data: map[string][]byte{"kubeconfig": []byte(
		"{current-context: a, contexts: [{name: a, context: {cluster: a}}], clusters: [{name: a, cluster: {server: 'https://a.example.com'}}]}",
	)}}
	o.Expect(o.admin.Create(t.Context(), audit)).To(Succeed())
	policy := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "policy"}, Data: map[string]string{
		"policy": "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]",
	}}
	o.Expect(o.admin.Create(t.Context(), policy)).To(Succeed())
	created := o.created("{spec: {virtualCluster: {kubernetes: {kubeAPIServer: {auditWebhook: {kubeconfigSecretName: audit}, " +
		"auditConfig: {auditPolicy: {configMapRef: {name: policy}}}}}}}}")

	garden := &operatorv1alpha1.Garden{}
	state := func() (string, error) {
		err := o.admin.Get(t.Context(), client.ObjectKeyFromObject(created), garden)
		if garden.Status.LastOperation == nil {
			return "", err
		}
		return string(garden.Status.LastOperation.State), err
	}
	o.Eventually(state, patience).Should(Equal("Succeeded"))
	o.Expect(garden.Status.Tasks).NotTo(BeEmpty())
	for _, task := range garden.Status.Tasks {
		o.Expect(task.State).To(Or(BeEquivalentTo("Succeeded"), BeEquivalentTo("Skipped")), task.Name)
	}
	o.Expect(o.authorities()).To(Equal([]string{
		"ca", "ca-client", "ca-etcd", "ca-etcd-peer", "ca-front-proxy", "ca-garden-runtime", "ca-gardener",
		"ca-virtual-garden-istio-basic-auth-server",
	}))
	o.Expect(o.deployments()).To(Equal([]string{
		"gardener-resource-manager espalier.local/managedresource-controller:v0.0.0-dev",
		"gardener-resource-manager-networkpolicies espalier.local/netpol-controller:v0.0.0-dev",
		"gardener-resource-manager-tokens espalier.local/token-controllers:v0.0.0-dev",
		"gardener-resource-manager-webhooks espalier.local/webhook-server:v0.0.0-dev",
		"virtual-garden-gardener-resource-manager espalier.local/managedresource-controller:v0.0.0-dev",
		"virtual-garden-gardener-resource-manager-tokens espalier.local/token-controllers:v0.0.0-dev",
		"virtual-garden-kube-apiserver registry.k8s.io/kube-apiserver:v" + garden.Spec.VirtualCluster.Kubernetes.Version,
		"virtual-garden-kube-controller-manager registry.k8s.io/kube-controller-manager:v" + garden.Spec.VirtualCluster.Kubernetes.Version,
	}))
	o.Eventually(func() []string {
		_, err := state()
		o.Expect(err).NotTo(HaveOccurred())
		var types []string
		for _, each := range garden.Status.Conditions {
			types = append(types, string(each.Type))
		}
		return types
	}, binary.Patience).Should(ConsistOf(
		"VirtualGardenAPIServerAvailable", "RuntimeComponentsHealthy", "VirtualComponentsHealthy", "ObservabilityComponentsHealthy",
	))
	o.Eventually(func() (any, error) {
		autoscaler := &unstructured.Unstructured{}
		autoscaler.SetGroupVersionKind(object.AutoscalerKind)
		err := o.admin.Get(t.Context(), client.ObjectKey{Namespace: "garden", Name: "virtual-garden-etcd-main"}, autoscaler)
		return object.EvictionRequirements(autoscaler), err
	}, binary.Patience).Should(ConsistOf(HaveKeyWithValue("changeRequirement", "TargetHigherThanRequests")))
	const protection = "gardener.cloud/reference-protection"
	for _, each := range []client.Object{audit, policy} {
		o.Eventually(func() ([]string, error) {
			err := o.admin.Get(t.Context(), client.ObjectKeyFromObject(each), each)
			return each.GetFinalizers(), err
		}, binary.Patience).Should(ConsistOf(protection))
	}
	o.Eventually(func(g Gomega) {
		o.Requests.Reset()
		g.Consistently(o.Requests.Seen, 3*time.Second, 100*time.Millisecond).Should(BeEmpty())
	}, patience).Should(Succeed(), "requests at rest")

	o.Expect(o.change(created.DeepCopy(), "{metadata: {annotations: {gardener.cloud/operation: reconcile}}}")).To(Succeed())
	before := garden.Status.LastOperation.LastUpdateTime
	o.Eventually(func(g Gomega) {
		g.Expect(state()).To(Equal("Succeeded"))
		g.Expect(garden.Annotations).NotTo(HaveKey("gardener.cloud/operation"))
		g.Expect(garden.Status.LastOperation.LastUpdateTime.Time).To(BeTemporally(">", before.Time))
	}, patience).Should(Succeed(), "a reconciliation that the user asks for")

	o.keepsUsedDefinition(created)
	for _, each := range []client.Object{audit, policy} {
		o.Expect(o.admin.Get(t.Context(), client.ObjectKeyFromObject(each), each)).To(Succeed())
		o.Expect(each.GetFinalizers()).To(BeEmpty())
		o.Expect(o.admin.Delete(t.Context(), each)).To(Succeed())
	}
	o.Expect(o.deployments()).To(BeEmpty())
	o.Expect(o.authorities()).To(BeEmpty())
}

// keepsUsedDefinition deletes the Garden while there is a Gateway, and requires that an Event names it.
func (o *operator) keepsUsedDefinition(garden client.Object) {
	o.t.Helper()
	ctx := o.t.Context()
	gateway := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "networking.istio.io/v1beta1", "kind": "Gateway", "metadata": map[string]any{"name": "shop", "namespace": "default"},
		"spec": map[string]any{},
	}}
	o.Expect(o.admin.Create(ctx, gateway)).To(Succeed())
	o.Expect(o.change(garden, confirmDeletion)).To(Succeed())
	o.Expect(o.admin.Delete(ctx, garden)).To(Succeed())
	o.Eventually(func() bool {
		return apierrors.IsNotFound(o.admin.Get(ctx, client.ObjectKeyFromObject(garden), &operatorv1alpha1.Garden{}))
	}, patience).Should(BeTrue())
	o.Eventually(func() ([]string, error) {
		list := &corev1.EventList{}
		err := o.admin.List(ctx, list, client.InNamespace("default"))
		var messages []string
		for i := range list.Items {
			messages = append(messages, list.Items[i].Message)
		}
		return messages, err
	}, binary.Patience).Should(ContainElement(ContainSubstring("gateways.networking.istio.io, for example default/shop")))
	o.Expect(o.admin.Delete(ctx, gateway)).To(Succeed())
}

func (o *operator) authorities() []string {
	o.t.Helper()
	list := &corev1.SecretList{}
	o.Expect(
		o.admin.List(o.t.Context(), list, client.InNamespace("garden"), client.MatchingLabels{"managed-by": "secrets-manager"}),
	).To(Succeed())
	var names []string
	for i := range list.Items {
		if labels := list.Items[i].Labels; strings.HasPrefix(labels["name"], "ca") && labels["bundle-for"] == "" {
			names = append(names, labels["name"])
		}
	}
	slices.Sort(names)
	return names
}

// deployments returns the names and images of Deployments.
func (o *operator) deployments() []string {
	o.t.Helper()
	list := &appsv1.DeploymentList{}
	o.Expect(o.admin.List(o.t.Context(), list, client.InNamespace("garden"))).To(Succeed())
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name+" "+list.Items[i].Spec.Template.Spec.Containers[0].Image)
	}
	slices.Sort(names)
	return names
}

// playKubelet makes all Pods ready, and ManagedResources and Etcds healthy, until the test ends. The controllers of
// Deployments run. It creates the PriorityClasses of a ManagedResource.
func (o *operator) playKubelet() {
	for _, each := range system.Objects() {
		o.Expect(client.IgnoreAlreadyExists(o.admin.Create(o.t.Context(), each))).To(Succeed())
	}
	watching, ok := o.admin.(client.WithWatch)
	o.Expect(ok).To(BeTrue())
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	player := standin.Player{
		Client: watching, Parts: []standin.Part{
			standin.Pods(), standin.Registrations(), standin.ManagedResources(), standin.Etcds(), standin.Gateways(),
			standin.LoadBalancers(), standin.Tokens(),
		},
		Failed: func(err error) { o.t.Error(err) },
	}
	ended.Go(func() { player.Play(ctx) })
	o.t.Cleanup(func() { cancel(); ended.Wait() })
}

// reconciling makes an operator run controllers too. The period of the conditions is longer than the test.
func reconciling(o *operator) {
	o.reconciles = true
	o.Config.Controllers.GardenCare.SyncPeriod = ptr.To(metav1.Duration{Duration: time.Hour})
}
