package proof

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/secrets"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// accounts are a cluster in which the ServiceAccount of probes has a UID.
type accounts string

func (a accounts) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	o.SetUID(types.UID(a))
	return nil
}

func (accounts) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

func source() secretconfig.Source {
	return secretconfig.Source{
		Now: time.Unix(1_800_000_000, 0), Random: rand.Reader,
		RSAKey: func(int) (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 1024) }, // longer keys take long
	}
}

// Without the former key, nothing shows that servers refuse what it has signed: an empty probe would end a phase without proof.
func TestProbeNeedsTheFormerKeyIfThereWasOne(t *testing.T) {
	const preparing, completing = operatorv1alpha1.RotationPreparing, operatorv1alpha1.RotationCompleting
	authority, err := secretconfig.Certificate{Name: "ca", CommonName: "ca", Type: secretconfig.CA}.Generate(source())
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	former := &corev1.Secret{Data: authority}
	const credential = rotation.CertificateAuthorities
	earlier := sets.New(rotation.CertificateAuthorities)
	for sentence, tc := range map[string]struct {
		phase             operatorv1alpha1.RotationPhase
		former            *corev1.Secret
		earlier, aborting sets.Set[rotation.Credential]
		lost, empty       bool
	}{
		"the former key exists":                                     {phase: preparing, former: former, earlier: earlier},
		"the former key exists until the end":                       {phase: completing, former: former},
		"the first rotation of a Garden without a key":              {phase: preparing, empty: true},
		"the former key was lost while its rotation is prepared":    {phase: preparing, earlier: earlier, lost: true},
		"probe and former key were lost while a rotation completes": {phase: completing, lost: true},
		"a rotation is aborted that has not generated a key":        {phase: preparing, earlier: earlier, aborting: earlier, empty: true},
		"a rotation is aborted":                                     {phase: preparing, former: former, earlier: earlier, aborting: earlier},
		"probe and aborted key were lost while the abort completes": {phase: completing, earlier: earlier, aborting: earlier, lost: true},
		"the former key was lost, and another credential is aborted": {
			phase: preparing, earlier: earlier, aborting: sets.New(rotation.ServiceAccountKey), lost: true,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			p := &Prover{Values: values.Values{
				Phases: rotation.Phases{credential: tc.phase}, RotatedBefore: tc.earlier, Aborting: tc.aborting,
			}}
			config, err := p.probeOf(t.Context(), &generations[0], tc.former, nil)
			g.Expect(err).NotTo(HaveOccurred())
			data, err := config.Generate(source())
			if tc.lost {
				g.Expect(err).To(MatchError(errLost))
				g.Expect(err).To(MatchError(ContainSubstring("espalier.dev/skipped-checks: rotation-proof")))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(data).To(HaveLen(map[bool]int{true: 0, false: 2}[tc.empty]))
		})
	}
}

// A token for a ServiceAccount that is gone is refused by every server, whatever its key is.
func TestTokenOfAProbeFollowsItsServiceAccountWhileTheFormerKeyExists(t *testing.T) {
	g := NewWithT(t)
	key, err := secretconfig.RSAKey{Name: "former", Bits: 1024}.Generate(source())
	g.Expect(err).NotTo(HaveOccurred())
	former := &corev1.Secret{Data: key}
	prover := func(uid string) *Prover {
		return &Prover{
			Values: values.Values{
				Domains: []string{"a.b"}, Phases: rotation.Phases{rotation.ServiceAccountKey: operatorv1alpha1.RotationCompleting},
			},
			Virtual: func(context.Context) (client.Reader, error) { return accounts(uid), nil },
		}
	}
	first, err := prover("1").probeOf(t.Context(), &generations[1], former, nil)
	g.Expect(err).NotTo(HaveOccurred())
	data, err := first.Generate(source())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(data["claims"])).To(ContainSubstring(`"uid":"1"`))
	g.Expect(data).To(HaveKey("token"))
	stored := &corev1.Secret{Data: data}
	stored.Labels = map[string]string{secrets.LabelConfigChecksum: "123"}

	renewed, err := prover("2").probeOf(t.Context(), &generations[1], former, stored)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(renewed.Hash()).NotTo(Or(Equal(first.Hash()), Equal(uint64(123))), "another Secret")
	data, err = renewed.Generate(source())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(data["claims"])).To(ContainSubstring(`"uid":"2"`))

	kept, err := prover("1").probeOf(t.Context(), &generations[1], nil, stored)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(kept.Hash()).To(Equal(uint64(123)), "the former key is gone")
	_, err = prover("2").probeOf(t.Context(), &generations[1], nil, stored)
	g.Expect(err).To(MatchError(ContainSubstring("its UID is 2, but the probe is for UID 1")))
}
