package fluentbit_test

import (
	"path"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/fluentbit"
	"github.com/espalier-dev/espalier/internal/garden/goldentest"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

func TestObjectsAreAsInTheGoldenFiles(t *testing.T) {
	objects := func(collector bool) []client.Object {
		v := goldentest.Values(t, func(*values.Values) any { return &struct{}{} }, "{}")
		v.OpenTelemetryCollector = collector
		all, err := fluentbit.Objects(v)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		return append(all, fluentbit.CustomResources(v)...)
	}
	goldentest.Compare(t, "", map[string][]client.Object{"collector": objects(true), "vali": objects(false)})
}

// The kubelet names a file POD_NAMESPACE_CONTAINER-ID.log. The collector would receive its own log lines again and again.
func TestLogOfTheCollectorIsNotRead(t *testing.T) {
	g := NewWithT(t)
	v := goldentest.Values(t, func(*values.Values) any { return &struct{}{} }, "{}")
	v.OpenTelemetryCollector = true
	all, err := fluentbit.Objects(v)
	g.Expect(err).NotTo(HaveOccurred())
	var patterns string
	for _, each := range all {
		if input, is := each.(*unstructured.Unstructured); is && input.GetKind() == "ClusterInput" {
			patterns, _, _ = unstructured.NestedString(input.Object, "spec", "tail", "excludePath")
		}
	}
	excluded := func(file string) bool {
		return slices.ContainsFunc(strings.Split(patterns, ","), func(pattern string) bool {
			matches, err := path.Match(pattern, file)
			return err == nil && matches
		})
	}
	g.Expect(excluded("opentelemetry-collector-collector-5b9c7-x2x9k_garden_otc-container-0123.log")).To(BeTrue())
	g.Expect(excluded("opentelemetry-collector-collector-5b9c7-x2x9k_shoot--a--b_otc-container-0123.log")).To(BeFalse())
	g.Expect(excluded("etcd-main-0_garden_etcd-0123.log")).To(BeFalse())
}

// The selector of a DaemonSet cannot change, so that other labels need another DaemonSet.
func TestOtherLabelsAreAnotherObject(t *testing.T) {
	g := NewWithT(t)
	g.Expect(fluentbit.ObjectName(true)).To(MatchRegexp("^fluent-bit-[0-9a-f]{5}$"))
	g.Expect(fluentbit.ObjectName(true)).NotTo(Equal(fluentbit.ObjectName(false)))
}

func TestLogsAreCollectedOnlyForAStore(t *testing.T) {
	g := NewWithT(t)
	of := func(o values.Operator) string { return fluentbit.Unless(values.Values{Operator: o}) }
	g.Expect(of(values.Operator{OpenTelemetryCollector: true})).To(BeEmpty())
	g.Expect(of(values.Operator{})).To(BeEmpty())
	g.Expect(of(values.Operator{SkipComponents: []string{"vali"}})).To(ContainSubstring("no store of logs"))
	g.Expect(of(values.Operator{SkipComponents: []string{"vali"}, OpenTelemetryCollector: true, VictoriaLogs: true})).To(BeEmpty())
	g.Expect(of(values.Operator{SkipComponents: []string{"opentelemetry-collector"}, OpenTelemetryCollector: true})).
		To(ContainSubstring("skips the collector"))
	g.Expect(of(values.Operator{SkipComponents: []string{"opentelemetry-collector"}})).To(BeEmpty())
}
