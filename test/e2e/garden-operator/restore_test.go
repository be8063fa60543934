//go:build e2e

package gardenoperator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"filippo.io/age"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/test/local"
)

const (
	// drillNamespace is the namespace of restore drills, and drillLabel the label of the objects of a drill.
	drillNamespace, drillLabel = "garden-restore-drill", "espalier.dev/restore-drill"
	// lastDrill is the annotation of Secret drillSecret with the last restoration of data.
	lastDrill, drillSecret = "espalier.dev/last-restore-drill", "garden-backup-identity"
	// restoreLimit is how long it may take to bring a lost Garden back.
	restoreLimit = 10 * time.Minute
)

var _ = Describe("the backup of the Garden of make up-garden", Ordered, Label("restore"), func() {
	var l localGarden

	BeforeAll(func(ctx SpecContext) {
		l = requireLocalGarden(ctx)
		configureBackups(ctx)
	}, NodeTimeout(limit))

	It("is restored by a drill that reads all data", func(ctx SpecContext) {
		takeFullSnapshot(ctx)
		virtual, err := l.virtual()
		Expect(err).NotTo(HaveOccurred())
		secrets := &corev1.SecretList{}
		Expect(virtual.List(ctx, secrets)).To(Succeed())
		drillAgain(ctx)
		Eventually(ctx, l.restorable).WithTimeout(recoveryPatience).Should(HavePrefix("True/DrillSucceeded: "))
		Expect(l.restorable(ctx)).To(ContainSubstring("was restored with the keys in file "))
		AddReportEntry("drill", recorded(ctx))
		result := map[string]any{}
		Expect(json.Unmarshal([]byte(recorded(ctx)), &result)).To(Succeed())
		Expect(result["secrets"]).To(BeNumerically(">=", len(secrets.Items)-2), "a Secret may have been created since the snapshot")
		Expect(c.Kubectl(ctx, "-n", drillNamespace, "get", "pods,secrets,networkpolicies,services", "-l", drillLabel, "-o", "name")).To(BeEmpty())
	}, SpecTimeout(limit))

	It("is refused by a drill that finds a truncated snapshot", func(ctx SpecContext) {
		takeFullSnapshot(ctx)
		last := l.lastSnapshot()
		content, err := os.ReadFile(last)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.Truncate(last, int64(len(content)/2))).To(Succeed())
		drillAgain(ctx)
		Eventually(ctx, l.restorable).WithTimeout(recoveryPatience).Should(And(
			HavePrefix("False/DrillFailed: "), ContainSubstring("restore of etcd has ended with code 1"),
		))
		AddReportEntry("drill", recorded(ctx))
		Expect(os.WriteFile(last, content, 0o600)).To(Succeed())
		drillAgain(ctx)
		Eventually(ctx, l.restorable).WithTimeout(recoveryPatience).Should(HavePrefix("True/DrillSucceeded: "))
	}, SpecTimeout(limit))

	It("brings the Garden and its data back after namespace garden is lost", func(ctx SpecContext) {
		virtual, err := l.virtual()
		Expect(err).NotTo(HaveOccurred())
		kept := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "e2e-kept"}, Data: map[string][]byte{"a": []byte("b")},
		}
		Expect(virtual.Create(ctx, kept)).To(Succeed())
		before, err := clientcmd.BuildConfigFromFlags("", l.kubeconfig)
		Expect(err).NotTo(HaveOccurred())
		takeFullSnapshot(ctx)
		dir := GinkgoT().TempDir()
		program, file, key := filepath.Join(dir, "garden-operator"), filepath.Join(dir, "garden.age"), filepath.Join(dir, "identity")
		Expect(local.Compile(ctx, program, "./cmd/garden-operator")).To(Succeed())
		identity, err := age.GenerateX25519Identity()
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(key, []byte(identity.String()), 0o600)).To(Succeed())
		runProgram(ctx, program, "backup", "-f", file, "-r", identity.Recipient().String())

		begin := time.Now()
		stopOperator(ctx)
		loseNamespace(ctx, l.garden)
		lost := time.Since(begin)
		begin = time.Now()
		runProgram(ctx, program, "restore", "-f", file, "-i", key)
		overlay := filepath.Join(l.machine.Dir, "garden", "operator") // Roles of the operator were in the namespace
		Expect(c.Kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-k", overlay)).Error().NotTo(HaveOccurred())
		Eventually(ctx, l.well).WithTimeout(restoreLimit).Should(Succeed())
		took := time.Since(begin)
		AddReportEntry("restored", fmt.Sprintf("deleted in %s, restored in %s", lost.Round(time.Second), took.Round(time.Second)))

		before.QPS, before.Timeout = -1, 10*time.Second
		old, err := client.New(before, client.Options{Scheme: c.Client.Scheme()})
		Expect(err).NotTo(HaveOccurred())
		found := &corev1.Secret{}
		Expect(old.Get(ctx, client.ObjectKeyFromObject(kept), found)).To(Succeed(), "with the token and the authority of before")
		Expect(found.Data).To(Equal(kept.Data))
		Expect(found.UID).To(Equal(kept.UID))
		Expect(old.Delete(ctx, found)).To(Succeed())
	}, SpecTimeout(2*limit))
})

// runProgram runs the built program as a user would, who has the kubeconfig of the suite.
func runProgram(ctx context.Context, program string, args ...string) {
	GinkgoHelper()
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	AddReportEntry("garden-operator "+args[0], string(out))
	Expect(err).NotTo(HaveOccurred(), string(out))
}

// configureBackups makes the operator write backups into a folder of its Pod, until the specs end.
func configureBackups(ctx context.Context) {
	GinkgoHelper()
	identity, err := age.GenerateX25519Identity()
	Expect(err).NotTo(HaveOccurred())
	deployed := &appsv1.Deployment{}
	Expect(c.Client.Get(ctx, operatorKey, deployed)).To(Succeed())
	changed := deployed.DeepCopy()
	if pod := &changed.Spec.Template.Spec; !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == "backups" }) {
		pod.Volumes = append(pod.Volumes, corev1.Volume{
			Name: "backups", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		})
		mounts := &pod.Containers[0].VolumeMounts
		*mounts = append(*mounts, corev1.VolumeMount{Name: "backups", MountPath: "/backups"})
	}
	changed.Spec.Replicas = ptr.To[int32](1) // the folder is that of one Pod
	Expect(c.Client.Patch(ctx, changed, client.MergeFrom(deployed))).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		Expect(c.Scale(ctx, binary, *deployed.Spec.Replicas)).To(Succeed())
		configureOperator(ctx, "backup", nil)
	})
	configureOperator(ctx, "backup", map[string]any{
		"folder": "/backups", "interval": "1h", "keep": int64(5), "restoreData": true, "recipients": []any{identity.Recipient().String()},
	})
}

// takeFullSnapshot makes etcd-backup-restore take a full snapshot.
func takeFullSnapshot(ctx context.Context) {
	GinkgoHelper()
	_, err := c.Clients.CoreV1().Services(namespace).ProxyGet("https", etcdMain+"-client", "8080", "/snapshot/full", nil).DoRaw(ctx)
	Expect(err).NotTo(HaveOccurred())
}

// lastSnapshot returns the file of the last full snapshot.
func (l localGarden) lastSnapshot() string {
	GinkgoHelper()
	var files []string
	Expect(filepath.WalkDir(filepath.Join(l.machine.Dir, "backups"), func(path string, _ os.DirEntry, err error) error {
		if strings.HasPrefix(filepath.Base(path), "Full-") {
			files = append(files, path)
		}
		return err
	})).To(Succeed())
	Expect(files).NotTo(BeEmpty())
	return slices.MaxFunc(files, func(a, b string) int { return strings.Compare(lastPart(a), lastPart(b)) })
}

// lastPart returns the time in the name of a snapshot.
func lastPart(file string) string { return file[strings.LastIndexByte(file, '-')+1:] }

// drillAgain makes the operator forget the last restoration, and start a drill.
func drillAgain(ctx context.Context) {
	GinkgoHelper()
	forget := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+lastDrill+`":null}}}`))
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: drillSecret}}
	Eventually(ctx, func() error { return c.Client.Patch(ctx, secret, forget) }).WithTimeout(recoveryPatience).Should(Succeed())
	Expect(c.Client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(operatorKey.Namespace),
		client.MatchingLabels{"app.kubernetes.io/name": operatorKey.Name})).To(Succeed())
	Eventually(ctx, recorded).WithArguments().WithTimeout(recoveryPatience).ShouldNot(BeEmpty())
}

// recorded returns the last restoration of data.
func recorded(ctx context.Context) string {
	secret := &corev1.Secret{}
	if err := c.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: drillSecret}, secret); err != nil {
		return ""
	}
	return secret.Annotations[lastDrill]
}

// restorable returns the condition BackupRestorable.
func (l localGarden) restorable(ctx context.Context) (string, error) {
	found := &operatorv1alpha1.Garden{}
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(l.garden), found); err != nil {
		return "", err
	}
	for _, each := range found.Status.Conditions {
		if each.Type == operatorv1alpha1.BackupRestorable {
			return fmt.Sprintf("%s/%s: %s", each.Status, each.Reason, each.Message), nil
		}
	}
	return "", nil
}

// stopOperator ends the operator.
func stopOperator(ctx context.Context) {
	GinkgoHelper()
	Expect(c.Scale(ctx, binary, 0)).To(Succeed())
	Eventually(ctx, c.Pods).WithArguments(binary).WithTimeout(patience).Should(BeEmpty())
}

// loseNamespace deletes the Garden and namespace garden with everything in it, without any controller: webhooks and finalizers of programs
// that do not run are removed.
func loseNamespace(ctx context.Context, garden client.Object) {
	GinkgoHelper()
	Expect(removeWebhooks(ctx)).To(Succeed())
	withoutFinalizers := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	lost := &operatorv1alpha1.Garden{ObjectMeta: metav1.ObjectMeta{Name: garden.GetName()}}
	Expect(c.Client.Patch(ctx, lost, withoutFinalizers)).To(Succeed())
	Expect(client.IgnoreNotFound(c.Client.Delete(ctx, lost))).To(Succeed())
	Expect(c.Client.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})).To(Succeed())
	Eventually(ctx, func(ctx context.Context) (bool, error) {
		return freed(ctx, withoutFinalizers)
	}).WithTimeout(patience).WithPolling(2 * time.Second).Should(BeTrue())
}

// removeWebhooks removes the configurations of the operator and of the resource manager. A process that still runs makes them again.
func removeWebhooks(ctx context.Context) error {
	var failed error
	for _, name := range []string{"gardener-operator", "gardener-resource-manager"} {
		meta := metav1.ObjectMeta{Name: name}
		for _, each := range []client.Object{
			&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: meta},
			&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: meta},
		} {
			failed = errors.Join(failed, client.IgnoreNotFound(c.Client.Delete(ctx, each)))
		}
	}
	return failed
}

// freed removes webhooks, and the finalizers of the objects in namespace garden. It reports whether the namespace is gone.
func freed(ctx context.Context, withoutFinalizers client.Patch) (bool, error) {
	if err := removeWebhooks(ctx); err != nil {
		return false, err
	}
	gone, err := isGone(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	if err != nil || gone {
		return gone, err
	}
	out, err := allInNamespace(ctx, "json")
	if err != nil {
		return false, err
	}
	all := &unstructured.UnstructuredList{}
	if err := json.Unmarshal([]byte(out), all); err != nil {
		return false, err
	}
	for i := range all.Items {
		if each := &all.Items[i]; len(each.GetFinalizers()) > 0 {
			if err := c.Client.Patch(ctx, each, withoutFinalizers); client.IgnoreNotFound(err) != nil {
				return false, err
			}
		}
	}
	return false, nil
}
