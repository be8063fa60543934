package deployable_test

import (
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
)

// The ServiceMonitors select each Service that has a port for metrics: those of all binaries in deploy/, of the resource manager that
// garden-operator deploys, and of etcd-druid.
func TestServiceMonitorsSelectAllServicesWithMetrics(t *testing.T) {
	g := NewWithT(t)
	at := func(file string) string { return filepath.Join(root(t), filepath.FromSlash(file)) }
	services, err := filepath.Glob(at("deploy/*/base/service.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	var objects []*unstructured.Unstructured
	for _, file := range append(services,
		at("internal/garden/component/resourcemanager/testdata/full.yaml"),
		at("internal/garden/component/etcddruid/testdata/shipped.yaml"),
	) {
		objects = append(objects, objectsIn(t, file)...)
	}
	monitors := objectsIn(t, at("deploy/observability/servicemonitors.yaml"))
	found := sets.New[string]()
	for _, each := range objects {
		if each.GetKind() != "Service" || !hasPort(each, "spec", "ports", "name") {
			continue
		}
		selectedBy := 0
		for _, monitor := range monitors {
			namespaces, _, err := unstructured.NestedStringSlice(monitor.Object, "spec", "namespaceSelector", "matchNames")
			g.Expect(err).NotTo(HaveOccurred())
			selector, _, err := unstructured.NestedStringMap(monitor.Object, "spec", "selector", "matchLabels")
			g.Expect(err).NotTo(HaveOccurred())
			if sets.New(namespaces...).Has(each.GetNamespace()) && hasPort(monitor, "spec", "endpoints", "port") &&
				labels.SelectorFromSet(selector).Matches(labels.Set(each.GetLabels())) {
				selectedBy++
			}
		}
		g.Expect(selectedBy).To(Equal(1), each.GetName())
		found.Insert(each.GetName())
	}
	g.Expect(found.Len()).To(BeNumerically(">=", len(services)+2))
}

// hasPort reports whether an element of a list of an object names the port for metrics.
func hasPort(o *unstructured.Unstructured, spec, list, field string) bool {
	elements, _, _ := unstructured.NestedSlice(o.Object, spec, list) // an object without the list has no such port
	for _, each := range elements {
		if element, isMap := each.(map[string]any); isMap && element[field] == "metrics" {
			return true
		}
	}
	return false
}
