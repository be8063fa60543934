package references_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/api/references"
)

func TestAnnotationKey(t *testing.T) {
	for name, tc := range map[string]struct{ kind, name, want string }{
		"a made-up kind": {kind: "kind", name: "name", want: "reference.resources.gardener.cloud/kind-82a3537f"},
		"a ConfigMap":    {kind: "configmap", name: "test-5678", want: "reference.resources.gardener.cloud/configmap-4ed34879"},
		"a Secret":       {kind: references.KindSecret, name: "test-5678", want: "reference.resources.gardener.cloud/secret-4ed34879"},
		"the constant":   {kind: references.KindConfigMap, name: "name", want: "reference.resources.gardener.cloud/configmap-82a3537f"},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(references.AnnotationKey(tc.kind, tc.name)).To(Equal(tc.want))
		})
	}
}

func TestKindFromAnnotationKey(t *testing.T) {
	for name, tc := range map[string]struct{ key, kind string }{
		"a Secret":                  {key: "reference.resources.gardener.cloud/secret-4ed34879", kind: "secret"},
		"a ConfigMap":               {key: "reference.resources.gardener.cloud/configmap-4ed34879", kind: "configmap"},
		"another kind":              {key: "reference.resources.gardener.cloud/kind-82a3537f", kind: "kind"},
		"a hash that is none":       {key: "reference.resources.gardener.cloud/secret-foo", kind: "secret"},
		"an empty hash":             {key: "reference.resources.gardener.cloud/secret-", kind: "secret"},
		"no hash":                   {key: "reference.resources.gardener.cloud/secret"},
		"no kind":                   {key: "reference.resources.gardener.cloud/-4ed34879"},
		"two dashes":                {key: "reference.resources.gardener.cloud/secret-foo-4ed34879"},
		"the prefix alone":          {key: "reference.resources.gardener.cloud/"},
		"another prefix":            {key: "resources.gardener.cloud/secret-4ed34879"},
		"the prefix somewhere else": {key: "x.reference.resources.gardener.cloud/secret-4ed34879"},
		"nothing":                   {key: ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			kind, ok := references.KindFromAnnotationKey(tc.key)
			g.Expect(kind).To(Equal(tc.kind))
			g.Expect(ok).To(Equal(tc.kind != ""))
		})
	}
}

func FuzzKindFromAnnotationKey(f *testing.F) {
	f.Fuzz(func(t *testing.T, key string) {
		g := NewWithT(t)
		kind, ok := references.KindFromAnnotationKey(key)
		g.Expect(ok).To(Equal(kind != ""))
		if ok {
			g.Expect(key).To(HavePrefix("reference.resources.gardener.cloud/" + kind + "-"))
			g.Expect(strings.Count(strings.TrimPrefix(key, "reference.resources.gardener.cloud/"), "-")).To(Equal(1))
		}
		// A key that is made for any name is read again.
		made, ok := references.KindFromAnnotationKey(references.AnnotationKey("secret", key))
		g.Expect(ok).To(BeTrue())
		g.Expect(made).To(Equal("secret"))
	})
}
