package faults_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/observe"
	"github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
	"github.com/espalier-dev/espalier/test/local"
)

// backupPatience is how long a test waits after a restore: watches are resumed with a back-off of up to 30 seconds.
const backupPatience = 2 * time.Minute

// TestCrashRestoreFromABackup restores a snapshot of etcd under a running controller.
func TestCrashRestoreFromABackup(t *testing.T) {
	g := NewWithT(t)
	_, err := local.ForTests()
	g.Expect(err).NotTo(HaveOccurred())
	dir := t.TempDir()
	planes, err := local.StartTestServers(t.Context(), dir, os.Getenv(local.AssetsVariable))
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(local.StopAll(planes)).To(Succeed()) })
	t.Setenv(local.TestServersVariable, dir)

	// The contents of the set at the time of the backup, and later.
	earlier := map[string]string{"one": "1", "same": "1", "dropped": "1"}
	later := map[string]string{"one": "2", "same": "1", "new": "2"}
	for name, tc := range map[string]struct {
		plane int
		// written is true if the test writes the set in the restored cluster, so that its resourceVersion is later than the last write of the
		// controller.
		written bool
		want    map[string]string
		// stays are the objects that remain after the deletion of the set.
		stays map[string]string
	}{
		"the source: the set is earlier than its objects": {
			plane: 0,
			// The restored set does not list "new", so the controller must not delete it.
			want: map[string]string{"one": "1", "same": "1", "dropped": "1", "new": "2"}, stays: map[string]string{"new": "2"},
		},
		"the source, and the set, whose references are the same, is written after the restore": {
			plane: 0, written: true,
			want: earlier,
		},
		"the target: the objects are earlier than the set": {
			plane: 1,
			// No status lists "dropped" any more, so the controller does not know that it must delete the object.
			want: map[string]string{"one": "2", "same": "1", "new": "2", "dropped": "1"}, stays: map[string]string{"dropped": "1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := managedresourcetest.New(t, managedresourcetest.Options{TwoClusters: true})
			secret(e, earlier)
			g := NewWithT(t)
			g.Expect(e.Source.Create(e.Ctx, e.ManagedResource("mr", "mr"))).To(Succeed())
			e.AwaitApplied("mr", "True/ApplySucceeded")
			await(e, earlier)
			backup := filepath.Join(t.TempDir(), "backup")
			g.Expect(planes[tc.plane].Backup(e.Ctx, backup)).To(Succeed())

			later := later
			if tc.written {
				later = map[string]string{"one": "2", "same": "1", "dropped": "1"}
			}
			secret(e, later)
			await(e, later)
			e.AwaitApplied("mr", "True/ApplySucceeded")
			e.AwaitRest() // the controller has received the events of its own writes
			last := e.Get("mr").ResourceVersion
			age(e, []client.Client{e.Source, e.Target}[tc.plane])

			g.Expect(planes[tc.plane].Restore(e.Ctx, backup)).To(Succeed())
			if tc.written {
				pass(e, last)
				e.Change("mr", func(mr *resourcesv1alpha1.ManagedResource) { mr.Annotations = map[string]string{"restored": "true"} })
			}
			await(e, tc.want)
			e.AwaitApplied("mr", "True/ApplySucceeded")
			e.Edit("one", `{"data":{"key":"x","more":"x"}}`)
			await(e, tc.want)
			g.Expect(e.Source.Delete(e.Ctx, e.ManagedResource("mr"))).To(Succeed())
			await(e, tc.stays)
		})
	}
}

// pass writes to the source until its resourceVersions are later than the given one.
func pass(e *managedresourcetest.Env, version string) {
	e.T.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "pass"}}
	e.Expect(e.Source.Create(e.Ctx, object)).To(Succeed())
	for i := 0; observe.Older(object.ResourceVersion, version); i++ {
		object.Data = map[string]string{"writes": strconv.Itoa(i)}
		e.Expect(e.Source.Update(e.Ctx, object)).To(Succeed())
	}
}

// age increases the resourceVersion of a cluster by more than the writes at the start of an API server do.
func age(e *managedresourcetest.Env, c client.Client) {
	e.T.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "age"}}
	e.Expect(c.Create(e.Ctx, object)).To(Succeed())
	for i := range 1000 {
		object.Data = map[string]string{"writes": strconv.Itoa(i)}
		e.Expect(c.Update(e.Ctx, object)).To(Succeed())
	}
	// Events of these objects bring the new resourceVersion to the watches of the controller.
	e.Edit("one", `{"data":{"more":"x"}}`)
	e.Eventually(func() map[string]string { return e.LiveConfigMap("one").Data }).WithTimeout(backupPatience).ShouldNot(HaveKey("more"))
	e.Change("mr", func(mr *resourcesv1alpha1.ManagedResource) { mr.Annotations = map[string]string{"aged": "true"} })
	e.SecretData("age", nil)
	e.AwaitRest()
}

// secret writes the Secret of the set, with ConfigMaps with the given values.
func secret(e *managedresourcetest.Env, values map[string]string) {
	e.T.Helper()
	var documents []string
	for name, value := range values {
		documents = append(documents, e.ConfigMap(name, value))
	}
	e.Secret("mr", documents...)
}

// await waits until the target has exactly the given ConfigMaps.
func await(e *managedresourcetest.Env, values map[string]string) {
	e.T.Helper()
	want := map[string]map[string]string{}
	for name, value := range values {
		want[name] = map[string]string{"key": value}
	}
	e.Eventually(func(g Gomega) {
		list := &corev1.ConfigMapList{}
		g.Expect(e.Target.List(e.Ctx, list, client.InNamespace(e.Namespace), client.HasLabels{"resources.gardener.cloud/managed-by"})).
			To(Succeed())
		found := map[string]map[string]string{}
		for _, each := range list.Items {
			found[each.Name] = each.Data
		}
		g.Expect(found).To(Equal(want))
	}).WithTimeout(backupPatience).WithPolling(100 * time.Millisecond).Should(Succeed())
}
