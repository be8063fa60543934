package lifecycle_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	"github.com/espalier-dev/espalier/internal/garden/components"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/generate"
)

// ORDERS is how many random orders run; `make orders` sets it.
func orders(g Gomega) int {
	text := os.Getenv("ORDERS")
	if text == "" {
		return 1
	}
	number, err := strconv.Atoi(text)
	g.Expect(err).NotTo(HaveOccurred(), "ORDERS")
	return number
}

// rotatedKeys are the keys and authorities of the test by their logical names, with their rotations.
var rotatedKeys = map[string]rotation.Credential{
	kubeapiserver.EncryptionKeyName: rotation.ETCDEncryptionKey, kubeapiserver.ServiceAccountKeyName: rotation.ServiceAccountKey,
	kubeapiserver.ClientAuthority: rotation.CertificateAuthorities,
}

// Users start, complete and abort rotations, lose and restore Secrets, and restore an older status, while the operator dies at any request,
// or is paused and wakes up later. API servers always know the keys that data, tokens and certificates need, and never a key that was
// rotated away. TestGeneratedInterleavingsOfRotationsAndLosses does that for many more orders, without API servers.
func TestGeneratedOrdersOfRotationsAndLosses(t *testing.T) {
	generate.Cases(t, orders(NewWithT(t)), func(t *testing.T, random *rand.Rand) {
		t.Helper()
		o := newOrder(t, random)
		defer func() {
			if t.Failed() {
				t.Log(strings.Join(o.history, "\n"))
			}
		}()
		for range 12 {
			o.step()
			o.check()
		}
		o.end()
	})
}

// order is a random order of events.
type order struct {
	*scene
	random  *rand.Rand
	history []string
	virtual client.Client
	// written is an encrypted object, and data the key with which it was written.
	written *corev1.Secret
	data    string
	// used are the contents of the keys that were current after the last success, by logical names.
	used map[string]string
	// seen are the latest rotations to which contents of Secrets belong, by logical name and content, and gone are the contents that were
	// rotated away.
	seen map[string]map[string]string
	gone map[string]bool
	// statuses are the credentials in the status after each success.
	statuses []*operatorv1alpha1.Credentials
}

func newOrder(t *testing.T, random *rand.Rand) *order {
	t.Helper()
	s := newInstalledScene(t)
	s.reconciler.Recorder = &events.FakeRecorder{} // it keeps no Events
	o := &order{scene: s, random: random, virtual: s.connect(s.virtual, nil), gone: map[string]bool{}}
	s.serve(o.virtual, alwaysEncrypted())
	o.written = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "encrypted-"}}
	s.Expect(o.virtual.Create(t.Context(), o.written)).To(Succeed())
	t.Cleanup(func() { s.Expect(o.virtual.Delete(context.WithoutCancel(t.Context()), o.written)).To(Succeed()) })
	o.succeeded()
	o.data = o.configured()[0]
	return o
}

func (o *order) note(format string, args ...any) {
	o.history = append(o.history, fmt.Sprintf(format, args...))
}

func (o *order) step() {
	o.clock.SetTime(o.clock.Now().Add(time.Duration(1+o.random.IntN(100)) * time.Second))
	switch choice := o.random.IntN(100); {
	case choice < 45:
		o.wish()
		o.mustSucceed()
	case choice < 65:
		o.wish()
		at := binary.Cut{Request: 1 + o.random.IntN(300), After: o.random.IntN(2) == 0}
		o.note("die at %s: %t", at, o.die(at))
	case choice < 75:
		o.loseAndRestore()
	case choice < 82:
		o.restoreOlderStatus()
	case choice < 90:
		o.pauseAndWake()
	default:
		o.work()
	}
}

// wish requests operations or aborts.
func (o *order) wish() {
	operations := []string{
		"rotate-etcd-encryption-key-start", "rotate-etcd-encryption-key-complete", "rotate-etcd-encryption-key",
		"rotate-serviceaccount-key-start", "rotate-serviceaccount-key-complete", "rotate-ca-start", "rotate-ca-complete",
		"rotate-ca-start;rotate-serviceaccount-key-start;rotate-etcd-encryption-key-start",
		"rotate-ca-complete;rotate-serviceaccount-key-complete;rotate-etcd-encryption-key-complete",
	}
	aborts := []string{"encryption-key", "service-account-key", "certificate-authorities", strings.Join(rotation.AbortNames(), ",")}
	key, value := "gardener.cloud/operation", operations[o.random.IntN(len(operations))]
	if o.random.IntN(4) == 0 {
		key, value = "espalier.dev/abort-rotation", aborts[o.random.IntN(len(aborts))]
	}
	o.note("%s=%s", key, value)
	o.edit(annotated(key, value))
}

func (o *order) mustSucceed() {
	o.t.Helper()
	_, err := o.reconcile()
	o.note("reconcile: %v", err)
	o.Expect(err).NotTo(HaveOccurred())
	o.succeeded()
}

// succeeded notes the state after a success.
func (o *order) succeeded() {
	o.t.Helper()
	status := o.get().Status.Credentials
	o.statuses = append(o.statuses, status)
	o.used = map[string]string{}
	phases := rotation.PhasesOf(o.get())
	o.note("phases %v", phases)
	o.observe()
	var times map[string]time.Time
	if status != nil {
		times = components.RotatedSecrets().Times(status.Rotation)
	}
	for name, credential := range rotatedKeys {
		began := ""
		if at, rotated := times[name]; rotated {
			began = strconv.FormatInt(at.Unix(), 10)
		}
		current := corev1.Secret{}
		for _, each := range o.scene.secrets(name) {
			if rotationIn(&each) == began {
				current = each
			}
		}
		o.used[name] = contentOf(&current)
		for content, last := range o.seen[name] {
			if phases[credential] == operatorv1alpha1.RotationCompleted && last < began && content != o.used[name] {
				o.gone[content] = true
			}
		}
	}
}

// observe notes to which rotations contents belong.
func (o *order) observe() {
	o.t.Helper()
	if o.seen == nil {
		o.seen = map[string]map[string]string{}
	}
	for name := range rotatedKeys {
		if o.seen[name] == nil {
			o.seen[name] = map[string]string{}
		}
		for _, each := range o.scene.secrets(name) {
			o.seen[name][contentOf(&each)] = max(o.seen[name][contentOf(&each)], rotationIn(&each))
		}
	}
}

func rotationIn(secret *corev1.Secret) string { return secret.Labels["last-rotation-initiation-time"] }

// contentOf identifies the content of a Secret with a key or an authority.
func contentOf(secret *corev1.Secret) string {
	if key, err := secretconfig.ParseEncryptionKey(secret.Data); err == nil {
		return key.Name + key.Secret
	}
	return firstBlock(append(secret.Data["ca.crt"], secret.Data["id_rsa"]...))
}

func firstBlock(text []byte) string {
	block, _ := pem.Decode(text)
	if block == nil {
		return ""
	}
	return string(block.Bytes)
}

// configured returns the encryption keys of kube-apiserver, in their order.
func (o *order) configured() (keys []string) {
	o.t.Helper()
	configuration := &corev1.Secret{}
	o.Expect(o.exists(configuration, o.namespace(), o.mounted("etcd-encryption-secret"))).To(BeTrue())
	parsed, err := secretconfig.ParseEncryptionKeys(configuration.Data["encryption-configuration.yaml"])
	o.Expect(err).NotTo(HaveOccurred())
	for _, each := range parsed {
		keys = append(keys, each.Name+each.Secret)
	}
	return keys
}

// known returns the contents that kube-apiserver accepts, by logical names.
func (o *order) known() map[string][]string {
	o.t.Helper()
	all := map[string][]string{kubeapiserver.EncryptionKeyName: o.configured()}
	for name, file := range map[string][2]string{
		kubeapiserver.ServiceAccountKeyName: {"service-account-key-bundle", "bundle.key"},
		kubeapiserver.ClientAuthority:       {"ca-client", "bundle.crt"},
	} {
		bundle := &corev1.Secret{}
		o.Expect(o.exists(bundle, o.namespace(), o.mounted(file[0]))).To(BeTrue(), file[0])
		for block, rest := pem.Decode(bundle.Data[file[1]]); block != nil; block, rest = pem.Decode(rest) {
			all[name] = append(all[name], string(block.Bytes))
		}
	}
	return all
}

// check fails if kube-apiserver does not know a key that is needed, or knows one that was rotated away.
func (o *order) check() {
	o.t.Helper()
	o.observe()
	known := o.known()
	before := o.written.ResourceVersion
	o.Expect(o.virtual.Get(o.t.Context(), client.ObjectKeyFromObject(o.written), o.written)).To(Succeed())
	if o.written.ResourceVersion != before {
		o.data = known[kubeapiserver.EncryptionKeyName][0]
	}
	o.Expect(slices.Contains(known[kubeapiserver.EncryptionKeyName], o.data)).To(BeTrue(), "an object cannot be read")
	for name, content := range o.used {
		o.Expect(slices.Contains(known[name], content)).To(BeTrue(), "%s was used at the last success", name)
	}
	for name, contents := range known {
		o.Expect(slices.ContainsFunc(contents, func(each string) bool { return o.gone[each] })).To(BeFalse(), "%s was rotated away", name)
	}
}

// loseAndRestore deletes a Secret with a key, and restores it after a reconciliation, which may stop at the loss.
func (o *order) loseAndRestore() {
	o.t.Helper()
	names := slices.Sorted(maps.Keys(rotatedKeys))
	all := o.scene.secrets(names[o.random.IntN(len(names))])
	lost := all[o.random.IntN(len(all))]
	o.Expect(o.admin.Delete(o.t.Context(), &lost)).To(Succeed())
	if o.random.IntN(2) == 0 {
		o.wish()
	}
	_, err := o.reconcile()
	o.note("lose %s: %v", lost.Name, err)
	o.check()
	lost.ResourceVersion, lost.UID, lost.ManagedFields = "", "", nil
	if err != nil {
		o.Expect(client.IgnoreAlreadyExists(o.admin.Create(o.t.Context(), &lost))).To(Succeed())
	}
	o.mustSucceed()
}

// restoreOlderStatus restores the status as it was after an earlier success. If the next reconciliation finds that it does not fit, the
// present status comes back.
func (o *order) restoreOlderStatus() {
	o.t.Helper()
	number := o.random.IntN(len(o.statuses))
	present := o.get().Status.Credentials
	o.restoreStatus(o.statuses[number].DeepCopy())
	_, err := o.reconcile()
	o.note("restore status %d: %v", number, err)
	if err != nil {
		o.check()
		o.restoreStatus(present)
	} else { // which keys were rotated away since then is not known any more
		o.statuses, o.seen, o.gone = o.statuses[:number+1], nil, map[string]bool{}
	}
	o.mustSucceed()
}

// pauseAndWake pauses a process of the operator, lets another one reconcile, and wakes up the first one.
func (o *order) pauseAndWake() {
	o.t.Helper()
	o.wish()
	at, number := 1+o.random.Int64N(300), atomic.Int64{}
	former := o.pauseLeader(func(*http.Request) bool { return number.Add(1) == at })
	o.note("pause at request %d", at)
	if o.random.IntN(2) == 0 {
		o.wish()
	}
	_, err := o.reconcile()
	o.note("reconcile: %v", err)
	o.check()
	o.wake(former)
	o.mustSucceed()
}

// work is the work of a user of the virtual cluster.
func (o *order) work() {
	o.t.Helper()
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"stringData":{"a":"%d"}}`, o.random.Uint32()))
	o.Expect(o.virtual.Patch(o.t.Context(), o.written.DeepCopy(), patch)).To(Succeed())
	o.note("write an object")
}

// end completes all rotations, and then rotates everything once more: nothing of an earlier generation is left.
func (o *order) end() {
	o.t.Helper()
	for _, step := range []string{"complete", "start", "complete"} {
		o.clock.SetTime(o.clock.Now().Add(time.Hour))
		o.mustSucceed()
		value := strings.ReplaceAll("rotate-ca-X;rotate-serviceaccount-key-X;rotate-etcd-encryption-key-X", "X", step)
		o.note("%s", value)
		o.edit(annotated("gardener.cloud/operation", value))
		o.mustSucceed()
		o.check()
	}
	for name, contents := range o.known() {
		o.Expect(contents).To(HaveLen(1), name)
		o.Expect(o.scene.secrets(name)).To(HaveLen(1), name)
	}
}
