package crdtest

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/test/binary"
)

// creation is an attempt to create a Project.
type creation struct {
	// name is the name of the Project; empty stands for a valid one.
	name string
	// spec is the spec of the Project as YAML; empty stands for {}.
	spec string
	// want are the errors of the API server; empty means that it accepts the Project.
	want []string
}

// createAll creates each Project and compares the errors.
func createAll(t *testing.T, all map[string]creation) {
	t.Helper()
	served := newEnv(t)
	for sentence, tc := range all {
		t.Run(sentence, func(t *testing.T) {
			e := served.in(t)
			if tc.name == "" {
				tc.name = "rules"
			}
			if tc.spec == "" {
				tc.spec = "{}"
			}
			_, err := e.create(e.project(tc.name, tc.spec))
			e.Expect(binary.Causes(e, err)).To(ConsistOf(tc.want))
		})
	}
}

func TestNamesAreShortAndPlain(t *testing.T) {
	const (
		long    = "<nil>: Invalid value: metadata.name may not be more than 10 bytes"
		hyphens = "<nil>: Invalid value: name may not contain two consecutive hyphens"
	)
	noName := func(name string) []string {
		return []string{fmt.Sprintf("metadata.name: Invalid value: %q: a lowercase RFC 1123 subdomain must consist of lower case "+
			"alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "+
			`for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`, name)}
	}
	createAll(t, map[string]creation{
		"one byte":                    {name: "p"},
		"ten bytes":                   {name: "ten-bytes1"},
		"a dot":                       {name: "project.a"},
		"single hyphens":              {name: "a-b-c"},
		"eleven bytes":                {name: "eleven-byte", want: []string{long}},
		"many bytes":                  {name: "project-name-too-long", want: []string{long}},
		"two hyphens in a row":        {name: "in--valid", want: []string{hyphens}},
		"long, and two hyphens":       {name: "a--b-cdefgh", want: []string{long, hyphens}},
		"an underscore":               {name: "project_a", want: noName("project_a")},
		"upper case":                  {name: "Project", want: noName("Project")},
		"a colon, as names of roles":  {name: "a:b", want: noName("a:b")},
		"a hyphen at the end":         {name: "a-", want: noName("a-")},
		"a line break and a new rule": {name: "a\nb", want: noName("a\nb")},
	})
}

func TestNamespacesStartWithGarden(t *testing.T) {
	const (
		prefix   = "spec.namespace: Forbidden: .spec.namespace must start with garden-"
		noLabel  = `spec.namespace: Invalid value: "%s": must be a lower case RFC 1123 label`
		reserved = `spec.namespace: Invalid value: "gardener-system-seed-lease": Project namespace gardener-system-seed-lease is reserved ` +
			`by Gardener`
	)
	createAll(t, map[string]creation{
		"none":                {spec: "{}"},
		"the garden's":        {spec: "{namespace: garden}"},
		"the prefix and more": {spec: "{namespace: garden-x}"},
		"63 bytes":            {spec: "{namespace: garden-" + strings.Repeat("x", 56) + "}"},
		"64 bytes": {
			spec: "{namespace: garden-" + strings.Repeat("x", 57) + "}",
			want: []string{"spec.namespace: Too long: may not be more than 63 bytes"},
		},
		"another":                      {spec: "{namespace: foo}", want: []string{prefix}},
		"one of the cluster's":         {spec: "{namespace: kube-system}", want: []string{prefix}},
		"one that only looks alike":    {spec: "{namespace: gardens}", want: []string{prefix}},
		"the prefix in the middle":     {spec: "{namespace: my-garden-x}", want: []string{prefix}},
		"empty":                        {spec: `{namespace: ""}`, want: []string{prefix, fmt.Sprintf(noLabel, "")}},
		"that of the seeds' leases":    {spec: "{namespace: gardener-system-seed-lease}", want: []string{prefix, reserved}},
		"no name that a namespace has": {spec: "{namespace: garden-A/../b}", want: []string{fmt.Sprintf(noLabel, "garden-A/../b")}},
		"nothing behind the prefix":    {spec: "{namespace: garden-}", want: []string{fmt.Sprintf(noLabel, "garden-")}},
		"a dot":                        {spec: "{namespace: garden-a.b}", want: []string{fmt.Sprintf(noLabel, "garden-a.b")}},
	})
}

func TestDescriptionAndPurposeSaySomething(t *testing.T) {
	createAll(t, map[string]creation{
		"both":    {spec: "{description: d, purpose: p}"},
		"neither": {spec: "{}"},
		"an empty description": {
			spec: `{description: ""}`, want: []string{"spec.description: Required value: must provide a description when key is present"},
		},
		"an empty purpose": {
			spec: `{purpose: ""}`, want: []string{"spec.purpose: Required value: must provide a purpose when key is present"},
		},
	})
}

func TestTolerationsAreWhitelisted(t *testing.T) {
	const forbidden = "spec.tolerations.defaults: Forbidden: only the following tolerations are allowed: those of spec.tolerations.whitelist"
	many := func(count int) string {
		all := make([]string, count)
		for i := range all {
			all[i] = fmt.Sprintf("{key: %s-%d, value: %s}", strings.Repeat("k", 250), i, strings.Repeat("v", 250))
		}
		return "[" + strings.Join(all, ", ") + "]"
	}
	createAll(t, map[string]creation{
		"none":                             {spec: "{tolerations: {}}"},
		"a whitelist":                      {spec: "{tolerations: {whitelist: [{key: foo}, {key: bar, value: baz}]}}"},
		"a default as in the whitelist":    {spec: "{tolerations: {whitelist: [{key: foo}], defaults: [{key: foo}]}}"},
		"a default with a value as listed": {spec: "{tolerations: {whitelist: [{key: foo, value: a}], defaults: [{key: foo, value: a}]}}"},
		"a value where each is listed":     {spec: "{tolerations: {whitelist: [{key: foo}], defaults: [{key: foo, value: a}]}}"},
		"as many as fit":                   {spec: "{tolerations: {whitelist: " + many(100) + ", defaults: " + many(100) + "}}"},
		"a default without a whitelist":    {spec: "{tolerations: {defaults: [{key: foo}]}}", want: []string{forbidden}},
		"a default that is not in the whitelist": {
			spec: "{tolerations: {whitelist: [{key: foo}], defaults: [{key: foo}, {key: bar}]}}", want: []string{forbidden},
		},
		"each value where one is listed": {
			spec: "{tolerations: {whitelist: [{key: foo, value: a}], defaults: [{key: foo}]}}", want: []string{forbidden},
		},
		"another value": {
			spec: "{tolerations: {whitelist: [{key: foo, value: a}], defaults: [{key: foo, value: b}]}}", want: []string{forbidden},
		},
		"an empty key in the whitelist": {
			spec: `{tolerations: {whitelist: [{key: ok}, {key: ""}]}}`,
			want: []string{"spec.tolerations.whitelist[1].key: Required value: cannot be empty"},
		},
		"an empty key in both": {
			spec: `{tolerations: {whitelist: [{key: ""}], defaults: [{key: ""}]}}`,
			want: []string{
				"spec.tolerations.defaults[0].key: Required value: cannot be empty",
				"spec.tolerations.whitelist[0].key: Required value: cannot be empty",
			},
		},
		"no key": {
			spec: "{tolerations: {whitelist: [{value: a}]}}", want: []string{"spec.tolerations.whitelist[0].key: Required value"},
		},
		"more than fit": {
			spec: "{tolerations: {whitelist: " + many(101) + "}}",
			want: []string{"spec.tolerations.whitelist: Too many: 101: must have at most 100 items"},
		},
	})
}
