//go:build e2e

package gardenoperator_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/test/e2e/faults/machine"
)

const (
	lease = "gardener-operator-leader-election"
	// killsVariable is the environment variable with the number of kills; empty: defaultKills.
	killsVariable = "GARDEN_KILLS"
	defaultKills  = 10
	// longestRun is the longest time that the operator works until it is killed. Another replica takes over only when the lease has
	// expired.
	longestRun = 8 * time.Second
	// killsLimit is the time limit for all kills, and for the deletion before them.
	killsLimit = 35 * time.Minute
)

var _ = Describe("the operator of make up-garden", Ordered, Label("garden", "kills"), func() {
	It("completes a first reconciliation in which it is killed at random moments", func(ctx SpecContext) {
		l := requireLocalGarden(ctx)
		left := kills()
		random := rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), 0))
		for left > 0 {
			l.createAgain(ctx)
			for left > 0 && l.well(ctx) != nil {
				if killAtRandom(ctx, random) {
					left--
				}
			}
		}
		last := time.Now()
		Eventually(ctx, l.well).WithTimeout(2 * recoveryPatience).Should(Succeed())
		AddReportEntry("complete after the last kill", time.Since(last).Round(100*time.Millisecond).String())
		Expect(ambiguous(ctx)).To(BeEmpty())
		Eventually(ctx, l.healthy).WithTimeout(recoveryPatience).Should(Succeed())
	}, SpecTimeout(killsLimit))
})

func kills() int {
	if number, err := strconv.Atoi(os.Getenv(killsVariable)); err == nil {
		return number
	}
	return defaultKills
}

// createAgain deletes the Garden with all its data, and creates it again.
func (l localGarden) createAgain(ctx context.Context) {
	GinkgoHelper()
	former := &operatorv1alpha1.Garden{}
	Expect(c.Client.Get(ctx, client.ObjectKeyFromObject(l.garden), former)).To(Succeed())
	remove(ctx, former.DeepCopy())
	l.createWithoutData(ctx, former)
}

// createWithoutData creates a deleted Garden again. It first deletes the volumes and the backups of the etcds, which the new Garden cannot
// read because it has another encryption key.
func (l localGarden) createWithoutData(ctx context.Context, former *operatorv1alpha1.Garden) {
	GinkgoHelper()
	Expect(c.Client.DeleteAllOf(ctx, &corev1.PersistentVolumeClaim{}, client.InNamespace(namespace))).To(Succeed())
	bucket := *former.Spec.VirtualCluster.ETCD.Main.Backup.BucketName
	Expect(os.RemoveAll(filepath.Join(l.machine.Dir, "backups", bucket))).To(Succeed())
	Expect(c.Client.Create(ctx, &operatorv1alpha1.Garden{
		ObjectMeta: metav1.ObjectMeta{Name: former.Name}, Spec: former.Spec,
	})).To(Succeed())
}

// killAtRandom kills the active operator after a random time. It returns false if the operator could not be killed.
func killAtRandom(ctx context.Context, random *rand.Rand) bool {
	GinkgoHelper()
	var leader *corev1.Pod
	Eventually(ctx, func(ctx context.Context) (err error) {
		leader, err = leading(ctx)
		return err
	}).Should(Succeed())
	pause(ctx, time.Duration(random.Int64N(int64(longestRun))))
	if err := machine.Kill(*leader); err != nil {
		GinkgoWriter.Println("not killed:", err)
		return false
	}
	// The Pod is deleted, so that a new Pod starts at once. A new container in the same Pod would wait longer after each kill.
	Expect(client.IgnoreNotFound(c.Client.Delete(ctx, leader, client.GracePeriodSeconds(0)))).To(Succeed())
	return true
}

// leading returns the Pod that holds the lease.
func leading(ctx context.Context) (*corev1.Pod, error) {
	name, err := c.Leader(ctx, binary, lease)
	if err != nil {
		return nil, err
	}
	pods, err := c.Pods(ctx, binary)
	if err != nil {
		return nil, err
	}
	for _, each := range pods {
		if each.Name == name && each.DeletionTimestamp == nil {
			return &each, nil
		}
	}
	return nil, errors.New("none of the Pods has the lease")
}

// ambiguous returns the logical names of generated Secrets that exist more than once: although it was killed, the operator must find the
// first one.
func ambiguous(ctx context.Context) ([]string, error) {
	found := &corev1.SecretList{}
	ours := client.MatchingLabels{"managed-by": "secrets-manager", "manager-identity": "gardener-operator"}
	if err := c.Client.List(ctx, found, client.InNamespace(namespace), ours); err != nil {
		return nil, err
	}
	number := map[string]int{}
	var names []string
	for _, each := range found.Items {
		name := each.Labels["name"]
		number[name]++
		if number[name] == 2 {
			names = append(names, name)
		}
	}
	return names, nil
}
