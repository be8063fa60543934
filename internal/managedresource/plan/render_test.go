package plan_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/managedresource/plan"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func id(kind, name string) plan.ID {
	return plan.ID{APIVersion: "v1", Kind: kind, Namespace: "shop", Name: name}
}

func everything() *plan.Plan {
	return &plan.Plan{
		Namespace: "shop", Name: "web", Generation: 3, Checksum: "abc",
		Faults:  []string{"Could not decode resource at index 1 in 'a.yaml' in secret 'shop/web': invalid YAML."},
		Remarks: []string{"not looked at"},
		Objects: []plan.Object{
			{Action: plan.Keep, ID: id("Service", "old"), Note: "it has the annotation resources.gardener.cloud/keep-object"},
			{Action: plan.Delete, ID: id("ConfigMap", "old")},
			{Action: plan.Release, ID: id("ConfigMap", "free"), Note: `mode "Ignore": it stays, without the marks of the set`},
			{Action: plan.Unchanged, ID: id("ConfigMap", "same")},
			{Action: plan.Create, ID: plan.ID{APIVersion: "v1", Kind: "Namespace", Name: "new"}},
			{Action: plan.Create, ID: id("ConfigMap", "new"), Unconfirmed: true, Note: "not confirmed: its namespace is created by the set itself"},
			{Action: plan.Change, ID: id("ConfigMap", "settings"), MoreFields: 2, Fields: []plan.Field{
				{Path: "data.a", Old: `"1"`, New: `"<2>"`}, {Path: "data.b", New: `"x"`}, {Path: "data.c", Old: `"y"`},
			}},
			{Action: plan.Change, ID: id("Secret", "login"), Fields: []plan.Field{{Path: "data.password", Masked: "changed (6 bytes → 7 bytes)"}}},
			{Action: plan.Adopt, ID: id("ConfigMap", "found"), Note: "it exists and belongs to no set"},
			{
				Action: plan.Replace, ID: plan.ID{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web"}, Unconfirmed: true,
				Note: "first line\nsecond line",
			},
			{Action: plan.Refused, ID: id("ConfigMap", "bad"), Note: "is invalid"},
			{Action: plan.Unknown, ID: id("ConfigMap", "who"), Note: "cannot tell: no rights"},
			{Action: plan.Unchanged, ID: id("ConfigMap", "gone"), Note: "it is gone already"},
		},
	}
}

func TestRenderings(t *testing.T) {
	for name, p := range map[string]*plan.Plan{
		"everything":     everything(),
		"without-values": everything().WithoutValues(),
		"unchanged": {
			Namespace: "shop", Name: "web", Generation: 1, Checksum: "abc",
			Objects: []plan.Object{{Action: plan.Unchanged, ID: id("ConfigMap", "same")}},
		},
		"empty":   {Namespace: "shop", Name: "web", Generation: 1, Checksum: "abc"},
		"problem": {Namespace: "shop", Name: "web", Problem: "could not read secret 'shop/web'"},
	} {
		t.Run(name, func(t *testing.T) {
			machine, err := p.JSON(plan.Unbounded)
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			golden(t, name+".txt", p.Text(plan.Unbounded))
			golden(t, name+".json", machine)
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	g := NewWithT(t)
	file := filepath.Join("testdata", name)
	if *update {
		g.Expect(os.WriteFile(file, []byte(got), 0o600)).To(Succeed())
	}
	want, err := os.ReadFile(file)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got).To(Equal(string(want)))
}

func TestSummaryAndVerdict(t *testing.T) {
	for name, tc := range map[string]struct {
		plan            plan.Plan
		summary         string
		changes, faulty bool
	}{
		"everything": {
			plan: *everything(),
			summary: "2 to create, 2 to change, 1 to replace, 1 to delete, 1 to adopt, 1 to release, 1 refused, 1 unknown, 1 kept, 2 unchanged; " +
				"2 of these not confirmed by the API server; documents that cannot be read: 1",
			changes: true, faulty: true,
		},
		"nothing":   {summary: "nothing would change: the set has no objects"},
		"kept only": {plan: plan.Plan{Objects: []plan.Object{{Action: plan.Keep}}}, summary: "nothing would change: 1 kept"},
		"a problem": {plan: plan.Plan{Problem: "no Secret"}, summary: "nothing would be done: no Secret", faulty: true},
		"refused":   {plan: plan.Plan{Objects: []plan.Object{{Action: plan.Refused}}}, summary: "1 refused", faulty: true},
		"unknown":   {plan: plan.Plan{Objects: []plan.Object{{Action: plan.Unknown}}}, summary: "1 unknown", faulty: true},
		"faults": {
			plan:    plan.Plan{Faults: []string{"x"}},
			summary: "nothing would change: the set has no objects; documents that cannot be read: 1", faulty: true,
		},
		"a change":      {plan: plan.Plan{Objects: []plan.Object{{Action: plan.Change}}}, summary: "1 to change", changes: true},
		"an adoption":   {plan: plan.Plan{Objects: []plan.Object{{Action: plan.Adopt}}}, summary: "1 to adopt", changes: true},
		"a release":     {plan: plan.Plan{Objects: []plan.Object{{Action: plan.Release}}}, summary: "1 to release", changes: true},
		"a deletion":    {plan: plan.Plan{Objects: []plan.Object{{Action: plan.Delete}}}, summary: "1 to delete", changes: true},
		"a replacement": {plan: plan.Plan{Objects: []plan.Object{{Action: plan.Replace}}}, summary: "1 to replace", changes: true},
		"a creation":    {plan: plan.Plan{Objects: []plan.Object{{Action: plan.Create}}}, summary: "1 to create", changes: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(tc.plan.Summary()).To(Equal(tc.summary))
			g.Expect(tc.plan.Changes()).To(Equal(tc.changes))
			g.Expect(tc.plan.Faulty()).To(Equal(tc.faulty))
		})
	}
}

// A plan always fits into a ConfigMap, and states the number of objects that it leaves out.
func TestRenderingsAreBounded(t *testing.T) {
	g := NewWithT(t)
	p := &plan.Plan{Namespace: "shop", Name: "web"}
	for range 50 {
		p.Faults = append(p.Faults, strings.Repeat("f", 5000))
		p.Remarks = append(p.Remarks, strings.Repeat("\"", 5000))
	}
	for i := range 5000 {
		o := plan.Object{Action: plan.Change, ID: id("ConfigMap", fmt.Sprintf("cm-%05d", i)), Note: strings.Repeat("\n\"", 500)}
		for k := range 20 {
			o.Fields = append(o.Fields, plan.Field{Path: fmt.Sprint("data.k", k), Old: strings.Repeat("\"", 256), New: strings.Repeat("\\", 256)})
		}
		p.Objects = append(p.Objects, o)
	}
	const limit = 200_000
	text := p.Text(limit)
	g.Expect(len(text)).To(And(BeNumerically("<", limit+100), BeNumerically(">", limit*8/10)))
	shown := strings.Count(text, "\nchange v1 ConfigMap")
	g.Expect(text).To(HaveSuffix(fmt.Sprintf("\nand %d more objects that are not shown\n", 5000-shown)))

	machine, err := p.JSON(limit)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(len(machine)).To(And(BeNumerically("<", limit+100), BeNumerically(">", limit*3/10)))
	var decoded struct {
		Counts             map[string]int
		Faults, Remarks    []string
		Objects            []plan.Object
		ObjectsNotIncluded int
	}
	g.Expect(json.Unmarshal([]byte(machine), &decoded)).To(Succeed())
	g.Expect(decoded.Counts).To(Equal(map[string]int{"change": 5000}))
	g.Expect(decoded.ObjectsNotIncluded).To(Equal(5000 - len(decoded.Objects)))
	g.Expect(decoded.Faults).To(HaveLen(21))
	g.Expect(decoded.Faults[20]).To(Equal("and 30 more"))
}
