package requestor

import (
	"maps"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/token/digest"
)

const (
	renewKey    = "serviceaccount.resources.gardener.cloud/token-renew-timestamp"
	durationKey = "serviceaccount.resources.gardener.cloud/token-expiration-duration"
	forceKey    = "espalier.dev/renew-token"
	spaceKey    = "token-requestor.resources.gardener.cloud/target-secret-namespace"
	targetKey   = "token-requestor.resources.gardener.cloud/target-secret-name"
)

var now = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

const (
	ahead = "2030-01-01T13:00:00Z"
	past  = "2030-01-01T11:59:59Z"
)

func TestDecide(t *testing.T) {
	held := holder{found: true, digest: digest.Digest{Token: true, CA: "ca"}}
	for name, tc := range map[string]struct {
		renewAt, force string
		holder         holder
		ca             string
		want           decision
		wantErr        string
	}{
		"no time":                       {holder: held, want: decision{reason: reasonFirst}},
		"no time, and nothing was read": {want: decision{reason: reasonFirst}},
		"forced":                        {renewAt: ahead, force: "true", holder: held, want: decision{reason: reasonForced}},
		"forced by a word":              {renewAt: ahead, force: "now", holder: held, want: decision{reason: reasonForced}},
		"not forced":                    {renewAt: ahead, force: "false", holder: held, want: decision{wait: time.Hour}},
		"no target Secret":              {renewAt: ahead, want: decision{reason: reasonNoSecret}},
		"a broken kubeconfig": {
			renewAt: ahead, holder: holder{found: true, digest: digest.Digest{Kubeconfig: true, Fault: "x"}},
			wantErr: "could not check whether token exists in secret data: x",
		},
		"no token, before the time is parsed": {renewAt: "bad", holder: holder{found: true}, want: decision{reason: reasonNoToken}},
		"another certificate authority":       {renewAt: ahead, holder: held, ca: "other", want: decision{reason: reasonCA}},
		"the certificate authority":           {renewAt: ahead, holder: held, ca: "ca", want: decision{wait: time.Hour}},
		"no time that can be understood": {
			renewAt: "bad", holder: held,
			wantErr: `could not parse renew timestamp: parsing time "bad" as "2006-01-02T15:04:05Z07:00": cannot parse "bad" as "2006"; write ` +
				`a time such as 2006-01-02T15:04:05Z, or remove the annotation to renew the token now`,
		},
		"before its time":                   {renewAt: ahead, holder: held, want: decision{wait: time.Hour}},
		"at its time":                       {renewAt: "2030-01-01T12:00:00Z", holder: held, want: decision{reason: reasonDue}},
		"after its time, in another offset": {renewAt: "2030-01-01T12:59:59+01:00", holder: held, want: decision{reason: reasonDue}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			annotations := map[string]string{renewKey: tc.renewAt}
			if tc.force != "" {
				annotations[forceKey] = tc.force
			}
			got, err := decide(facts{now: now, annotations: annotations, holder: tc.holder, ca: tc.ca})
			if tc.wantErr != "" {
				g.Expect(err).To(MatchError(tc.wantErr))
				g.Expect(isMistake(err)).To(BeTrue())
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(Equal(tc.want))
		})
	}
}

func TestUrgency(t *testing.T) {
	token := digest.Digest{Token: true}
	expires := func(at time.Time) digest.Digest { return digest.Digest{Token: true, Expiry: at} }
	target := map[string]string{spaceKey: "ns", targetKey: "n"}
	for name, tc := range map[string]struct {
		renewAt string
		more    map[string]string
		digest  digest.Digest
		want    int
	}{
		"a token that is fresh":                           {renewAt: ahead, digest: expires(now.Add(2 * time.Hour)), want: -100},
		"a token that is due":                             {renewAt: past, digest: expires(now.Add(time.Hour)), want: 10},
		"a token that has expired":                        {renewAt: past, digest: expires(now), want: 30},
		"one whose time was removed":                      {digest: expires(now.Add(time.Hour)), want: 20},
		"one that is expired, and whose time was removed": {digest: expires(now), want: 30},
		"one that is asked for": {
			renewAt: ahead, more: map[string]string{forceKey: "true"}, digest: expires(now.Add(time.Hour)), want: 20,
		},
		"no token":                                 {renewAt: ahead, want: 20},
		"a token elsewhere that is fresh":          {renewAt: ahead, more: target, want: -100},
		"a token elsewhere that is due":            {renewAt: past, more: target, want: 10},
		"a token elsewhere that must have expired": {renewAt: "2030-01-01T09:36:00Z", more: target, want: 30},
		"a token that does not tell":               {renewAt: "2030-01-01T09:37:00Z", digest: token, want: 10},
		"and must have expired":                    {renewAt: "2030-01-01T09:36:00Z", digest: token, want: 30},
		"and lives longer": {
			renewAt: "2030-01-01T09:36:00Z", digest: token, more: map[string]string{durationKey: "24h"}, want: 10,
		},
		"a time that cannot be understood": {renewAt: "bad", digest: token, want: -100},
	} {
		t.Run(name, func(t *testing.T) {
			annotations := map[string]string{renewKey: tc.renewAt}
			maps.Copy(annotations, tc.more)
			NewWithT(t).Expect(urgency(now, annotations, tc.digest)).To(Equal(tc.want))
		})
	}
}

func TestRenewAfter(t *testing.T) {
	const almostOne = 1 - 1e-12
	for name, tc := range map[string]struct {
		remaining       time.Duration
		earliest, later time.Duration
	}{
		"12h":  {12 * time.Hour, 9*time.Hour + 36*time.Minute, 10*time.Hour + 4*time.Minute + 48*time.Second},
		"10m":  {10 * time.Minute, 8 * time.Minute, 8*time.Minute + 24*time.Second},
		"100h": {100 * time.Hour, 19*time.Hour + 12*time.Minute, 20*time.Hour + 9*time.Minute + 36*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(renewAfter(tc.remaining, 0)).To(Equal(tc.earliest))
			g.Expect(renewAfter(tc.remaining, almostOne)).To(BeNumerically("~", tc.later, time.Millisecond))
		})
	}
}

// Tokens that are issued together must not be renewed together.
func TestRenewalsOf5000SecretsIssuedInOneMinuteFillTheWindow(t *testing.T) {
	g := NewWithT(t)
	const secrets, lifetime = 5000, 12 * time.Hour
	spread := NewSpread(0.25)
	first, last := now.Add(renewAfter(lifetime, 0)), now.Add(time.Minute).Add(renewAfter(lifetime, 1))
	perMinute := make([]int, int(last.Sub(first)/time.Minute)+1)
	for i := range secrets {
		issuedAt := now.Add(time.Duration(i) * time.Minute / secrets)
		renewal := issuedAt.Add(renewAfter(lifetime, spread.Next()))
		perMinute[int(renewal.Sub(first)/time.Minute)]++
	}
	peak, used := 0, 0
	for _, n := range perMinute {
		peak = max(peak, n)
		if n > 0 {
			used++
		}
	}
	window := renewAfter(lifetime, 1) - renewAfter(lifetime, 0)
	mean := secrets / window.Minutes()
	t.Logf("%d renewals in a window of %s: mean %.1f a minute, peak %d, peak ÷ mean %.2f (target 1.50); %v", secrets, window, mean, peak,
		float64(peak)/mean, perMinute)
	g.Expect(float64(peak) / mean).To(BeNumerically("<=", 1.5))
	g.Expect(used).To(BeNumerically(">=", int(window.Minutes())), "the whole window is used")
}

func TestSpreadStaysInTheWindow(t *testing.T) {
	g := NewWithT(t)
	spread := NewSpread(0.999999)
	for range 10000 {
		g.Expect(spread.Next()).To(And(BeNumerically(">=", 0), BeNumerically("<", 1)))
	}
}

func TestAccountOf(t *testing.T) {
	const prefix = "serviceaccount.resources.gardener.cloud/"
	here := types.NamespacedName{Namespace: "ns", Name: "n"}
	for name, tc := range map[string]struct {
		instance    instance
		annotations map[string]string
		want        account
		wantErr     string
	}{
		"name and namespace": {
			annotations: map[string]string{prefix + "name": "n", prefix + "namespace": "ns"}, want: account{NamespacedName: here},
		},
		"empty labels": {
			annotations: map[string]string{prefix + "name": "n", prefix + "namespace": "ns", prefix + "labels": ""},
			want:        account{NamespacedName: here},
		},
		"labels": {
			annotations: map[string]string{prefix + "name": "n", prefix + "namespace": "ns", prefix + "labels": `{"a":"b"}`},
			want:        account{here, map[string]string{"a": "b"}},
		},
		"a fixed namespace": {
			instance:    instance{Limits: Limits{TargetNamespace: "ns"}},
			annotations: map[string]string{prefix + "name": "n", prefix + "namespace": "other"},
			want:        account{NamespacedName: here},
		},
		"no name": {
			annotations: map[string]string{prefix + "namespace": "ns"},
			wantErr:     `annotation "serviceaccount.resources.gardener.cloud/name" is missing: set it to the name of a ServiceAccount`,
		},
		"no namespace": {
			annotations: map[string]string{prefix + "name": "n"},
			wantErr: `annotation "serviceaccount.resources.gardener.cloud/namespace" is missing: set it to the namespace of the ` +
				`ServiceAccount in the target cluster`,
		},
		"an allowed namespace": {
			instance:    instance{Limits: Limits{TargetNamespaces: []string{"x", "ns"}}},
			annotations: map[string]string{prefix + "name": "n", prefix + "namespace": "ns"}, want: account{NamespacedName: here},
		},
		"another namespace": {
			instance:    instance{Limits: Limits{TargetNamespaces: []string{"x"}}},
			annotations: map[string]string{prefix + "name": "n", prefix + "namespace": "ns"},
			wantErr: `ServiceAccount ns/n is not in a namespace that this process works in (x): choose one of these, or add it to ` +
				`targetClientConnection.namespaces`,
		},
		"half a JSON": {
			annotations: map[string]string{prefix + "name": "n", prefix + "namespace": "ns", prefix + "labels": `{"a"`},
			wantErr: `failed unmarshaling service account labels from secret annotation "serviceaccount.resources.gardener.cloud/labels" ` +
				`({"a"): unexpected end of JSON input; it must be a JSON object of strings, such as {"app":"x"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got, err := tc.instance.accountOf(tc.annotations, "source")
			if tc.wantErr != "" {
				g.Expect(err).To(MatchError(tc.wantErr))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(Equal(tc.want))
		})
	}
}

func TestDesiredAccount(t *testing.T) {
	wanted := account{types.NamespacedName{Namespace: "ns", Name: "n"}, map[string]string{"a": "b"}}
	right := newAccount(wanted)
	for name, tc := range map[string]struct {
		change  func(*corev1.ServiceAccount)
		changed bool
	}{
		"as it must be":     {change: func(*corev1.ServiceAccount) {}},
		"mounting":          {change: func(a *corev1.ServiceAccount) { a.AutomountServiceAccountToken = ptr.To(true) }, changed: true},
		"undecided":         {change: func(a *corev1.ServiceAccount) { a.AutomountServiceAccountToken = nil }, changed: true},
		"one label more":    {change: func(a *corev1.ServiceAccount) { a.Labels["c"] = "d" }, changed: true},
		"one label less":    {change: func(a *corev1.ServiceAccount) { a.Labels = nil }, changed: true},
		"an annotation too": {change: func(a *corev1.ServiceAccount) { a.Annotations = map[string]string{"x": "y"} }},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			have := newAccount(account{wanted.NamespacedName, map[string]string{"a": "b"}})
			tc.change(have)
			desired, changed := desiredAccount(have, wanted)
			g.Expect(changed).To(Equal(tc.changed))
			if changed {
				desired = desired.DeepCopy()
			}
			desired.Annotations = nil
			g.Expect(desired).To(BeComparableTo(right))
		})
	}
}

func TestPatchFor(t *testing.T) {
	g := NewWithT(t)
	patch, err := patchFor("7", now.In(time.FixedZone("", 3600)), changes{"token": []byte("t"), "bundle.crt": nil})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(patch).To(MatchJSON(`{"metadata":{"resourceVersion":"7","annotations":{
		"serviceaccount.resources.gardener.cloud/token-renew-timestamp":"2030-01-01T12:00:00Z","espalier.dev/renew-token":null}},
		"data":{"token":"dA==","bundle.crt":null}}`))
}

func TestTargetOf(t *testing.T) {
	secret := func(namespace, name string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "n", Annotations: map[string]string{spaceKey: namespace, targetKey: name}},
		}
	}
	for name, tc := range map[string]struct {
		secret   *corev1.Secret
		instance instance
		want     *types.NamespacedName
		wantErr  string
	}{
		"both":                            {secret: secret("a", "b"), want: &types.NamespacedName{Namespace: "a", Name: "b"}},
		"a name only":                     {secret: secret("", "b")},
		"a namespace only":                {secret: secret("a", "")},
		"its own name in another cluster": {secret: secret("ns", "n"), want: &types.NamespacedName{Namespace: "ns", Name: "n"}},
		"itself": {
			secret: secret("ns", "n"), instance: instance{Limits: Limits{OwnNamespace: "own"}, same: true},
			wantErr: "name this very Secret",
		},
		"a namespace that we are not for": {
			secret: secret("a", "b"), instance: instance{Limits: Limits{TargetNamespaces: []string{"x"}}},
			want:    &types.NamespacedName{Namespace: "a", Name: "b"},
			wantErr: "target Secret a/b is not in a namespace",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got, err := tc.instance.targetOf(tc.secret)
			if tc.wantErr != "" {
				g.Expect(err).To(MatchError(ContainSubstring(tc.wantErr)))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(Equal(tc.want))
		})
	}
}

func TestAKeptTokenIsUsedForTheSameOnlyAndSoon(t *testing.T) {
	g := NewWithT(t)
	m, secret := NewMemory(), types.NamespacedName{Name: "s"}
	of := order{account: types.NamespacedName{Name: "a"}, lifetime: time.Hour, audiences: []string{"x"}}
	other := of
	other.audiences = []string{"y"}
	g.Expect(m.kept(secret, of, now)).To(BeNil())
	m.keep(secret, issued{token: "t", at: now}, of)
	g.Expect(m.kept(secret, of, now.Add(time.Minute))).To(Equal(&issued{token: "t", at: now}))
	g.Expect(m.kept(secret, of, now.Add(time.Minute+1))).To(BeNil())
	g.Expect(m.kept(secret, other, now)).To(BeNil())
	m.wrote(secret, "7", now)
	g.Expect(m.kept(secret, of, now)).To(BeNil())
	g.Expect(m.outdated(secret, "7")).To(BeTrue())
	g.Expect(m.outdated(secret, "8")).To(BeFalse())
	m.forget(secret)
	g.Expect(m.outdated(secret, "7")).To(BeFalse())
}

func TestCAOf(t *testing.T) {
	g := NewWithT(t)
	read := func(name string) ([]byte, error) { return []byte("content of " + name), nil }
	for want, ca := range map[string]func() ([]byte, error){
		"data": CAOf([]byte("data"), "file", read), "content of file": CAOf(nil, "file", read), "": CAOf(nil, "", read),
	} {
		got, err := ca()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(got)).To(Equal(want))
	}
}

// Every user can write any annotations; each of them must lead to a decision or an error.
func FuzzAnnotations(f *testing.F) {
	f.Add("n", "ns", `{"a":"b"}`, "10m", "a,b", "true", ahead, "")
	f.Add("", "", "{", "1e9h", ",", "yes", "9999-99-99", "x")
	f.Fuzz(func(t *testing.T, name, namespace, labels, lifetime, audiences, inject, renewAt, force string) {
		const prefix = "serviceaccount.resources.gardener.cloud/"
		annotations := map[string]string{
			prefix + "name": name, prefix + "namespace": namespace, prefix + "labels": labels, durationKey: lifetime,
			"espalier.dev/token-audiences": audiences, prefix + "inject-ca-bundle": inject, renewKey: renewAt, forceKey: force,
		}
		i := instance{}
		if got, err := i.accountOf(annotations, "source"); err == nil && (got.Name == "" || got.Namespace == "") {
			t.Fatal("a ServiceAccount without name or namespace")
		}
		if got, err := i.audiencesOf(annotations); err == nil {
			for _, each := range got {
				if each == "" {
					t.Fatal("an empty audience")
				}
			}
		}
		_, _ = lifetimeOf(annotations)
		_, _ = injectsCA(annotations)
		if got, err := decide(facts{
			now: now, annotations: annotations, holder: holder{found: true, digest: digest.Digest{Token: true}},
		}); err == nil && got.reason == "" && got.wait <= 0 {
			t.Fatal("neither a reason nor a time to wait")
		}
		_ = urgency(now, annotations, digest.Digest{Token: true})
	})
}
