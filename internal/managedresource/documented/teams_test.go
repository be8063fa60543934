package documented_test

import (
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/config"
	. "github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
)

var (
	wordShop = regexp.MustCompile(`\bshop\b`)
	firstSet = regexp.MustCompile("(?s)<!-- example: first-set -->\n```yaml\n(.*?)```")
	refusals = regexp.MustCompile("(?m)^\\| (.*) \\| `(.*)` \\|$")
)

// changedSet returns the manifests of the first set of the page, changed as a row of the table of refused sets says.
var changedSet = map[string]func(string) string{
	"contains a ConfigMap of namespace `kube-system`": func(set string) string {
		return regexp.MustCompile(`(kind: ConfigMap\n *metadata: \{.*namespace: )[a-z0-9-]+`).ReplaceAllString(set, "${1}kube-system")
	},
	"has no annotation, and the configuration names no ServiceAccount": func(set string) string {
		return regexp.MustCompile(`(?m)^ *annotations: .*\n`).ReplaceAllString(set, "")
	},
	"names `kube-system:default`": func(set string) string {
		return strings.ReplaceAll(set, ": cook}", ": kube-system:default}")
	},
	"names a ServiceAccount that does not exist": func(set string) string {
		return strings.ReplaceAll(set, ": cook}", ": chef}")
	},
}

// The commands of docs/teams.md prepare a namespace under the shipped roles, its first set is applied, and the sets of its table are
// refused with the messages there.
func TestATeamFromNothingToItsFirstSet(t *testing.T) {
	t.Parallel()
	e := NewImpersonating(t, Options{Configure: func(cfg *config.ResourceManagerConfiguration) {
		served := &cfg.SourceClientConnection.Namespaces
		*served = append(*served, (*served)[0]+"-shop")
	}})
	shop := e.Namespace + "-shop"
	text := wordShop.ReplaceAllString(readDocument(t, "teams.md"), shop)
	run := func(line, input string) {
		t.Helper()
		arguments, found := strings.CutPrefix(line, "kubectl ")
		e.Expect(found).To(BeTrue(), line)
		out, err := runKubectl(e, arguments, input)
		e.Expect(err).NotTo(HaveOccurred(), "%s: %s", line, out)
	}
	script := (&page{text: text}).commands(t, "team")
	for line := range strings.SplitSeq(strings.ReplaceAll(strings.Join(script, "\n"), " \\\n", " "), "\n") {
		run(strings.ReplaceAll(line, "espalier-system:espalier-managedresource-controller", e.Namespace+":managedresource-controller"), "")
	}
	set := firstSet.FindStringSubmatch(text)[1]
	run("kubectl apply -f -", set)
	menu := client.ObjectKey{Namespace: shop, Name: "menu"}
	e.Eventually(func() map[string]string {
		found := &corev1.ConfigMap{}
		_ = e.Target.Get(e.Ctx, menu, found)
		return found.Data
	}).WithTimeout(Patience).Should(Equal(map[string]string{"soup": "pea"}))

	rows := refusals.FindAllStringSubmatch(text, -1)
	e.Expect(rows).To(HaveLen(len(changedSet)))
	for _, row := range rows {
		e.Expect(changedSet).To(HaveKey(row[1]))
		key := client.ObjectKey{Namespace: shop, Name: "refused"}
		run("kubectl apply -f -", changedSet[row[1]](strings.ReplaceAll(set, "name: menu", "name: refused")))
		e.Eventually(func() string {
			found := &resourcesv1alpha1.ManagedResource{}
			_ = e.Source.Get(e.Ctx, key, found)
			return Condition(found, "ResourcesApplied") + " " + Message(found, "ResourcesApplied")
		}).WithTimeout(Patience).Should(And(HavePrefix("False/ApplyFailed"), ContainSubstring(strings.Trim(row[2], "… "))), row[1])
		for _, namespace := range []string{shop, "kube-system"} {
			err := e.Target.Get(e.Ctx, client.ObjectKey{Namespace: namespace, Name: "refused"}, &corev1.ConfigMap{})
			e.Expect(apierrors.IsNotFound(err)).To(BeTrue(), row[1])
		}
		run("kubectl delete managedresource --wait=false -n "+shop+" refused", "")
		e.Eventually(func() bool {
			return apierrors.IsNotFound(e.Source.Get(e.Ctx, key, &resourcesv1alpha1.ManagedResource{}))
		}).WithTimeout(Patience).Should(BeTrue(), row[1])
	}
}
