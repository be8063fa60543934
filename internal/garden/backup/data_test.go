package backup

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/espalier-dev/espalier/internal/garden/backup/throwaway"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// restorer counts restorations, and returns the same result for each.
type restorer struct {
	clock      *clocktesting.FakeClock
	began      int
	encryption []byte
	err        error
}

func (r *restorer) Restore(_ context.Context, encryption []byte) (throwaway.Contents, error) {
	r.began++
	r.encryption = encryption
	r.clock.Step(2 * time.Minute)
	return throwaway.Contents{"Secret": 7, "Namespace": 4, "Lease.coordination.k8s.io": 1}, r.err
}

func (r *restorer) Clean(context.Context) error { return nil }

// keyObject returns the Secret with an encryption key, of a rotation that began at a time.
func keyObject(name, rotated string) *unstructured.Unstructured {
	o := secretObject("kube-apiserver-etcd-encryption-key-"+name, "", managed("kube-apiserver-etcd-encryption-key", rotated))
	encode := func(text string) any { return base64.StdEncoding.EncodeToString([]byte(text)) }
	o.Object["data"] = map[string]any{"key": encode(name), "secret": encode("0123456789abcdef0123456789abcdef"), "encoding": encode("none")}
	return o
}

func backupWithKeys(taken time.Time, keys ...*unstructured.Unstructured) *Backup {
	b := example()
	b.Manifest.Taken = metav1.NewTime(taken)
	garden := b.Objects[len(b.Objects)-1]
	garden.Object["status"] = map[string]any{"credentials": map[string]any{"encryptionAtRest": map[string]any{
		"resources": []any{"configmaps", "shootstates.core.gardener.cloud"},
	}}}
	b.Objects = append(slices.Clone(keys), garden)
	return b
}

func TestDataIsRestoredOncePerFileAndInterval(t *testing.T) {
	g := NewWithT(t)
	clock := clocktesting.NewFakeClock(time.Date(2026, time.February, 28, 12, 0, 0, 0, time.UTC))
	b := backupWithKeys(clock.Now(), keyObject("old", ""), keyObject("new", "1772280000"))
	data := &restorer{clock: clock}
	s := &Schedule{
		Client: fake.NewClientBuilder().WithObjects(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: identityName},
		}).Build(),
		Clock: clock, Namespace: "garden", Interval: 3 * time.Hour, Data: data, Log: logr.Discard(),
	}
	run := func(file string) drilled {
		t.Helper()
		last, err := s.restoreData(t.Context(), b, file)
		g.Expect(err).NotTo(HaveOccurred())
		return s.judge(b, file, attempt{}, last)
	}
	found := run("one.age")
	g.Expect(found.reason).To(Equal("DrillSucceeded"))
	g.Expect(found.message).To(Equal("File one.age can be restored: it has 3 objects. At 2026-02-28T12:00:00Z, the last snapshot of etcd " +
		"virtual-garden-etcd-main was restored with the keys in file one.age: all of its 12 objects of 3 kinds can be read, " +
		"among them 7 Secrets."))
	g.Expect(found.data.Took.Duration).To(Equal(2 * time.Minute))
	keys, err := secretconfig.ParseEncryptionKeys(data.encryption)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect([]string{keys[0].Name, keys[1].Name}).To(Equal([]string{"new", "old"}))
	encrypted, plain, err := secretconfig.ParseEncryptedResources(data.encryption)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(encrypted).To(Equal([]string{"secrets"}))
	g.Expect(plain).To(Equal([]string{"configmaps"}), "it may still be encrypted; gardener-apiserver has the other one")

	g.Expect(run("one.age").message).To(Equal(found.message))
	g.Expect(data.began).To(Equal(1))
	run("two.age")
	g.Expect(data.began).To(Equal(2), "another file may have other keys")
	clock.Step(3 * time.Hour)
	run("two.age")
	g.Expect(data.began).To(Equal(3), "a snapshot may have been damaged since")

	data.err = errors.New("objects cannot be read: Secret: no matching key")
	found = run("three.age")
	g.Expect(found.reason).To(Equal("DrillFailed"))
	g.Expect(found.message).To(HaveSuffix(
		"could not be restored with the keys in file three.age: objects cannot be read: Secret: no matching key."))
	run("three.age")
	g.Expect(data.began).To(Equal(4))
	data.err = nil
	clock.Step(time.Hour)
	g.Expect(run("three.age").reason).To(Equal("DrillSucceeded"))
	g.Expect(data.began).To(Equal(5), "a failure is repeated after an hour")

	s.SkipData = true
	clock.Step(time.Hour)
	g.Expect(run("four.age").message).To(Equal("File four.age can be restored: it has 3 objects."))
	s.SkipData, b.Manifest.Etcds = false, nil
	g.Expect(run("four.age").message).To(HaveSuffix(" Etcd virtual-garden-etcd-main has no backups."))
	g.Expect(data.began).To(Equal(5))
}

func TestFileWithoutEncryptionKeyIsNamed(t *testing.T) {
	_, err := encryptionOf(backupWithKeys(time.Time{}))
	NewWithT(t).Expect(err).To(MatchError("the file has no encryption key of kube-apiserver"))
}
