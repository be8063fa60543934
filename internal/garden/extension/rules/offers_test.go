package rules_test

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/extension/rules"
)

func TestOffers(t *testing.T) {
	offering := func(kind string, changes ...func(*operatorv1alpha1.ExtensionResource)) operatorv1alpha1.Extension {
		offered := operatorv1alpha1.ExtensionResource{Kind: kind, Type: "a"}
		for _, each := range changes {
			each(&offered)
		}
		return operatorv1alpha1.Extension{Spec: operatorv1alpha1.ExtensionSpec{Resources: []operatorv1alpha1.ExtensionResource{offered}}}
	}
	secondary := func(r *operatorv1alpha1.ExtensionResource) { r.Primary = ptr.To(false) }
	compatible := func(with operatorv1alpha1.ClusterType) func(*operatorv1alpha1.ExtensionResource) {
		return func(r *operatorv1alpha1.ExtensionResource) {
			r.ClusterCompatibility = []operatorv1alpha1.ClusterType{with}
		}
	}
	leaving := offering("DNSRecord")
	leaving.DeletionTimestamp = &metav1.Time{}
	for sentence, tc := range map[string]struct {
		extension operatorv1alpha1.Extension
		kind, typ string
		want      bool
	}{
		"the kind and type":                   {extension: offering("DNSRecord"), kind: "DNSRecord", typ: "a", want: true},
		"another type":                        {extension: offering("DNSRecord"), kind: "DNSRecord", typ: "b"},
		"another kind":                        {extension: offering("BackupBucket"), kind: "DNSRecord", typ: "a"},
		"an Extension that only changes them": {extension: offering("DNSRecord", secondary), kind: "DNSRecord", typ: "a"},
		"an Extension that is being deleted":  {extension: leaving, kind: "DNSRecord", typ: "a"},
		"an Extension for Gardens":            {extension: offering("Extension", compatible("garden")), kind: "Extension", typ: "a", want: true},
		"an Extension for Shoots":             {extension: offering("Extension", compatible("shoot")), kind: "Extension", typ: "a"},
		"an Extension that names no cluster":  {extension: offering("Extension"), kind: "Extension", typ: "a"},
	} {
		t.Run(sentence, func(t *testing.T) {
			NewWithT(t).Expect(rules.Offers([]operatorv1alpha1.Extension{tc.extension}, tc.kind, tc.typ)).To(Equal(tc.want))
		})
	}
}

func TestBackupsNeedBothKinds(t *testing.T) {
	g := NewWithT(t)
	of := func(kinds ...string) []operatorv1alpha1.Extension {
		var all []operatorv1alpha1.Extension
		for _, kind := range kinds {
			all = append(all, operatorv1alpha1.Extension{Spec: operatorv1alpha1.ExtensionSpec{
				Resources: []operatorv1alpha1.ExtensionResource{{Kind: kind, Type: "a"}},
			}})
		}
		return all
	}
	g.Expect(rules.OffersBackups(of("BackupBucket", "BackupEntry"), "a")).To(BeTrue())
	g.Expect(rules.OffersBackups(of("BackupBucket"), "a")).To(BeFalse())
	g.Expect(rules.OffersBackups(of("BackupEntry"), "a")).To(BeFalse())
	g.Expect(rules.OffersBackups(of("BackupBucket", "BackupEntry"), "b")).To(BeFalse())
}
