//go:build e2e

package gardenoperator_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// alarms returns the faults that a running local garden shows within minutes. Faults whose alerts take longer are only in hack/prometheus:
// certificates and authorities that end, an overdue rotation, an etcd that fills up, an old backup, a task that waits, stale Projects, and
// a long pause.
func alarms() []alarm {
	return []alarm{
		{
			fault: "no Pod of csr-approver", alert: "EspalierBinaryAbsent", object: "espalier-csr-approver",
			inject: scaledDown("espalier-system", "deployment/espalier-csr-approver"),
		},
		{
			fault: "no Pod of the virtual kube-apiserver", alert: "ApiServerDown", object: "No resources found",
			inject: scaledDown(namespace, "deployment/virtual-garden-kube-apiserver"),
		},
		{
			fault: "no Pod of gardener-apiserver", alert: "GardenerApiServerDown", object: "v1beta1.core.gardener.cloud", virtual: true,
			inject: scaledDown(namespace, "deployment/gardener-apiserver"),
		},
		{
			fault: "no Pod of gardener-controller-manager", alert: "GardenerControllerManagerDown", object: "No resources found",
			inject: scaledDown(namespace, "deployment/gardener-controller-manager"),
		},
		{
			fault: "no Pod of kube-state-metrics", alert: "GardenKubeStateMetricsDown", object: "No resources found",
			inject: scaledDown(namespace, "deployment/kube-state-metrics-runtime"),
		},
		{
			fault: "no member of etcd events", alert: "EtcdEventsDown", object: "virtual-garden-etcd-events",
			inject: scaledDown(namespace, "deployment/etcd-druid", "statefulset/virtual-garden-etcd-events"),
		},
		{
			fault: "no Pod of VictoriaLogs", alert: "VictoriaLogsDown", object: "victoria-logs",
			inject: scaledDown(namespace, "deployment/victoria-operator", "deployment/vlsingle-victoria-logs"),
		},
		{
			fault: "no Pod of Alertmanager", alert: "EspalierAlertsNotSent", object: "alertmanager",
			inject: scaledDown(namespace, "deployment/prometheus-operator", "statefulset/alertmanager-garden"),
		},
		{
			fault: "no Pod of the collector of logs", alert: "GardenConditionStatusNotTrue", object: "opentelemetry-collector-collector",
			inject: scaledDown(namespace, "deployment/opentelemetry-operator", "deployment/opentelemetry-collector-collector"),
		},
		{
			fault: "no Pod of gardener-admission-controller", alert: "EspalierAdmissionUnreachable", object: "name: gardener-admission-controller",
			virtual: true, inject: scaledDown(namespace, "deployment/gardener-admission-controller"), repeat: secretOfProject,
		},
		{
			fault: "a policy that refuses an object of the operator", alert: "EspalierGardenReconcileFails", object: "perses-operator",
			inject: refusedSet,
		},
		{fault: "a Pod whose program fails", alert: "PodFrequentlyRestarting", object: "Error", inject: failingPod},
		{fault: "a token for an absent namespace", alert: "EspalierTokenRenewalFails", object: "secret/pear", inject: impossibleToken},
		{fault: "a malformed annotation of a Service", alert: "EspalierNetworkPolicyRefused", object: "service/pear", inject: malformedService},
		{
			fault: "a certificate for the name of another node", alert: "EspalierCSRDenied", object: "system:node:other",
			repeat: requestOfAnother,
		},
		{
			fault: "a client that changes objects of the Garden", alert: "EspalierManagedResourceDriftFight", object: "DriftRepaired",
			repeat: changeServiceAccounts,
		},
	}
}

// scaledDown returns a function that removes all Pods of workloads of a namespace, until the end of the spec.
func scaledDown(in string, names ...string) func(context.Context, localGarden) {
	return func(ctx context.Context, _ localGarden) {
		GinkgoHelper()
		for _, each := range names {
			scaleDown(ctx, in, each)
		}
	}
}

func scaleDown(ctx context.Context, in, each string) {
	GinkgoHelper()
	kind, name, _ := strings.Cut(each, "/")
	var o client.Object = &appsv1.Deployment{}
	if kind == "statefulset" {
		o = &appsv1.StatefulSet{}
	}
	Expect(c.Client.Get(ctx, client.ObjectKey{Namespace: in, Name: name}, o)).To(Succeed())
	// The annotation names the ManagedResource of the object: <cluster>:<namespace>/<name>.
	if origin := o.GetAnnotations()["resources.gardener.cloud/origin"]; origin != "" {
		ignoreSet(ctx, origin[strings.LastIndex(origin, "/")+1:])
	}
	replicas := scaleOf(o)
	scale := func(ctx context.Context, to int32) error {
		_, err := c.Kubectl(ctx, "-n", in, "scale", each, fmt.Sprintf("--replicas=%d", to))
		return err
	}
	Expect(scale(ctx, 0)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(scale(ctx, replicas)).To(Succeed()) })
}

func scaleOf(o client.Object) int32 {
	if set, isSet := o.(*appsv1.StatefulSet); isSet {
		return *set.Spec.Replicas
	}
	deployment, isDeployment := o.(*appsv1.Deployment)
	Expect(isDeployment).To(BeTrue(), "%T", o)
	return *deployment.Spec.Replicas
}

// created creates an object until the end of the spec.
func created(ctx context.Context, o client.Object) {
	GinkgoHelper()
	Expect(c.Client.Create(ctx, o)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(c.Client.Delete(ctx, o)).To(Succeed()) })
}

// failingPod starts a Pod in the namespace of the Garden that ends with an error again and again.
func failingPod(ctx context.Context, _ localGarden) {
	GinkgoHelper()
	image, err := imageOf(ctx, "lines")
	Expect(err).NotTo(HaveOccurred())
	created(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pear"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "pear", Image: image}}},
	})
}

// impossibleToken requests a token of a ServiceAccount whose namespace does not exist.
func impossibleToken(ctx context.Context, _ localGarden) {
	GinkgoHelper()
	created(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "pear",
		Labels: map[string]string{"resources.gardener.cloud/purpose": "token-requestor", "resources.gardener.cloud/class": "shoot"},
		Annotations: map[string]string{
			"serviceaccount.resources.gardener.cloud/name": "pear", "serviceaccount.resources.gardener.cloud/namespace": "absent",
		},
	}})
}

func malformedService(ctx context.Context, _ localGarden) {
	GinkgoHelper()
	created(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "pear",
			Annotations: map[string]string{"networking.resources.gardener.cloud/from-all-garden-scrape-targets-allowed-ports": "not JSON"},
		},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "pear"}, Ports: []corev1.ServicePort{{Port: 80}}},
	})
}

// requestOfAnother requests a serving certificate for the name of another node.
func requestOfAnother(ctx context.Context, _ localGarden) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	content, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "system:node:pear", Organization: []string{"system:nodes"}}, DNSNames: []string{"pear"},
	}, key)
	if err != nil {
		return err
	}
	// The admission plugin NodeRestriction checks only members of system:nodes.
	other, err := c.As("system:node:other", "system:masters", "system:authenticated")
	if err != nil {
		return err
	}
	return other.Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: content}),
			SignerName: certificatesv1.KubeletServingSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		},
	})
}

// changeServiceAccounts changes a field of each ServiceAccount of the Garden, which the resource manager restores.
func changeServiceAccounts(ctx context.Context, _ localGarden) error {
	all := &corev1.ServiceAccountList{}
	err := c.Client.List(ctx, all, client.InNamespace(namespace))
	patch := client.RawPatch(types.MergePatchType, []byte(`{"automountServiceAccountToken":true}`))
	for _, each := range all.Items {
		if each.Annotations["resources.gardener.cloud/origin"] != "" {
			err = errors.Join(err, c.Client.Patch(ctx, &each, patch, client.FieldOwner("pear")))
		}
	}
	return err
}

// secretOfProject creates a Secret, for which the virtual API server asks gardener-admission-controller, without storing it.
func secretOfProject(ctx context.Context, l localGarden) error {
	_, err := l.kubectl(ctx, "get", "namespace", "pear")
	if err != nil {
		_, err = l.kubectl(ctx, "create", "-f", "test/e2e/garden-operator/gardener/project-namespace.yaml")
		DeferCleanup(func(ctx SpecContext) error {
			_, failure := l.kubectl(ctx, "delete", "namespace", "pear")
			return failure
		})
	}
	if err != nil {
		return err
	}
	_, err = l.kubectl(ctx, "-n", "pear", "create", "secret", "generic", "pear", "--from-literal=kubeconfig=", "--dry-run=server")
	if err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
		return fmt.Errorf("the webhook answers: %w", err)
	}
	return nil
}

// refusedSet deletes a ManagedResource, and refuses its creation.
func refusedSet(ctx context.Context, l localGarden) {
	GinkgoHelper()
	DeferCleanup(l.reconcile)
	const file = "test/e2e/garden-operator/gardener/refuse-set.yaml"
	_, err := c.Kubectl(ctx, "create", "-f", file)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) error {
		_, failure := c.Kubectl(ctx, "delete", "-f", file)
		return failure
	})
	_, err = c.Kubectl(ctx, "-n", namespace, "delete", "managedresource", "perses-operator")
	Expect(err).NotTo(HaveOccurred())
	Expect(l.reconcile(ctx)).To(Succeed())
}
