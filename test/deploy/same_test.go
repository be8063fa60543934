package deploy_test

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/deployable"
)

// inValues contains the key of each binary in the values of the chart.
var inValues = map[string]string{
	"csr-approver":               "csrApprover",
	"extension-controller":       "extensionController",
	"garden-operator":            "gardenOperator",
	"managedresource-controller": "managedresourceController",
	"netpol-controller":          "netpolController",
	"node-controller":            "nodeController",
	"project-controller":         "projectController",
	"token-controllers":          "tokenControllers",
	"webhook-server":             "webhookServer",
}

func off(binaries ...string) map[string]any {
	values := map[string]any{}
	for _, each := range binaries {
		values[inValues[each]] = map[string]any{"enabled": false}
	}
	return values
}

func all() []string {
	var names []string
	for _, each := range deployable.All() {
		names = append(names, each.Name)
	}
	return names
}

func TestBothRenderTheSame(t *testing.T) {
	g := NewWithT(t)
	wanted := kustomized(t, "overlays", "standalone").without("Namespace", "CustomResourceDefinition")
	g.Expect(wanted).To(HaveLen(80), "this test sees objects")
	expectSame(t, helmed(t, nil), wanted)
}

func TestBothRenderTheSameWithoutABinary(t *testing.T) {
	everything := kustomized(t, "overlays", "standalone").without("Namespace", "CustomResourceDefinition")
	for _, binary := range deployable.All() {
		each := binary.Name
		if binary.OffTogether {
			continue
		}
		t.Run(each, func(t *testing.T) {
			wanted := maps.Clone(everything)
			for id := range kustomized(t, each) {
				NewWithT(t).Expect(wanted).To(HaveKey(id))
				delete(wanted, id)
			}
			expectSame(t, helmed(t, off(each)), wanted)
		})
	}
}

// TestABinaryThatIsOffIsRenderedAlikeIfItIsAdded compares both renderings of the binaries that the overlay standalone omits.
func TestABinaryThatIsOffIsRenderedAlikeIfItIsAdded(t *testing.T) {
	for _, each := range deployable.All() {
		if !each.OffTogether {
			continue
		}
		t.Run(each.Name, func(t *testing.T) {
			g := NewWithT(t)
			for id := range kustomized(t, "overlays", "standalone") {
				g.Expect(id).NotTo(HaveSuffix(" espalier-"+each.Name), "nothing of it is in the overlay")
			}
			values := off(slices.DeleteFunc(all(), func(name string) bool { return name == each.Name })...)
			values[inValues[each.Name]] = map[string]any{"enabled": true}
			rendered := helmed(t, values)
			container := containerOf(t, rendered["apps/v1 Deployment espalier-system espalier-"+each.Name])
			container["image"] = strings.TrimSuffix(text(container["image"]), ":v0.0.0-dev")
			wanted := kustomized(t, each.Name)
			maps.DeleteFunc(wanted, func(id string, _ map[string]any) bool { return strings.Contains(id, inRestoreDrill) })
			expectSame(t, rendered, wanted)
		})
	}
}

// TestTheTokenInvalidatorIsOnInBothHalves compares the overlay that enables the token invalidator in both binaries with the documented
// values of the chart. The overlay does not bind the roles of the token requestor, which the chart always binds.
func TestTheTokenInvalidatorIsOnInBothHalves(t *testing.T) {
	g := NewWithT(t)
	on := map[string]any{"tokenInvalidator": map[string]any{"enabled": true}}
	both := func() map[string]any { return map[string]any{"controllers": on, "webhooks": on} }
	rendered := helmed(t, map[string]any{
		"tokenControllers": map[string]any{"enabled": true, "config": both()}, "webhookServer": map[string]any{"config": both()},
	})
	overlay := kustomized(t, "overlays", "token-invalidator").without("Namespace", "CustomResourceDefinition")
	for _, role := range []string{"source", "target"} {
		id := "rbac.authorization.k8s.io/v1 ClusterRoleBinding  espalier-token-controllers-" + role
		g.Expect(rendered).To(HaveKey(id))
		delete(rendered, id)
	}
	g.Expect(slices.Sorted(maps.Keys(rendered))).To(Equal(slices.Sorted(maps.Keys(overlay))))
	for _, binary := range []string{"token-controllers", "webhook-server"} {
		id := "v1 ConfigMap espalier-system espalier-" + binary
		g.Expect(text(at(t, rendered[id], "data", "config.yaml"))).To(MatchYAML(text(at(t, overlay[id], "data", "config.yaml"))))
	}
	before := kustomized(t, "overlays", "standalone")
	checksum := []string{"spec", "template", "metadata", "annotations", "espalier.dev/config-checksum"}
	const id = "apps/v1 Deployment espalier-system espalier-webhook-server"
	g.Expect(at(t, overlay[id], checksum...)).NotTo(Equal(at(t, before[id], checksum...)), "webhook-server is rolled out")
}

func TestMinimalIsTheChartWithoutTheOthers(t *testing.T) {
	others := slices.DeleteFunc(all(), func(name string) bool { return name == "managedresource-controller" })
	minimal := kustomized(t, "overlays", "minimal")
	expectSame(t, helmed(t, off(others...)), minimal.without("Namespace", "CustomResourceDefinition"))
	NewWithT(t).Expect(slices.Sorted(maps.Keys(minimal))).To(ContainElements(
		"v1 Namespace  espalier-system", "apiextensions.k8s.io/v1 CustomResourceDefinition  managedresources.resources.gardener.cloud"))
}

func TestWithoutAnyBinaryTheChartIsEmpty(t *testing.T) {
	NewWithT(t).Expect(helmed(t, off(all()...))).To(BeEmpty())
}

// TestBothRenderTheSameForTwoClusters compares each binary separately. It ignores the tag of the image, which the overlay leaves to its
// user.
func TestBothRenderTheSameForTwoClusters(t *testing.T) {
	for _, each := range deployable.All() {
		if !each.HasTarget() {
			continue
		}
		t.Run(each.Name, func(t *testing.T) {
			values := off(slices.DeleteFunc(all(), func(name string) bool { return name == each.Name })...)
			values[inValues[each.Name]] = map[string]any{"enabled": true, "targetKubeconfigSecret": "espalier-" + each.Name + "-target"}
			rendered := helmed(t, values)
			id := "apps/v1 Deployment espalier-system espalier-" + each.Name
			container := containerOf(t, rendered[id])
			container["image"] = strings.TrimSuffix(text(container["image"]), ":v0.0.0-dev")
			expectSame(t, rendered, kustomized(t, "overlays", "source-target", "source", each.Name))
		})
	}
}

func TestBothHaveTheSameCRDs(t *testing.T) {
	g := NewWithT(t)
	shipped := objects{}
	for _, crd := range loadChart(t).CRDObjects() {
		maps.Copy(shipped, decode(t, crd.File.Data))
	}
	standalone := kustomized(t, "overlays", "standalone")
	wanted := maps.Clone(standalone)
	maps.DeleteFunc(wanted, func(_ string, fields map[string]any) bool { return fields["kind"] != "CustomResourceDefinition" })
	g.Expect(wanted).To(HaveLen(14))
	expectSame(t, shipped, wanted)
}

func TestEverythingIsTheStandaloneOverlay(t *testing.T) {
	expectSame(t, kustomized(t, "."), kustomized(t, "overlays", "standalone"))
}

// TestOneTagIsForAllImages requires that deploy/images sets the tag of the images in all Deployments.
func TestOneTagIsForAllImages(t *testing.T) {
	for _, overlay := range []string{"standalone", "minimal", "garden", filepath.Join("source-target", "source")} {
		t.Run(overlay, func(t *testing.T) {
			g := NewWithT(t)
			found := 0
			for id, fields := range kustomized(t, "overlays", overlay) {
				if fields["kind"] == "Deployment" {
					found++
					g.Expect(containerOf(t, fields)["image"]).To(HaveSuffix(":v0.0.0-dev"), id)
				}
			}
			g.Expect(found).To(BeNumerically(">", 0))
		})
	}
}

func expectSame(t *testing.T, got, want objects) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(slices.Sorted(maps.Keys(got))).To(Equal(slices.Sorted(maps.Keys(want))))
	for id := range want {
		g.Expect(got[id]).To(BeComparableTo(want[id]), id)
	}
}

func containerOf(t *testing.T, deployment map[string]any) map[string]any {
	t.Helper()
	containers, ok := podOf(t, deployment)["containers"].([]any)
	NewWithT(t).Expect(ok).To(BeTrue())
	container, ok := containers[0].(map[string]any)
	NewWithT(t).Expect(ok).To(BeTrue())
	return container
}

func podOf(t *testing.T, deployment map[string]any) map[string]any {
	t.Helper()
	pod, ok := at(t, deployment, "spec", "template", "spec").(map[string]any)
	NewWithT(t).Expect(ok).To(BeTrue())
	return pod
}

// at returns the value at a path in an object.
func at(t *testing.T, in any, path ...string) any {
	t.Helper()
	for _, name := range path {
		fields, ok := in.(map[string]any)
		NewWithT(t).Expect(ok).To(BeTrue(), "%s is no object", name)
		in = fields[name]
	}
	return in
}

func text(value any) string {
	s, _ := value.(string)
	return s
}
