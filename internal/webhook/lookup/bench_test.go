package lookup

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
)

// BenchmarkLookups measures look-ups in filled caches. Like the tests, it needs an API server.
func BenchmarkLookups(b *testing.B) {
	e := start(b, options{})
	e.world()
	e.warm()
	web, other := e.target("web"), e.target("other")
	e.eventually(func() bool { return e.scalingOf(web).scaled }).Should(BeTrue())
	pool := map[string]string{"pool": e.namespace}
	robot := types.NamespacedName{Namespace: e.namespace, Name: "robot"}
	for name, ask := range map[string]func() error{
		"Annotations":          func() error { _, err := e.Annotations(b.Context(), e.namespace); return err },
		"MaxReplicas/scaled":   func() error { _, _, err := e.MaxReplicas(b.Context(), web); return err },
		"MaxReplicas/unscaled": func() error { _, _, err := e.MaxReplicas(b.Context(), other); return err },
		"Automount":            func() error { _, err := e.Automount(b.Context(), robot); return err },
		"Taints":               func() error { _, err := e.Taints(b.Context(), pool); return err },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := ask(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
