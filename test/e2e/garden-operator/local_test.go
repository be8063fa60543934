//go:build e2e

package gardenoperator_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/test/e2e/cluster"
	"github.com/espalier-dev/espalier/test/e2e/faults/machine"
)

// localGarden is the Garden of `make up-garden`, with its virtual cluster.
type localGarden struct {
	machine *machine.Machine
	garden  *operatorv1alpha1.Garden
	// kubeconfig is the kubeconfig file for users of the virtual cluster, who connect through the gateway.
	kubeconfig string
}

// operatorKey is the key of the Deployment of the operator, and of the ConfigMap with its configuration.
var operatorKey = client.ObjectKey{Namespace: cluster.SystemNamespace, Name: "espalier-" + binary}

// isLocalGarden reports whether `make up-garden` has deployed the operator: only then does the operator have these lists of images.
func isLocalGarden(ctx context.Context) bool {
	deployed := &appsv1.Deployment{}
	if err := c.Client.Get(ctx, operatorKey, deployed); err != nil {
		return false
	}
	return slices.ContainsFunc(deployed.Spec.Template.Spec.Containers[0].Env, func(v corev1.EnvVar) bool {
		return v.Name == "IMAGEVECTOR_OVERWRITE"
	})
}

// requireLocalGarden skips the spec unless the cluster has the local garden, which it returns.
func requireLocalGarden(ctx context.Context) localGarden {
	GinkgoHelper()
	if !isLocalGarden(ctx) {
		Skip("SKIPPED: the cluster is not that of `make up-garden`")
	}
	m, err := machine.Find(ctx, c.Kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	l := localGarden{
		machine: m, garden: &operatorv1alpha1.Garden{ObjectMeta: metav1.ObjectMeta{Name: "orchards"}},
		kubeconfig: filepath.Join(m.Dir, "garden", "kubeconfig"),
	}
	Eventually(ctx, l.well).WithTimeout(patience).Should(Succeed())
	return l
}

// virtual returns a client of the virtual cluster that connects through the gateway with the current token.
func (l localGarden) virtual() (client.Client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", l.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig of virtual cluster: %w", err)
	}
	config.QPS, config.Timeout = -1, 10*time.Second
	return client.New(config, client.Options{Scheme: c.Client.Scheme()})
}

// kubectl runs kubectl in the virtual cluster.
func (l localGarden) kubectl(ctx context.Context, args ...string) (string, error) {
	return c.Kubectl(ctx, append([]string{"--kubeconfig", l.kubeconfig}, args...)...)
}

// reconcile requests a reconciliation of the Garden. It does not wait for it.
func (l localGarden) reconcile(ctx context.Context) error {
	_, err := c.Kubectl(ctx, "annotate", "--overwrite", "garden", l.garden.Name, "gardener.cloud/operation=reconcile")
	return err
}

// well returns an error that says why the Garden is not reconciled, or which of its parts does not run; nil if all is well.
func (l localGarden) well(ctx context.Context) error {
	found := &operatorv1alpha1.Garden{}
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(l.garden), found); err != nil {
		return err
	}
	operation := found.Status.LastOperation
	switch {
	case operation == nil || found.Annotations["gardener.cloud/operation"] != "":
		return errors.New("the operation has not begun")
	case operation.State != operatorv1alpha1.LastOperationSucceeded || found.Status.ObservedGeneration != found.Generation:
		return fmt.Errorf("the operation is %s: %s", operation.State, operation.Description)
	}
	if err := errors.Join(podsReady(ctx), setsHealthy(ctx)); err != nil {
		return err
	}
	_, err := l.kubectl(ctx, "--request-timeout=5s", "get", "namespaces")
	return err
}

// healthy returns an error that names a condition of the Garden that is not true; nil if all are.
func (l localGarden) healthy(ctx context.Context) error {
	found := &operatorv1alpha1.Garden{}
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(l.garden), found); err != nil {
		return err
	}
	if len(found.Status.Conditions) < 4 {
		return fmt.Errorf("of 4 conditions, %d are known", len(found.Status.Conditions))
	}
	for _, each := range found.Status.Conditions {
		if each.Status != corev1beta1.ConditionTrue {
			return fmt.Errorf("%s is %s: %s", each.Type, each.Status, each.Message)
		}
	}
	return nil
}

// podsReady returns an error that names workloads of the Garden without all their Pods. It checks the Pods, because a status does not show
// Pods that were just killed.
func podsReady(ctx context.Context) error {
	for _, in := range []string{namespace, "istio-system", "virtual-garden-istio-ingress"} {
		deployments, sets, pods := &appsv1.DeploymentList{}, &appsv1.StatefulSetList{}, &corev1.PodList{}
		for _, each := range []client.ObjectList{deployments, sets, pods} {
			if err := c.Client.List(ctx, each, client.InNamespace(in)); err != nil {
				return err
			}
		}
		for _, each := range sets.Items {
			if want := ptr.Deref(each.Spec.Replicas, 1); each.Status.ReadyReplicas != want {
				return fmt.Errorf("of %d replicas of %s, %d are ready", want, each.Name, each.Status.ReadyReplicas)
			}
		}
		for _, each := range deployments.Items {
			status, want := each.Status, ptr.Deref(each.Spec.Replicas, 1)
			if status.ObservedGeneration != each.Generation || status.UpdatedReplicas != want || status.AvailableReplicas != want {
				return fmt.Errorf("of %d replicas of %s, %d are up to date, and %d available", want, each.Name, status.UpdatedReplicas,
					status.AvailableReplicas)
			}
		}
		for _, pod := range pods.Items {
			ready := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			})
			if !ready || pod.DeletionTimestamp != nil {
				return fmt.Errorf("pod %s is not ready, or ends", pod.Name)
			}
		}
	}
	return nil
}

func setsHealthy(ctx context.Context) error {
	sets := &resourcesv1alpha1.ManagedResourceList{}
	if err := c.Client.List(ctx, sets); err != nil {
		return err
	}
	for _, set := range sets.Items {
		healthy := 0
		for _, condition := range set.Status.Conditions {
			if strings.HasPrefix(string(condition.Type), "Resources") && condition.Type != "ResourcesProgressing" && condition.Status == "True" {
				healthy++
			}
		}
		if healthy < 2 {
			return fmt.Errorf("managedresource %s/%s is not applied and healthy: %v", set.Namespace, set.Name, set.Status.Conditions)
		}
	}
	return nil
}
