package webhook

import (
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"
)

func TestDifference(t *testing.T) {
	for name, tc := range map[string]struct {
		sent, before, after string
		want                string // as JSON; "" for no change
	}{
		"nothing differs": {sent: "{a: 1, b: {c: old}}", before: "{a: 1, b: {c: [new]}}", after: "{a: 1, b: {c: [new]}}"},
		"a value is set":  {sent: "{}", before: "{}", after: "{a: 1}", want: `[{"op":"add","path":"/a","value":1}]`},
		"a value is changed": {
			sent: "{a: 1}", before: "{a: 1}", after: "{a: 2}", want: `[{"op":"add","path":"/a","value":2}]`,
		},
		"a value is removed":                   {sent: "{a: 1}", before: "{a: 1}", after: "{}", want: `[{"op":"remove","path":"/a"}]`},
		"a value that was not sent is removed": {sent: "{}", before: "{a: 1}", after: "{}"},
		"a value is set in an object": {
			sent: "{a: {b: x}}", before: "{a: {b: [x]}}", after: "{a: {b: [x], c: 1}}", want: `[{"op":"add","path":"/a/c","value":1}]`,
		},
		"a value is set in an object of null": {
			sent: "{a: }", before: "{a: {b: 0}}", after: "{a: {b: 0, c: 1}}", want: `[{"op":"add","path":"/a","value":{"b":0,"c":1}}]`,
		},
		"an object that was not sent is added": {
			sent: "{}", before: "{a: {b: 0}}", after: "{a: {b: 0, c: 1}}", want: `[{"op":"add","path":"/a","value":{"b":0,"c":1}}]`,
		},
		"a list is replaced": {
			sent: "{a: [1]}", before: "{a: [1]}", after: "{a: [1, 2]}", want: `[{"op":"add","path":"/a","value":[1,2]}]`,
		},
		"a value is removed in an object": {
			sent: "{a: {b: 1, c: 2}}", before: "{a: {b: 1, c: 2}}", after: "{a: {c: 2}}", want: `[{"op":"remove","path":"/a/b"}]`,
		},
		"fields without a type stay unmodified": {
			sent: "{a: {x: 1}}", before: "{a: {}}", after: "{a: {b: 1}}", want: `[{"op":"add","path":"/a/b","value":1}]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			parsed := make([]map[string]any, 3)
			for i, text := range []string{tc.sent, tc.before, tc.after} {
				g.Expect(yaml.Unmarshal([]byte(text), &parsed[i])).To(Succeed())
			}
			got, err := difference(parsed[0], parsed[1], parsed[2]).Encode()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(got)).To(Equal(tc.want))
		})
	}
}
