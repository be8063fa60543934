package vali_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/vali"
	"github.com/espalier-dev/espalier/internal/garden/goldentest"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

func TestObjectsAreAsInTheGoldenFiles(t *testing.T) {
	objects := func(changes ...func(*values.Values)) []client.Object {
		v := goldentest.Values(t, func(*values.Values) any { return &struct{}{} }, "{}", changes...)
		all, err := vali.Objects(v)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		return all
	}
	goldentest.Compare(t, "plain", map[string][]client.Object{
		"plain":        objects(),
		"large-volume": objects(func(v *values.Values) { v.MinimumVolumeSize = ptr.To(resource.MustParse("50Gi")) }),
	})
}

func TestGardensWithoutVali(t *testing.T) {
	g := NewWithT(t)
	g.Expect(vali.Unless(values.Values{})).To(BeEmpty())
	g.Expect(vali.Unless(values.Values{PodsHaveIPv6: true})).To(ContainSubstring("IPv6"))
	g.Expect(vali.Unless(values.Values{Operator: values.Operator{RemoveVali: true}})).To(ContainSubstring("RemoveVali"))
}

func TestValiStaysUntilItsSuccessorHasAllLines(t *testing.T) {
	now := time.Date(2026, time.January, 20, 12, 0, 0, 0, time.UTC)
	deployed := func(days int) vali.Successor {
		return vali.Successor{Since: now.Add(-time.Duration(days) * 24 * time.Hour)}
	}
	for sentence, tc := range map[string]struct {
		successor vali.Successor
		confirmed bool
		want      string
	}{
		"no successor": {want: "VictoriaLogs is not deployed yet"},
		"a successor that is too young": {
			successor: deployed(14), want: "VictoriaLogs has all lines of the last 15 days from 2026-01-21T12:00:00Z on",
		},
		"a successor with all lines": {successor: deployed(15)},
		"a successor that does not run": {
			successor: vali.Successor{Since: deployed(20).Since, Problem: "no Pod"}, want: "VictoriaLogs does not run: no Pod",
		},
		"a young successor, and the user confirms it": {successor: deployed(1), confirmed: true},
	} {
		t.Run(sentence, func(t *testing.T) {
			NewWithT(t).Expect(vali.Stays(tc.successor, tc.confirmed, now)).To(Equal(tc.want))
		})
	}
}
