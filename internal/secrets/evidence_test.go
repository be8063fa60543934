package secrets_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/secrets"
)

func TestNewKeyIsOnlyGeneratedIfNothingSpeaksForAnOldOne(t *testing.T) {
	of := func(name string, rotated time.Time) metav1.ObjectMeta {
		label := ""
		if !rotated.IsZero() {
			label = seconds(rotated)
		}
		return metav1.ObjectMeta{Name: name, Labels: map[string]string{"last-rotation-initiation-time": label}}
	}
	first, second := of("key-00000000", time.Time{}), of("key-00000000-22222", start.Add(2*time.Hour))
	third := of("key-00000000-33333", start.Add(4*time.Hour))
	for title, tc := range map[string]struct {
		evidence secrets.Evidence
		refusal  string
	}{
		"nothing": {},
		"a Secret": {
			secrets.Evidence{Secrets: []metav1.ObjectMeta{second}}, "Secret key-00000000-22222 of another generation exists",
		},
		"an object": {
			secrets.Evidence{Uses: []string{"Etcd garden/main"}}, "Etcd garden/main uses one of another generation",
		},
		"a generation": {secrets.Evidence{Generation: "it was rotated"}, "it was rotated"},
		"a volume": {
			secrets.Evidence{Volumes: []string{"PersistentVolumeClaim garden/data"}},
			"PersistentVolumeClaim garden/data is older, and may have data that need it",
		},
		"everything, but the loss is confirmed": {evidence: secrets.Evidence{
			Confirmed: true, Secrets: []metav1.ObjectMeta{second}, Uses: []string{"x"}, Marked: []string{"x"}, Generation: "x",
			Volumes: []string{"x"},
		}},
		"a rotation of what never was": {evidence: secrets.Evidence{Preparing: true}},
		"a rotation": {evidence: secrets.Evidence{
			Preparing: true, Secrets: []metav1.ObjectMeta{first}, Uses: []string{"x"}, Volumes: []string{"x"},
		}},
		"a rotation whose new key was in use": {
			secrets.Evidence{Preparing: true, Secrets: []metav1.ObjectMeta{first}, Marked: []string{"Deployment garden/a"}},
			"Deployment garden/a uses it",
		},
		"a rotation whose old key was lost": {
			secrets.Evidence{Preparing: true, Uses: []string{"Deployment garden/a"}},
			"Deployment garden/a uses the one before it, which is missing, too",
		},
		"a rotation whose old key was lost after a Secret from before it was restored": {
			secrets.Evidence{
				Preparing: true, Confirmed: true, Secrets: []metav1.ObjectMeta{first}, Lost: []string{"Deployment garden/a uses Secret k"},
			},
			"Deployment garden/a uses Secret k, which is missing, and Secret key-00000000 is from an earlier rotation: restore the former, " +
				"or delete the latter",
		},
		"a rotation after one that the status has forgotten": {
			secrets.Evidence{Preparing: true, Confirmed: true, Secrets: []metav1.ObjectMeta{third, second}},
			"the Secrets key-00000000-33333 and key-00000000-22222 are from two earlier rotations: delete the one that nothing needs, " +
				"or restore a status from after both",
		},
	} {
		t.Run(title, func(t *testing.T) {
			NewWithT(t).Expect(tc.evidence.Refusal()).To(Equal(tc.refusal))
			confirmed := tc.evidence
			confirmed.Confirmed = true
			NewWithT(t).Expect(tc.evidence.Confirmable()).To(Equal(confirmed.Refusal() == ""))
		})
	}
}

func TestNamesOfSecretsAreFoundInTexts(t *testing.T) {
	text := []byte("{\"a\":\"ca-f6032ea0\",\"b\":\"ca-bundle-f6032ea0-5d3a1\",\"e\":[\"ca-f6032ea0\"]}\nname: ca-etcd-0123abcd\n" +
		"ca-f6032ea01 ca-f6032ea0x ca-F6032ea0 ca -f6032ea0")
	NewWithT(t).Expect(secrets.NamesIn(text)).To(Equal([]string{"ca-bundle-f6032ea0-5d3a1", "ca-etcd-0123abcd", "ca-f6032ea0"}))
}

func TestNamesOfSecretsAreRecognized(t *testing.T) {
	g := NewWithT(t)
	for name, is := range map[string]bool{
		"ca-f6032ea0": true, "ca-f6032ea0-5d3a1": true, "ca-bundle-0123abcd": true,
		"ca": false, "ca-etcd-f6032ea0": false, "ca-client-bundle-0123abcd": false, "x-ca-f6032ea0": false, "ca-f6032ea01": false,
	} {
		isName, isBundle := secrets.IsNameOf("ca", name)
		g.Expect(isName).To(Equal(is), name)
		g.Expect(isBundle).To(Equal(name == "ca-bundle-0123abcd"), name)
	}
}

func TestKeyInUseThatWasLostIsNotReplaced(t *testing.T) {
	first, second := secrets.LostKey{Name: "key-1", User: "Deployment garden/a"}, secrets.LostKey{Name: "key-2", User: "Deployment garden/b"}
	confirmed := func(key secrets.LostKey) secrets.LostKey {
		key.Confirmed = true
		return key
	}
	for title, tc := range map[string]struct {
		evidence secrets.Evidence
		replaced *secrets.LostKey
	}{
		"nothing is in use":   {evidence: secrets.Evidence{Lost: []string{"Deployment other/a uses Secret key-1"}}},
		"the loss of one":     {secrets.Evidence{InUse: []secrets.LostKey{confirmed(first), second}}, &second},
		"the loss of all":     {evidence: secrets.Evidence{InUse: []secrets.LostKey{confirmed(first), confirmed(second)}}},
		"that of the current": {evidence: secrets.Evidence{Confirmed: true, InUse: []secrets.LostKey{first}}},
	} {
		t.Run(title, func(t *testing.T) { NewWithT(t).Expect(tc.evidence.Replaced()).To(Equal(tc.replaced)) })
	}
}
