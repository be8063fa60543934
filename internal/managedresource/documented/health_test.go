package documented_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/health"
)

// Each row of the page's table starts with the kinds that it describes.
func TestTheHealthRulesNameEveryKind(t *testing.T) {
	p := readPage(t)
	at := slices.IndexFunc(p.sections, func(s section) bool { return s.heading == "Health rules" })
	g := NewWithT(t)
	g.Expect(at).To(BeNumerically(">=", 0))
	kind := regexp.MustCompile("`([A-Z][A-Za-z.0-9]+)`")
	found := map[string]bool{}
	for line := range strings.Lines(p.sections[at].text) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 || strings.HasPrefix(strings.TrimSpace(cells[1]), "any other") {
			continue
		}
		for _, each := range kind.FindAllStringSubmatch(cells[1], -1) {
			g.Expect(found).NotTo(HaveKey(each[1]), "listed twice")
			found[each[1]] = true
		}
	}
	var judged []string
	for _, each := range health.Kinds() {
		judged = append(judged, each.String())
	}
	g.Expect(slices.Collect(maps.Keys(found))).To(ConsistOf(judged))
}
