package main

import (
	"strings"
	"testing"
	"testing/fstest"

	. "github.com/onsi/gomega"
)

const deployment = `---
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: garden, name: NAME}
spec: {template: {metadata: {labels: {a: b}}, spec: {containers: [{name: app, image: "app:1", args: [--a=1]}]}}}
`

// A variant has only the differences to its base, so a change of the base is a change of the variants that do not have the object.
func TestRestartsAreListedWithTheirVariants(t *testing.T) {
	g := NewWithT(t)
	named := func(name, from, to string) string {
		return strings.ReplaceAll(strings.ReplaceAll(deployment, "NAME", name), from, to)
	}
	tests := &fstest.MapFile{Data: []byte(`	goldentest.Compare(t, "plain", all)`)}
	before := fstest.MapFS{
		"web/web_test.go":         tests,
		"web/testdata/plain.yaml": {Data: []byte(named("web", "app:1", "app:1") + named("worker", "app:1", "app:1"))},
		"web/testdata/ha.yaml":    {Data: []byte(named("web", "--a=1", "--a=1, --ha"))},
		"web/testdata/small.yaml": {Data: []byte("# absent: Deployment garden/worker\n")},
		"web/testdata/old.yaml":   {Data: []byte("")},
	}
	after := fstest.MapFS{
		"web/web_test.go":         tests,
		"web/testdata/plain.yaml": {Data: []byte(named("web", "app:1", "app:2") + named("worker", "--a=1", "--a=2"))},
		"web/testdata/ha.yaml":    {Data: []byte(named("web", "--a=1", "--a=1, --ha"))},
		"web/testdata/small.yaml": {Data: []byte("# absent: Deployment garden/worker\n")},
		"web/testdata/new.yaml":   {Data: []byte("")},
	}
	changed, err := compare(before, after)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(changed.markdown("v1")).To(Equal("## Pods that restart after an upgrade from v1\n\n" +
		"- Deployment `garden/web`\n  - image of container app: app:1 → app:2 (plain, small)\n" +
		"- Deployment `garden/worker`\n  - flag --a of container app: 1 → 2 (ha, plain)\n" +
		"\nNot compared: web/new is new, web/old is gone.\n"))

	same, err := compare(before, before)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(same.markdown("v1")).To(Equal("## Pods that restart after an upgrade from v1\n\nNone.\n"))
	delete(before, "web/web_test.go")
	_, err = compare(before, after)
	g.Expect(err).To(MatchError(ContainSubstring("no test in web calls goldentest.Compare with a literal base")))
}

func TestNotesHaveTheSectionOfTheNextRelease(t *testing.T) {
	g := NewWithT(t)
	section, err := sectionOf("# Log\n\n## Not released\n\n### Changed\n\n- a\n\n## v1.0.0\n\n- b\n")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(section).To(Equal("### Changed\n\n- a\n"))
	_, err = sectionOf("# Log\n")
	g.Expect(err).To(MatchError(ContainSubstring("has no section")))
}
