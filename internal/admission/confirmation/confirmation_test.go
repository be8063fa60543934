package confirmation_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/admission/confirmation"
)

func TestCheck(t *testing.T) {
	with := func(value string) map[string]string {
		return map[string]string{"confirmation.gardener.cloud/deletion": value}
	}
	for name, tc := range map[string]struct {
		annotations map[string]string
		confirmed   bool
	}{
		"1":                       {annotations: with("1"), confirmed: true},
		"t":                       {annotations: with("t"), confirmed: true},
		"T":                       {annotations: with("T"), confirmed: true},
		"true":                    {annotations: with("true"), confirmed: true},
		"TRUE":                    {annotations: with("TRUE"), confirmed: true},
		"True":                    {annotations: with("True"), confirmed: true},
		"no annotations":          {},
		"only others":             {annotations: map[string]string{"gardener.cloud/timestamp": "2026-01-01T00:00:00Z"}},
		"empty":                   {annotations: with("")},
		"false":                   {annotations: with("false")},
		"0":                       {annotations: with("0")},
		"yes is none of Go's":     {annotations: with("yes")},
		"a space around the word": {annotations: with(" true")},
		"mixed case is not taken": {annotations: with("tRue")},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			err := confirmation.Check(tc.annotations)
			if tc.confirmed {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(`must have a "confirmation.gardener.cloud/deletion" annotation to delete`))
		})
	}
}

func TestConfirm(t *testing.T) {
	at := time.Date(2026, 3, 4, 6, 6, 7, 89, time.FixedZone("east", 3600))
	for name, before := range map[string]map[string]string{
		"nothing annotated yet": {},
		"no map yet":            nil,
		"refused before, and other things too": {
			"confirmation.gardener.cloud/deletion": "false", "gardener.cloud/timestamp": "long ago", "kept": "yes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			object := &metav1.ObjectMeta{Annotations: before}
			want := map[string]string{"confirmation.gardener.cloud/deletion": "true", "gardener.cloud/timestamp": "2026-03-04T05:06:07.000000089Z"}
			if kept, has := before["kept"]; has {
				want["kept"] = kept
			}
			confirmation.Confirm(object, at)
			g.Expect(object.Annotations).To(Equal(want))
			g.Expect(confirmation.Check(object.Annotations)).To(Succeed())
		})
	}
}
