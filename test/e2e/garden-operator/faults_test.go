//go:build e2e

package gardenoperator_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

const (
	// recoveryPatience is how long it may take until all parts run again. limit is the time limit of a whole spec.
	recoveryPatience = 6 * time.Minute
	limit            = 15 * time.Minute
	// etcdMain is the StatefulSet of the etcd that has a backup.
	etcdMain = "virtual-garden-etcd-main"
	// resourceManager is the name of the resource manager of the virtual cluster, and of its ServiceAccount in the virtual cluster.
	resourceManager = "virtual-garden-gardener-resource-manager"
)

// fault is a disturbance of the local garden.
type fault struct {
	name   string
	inject func(ctx context.Context)
	// repaired returns an error if a part is still missing, besides localGarden.well; nil: nothing else is checked.
	repaired func(ctx context.Context) error
	// planned is true if no write may fail during the fault.
	planned bool
}

// measure injects a fault while a client writes into the virtual cluster, and waits until all parts run again.
func (l localGarden) measure(ctx context.Context, all []measurement, f fault) []measurement {
	GinkgoHelper()
	Eventually(ctx, l.well).WithTimeout(recoveryPatience).Should(Succeed(), "before the fault")
	virtual, err := l.virtual()
	Expect(err).NotTo(HaveOccurred())
	w := startWriter(virtual, fmt.Sprintf("e2e-%d", time.Now().UnixNano()))
	defer w.end()
	pause(ctx, 3*time.Second)
	begin := time.Now()
	f.inject(ctx)
	if f.repaired != nil {
		Eventually(ctx, f.repaired).WithTimeout(2 * recoveryPatience).Should(Succeed())
	}
	Eventually(ctx, l.well).WithTimeout(recoveryPatience).Should(Succeed())
	recovery := time.Since(begin)
	pause(ctx, 3*time.Second)
	w.end()
	var lost []string
	Eventually(ctx, func() (err error) {
		lost, err = w.lost(ctx)
		return err
	}).Should(Succeed())
	// The deletion is retried separately: if there are many objects, it may exceed the time limit of a request.
	Eventually(ctx, w.deleteObjects).WithTimeout(recoveryPatience).Should(Succeed())
	all = append(all, measurement{
		fault: f.name, recovery: recovery, confirmed: len(w.confirmed), failed: w.failed, gap: w.gap, lost: len(lost),
	})
	Expect(save(l.machine.Root, all)).To(Succeed())
	Expect(lost).To(BeEmpty())
	if f.planned {
		Expect(w.failed).To(BeZero())
	}
	Eventually(ctx, l.healthy).WithTimeout(recoveryPatience).Should(Succeed())
	return all
}

var _ = Describe("the Garden of make up-garden", Ordered, ContinueOnFailure, Label("garden"), func() {
	var (
		l       localGarden
		results []measurement
	)

	BeforeAll(func(ctx SpecContext) {
		l = requireLocalGarden(ctx)
		DeferCleanup(func() { AddReportEntry("what faults cost", table(results)) })
	}, NodeTimeout(limit))

	It("upgrades the virtual cluster by a minor version", func(ctx SpecContext) {
		from := l.version(ctx)
		if !strings.HasPrefix(from, "1.35.") {
			Skip("SKIPPED: the virtual cluster has version " + from + "; `make up-garden KUBERNETES=1.35.…` starts one that can be upgraded")
		}
		results = l.measure(ctx, results, upgraded(l, from))
	}, SpecTimeout(limit))

	for _, f := range []func(localGarden) fault{
		etcdPodDeleted, eventsDeleted, kubeletStopped, apiServerPodsDeleted, replicaDeleted, runtimeAway, certificateDeleted, replicasEdited,
		setEdited, tokenLost, keyRotated, programDeleted("apiserver"), programDeleted("admission-controller"),
		programDeleted("controller-manager"), programDeleted("scheduler"),
	} {
		name := f(localGarden{}).name
		It("recovers: "+name, func(ctx SpecContext) { results = l.measure(ctx, results, f(l)) }, SpecTimeout(limit))
	}
})

// newest is the version to which the virtual cluster is upgraded.
const newest = "1.36.3"

// version returns the version of the virtual cluster that the Garden requests.
func (l localGarden) version(ctx context.Context) string {
	GinkgoHelper()
	found := &operatorv1alpha1.Garden{}
	Expect(c.Client.Get(ctx, client.ObjectKeyFromObject(l.garden), found)).To(Succeed())
	return found.Spec.VirtualCluster.Kubernetes.Version
}

func upgraded(l localGarden, from string) fault {
	return fault{
		name: "upgrade from " + from + " to " + newest,
		inject: func(ctx context.Context) {
			GinkgoHelper()
			patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"virtualCluster":{"kubernetes":{"version":"`+newest+`"}}}}`))
			Expect(c.Client.Patch(ctx, &operatorv1alpha1.Garden{ObjectMeta: metav1.ObjectMeta{Name: l.garden.Name}}, patch)).To(Succeed())
			Expect(l.reconcile(ctx)).To(Succeed())
		},
		repaired: func(ctx context.Context) error {
			served, err := l.kubectl(ctx, "--request-timeout=5s", "version")
			if err == nil && !strings.Contains(served, "Server Version: v"+newest) {
				err = errors.New(served)
			}
			return err
		},
	}
}

// keyRotated rotates the key with which etcd data is encrypted. No request may fail meanwhile.
func keyRotated(l localGarden) fault {
	var begin time.Time
	return fault{
		name: "rotation of the encryption key", planned: true,
		inject: func(ctx context.Context) {
			GinkgoHelper()
			begin = time.Now().Truncate(time.Second)
			_, err := c.Kubectl(ctx, "annotate", "--overwrite", "garden", l.garden.Name, "gardener.cloud/operation=rotate-etcd-encryption-key")
			Expect(err).NotTo(HaveOccurred())
		},
		repaired: func(ctx context.Context) error {
			found := &operatorv1alpha1.Garden{}
			if err := c.Client.Get(ctx, client.ObjectKeyFromObject(l.garden), found); err != nil {
				return err
			}
			credentials := found.Status.Credentials
			if credentials == nil || credentials.Rotation == nil || credentials.Rotation.ETCDEncryptionKey == nil {
				return errors.New("the rotation has not begun")
			}
			rotation := credentials.Rotation.ETCDEncryptionKey
			if end := rotation.LastCompletionTime; rotation.Phase != operatorv1alpha1.RotationCompleted || end == nil || end.Time.Before(begin) {
				return fmt.Errorf("the rotation is in phase %s", rotation.Phase)
			}
			return nil
		},
	}
}

func deletePods(ctx context.Context, labels client.MatchingLabels) {
	GinkgoHelper()
	pods := &corev1.PodList{}
	Expect(c.Client.List(ctx, pods, client.InNamespace(namespace), labels)).To(Succeed())
	Expect(pods.Items).NotTo(BeEmpty())
	for _, each := range pods.Items {
		Expect(c.Client.Delete(ctx, &each)).To(Succeed())
	}
}

func etcdPodDeleted(localGarden) fault {
	return fault{name: "Pod of the etcd deleted", inject: func(ctx context.Context) {
		GinkgoHelper()
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: etcdMain + "-0"}}
		Expect(c.Client.Delete(ctx, pod)).To(Succeed())
	}}
}

func eventsDeleted(l localGarden) fault {
	return fault{name: "Pod of the etcd for Events deleted", repaired: l.served, inject: func(ctx context.Context) {
		GinkgoHelper()
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "virtual-garden-etcd-events-0"}}
		Expect(c.Client.Delete(ctx, pod)).To(Succeed())
	}}
}

// programDeleted deletes all Pods of one of Gardener's programs.
func programDeleted(role string) func(localGarden) fault {
	return func(l localGarden) fault {
		return fault{name: "Pods of gardener-" + role + " deleted", repaired: l.served, inject: func(ctx context.Context) {
			GinkgoHelper()
			deletePods(ctx, client.MatchingLabels{"app": "gardener", "role": role})
		}}
	}
}

// served returns an error that names an unavailable APIService of the virtual cluster; nil if all are available.
func (l localGarden) served(ctx context.Context) error {
	states, err := l.kubectl(ctx, "get", "apiservices", "-o",
		`jsonpath={range .items[*]}{.metadata.name} {.status.conditions[?(@.type=="Available")].status}{"\n"}{end}`)
	if err != nil {
		return err
	}
	for line := range strings.Lines(states) {
		if !strings.HasSuffix(strings.TrimSpace(line), " True") {
			return errors.New("not available: " + line)
		}
	}
	_, err = l.kubectl(ctx, "get", "projects")
	return err
}

func kubeletStopped(l localGarden) fault {
	return fault{name: "kubelet stopped for 10 s", inject: func(ctx context.Context) {
		GinkgoHelper()
		l.without(ctx, 10*time.Second, "kubelet")
	}}
}

func apiServerPodsDeleted(localGarden) fault {
	return fault{name: "Pods of the virtual API server deleted", inject: func(ctx context.Context) {
		GinkgoHelper()
		deletePods(ctx, client.MatchingLabels{"app": "kubernetes", "role": "apiserver"})
	}}
}

// replicaDeleted deletes one of the two Pods of the virtual API server. The other Pod answers meanwhile.
func replicaDeleted(l localGarden) fault {
	return fault{name: "one Pod of the virtual API server deleted", repaired: l.served, inject: func(ctx context.Context) {
		GinkgoHelper()
		pods := &corev1.PodList{}
		labels := client.MatchingLabels{"app": "kubernetes", "role": "apiserver"}
		Expect(c.Client.List(ctx, pods, client.InNamespace(namespace), labels)).To(Succeed())
		Expect(pods.Items).To(HaveLen(2))
		Expect(c.Client.Delete(ctx, &pods.Items[0])).To(Succeed())
	}}
}

func runtimeAway(l localGarden) fault {
	return fault{name: "API server of the runtime cluster stopped for 60 s", inject: func(ctx context.Context) {
		GinkgoHelper()
		l.without(ctx, time.Minute, "kube-apiserver")
	}}
}

// without stops parts of the node for some time, and starts them again.
func (l localGarden) without(ctx context.Context, howLong time.Duration, parts ...string) {
	GinkgoHelper()
	DeferCleanup(func(ctx SpecContext) error { return l.machine.Start(ctx) }, NodeTimeout(limit))
	Expect(l.machine.Stop(ctx, parts...)).To(Succeed())
	pause(ctx, howLong)
	Expect(l.machine.Start(ctx)).To(Succeed())
}

// tokenLost makes a token unusable: it changes the token in the Secret, which the kubelet mounts, and deletes the ServiceAccount in the
// virtual cluster, so that the earlier token is not valid either.
func tokenLost(l localGarden) fault {
	const unusable = "unusable"
	key := client.ObjectKey{Namespace: namespace, Name: "shoot-access-gardener-resource-manager"}
	return fault{
		name: "token of the resource manager of the virtual cluster lost",
		inject: func(ctx context.Context) {
			GinkgoHelper()
			_, err := l.kubectl(ctx, "-n", "kube-system", "delete", "serviceaccount", "gardener-resource-manager")
			Expect(err).NotTo(HaveOccurred())
			patch := client.RawPatch(types.MergePatchType, []byte(`{"stringData":{"token":"`+unusable+`"}}`))
			Expect(c.Client.Patch(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}, patch)).To(Succeed())
			for _, name := range []string{resourceManager, resourceManager + "-tokens"} {
				deletePods(ctx, client.MatchingLabels{"app": name})
			}
			Expect(l.reconcile(ctx)).To(Succeed())
		},
		repaired: func(ctx context.Context) error {
			secret := &corev1.Secret{}
			if err := c.Client.Get(ctx, key, secret); err != nil {
				return err
			}
			if token := string(secret.Data["token"]); token == "" || token == unusable {
				return errors.New("there is no new token")
			}
			return nil
		},
	}
}

// certificateDeleted deletes the Secret with the certificate of the virtual API server. The name of the Secret depends on its purpose, so
// the new Secret has the same name, and another certificate.
func certificateDeleted(l localGarden) fault {
	var before types.UID
	certificates := func(ctx context.Context) ([]corev1.Secret, error) {
		found := &corev1.SecretList{}
		labels := client.MatchingLabels{"managed-by": "secrets-manager", "name": "kube-apiserver"}
		err := c.Client.List(ctx, found, client.InNamespace(namespace), labels)
		return found.Items, err
	}
	return fault{
		name: "certificate of the virtual API server deleted",
		inject: func(ctx context.Context) {
			GinkgoHelper()
			found, err := certificates(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(found).To(HaveLen(1))
			before = found[0].UID
			Expect(c.Client.Delete(ctx, &found[0])).To(Succeed())
			Expect(l.reconcile(ctx)).To(Succeed())
		},
		repaired: func(ctx context.Context) error {
			found, err := certificates(ctx)
			if err == nil && (len(found) != 1 || found[0].UID == before) {
				err = errors.New("there is no new certificate")
			}
			return err
		},
	}
}

// replicasEdited changes an object that the operator deploys itself. The operator repairs it in the next reconciliation.
func replicasEdited(l localGarden) fault {
	const deployment = "virtual-garden-kube-controller-manager"
	return edited("kube-controller-manager of the virtual cluster scaled to 0", namespace, deployment, l.reconcile)
}

// setEdited changes an object of a ManagedResource. The resource manager repairs it at once.
func setEdited(localGarden) fault {
	return edited("istiod scaled to 0", "istio-system", "istiod", func(context.Context) error { return nil })
}

func edited(name, in, deployment string, then func(context.Context) error) fault {
	return fault{
		name: name,
		inject: func(ctx context.Context) {
			GinkgoHelper()
			_, err := c.Kubectl(ctx, "-n", in, "scale", "deployment", deployment, "--replicas=0")
			Expect(errors.Join(err, then(ctx))).NotTo(HaveOccurred())
		},
		repaired: func(ctx context.Context) error {
			found := &appsv1.Deployment{}
			if err := c.Client.Get(ctx, client.ObjectKey{Namespace: in, Name: deployment}, found); err != nil {
				return err
			}
			if ptr.Deref(found.Spec.Replicas, 1) == 0 {
				return errors.New("it has no replicas")
			}
			return nil
		},
	}
}
