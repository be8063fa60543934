package handlers

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/config"
)

func TestNamesAndPathsAreUnique(t *testing.T) {
	g := NewWithT(t)
	seen := map[string]bool{}
	for _, each := range All() {
		for _, value := range []string{each.Name, each.Path} {
			g.Expect(seen).NotTo(HaveKey(value))
			seen[value] = true
		}
	}
}

func TestHandlersThatChangeObjectsComeFirst(t *testing.T) {
	g := NewWithT(t)
	all := All()
	first := slices.IndexFunc(all, func(h Handler) bool { return !h.Mutating })
	for _, each := range all[first:] {
		g.Expect(each.Mutating).To(BeFalse(), each.Name)
		g.Expect(each.Policy).To(BeNil(), each.Name)
	}
}

// TestEverySectionHasAHandler requires that each section below webhooks in the configuration has a handler, and each handler a section.
func TestEverySectionHasAHandler(t *testing.T) {
	g := NewWithT(t)
	var want []string
	for field := range reflect.TypeFor[config.Webhooks]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		want = append(want, name)
	}
	g.Expect(sections()).To(ConsistOf(want))
}

func TestSwitchEnablesTheHandlersOfItsSection(t *testing.T) {
	for _, each := range All() {
		t.Run(each.Name, func(t *testing.T) {
			g := NewWithT(t)
			cfg := config.Webhooks{}
			g.Expect(Enabled(cfg)).To(BeEmpty())
			*each.Switch(&cfg) = true
			found := Enabled(cfg)
			g.Expect(found).NotTo(BeEmpty())
			for _, enabled := range found {
				g.Expect(enabled.Section).To(Equal(each.Section))
			}
			section := reflect.ValueOf(cfg).FieldByNameFunc(func(name string) bool {
				field, _ := reflect.TypeFor[config.Webhooks]().FieldByName(name)
				return strings.HasPrefix(field.Tag.Get("json"), each.Section+",")
			})
			g.Expect(section.FieldByName("Enabled").Bool()).To(BeTrue(), "another section is switched on")
		})
	}
}

func TestEveryHandlerIsRegisteredSomewhere(t *testing.T) {
	for _, each := range All() {
		declared := 0
		for _, in := range []string{config.FlavorStandalone, config.FlavorGardenerRuntime, config.FlavorGardenerShoot} {
			declared += len(each.Declared(Cluster{Flavor: in}))
		}
		NewWithT(t).Expect(declared).To(BeNumerically(">", 0), each.Name)
	}
}

func sections() []string {
	var all []string
	for _, each := range All() {
		if !slices.Contains(all, each.Section) {
			all = append(all, each.Section)
		}
	}
	return all
}
