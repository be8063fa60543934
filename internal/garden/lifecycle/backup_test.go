package lifecycle_test

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/backup"
	"github.com/espalier-dev/espalier/internal/garden/components"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

// user returns a client with exactly the rights of the roles for a subcommand.
func (s *scene) user(command string) client.Client {
	s.t.Helper()
	role, namespace, admin := "espalier-garden-operator-"+command, command+"-user", binary.Servers(s.t).Target.Config
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "garden-operator"}}
	for _, each := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "garden-operator"}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: namespace}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace(), Name: namespace}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
		},
	} {
		s.Expect(s.admin.Create(s.t.Context(), each)).To(Succeed())
	}
	kubeconfig, err := local.ServiceAccountKubeconfig(s.t.Context(), admin, namespace, "garden-operator", time.Hour)
	s.Expect(err).NotTo(HaveOccurred())
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	s.Expect(err).NotTo(HaveOccurred())
	config.QPS = -1
	c := s.connect(config, nil)
	// API servers learn of roles by watches.
	s.Eventually(func() error { return c.List(s.t.Context(), &corev1.SecretList{}, client.InNamespace(s.namespace())) }, binary.Patience).
		Should(Succeed())
	s.Eventually(func() error { return c.List(s.t.Context(), &operatorv1alpha1.GardenList{}) }, binary.Patience).Should(Succeed())
	return c
}

// take returns a backup after its way through an encrypted file.
func (s *scene) take(c client.Reader) *backup.Backup {
	s.t.Helper()
	taken, err := backup.Take(s.t.Context(), c, s.namespace(), s.clock.Now())
	s.Expect(err).NotTo(HaveOccurred())
	identity, err := age.GenerateX25519Identity()
	s.Expect(err).NotTo(HaveOccurred())
	var file bytes.Buffer
	s.Expect(taken.Write(&file, []age.Recipient{identity.Recipient()})).To(Succeed())
	read, err := backup.Read(&file, []age.Identity{identity})
	s.Expect(err).NotTo(HaveOccurred())
	return read
}

// restore restores a backup, and returns the sentences for the user.
func (s *scene) restore(c client.Client, b *backup.Backup) (said []string) {
	s.t.Helper()
	r := backup.Restorer{Client: c, Say: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }}
	s.Expect(r.Restore(s.t.Context(), b)).To(Succeed())
	return said
}

// irreplaceableKeys returns the data of all keys and certificate authorities that only a rotation replaces, by the names of their Secrets.
func (s *scene) irreplaceableKeys() map[string]map[string][]byte {
	s.t.Helper()
	keys := map[string]map[string][]byte{}
	for _, name := range components.RotatedSecrets().Kept() {
		found := s.secrets(name)
		s.Expect(found).NotTo(BeEmpty(), name)
		for i := range found {
			keys[found[i].Name] = found[i].Data
		}
	}
	return keys
}

const (
	startAll = "rotate-ca-start;rotate-serviceaccount-key-start;rotate-etcd-encryption-key-start;rotate-workload-identity-key-start;" +
		"rotate-observability-credentials"
	completeAll = "rotate-ca-complete;rotate-serviceaccount-key-complete;rotate-etcd-encryption-key-complete;" +
		"rotate-workload-identity-key-complete"
)

// saved is a backup with the keys that the Garden had.
type saved struct {
	*backup.Backup
	keys map[string]map[string][]byte
}

// saveEachPhase rotates all credentials of a Garden, and returns a backup of each phase. In phases Preparing and Completing, a Pod keeps
// the former credentials, so that all other tasks have succeeded.
func saveEachPhase(t *testing.T) map[operatorv1alpha1.RotationPhase]saved {
	t.Helper()
	s := newInstalledScene(t)
	s.serve(s.connect(s.virtual, nil), alwaysEncrypted())
	c, all := s.user("backup"), map[operatorv1alpha1.RotationPhase]saved{}
	save := func(phase operatorv1alpha1.RotationPhase) {
		t.Helper()
		s.Expect(rotation.PhasesOf(s.get())).To(Or(BeEmpty(), HaveKeyWithValue(rotation.ETCDEncryptionKey, phase)))
		all[phase] = saved{s.take(c), s.irreplaceableKeys()}
	}
	save("")
	for _, step := range []struct {
		operations  string
		going, done operatorv1alpha1.RotationPhase
	}{{startAll, "Preparing", "Prepared"}, {completeAll, "Completing", "Completed"}} {
		_, catchUp := s.leaveBehind()
		s.clock.SetTime(s.clock.Now().Add(time.Hour))
		s.edit(annotated("gardener.cloud/operation", step.operations))
		s.stuck(HavePrefix("Pod "))
		save(step.going)
		catchUp()
		s.mustReconcile()
		save(step.done)
	}
	s.leave()
	return all
}

// Everything in the runtime cluster is lost. The virtual cluster stands for data of etcds that were restored.
func TestAGardenComesBackInEachPhaseOfItsRotations(t *testing.T) {
	backups := saveEachPhase(t)
	for phase, next := range map[operatorv1alpha1.RotationPhase]operatorv1alpha1.RotationPhase{
		"": "", "Preparing": "Prepared", "Prepared": "Prepared", "Completing": "Completed", "Completed": "Completed",
	} {
		t.Run("phase "+string(phase), func(t *testing.T) {
			prepare(t)
			s := newSceneIn(t, prepared.empty)
			s.clock.SetTime(start.Add(3 * time.Hour))
			b := backups[phase]
			s.restore(s.user("restore"), b.Backup)
			s.Expect(s.irreplaceableKeys()).To(BeComparableTo(b.keys))
			before := s.get().Status.Credentials
			s.Expect(before).NotTo(BeNil())

			for again := true; again; { // a rotation of the encryption key may complete by itself
				again = s.mustReconcile().RequeueAfter == time.Millisecond
			}
			made := maps.Clone(s.irreplaceableKeys())
			maps.DeleteFunc(made, func(name string, _ map[string][]byte) bool { return b.keys[name] != nil })
			s.Expect(made).To(BeEmpty(), "no key is made anew")
			for name, data := range s.irreplaceableKeys() {
				s.Expect(data).To(Equal(b.keys[name]), name)
			}
			for _, each := range []rotation.Credential{
				rotation.CertificateAuthorities, rotation.ServiceAccountKey, rotation.ETCDEncryptionKey, rotation.WorkloadIdentityKey,
			} {
				s.Expect(rotation.PhasesOf(s.get())[each]).To(Equal(next), string(each))
			}
			s.Expect(s.get().Status.Credentials.EncryptionAtRest).To(BeComparableTo(before.EncryptionAtRest))
			s.Expect(s.secrets("global-observability-ingress")).To(HaveLen(1))
		})
	}
}

// without returns a state without a namespace and the objects in it.
func without(state local.Stored, namespace string) local.Stored {
	left := maps.Clone(state)
	maps.DeleteFunc(left, func(key string, _ []byte) bool {
		return key == "/registry/namespaces/"+namespace || strings.Contains(key, "/"+namespace+"/")
	})
	return left
}

func TestARestorationContinuesWhereItEnded(t *testing.T) {
	s := newInstalledScene(t)
	// Objects that users create, and a Garden that its user has paused.
	for _, each := range []client.Object{
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: "garden", Name: "wildcard", Labels: map[string]string{"gardener.cloud/role": "garden-cert"},
		}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: "garden", Name: "values", Labels: map[string]string{"gardener.cloud/role": "resource-reference"},
		}},
		&operatorv1alpha1.Extension{ObjectMeta: metav1.ObjectMeta{Name: "local"}},
	} {
		s.Expect(s.admin.Create(t.Context(), each)).To(Succeed())
	}
	s.edit(annotated("espalier.dev/paused-until", "2099-01-01T00:00:00Z"))
	b := s.take(s.admin)
	s.leave()
	gone := without(prepared.empty, s.namespace())
	requests := &binary.Requests{}
	c := s.connect(binary.Servers(t).Target.Config, requests.Wrap)
	silent := backup.Restorer{Client: c, Say: func(string, ...any) {}}
	tried := binary.EveryCut(t, 12, func(t *testing.T, at binary.Cut) bool {
		t.Helper()
		s.WithT, s.t = NewWithT(t), t
		s.Expect(prepared.storage.Restore(t.Context(), gone)).To(Succeed())
		requests.CutOff(at)
		err := silent.Restore(t.Context(), b)
		happened := requests.Connect()
		s.Expect(err != nil).To(Equal(happened))
		if happened && !s.isGone() && s.get().Annotations["espalier.dev/restoring"] != "" {
			s.Expect(s.get().Annotations).To(HaveKeyWithValue("espalier.dev/paused-until", "true"), "no operator makes new keys meanwhile")
		}
		s.restore(c, b)

		again := s.take(s.admin)
		s.Expect(again.Objects[:len(again.Objects)-1]).To(BeComparableTo(b.Objects[:len(b.Objects)-1]))
		was, err := b.Garden()
		s.Expect(err).NotTo(HaveOccurred())
		is := s.get()
		s.Expect(is.Annotations).To(Equal(was.Annotations))
		s.Expect(is.Spec).To(BeComparableTo(was.Spec))
		was.Status.Conditions = nil
		s.Expect(is.Status).To(BeComparableTo(was.Status))
		requests.Reset()
		s.Expect(s.restore(c, b)).To(Equal([]string{"Everything in the file exists already. Nothing was written."}))
		s.Expect(requests.Writes()).To(BeEmpty())
		return happened
	})
	NewWithT(t).Expect(tried).To(BeNumerically(">=", 4))
}

// The Garden is not in the namespace, so it survives the deletion of the namespace.
func TestSecretsOfAGardenThatStillExistsComeBack(t *testing.T) {
	s := newInstalledScene(t)
	s.Expect(s.admin.Create(t.Context(), &operatorv1alpha1.Extension{ObjectMeta: metav1.ObjectMeta{Name: "local"}})).To(Succeed())
	b, keys := s.take(s.admin), s.irreplaceableKeys()
	lost := s.secrets("ca")[0]
	s.Expect(s.admin.Delete(t.Context(), &lost)).To(Succeed())
	s.Expect(s.admin.Delete(t.Context(), &operatorv1alpha1.Extension{ObjectMeta: metav1.ObjectMeta{Name: "local"}})).To(Succeed())
	s.Expect(s.restore(s.user("restore"), b)).To(Equal([]string{
		"Paused Garden garden.", "Created Secret garden/" + lost.Name + ".", "Created Extension local.",
		"Garden garden is complete. The operator reconciles it.",
	}))
	s.Expect(s.irreplaceableKeys()).To(BeComparableTo(keys))
	s.mustReconcile()
	s.Expect(s.irreplaceableKeys()).To(BeComparableTo(keys))

	// Another key took its place meanwhile, and another Secret is missing: nothing is written.
	other := s.secrets("ca-client")[0]
	s.Expect(s.admin.Delete(t.Context(), &other)).To(Succeed())
	live := s.secrets("ca")[0]
	s.Expect(s.admin.Delete(t.Context(), &live)).To(Succeed())
	live.ResourceVersion, live.UID, live.Data = "", types.UID(""), map[string][]byte{"ca.crt": []byte("TopSecretMarker")}
	s.Expect(s.admin.Create(t.Context(), &live)).To(Succeed())
	r := &backup.Restorer{Client: s.admin, Say: func(string, ...any) { t.Error("it says that something was written") }}
	err := r.Restore(t.Context(), b)
	s.Expect(err).To(MatchError(And(
		HavePrefix("nothing was written, because the cluster does not fit the file:\n- Secret garden/"+live.Name+
			" exists with other content (data): "),
		Not(ContainSubstring("TopSecretMarker")),
	)))
	s.Expect(s.secrets("ca-client")).To(BeEmpty())
	_, err = backup.Take(t.Context(), s.admin, s.namespace(), s.clock.Now())
	s.Expect(err).To(MatchError("a Garden cannot be restored without keys and authorities that namespace garden does not have: ca-client; " +
		"wait until a reconciliation of the Garden has succeeded, or restore their Secrets"))
}

// scheduled returns a schedule of backups that a user can decrypt with the identity.
func (s *scene) scheduled(user *age.X25519Identity) (schedule *backup.Schedule, passes func(time.Duration)) {
	s.t.Helper()
	clock := clocktesting.NewFakeClock(start)
	return &backup.Schedule{
		Client: s.reconciler.Client, Clock: clock, Namespace: s.namespace(), Folder: s.t.TempDir(), Interval: 3 * time.Hour, Keep: 3,
		Recipients: []age.Recipient{user.Recipient()}, Metrics: backup.NewMetrics(prometheus.NewRegistry()),
	}, clock.Step
}

// restorable returns status, reason and message of the condition BackupRestorable; empty if there is none.
func (s *scene) restorable() string {
	s.t.Helper()
	for _, each := range s.get().Status.Conditions {
		if each.Type == "BackupRestorable" {
			return fmt.Sprintf("%s/%s: %s", each.Status, each.Reason, each.Message)
		}
	}
	return ""
}

// The operator writes the files with its own rights.
func TestScheduledBackupsAreWrittenAndTested(t *testing.T) {
	s := newInstalledScene(t)
	user, err := age.GenerateX25519Identity()
	s.Expect(err).NotTo(HaveOccurred())
	schedule, passes := s.scheduled(user)
	files := func() (names []string) {
		t.Helper()
		entries, err := os.ReadDir(schedule.Folder)
		s.Expect(err).NotTo(HaveOccurred())
		for _, each := range entries {
			names = append(names, each.Name())
		}
		return names
	}
	const first, second = "garden-garden-20260228T120000Z.age", "garden-garden-20260228T150000Z.age"
	s.requests.SetHook(func(request *http.Request) error { // others change the Garden during a drill
		if request.Method == http.MethodPost {
			s.edit(annotated("example.com/changed", "true"))
		}
		return nil
	})
	s.Expect(schedule.Run(t.Context())).To(Equal(time.Hour), "the next drill")
	s.Expect(s.get().Annotations).To(HaveKey("example.com/changed"))
	s.requests.SetHook(nil)
	s.Expect(files()).To(Equal([]string{first}))
	s.Expect(s.restorable()).To(MatchRegexp("^True/DrillSucceeded: File " + first + " can be restored: it has [0-9]+ objects.$"))
	passes(150 * time.Minute)
	sent := s.requests.Record()
	s.Expect(schedule.Run(t.Context())).To(Equal(30*time.Minute), "the next backup")
	s.Expect(sent.InOrder("POST", "PUT", "PATCH", "DELETE")).To(BeEmpty())
	passes(30 * time.Minute)
	schedule.Run(t.Context())
	s.Expect(files()).To(Equal([]string{first, second}))

	// A rotation makes another backup due at once, and the oldest file is deleted when there are more than Keep.
	for _, operation := range []string{"rotate-serviceaccount-key-start", "rotate-serviceaccount-key-complete"} {
		passes(time.Minute)
		s.edit(annotated("gardener.cloud/operation", operation))
		s.mustReconcile()
		schedule.Run(t.Context())
	}
	const last = "garden-garden-20260228T150200Z.age"
	s.Expect(files()).To(Equal([]string{second, "garden-garden-20260228T150100Z.age", last}))
	s.Expect(s.restorable()).To(HavePrefix("True/DrillSucceeded: File " + last))

	s.restoresScheduled(filepath.Join(schedule.Folder, last), user)
	s.findsDamage(schedule, passes, filepath.Join(schedule.Folder, last))
	schedule.Folder = filepath.Join(schedule.Folder, "none")
	s.Expect(schedule.Run(t.Context())).To(Equal(10 * time.Minute))
	s.Expect(s.restorable()).To(HavePrefix("False/BackupFailed: read the folder of espalier.garden.backup.folder: "))
	schedule.Folder = ""
	s.Expect(schedule.Run(t.Context())).To(BeZero(), "no backups are configured any more")
	s.Expect(s.restorable()).To(BeEmpty())
}

// restoresScheduled restores a file without the Secret of the operator, and requires that its keys are back.
func (s *scene) restoresScheduled(name string, user age.Identity) {
	s.t.Helper()
	file, err := os.Open(name)
	s.Expect(err).NotTo(HaveOccurred())
	defer func() { s.Expect(file.Close()).To(Succeed()) }()
	b, err := backup.Read(file, []age.Identity{user})
	s.Expect(err).NotTo(HaveOccurred())
	for _, each := range b.Objects {
		s.Expect(each.GetName()).NotTo(Equal("garden-backup-identity"), "the file has no key to itself")
	}
	keys := s.irreplaceableKeys()
	before, err := prepared.storage.Copy(s.t.Context())
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(prepared.storage.Restore(s.t.Context(), prepared.empty)).To(Succeed())
	s.Eventually(s.isGone, binary.Patience).Should(BeTrue())
	s.restore(s.admin, b)
	s.Expect(s.irreplaceableKeys()).To(BeComparableTo(keys))
	s.Expect(prepared.storage.Restore(s.t.Context(), before)).To(Succeed())
	s.Eventually(s.restorable, binary.Patience).ShouldNot(BeEmpty())
}

// findsDamage damages files and keys, and requires that the drill finds it.
func (s *scene) findsDamage(schedule *backup.Schedule, passes func(time.Duration), last string) {
	s.t.Helper()
	s.Expect(os.Truncate(last, 5000)).To(Succeed())
	passes(time.Minute)
	s.Expect(schedule.Run(s.t.Context())).To(Equal(10 * time.Minute))
	const next = "garden-garden-20260228T150300Z.age"
	s.Expect(s.restorable()).To(HavePrefix("False/DrillFailed: File " + next + " can be restored, and was written because another one is " +
		"damaged: file " + filepath.Base(last) + " cannot be restored: it is truncated or damaged: "))
	schedule.Run(s.t.Context())
	s.Expect(s.restorable()).To(HavePrefix("True/DrillSucceeded: File " + next))

	authority := s.secrets("ca")[0] // another key in the place of a key
	s.Expect(s.admin.Delete(s.t.Context(), &authority)).To(Succeed())
	other := authority.DeepCopy()
	other.ResourceVersion, other.UID, other.Data = "", "", map[string][]byte{"ca.crt": []byte("TopSecretMarker")}
	s.Expect(s.admin.Create(s.t.Context(), other)).To(Succeed())
	schedule.Run(s.t.Context())
	s.Expect(s.restorable()).To(Equal("False/DrillFailed: File " + next + " cannot be restored: its keys are not those of the Garden: " +
		"Secret " + authority.Name + " has other content in the cluster (data)."))
	s.Expect(s.admin.Delete(s.t.Context(), other)).To(Succeed())
	passes(4 * time.Hour)
	schedule.Run(s.t.Context())
	s.Expect(s.restorable()).To(And(
		HavePrefix("False/BackupFailed: File "+next+" can be restored, but the schedule fails: read the Garden: "),
		HaveSuffix("does not have: ca; wait until a reconciliation of the Garden has succeeded, or restore their Secrets."),
	))
	passes(4 * time.Hour)
	schedule.Run(s.t.Context())
	s.Expect(s.restorable()).To(HavePrefix("False/BackupTooOld: The last backup is file " + next + ". The next one fails: "))
	authority.ResourceVersion, authority.UID = "", ""
	s.Expect(s.admin.Create(s.t.Context(), &authority)).To(Succeed())

	identity := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace(), Name: "garden-backup-identity"}}
	s.Expect(s.admin.Delete(s.t.Context(), identity)).To(Succeed())
	passes(time.Minute)
	schedule.Run(s.t.Context())
	s.Expect(s.restorable()).To(HaveSuffix("is encrypted to other recipients: none of the identities can decrypt it."))
	schedule.Run(s.t.Context())
	s.Expect(s.restorable()).To(HavePrefix("True/DrillSucceeded: "))
}
