package prune

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/sets"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/config"
)

// configMaps returns references to ConfigMaps with numbers from first up to last.
func configMaps(first, last int) []resourcesv1alpha1.ObjectReference {
	var refs []resourcesv1alpha1.ObjectReference
	for number := first; number <= last; number++ {
		ref := resourcesv1alpha1.ObjectReference{}
		ref.APIVersion, ref.Kind, ref.Namespace, ref.Name = "v1", "ConfigMap", "shop", fmt.Sprintf("map-%d", number)
		refs = append(refs, ref)
	}
	return refs
}

func testBrake() Brake {
	return Brake{Limit: &config.EspalierDeletionLimit{
		ProtectedKinds: &[]string{}, Objects: new(10), Percent: new(50), NamespacesAndDefinitions: new(3),
	}}
}

func TestAConfirmationIsOfOneDeletion(t *testing.T) {
	g := NewWithT(t)
	d := Departure{Before: configMaps(1, 12), Obsolete: configMaps(1, 11), Checksum: "one"}
	value := testBrake().Change(d).Confirmation
	d.Confirmation = value
	g.Expect(testBrake().Change(d)).To(BeNil())
	for name, other := range map[string]func(*Departure){
		"sources":   func(d *Departure) { d.Checksum = "two" },
		"objects":   func(d *Departure) { d.Obsolete = configMaps(2, 12) },
		"operation": func(d *Departure) { d.RemovesSet = true },
	} {
		changed := d
		other(&changed)
		g.Expect(testBrake().Change(changed)).NotTo(BeNil(), name)
	}
	g.Expect(IsSpent(value, "one")).To(BeTrue())
	g.Expect(IsSpent(value, "two")).To(BeFalse())
	g.Expect(IsSpent("", "one")).To(BeFalse())
}

func TestObjectsThatWereNeverWrittenDoNotCount(t *testing.T) {
	g := NewWithT(t)
	d := Departure{Before: configMaps(1, 40), Obsolete: configMaps(1, 11)}
	g.Expect(testBrake().Change(d)).To(BeNil())
	d.Unwritten = sets.New[inventory.Key]()
	for _, ref := range configMaps(13, 40) {
		d.Unwritten.Insert(inventory.RefKey(ref))
	}
	g.Expect(testBrake().Change(d)).NotTo(BeNil())
}

func TestASuspensionNamesTheMissingRight(t *testing.T) {
	d := Departure{Before: configMaps(1, 11), Obsolete: configMaps(1, 11), Uncounted: "gadgets is forbidden"}
	NewWithT(t).Expect(testBrake().Change(d).Message()).To(ContainSubstring("cannot be counted: gadgets is forbidden. Restore"))
}
