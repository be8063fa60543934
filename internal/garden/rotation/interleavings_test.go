package rotation_test

import (
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/apiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	"github.com/espalier-dev/espalier/internal/garden/components"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/secrets"
	"github.com/espalier-dev/espalier/internal/secrets/config"
	"github.com/espalier-dev/espalier/test/generate"
)

// Names of the keys of the model: one encrypts data in etcd, and one signs tokens.
const (
	encryptionKey = kubeapiserver.EncryptionKeyName
	signingKey    = kubeapiserver.ServiceAccountKeyName
)

// rotatedSecrets derives the rows of the components once: that costs more than a reconciliation of the model.
var rotatedSecrets = sync.OnceValue(components.RotatedSecrets)

// INTERLEAVINGS is how many interleavings run; `make rotations` sets it.
func interleavings(g Gomega) int {
	text := os.Getenv("INTERLEAVINGS")
	if text == "" {
		return 100
	}
	number, err := strconv.Atoi(text)
	g.Expect(err).NotTo(HaveOccurred(), "INTERLEAVINGS")
	return number
}

// Users start, complete and abort rotations, lose and restore Secrets, restore an older status, and confirm losses, while the operator dies
// at any write. No key that data or tokens need is lost, and none that was rotated away, or whose rotation was aborted, comes back.
func TestGeneratedInterleavingsOfRotationsAndLosses(t *testing.T) {
	generate.Cases(t, interleavings(NewWithT(t)), func(t *testing.T, random *mathrand.Rand) {
		t.Helper()
		l := newLandscape(t, random)
		defer func() {
			if t.Failed() {
				t.Log(l.history())
			}
		}()
		for range 60 {
			l.step()
		}
	})
}

// pod is an API server with the configuration of its start.
type pod struct {
	keys     []config.UsableEncryptionKey
	verifies []string
}

// object is an object in etcd, encrypted with a key unless that is empty. A token is signed by one.
type object struct{ key, label string }

type landscape struct {
	*WithT
	random *mathrand.Rand
	now    time.Time
	events []event
	keys   int

	status   *operatorv1alpha1.CredentialsRotation
	statuses []*operatorv1alpha1.CredentialsRotation
	secrets  map[string]corev1.Secret
	backups  []corev1.Secret

	live          *appsv1.Deployment // nil: it was never deployed
	configuration pod                // of the Deployment
	pods          []pod
	data, tokens  []object
	writesLeft    int // negative: the operator does not die

	// stopped is the Secret at which the last reconciliation stopped, and confirmed are the Secrets whose loss was confirmed since the last
	// one that succeeded.
	stopped   string
	confirmed []string
	// waived are keys whose loss was confirmed, and completed are keys that were rotated away, with the number of statuses at that time.
	waived    map[string]bool
	completed map[string]int
}

func newLandscape(t *testing.T, random *mathrand.Rand) *landscape {
	t.Helper()
	return &landscape{
		WithT: NewWithT(t), random: random, now: time.Unix(1_800_000_000, 0), secrets: map[string]corev1.Secret{},
		data: make([]object, 3), tokens: make([]object, 2), waived: map[string]bool{}, completed: map[string]int{},
	}
}

// event is a line of the history of a case. Only the history of a failed case is formatted.
type event struct {
	at     time.Time
	format string
	args   []any
}

func (l *landscape) note(format string, args ...any) {
	l.events = append(l.events, event{l.now, format, args})
}

func (l *landscape) history() string {
	var lines strings.Builder
	for _, each := range l.events {
		fmt.Fprintf(&lines, "\n%s %s", each.at.UTC().Format(time.TimeOnly), fmt.Sprintf(each.format, each.args...))
	}
	return lines.String()
}

var steps = []operatorv1alpha1.Operation{
	operatorv1alpha1.OperationRotateETCDEncryptionKeyStart, operatorv1alpha1.OperationRotateETCDEncryptionKeyComplete,
	operatorv1alpha1.OperationRotateETCDEncryptionKey, operatorv1alpha1.OperationRotateServiceAccountKeyStart,
	operatorv1alpha1.OperationRotateServiceAccountKeyComplete, operatorv1alpha1.OperationRotateCredentialsStart,
	operatorv1alpha1.OperationRotateCredentialsComplete,
}

// request is a wish of a user.
type request struct {
	operations rotation.Operations
	aborts     sets.Set[rotation.Credential]
}

func (l *landscape) anOperation() request {
	return request{operations: rotation.Operations{steps[l.random.IntN(len(steps))]: {}}}
}

func (l *landscape) anAbort() request {
	aborted := [][]rotation.Credential{
		{rotation.ETCDEncryptionKey}, {rotation.ServiceAccountKey}, {rotation.ETCDEncryptionKey, rotation.ServiceAccountKey},
	}[l.random.IntN(3)]
	wish := request{aborts: sets.New(aborted...)}
	if l.random.IntN(8) == 0 {
		wish.operations = l.anOperation().operations
	}
	return wish
}

func (l *landscape) step() {
	l.now = l.now.Add(time.Duration(1+l.random.IntN(100)) * time.Second)
	switch choice := l.random.IntN(100); {
	case choice < 25:
		l.reconcile(request{}, -1)
	case choice < 50:
		l.reconcile(l.anOperation(), -1)
	case choice < 57:
		l.reconcile(l.anAbort(), -1)
	case choice < 70:
		l.reconcile(l.anOperation(), l.random.IntN(25))
	case choice < 75:
		l.reconcile(l.anAbort(), l.random.IntN(25))
	case choice < 80:
		l.loseSecret()
	case choice < 87:
		l.restoreSecret()
	case choice < 90:
		l.restoreStatus()
	case choice < 92:
		l.confirm()
	default:
		l.work()
	}
	l.forgetLaterCopies()
}

// work is the work of Pods and of the controller of Deployments.
func (l *landscape) work() {
	if len(l.pods) == 0 {
		return
	}
	if l.random.IntN(2) == 0 {
		l.pods = []pod{l.configuration}
	}
	l.data[l.random.IntN(len(l.data))].key = idOf(l.pods[l.random.IntN(len(l.pods))].keys[0])
	l.tokens[l.random.IntN(len(l.tokens))].key = l.configuration.verifies[0]
	l.check("work")
}

func (l *landscape) loseSecret() {
	names := slices.Sorted(maps.Keys(l.secrets))
	if len(names) == 0 {
		return
	}
	lost := names[l.random.IntN(len(names))]
	l.note("lose %s", lost)
	if slices.Contains(l.confirmed, lost) { // the confirmation covers the key that was generated again, until a reconciliation succeeds
		secret := l.secrets[lost]
		l.waived[l.idOf(&secret)] = true
	}
	delete(l.secrets, lost)
	l.forgetWithoutBundle()
	needed := slices.Clone(l.configuration.verifies)
	for _, token := range l.tokens {
		needed = append(needed, token.key)
	}
	for _, key := range needed {
		if key != "" && !l.waived[key] && !l.hasCopy(key) {
			l.note("no copy of a key for tokens is left")
			l.waived[key] = true
		}
	}
}

// forgetLaterCopies waives keys for tokens to which an abort has led back, if the status is from before the abort, and the Secret of the
// abort was lost, while a Secret from before has the same key: no object shows that tokens have this key again.
func (l *landscape) forgetLaterCopies() {
	began := rotatedSecrets().Times(l.status)[signingKey]
	earlier, later := map[string]bool{}, map[string]bool{}
	isLater := func(secret *corev1.Secret) bool {
		precedes, err := secrets.PrecedesRotation(secret, began.Add(time.Second))
		l.Expect(err).NotTo(HaveOccurred())
		return !precedes
	}
	for _, each := range l.managed() {
		if isLater(&each) {
			later[l.idOf(&each)] = true
		} else {
			earlier[l.idOf(&each)] = true
		}
	}
	for _, each := range l.backups {
		id := l.idOf(&each)
		if each.Labels[secrets.LabelName] == signingKey && isLater(&each) && earlier[id] && !later[id] && !l.waived[id] {
			l.note("no object shows that a key for tokens is used again")
			l.waived[id] = true
		}
	}
}

// hasCopy reports whether a Secret or a bundle has a key for tokens.
func (l *landscape) hasCopy(key string) bool {
	for _, each := range l.secrets {
		for _, content := range each.Data {
			if strings.Contains(string(content), key) {
				return true
			}
		}
	}
	return false
}

func (l *landscape) restoreSecret() {
	if len(l.backups) == 0 {
		return
	}
	restored := l.backups[l.random.IntN(len(l.backups))]
	if l.stopped != "" && l.random.IntN(2) == 0 { // as the error says
		for _, each := range l.backups {
			if each.Name == l.stopped {
				restored = each
			}
		}
	}
	if _, exists := l.secrets[restored.Name]; exists || restored.Labels[secrets.LabelBundleFor] != "" { // bundles are generated again
		return
	}
	l.note("restore %s", restored.Name)
	restored.CreationTimestamp = metav1.NewTime(l.now)
	l.secrets[restored.Name] = restored
	l.forgetWithoutBundle()
}

// forgetWithoutBundle is called when Secrets were restored or lost: without a bundle, no object shows that a key for tokens was rotated
// away.
func (l *landscape) forgetWithoutBundle() {
	if l.hasBundle() {
		return
	}
	for _, each := range l.managed() {
		if each.Labels[secrets.LabelName] == signingKey {
			delete(l.completed, l.idOf(&each))
		}
	}
}

func (l *landscape) hasBundle() bool {
	for _, each := range l.secrets {
		if each.Labels[secrets.LabelBundleFor] != "" {
			return true
		}
	}
	return false
}

// restoreStatus restores the status as it was at some time. The rotations that were completed since then are not known.
func (l *landscape) restoreStatus() {
	if len(l.statuses) == 0 {
		return
	}
	number := l.random.IntN(len(l.statuses))
	l.status = l.statuses[number].DeepCopy()
	l.note("restore status %d: %v", number, phasesOf(l.status))
	maps.DeleteFunc(l.completed, func(_ string, at int) bool { return at > number })
	l.statuses = l.statuses[:number+1]
}

// confirm confirms the loss at which the last reconciliation stopped, of all keys that no Secret has.
func (l *landscape) confirm() {
	if l.stopped == "" {
		return
	}
	l.note("confirm the loss of %s", l.stopped)
	exist := map[string]bool{}
	for _, each := range l.secrets {
		exist[l.idOf(&each)] = true
	}
	for _, each := range l.backups {
		// After a confirmed loss, tokens are renewed for the key that is generated only in the next rotation.
		signs := each.Labels[secrets.LabelName] == signingKey && strings.HasPrefix(l.stopped, signingKey)
		if id := l.idOf(&each); signs || !exist[id] {
			l.waived[id] = true
		}
	}
	l.confirmed = append(l.confirmed, l.stopped)
	l.reconcile(request{}, -1)
}

func (l *landscape) write(format string, args ...any) bool {
	if l.writesLeft == 0 {
		l.note("(dies before: "+format+")", args...)
		return false
	}
	l.writesLeft--
	l.note(format, args...)
	return true
}

func phasesOf(r *operatorv1alpha1.CredentialsRotation) rotation.Phases {
	status := operatorv1alpha1.GardenStatus{Credentials: &operatorv1alpha1.Credentials{Rotation: r}}
	return rotation.PhasesOf(&operatorv1alpha1.Garden{Status: status})
}

func (l *landscape) setStatus(next *operatorv1alpha1.CredentialsRotation) bool {
	if !l.write("status %v", phasesOf(next)) {
		return false
	}
	l.status = next.DeepCopy()
	l.statuses = append(l.statuses, next.DeepCopy())
	return true
}

func (l *landscape) reconcile(wish request, writes int) {
	l.note("reconcile %v, abort %v", wish.operations, wish.aborts)
	l.writesLeft = writes
	l.operate(wish)
}

// observe returns the inventory of a manager of secrets.
func (l *landscape) observe() *secrets.Inventory {
	rotated := rotatedSecrets()
	inventory, err := secrets.NewInventory(secrets.Options{
		Namespace: "garden", Identity: "operator", RotationTimes: rotated.Times(l.status), Aborted: rotated.Aborted(l.status),
	}, l.managed(), nil, l.now)
	l.Expect(err).NotTo(HaveOccurred())
	return inventory
}

// abortProblems returns the rotations that must not be aborted, because there is nothing to go back to.
func (l *landscape) abortProblems(aborts sets.Set[rotation.Credential]) map[rotation.Credential]string {
	problems := map[rotation.Credential]string{}
	if len(aborts) == 0 {
		return problems
	}
	began, inventory := rotation.Aborts(l.status, aborts, false), l.observe()
	for name, credential := range map[string]rotation.Credential{
		encryptionKey: rotation.ETCDEncryptionKey, signingKey: rotation.ServiceAccountKey,
	} {
		start, aborted := began[credential]
		former, err := inventory.Before(name, start)
		l.Expect(err).NotTo(HaveOccurred())
		if aborted && former == nil {
			problems[credential] = "no former key"
		}
	}
	return problems
}

// operate is a reconciliation: the same decisions in the same order, while maps stand for clusters.
func (l *landscape) operate(wish request) {
	l.stopped = ""
	next, _ := rotation.Begin(l.status, rotation.Facts{
		Operations: wish.operations, Now: metav1.NewTime(l.now), WantedProvider: "aescbc", CurrentProvider: "aescbc",
		Aborts: wish.aborts, AbortProblems: l.abortProblems(wish.aborts),
	})
	if !l.setStatus(next) {
		return
	}
	garden := &operatorv1alpha1.Garden{Status: operatorv1alpha1.GardenStatus{
		Credentials: &operatorv1alpha1.Credentials{Rotation: l.status},
	}}
	v := values.Values{EncryptedProvider: "aescbc", Phases: rotation.PhasesOf(garden), Aborting: rotation.Aborting(garden)}
	r := &run{landscape: l, v: v, inventory: l.observe()}
	signing, done := r.generate(kubeapiserver.ServiceAccountKey(v))
	if !done {
		return
	}
	encryption, done := r.generate(kubeapiserver.EncryptionKey(v))
	if !done || !r.deploy(encryption) || !r.renewTokens(signing) || !r.rewrite(encryption) || !r.cleanUp() {
		return
	}
	if len(l.confirmed) > 0 && !l.write("forget losses") {
		return
	}
	l.confirmed = nil
	last, again := rotation.End(l.status, metav1.NewTime(l.now))
	if last == nil || !l.setStatus(last) {
		return
	}
	l.noteCompleted(encryption, signing)
	if again {
		l.operate(request{})
	}
}

// noteCompleted notes which keys are rotated away.
func (l *landscape) noteCompleted(current ...*corev1.Secret) {
	phases := phasesOf(l.status)
	for _, secret := range current {
		credential := map[string]rotation.Credential{encryptionKey: rotation.ETCDEncryptionKey, signingKey: rotation.ServiceAccountKey}
		name := secret.Labels[secrets.LabelName]
		if phases[credential[name]] != operatorv1alpha1.RotationCompleted {
			continue
		}
		var earlier []string
		later := map[string]bool{} // copies of earlier keys, to which an abort has led back
		for _, each := range l.backups {
			precedes, err := secrets.PrecedesRotation(&each, rotatedSecrets().Times(l.status)[name])
			l.Expect(err).NotTo(HaveOccurred())
			switch id := l.idOf(&each); {
			case each.Labels[secrets.LabelName] != name:
			case precedes:
				earlier = append(earlier, id)
			default:
				later[id] = true
			}
		}
		for _, id := range earlier {
			if !later[id] && l.completed[id] == 0 {
				l.completed[id] = len(l.statuses)
			}
		}
	}
}

func (l *landscape) managed() []corev1.Secret {
	var all []corev1.Secret
	for _, name := range slices.Sorted(maps.Keys(l.secrets)) {
		secret := l.secrets[name]
		all = append(all, *secret.DeepCopy())
	}
	return all
}

// idOf identifies a key by its content; it is empty for a bundle.
func (l *landscape) idOf(secret *corev1.Secret) string {
	switch secret.Labels[secrets.LabelName] {
	case encryptionKey:
		key, err := config.ParseEncryptionKey(secret.Data)
		l.Expect(err).NotTo(HaveOccurred())
		return idOf(key)
	case signingKey:
		return string(secret.Data[config.DataKeyRSAPrivateKey])
	}
	return ""
}

func idOf(key config.UsableEncryptionKey) string { return key.Name + key.Secret }

// check fails if a Pod cannot read an object or verify a token, or has a key that was rotated away.
func (l *landscape) check(when string) {
	for _, each := range l.pods {
		var readable []string
		for _, key := range each.keys {
			readable = append(readable, idOf(key))
		}
		for _, o := range l.data {
			if o.key != "" && !l.waived[o.key] {
				l.Expect(slices.Contains(readable, o.key)).To(BeTrue(), "%s: a Pod cannot read an object", when)
			}
		}
	}
	for _, token := range l.tokens { // during a rollout, some Pods do not know a new key yet
		if token.key != "" && !l.waived[token.key] {
			l.Expect(slices.Contains(l.configuration.verifies, token.key)).To(BeTrue(), "%s: no Pod can verify a token", when)
		}
	}
	for _, key := range slices.Concat(l.configuration.verifies, idsOf(l.configuration.keys)) {
		_, gone := l.completed[key]
		l.Expect(gone).To(BeFalse(), "%s: a key that was rotated away is used", when)
	}
}

func idsOf(keys []config.UsableEncryptionKey) []string {
	var ids []string
	for _, each := range keys {
		ids = append(ids, idOf(each))
	}
	return ids
}

// run is one reconciliation.
type run struct {
	*landscape
	v         values.Values
	inventory *secrets.Inventory
}

var signingKeys = sync.OnceValues(func() ([]*rsa.PrivateKey, error) {
	all := make([]*rsa.PrivateKey, 64)
	for i := range all {
		key, err := rsa.GenerateKey(rand.Reader, 1024)
		if err != nil {
			return nil, err
		}
		all[i] = key
	}
	return all, nil
})

func (r *run) source() config.Source {
	return config.Source{Now: r.now, Random: rand.Reader, RSAKey: func(int) (*rsa.PrivateKey, error) {
		all, err := signingKeys()
		r.keys++
		return all[r.keys%len(all)], err
	}}
}

// generate does the work of the manager of secrets for a guarded request.
func (r *run) generate(request secrets.Request) (*corev1.Secret, bool) {
	name := request.Config.LogicalName()
	present, err := r.inventory.Present(request, r.now)
	r.Expect(err).NotTo(HaveOccurred())
	if present != "" {
		if lost := r.evidence(name, present).Replaced(); lost != nil {
			r.note("stop: Secret %s: %s uses it", lost.Name, lost.User)
			r.stopped = lost.Name
			return nil, false
		}
	}
	missing, err := r.inventory.Missing(request, r.now)
	r.Expect(err).NotTo(HaveOccurred())
	if missing != "" {
		if refusal := r.evidence(name, missing).Refusal(); refusal != "" {
			r.note("stop: Secret %s: %s", missing, refusal)
			r.stopped = missing
			return nil, false
		}
	}
	secret, bundle, done := r.ensure(request)
	if !done || bundle == nil {
		return secret, done
	}
	former, err := r.inventory.Dropped(request, *bundle, r.now)
	r.Expect(err).NotTo(HaveOccurred())
	if former != "" && !slices.Contains(r.confirmed, former) && !slices.Contains(r.confirmed, secret.Name) {
		r.note("stop: bundle %s has a key that no Secret has", former)
		r.stopped = former
		return nil, false
	}
	_, _, done = r.ensure(*bundle)
	return secret, done
}

func (r *run) evidence(name, current string) secrets.Evidence {
	known := rotatedSecrets().Irreplaceable(r.status)[name]
	e := secrets.Evidence{
		Preparing: known.Preparing, Generation: known.Generation, Confirmed: slices.Contains(r.confirmed, current),
	}
	for _, each := range r.managed() {
		switch is, isBundle := secrets.IsNameOf(name, each.Name); {
		case is && isBundle:
			e.Uses = append(e.Uses, "Secret "+each.Name)
		case is && !r.inventory.WasForgotten(each.Name):
			e.Secrets = append(e.Secrets, each.ObjectMeta)
		}
	}
	if r.live == nil {
		return e
	}
	e.Uses = append(e.Uses, "Deployment")
	for _, each := range slices.Sorted(maps.Values(r.live.Annotations)) {
		is, isBundle := secrets.IsNameOf(name, each)
		_, exists := r.landscape.secrets[each]
		switch {
		case each == current:
			e.Marked = []string{"Deployment"}
		case is && !isBundle && !exists:
			e.Lost = append(e.Lost, "Deployment uses Secret "+each)
			e.InUse = append(e.InUse, secrets.LostKey{Name: each, User: "Deployment", Confirmed: slices.Contains(r.confirmed, each)})
		}
	}
	return e
}

func (r *run) ensure(request secrets.Request) (*corev1.Secret, *secrets.Request, bool) {
	step, err := r.inventory.Plan(request, r.source())
	r.Expect(err).NotTo(HaveOccurred())
	if step.Creates() || step.Patches() {
		if !r.write("Secret %s", step.Desired.Name) {
			return nil, nil, false
		}
		if step.Creates() {
			step.Desired.CreationTimestamp = metav1.NewTime(r.now)
			r.backups = append(r.backups, *step.Desired.DeepCopy())
		}
		r.landscape.secrets[step.Desired.Name] = *step.Desired.DeepCopy()
	}
	bundle, err := r.inventory.Record(request, step.Desired, r.now)
	r.Expect(err).NotTo(HaveOccurred())
	return step.Desired, bundle, true
}

// deploy deploys kube-apiserver, twice if a key is new. Before it drops the old key, it writes all objects with the new one.
func (r *run) deploy(key *corev1.Secret) bool {
	completing := r.v.Phases[rotation.ETCDEncryptionKey] == operatorv1alpha1.RotationCompleting
	if completing && r.live != nil && !apiserver.OnlyCurrent(key, r.configuration.keys) {
		if err := apiserver.CheckNewKeyUsed(r.live, key, r.configuration.keys); err != nil {
			r.note("stop: %v", err)
			return false
		}
		r.pods = []pod{r.configuration}
		if !r.label(key) {
			return false
		}
	}
	outdated := apiserver.OutdatedMarks(r.v, r.live, key.Name)
	live := r.live.DeepCopy()
	for _, each := range outdated {
		delete(live.Annotations, each)
	}
	adds := apiserver.AddsKey(r.v, live)
	if !r.apply(key, live) {
		return false
	}
	if len(outdated) > 0 {
		if !r.write("remove marks %v", outdated) {
			return false
		}
		for _, each := range outdated {
			delete(r.live.Annotations, each)
		}
	}
	if adds {
		r.pods = []pod{r.configuration}
		populated := r.live.DeepCopy()
		metav1.SetMetaDataAnnotation(&populated.ObjectMeta, apiserver.NewKeyPopulated, "true")
		if !r.apply(key, populated) {
			return false
		}
	}
	r.pods = []pod{r.configuration}
	return true
}

// label writes all objects again that do not have the label of the key.
func (r *run) label(key *corev1.Secret) bool {
	for i := range r.data {
		if r.data[i].label == apiserver.KeyLabel(key) {
			continue
		}
		if !r.write("label object %d", i) {
			return false
		}
		r.data[i] = object{idOf(r.configuration.keys[0]), apiserver.KeyLabel(key)}
	}
	return true
}

func (r *run) apply(key *corev1.Secret, live *appsv1.Deployment) bool {
	old, _ := r.inventory.Get(encryptionKey, secrets.Old)
	keys, err := apiserver.EncryptionKeys(r.v, key, old, live, r.configuration.keys)
	if err != nil {
		r.note("stop: %v", err)
		return false
	}
	signing, _ := r.inventory.Get(signingKey, secrets.Current)
	next := pod{keys: keys, verifies: []string{r.idOf(signing)}}
	if former, kept := r.inventory.Get(signingKey, secrets.Old); kept {
		next.verifies = append(next.verifies, r.idOf(former))
	}
	desired := &appsv1.Deployment{}
	if r.live != nil { // annotations that a deployment does not set stay
		desired.Annotations = maps.Clone(r.live.Annotations)
	}
	apiserver.SetMarks(r.v, desired, live, key.Name)
	metav1.SetMetaDataAnnotation(&desired.ObjectMeta, "mounts", signing.Name)
	if !r.write("Deployment %v with keys %d", maps.Clone(desired.Annotations), len(keys)) {
		return false
	}
	r.live, r.configuration = desired, next
	r.pods = append(r.pods, next)
	r.check("deploy")
	return true
}

// renewTokens makes all clients request new tokens while a key is being prepared.
func (r *run) renewTokens(key *corev1.Secret) bool {
	if r.v.Phases[rotation.ServiceAccountKey] != operatorv1alpha1.RotationPreparing {
		return true
	}
	for i := range r.tokens {
		if !r.write("token %d", i) {
			return false
		}
		r.tokens[i].key = r.idOf(key)
	}
	return true
}

// rewrite writes objects again as PlanRewrite says.
func (r *run) rewrite(key *corev1.Secret) bool {
	plan := apiserver.PlanRewrite(r.v, nil)
	if plan.Label && r.live.Annotations[apiserver.ResourcesLabeled] != "true" {
		if !r.label(key) || !r.write("mark as labelled") {
			return false
		}
		metav1.SetMetaDataAnnotation(&r.live.ObjectMeta, apiserver.ResourcesLabeled, "true")
	}
	if plan.Unlabel {
		for i := range r.data {
			if r.data[i].label == "" {
				continue
			}
			if !r.write("unlabel object %d", i) {
				return false
			}
			r.data[i] = object{key: idOf(r.configuration.keys[0])}
		}
		if !r.write("remove marks") {
			return false
		}
		delete(r.live.Annotations, apiserver.ResourcesLabeled)
	}
	r.check("rewrite")
	return true
}

// hasOther reports whether another Secret has a key, too: an abort leads back to it.
func (r *run) hasOther(name, id string) bool {
	return slices.ContainsFunc(r.managed(), func(each corev1.Secret) bool { return each.Name != name && r.idOf(&each) == id })
}

// cleanUp deletes Secrets that are not needed, and does not complete a rotation while others are left.
func (r *run) cleanUp() bool {
	for _, each := range r.inventory.Unneeded(r.managed()) {
		if !r.write("delete %s", each.Name) {
			return false
		}
		id := r.idOf(&each)
		for _, o := range slices.Concat(r.data, r.tokens) {
			isCopied := slices.Contains(idsOf(r.configuration.keys), id) || r.hasOther(each.Name, id)
			r.Expect(id == "" || o.key != id || r.waived[id] || isCopied).To(BeTrue(), "a key is deleted that is needed")
		}
		delete(r.landscape.secrets, each.Name)
	}
	for name, began := range rotatedSecrets().CompletingTimes(r.status) {
		for _, each := range r.managed() {
			precedes, err := secrets.PrecedesRotation(&each, began)
			r.Expect(err).NotTo(HaveOccurred())
			r.Expect(precedes && each.Labels[secrets.LabelName] == name).To(BeFalse())
		}
	}
	return true
}
