//go:build e2e

package gardenoperator_test

import (
	"context"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/test/e2e/compare"
)

// The lists of images in the ConfigMap of gardenlet: the one that it uses, and the one with Gardener's resource manager.
const (
	usedImages     = "images.yaml"
	gardenerImages = "gardener.yaml"
)

var _ = Describe("Espalier in the place of the resource manager of a Shoot", Ordered, Label("resource-manager"), func() {
	var l localGarden

	BeforeAll(func(ctx SpecContext) {
		l = requireSeed(ctx)
		gardenlet := &corev1.ConfigMap{}
		Expect(c.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: l.gardenletConfig(ctx)}, gardenlet)).To(Succeed())
		if gardenlet.Data[usedImages] == gardenlet.Data[gardenerImages] {
			Skip("SKIPPED: start the garden with make up-garden SEED=true RESOURCE_MANAGER=espalier")
		}
		l.createProject(ctx)
	}, NodeTimeout(limit))

	AfterAll(func(ctx SpecContext) { l.confirmAndDelete(ctx, "project", "", "plums") }, NodeTimeout(limit))

	It("applies the same objects as Gardener's resource manager, and the Shoot becomes healthy", func(ctx SpecContext) {
		gardener := l.objectsOfShoot(ctx, gardenerImages, false)
		espalier := l.objectsOfShoot(ctx, usedImages, true)
		Expect(gardener).NotTo(BeEmpty())
		Expect(compare.Check(compare.Differences(gardener, espalier), "gardener/resource-manager-differences.yaml",
			filepath.Join(l.machine.Dir, "..", "e2e", "resource-manager-differences.yaml"))).To(Succeed())
	}, SpecTimeout(6*limit))
})

// gardenletConfig returns the name of the ConfigMap of gardenlet.
func (l localGarden) gardenletConfig(ctx context.Context) string {
	GinkgoHelper()
	name, err := c.Kubectl(ctx, "-n", namespace, "get", "deployment", "gardenlet", "-o",
		"jsonpath={.spec.template.spec.volumes[0].configMap.name}")
	Expect(err).NotTo(HaveOccurred())
	return name
}

// objectsOfShoot creates the Shoot while gardenlet uses a list of images, and deletes it again. It returns the objects that the resource
// manager of the Shoot has applied and written.
func (l localGarden) objectsOfShoot(ctx context.Context, images string, untilHealthy bool) compare.Objects {
	GinkgoHelper()
	l.useImages(ctx, images)
	begin := time.Now()
	versions := l.shootVersions(ctx)
	l.createShoot(ctx, versions[len(versions)-1])
	AddReportEntry("Shoot created with "+images+" after", time.Since(begin).Round(time.Second).String())
	inShoot := l.kubectlInShoot(ctx)
	if untilHealthy {
		l.awaitHealthyShoot(ctx)
		AddReportEntry("Shoot healthy after", time.Since(begin).Round(time.Second).String())
	}
	var all compare.Objects
	Eventually(ctx, func(g Gomega, ctx context.Context) { all = l.collect(ctx, g, inShoot) }).WithTimeout(patience).Should(Succeed())
	begin = time.Now()
	l.confirmAndDelete(ctx, "shoot", ofShoot, shoot)
	AddReportEntry("Shoot deleted after", time.Since(begin).Round(time.Second).String())
	return all
}

// useImages makes gardenlet use a list of images.
func (l localGarden) useImages(ctx context.Context, list string) {
	GinkgoHelper()
	_, err := c.Kubectl(ctx, "-n", namespace, "set", "env", "deployment/gardenlet", "IMAGEVECTOR_OVERWRITE=/etc/gardenlet/"+list)
	Expect(err).NotTo(HaveOccurred())
	_, err = c.Kubectl(ctx, "-n", namespace, "rollout", "status", "deployment/gardenlet", "--timeout=5m")
	Expect(err).NotTo(HaveOccurred())
}

// collect returns the ManagedResources of the Shoot, their objects, and the Secrets and ServiceAccounts for tokens. It fails unless the
// ManagedResources are healthy.
func (l localGarden) collect(ctx context.Context, g Gomega, inShoot kubectl) compare.Objects {
	all := compare.Objects{}
	add := func(in kubectl, namespace, kind, name string) { all.Add(read(ctx, g, in, namespace, kind, name), nil) }
	sets := &resourcesv1alpha1.ManagedResourceList{}
	g.Expect(c.Client.List(ctx, sets, client.InNamespace(technicalID))).To(Succeed())
	for _, set := range sets.Items {
		var in kubectl = c.Kubectl
		if set.Spec.Class == nil {
			in = inShoot
		}
		for _, each := range set.Status.Conditions {
			wanted := "True"
			if each.Type == resourcesv1alpha1.ResourcesProgressing {
				wanted = "False"
			}
			g.Expect(string(each.Status)).To(Equal(wanted), "%s of %s: %s", each.Type, set.Name, each.Message)
		}
		for _, each := range set.Status.Resources {
			gvk := each.GroupVersionKind()
			add(in, each.Namespace, kindArgument(gvk.Kind, gvk.Version, gvk.Group), each.Name)
		}
		add(c.Kubectl, technicalID, "managedresources.v1alpha1.resources.gardener.cloud", set.Name)
	}
	requestors := &corev1.SecretList{}
	g.Expect(c.Client.List(ctx, requestors, client.InNamespace(technicalID),
		client.MatchingLabels{resourcesv1alpha1.ResourcePurpose: resourcesv1alpha1.PurposeTokenRequestor})).To(Succeed())
	for _, each := range requestors.Items {
		add(c.Kubectl, technicalID, "secrets.v1.", each.Name)
		add(inShoot, each.Annotations[resourcesv1alpha1.ServiceAccountNamespace], "serviceaccounts.v1.",
			each.Annotations[resourcesv1alpha1.ServiceAccountName])
	}
	return all
}

func kindArgument(kind, version, group string) string { return kind + "." + version + "." + group }

// read returns an object that kubectl gets.
func read(ctx context.Context, g Gomega, in kubectl, namespace, kind, name string) *unstructured.Unstructured {
	args := []string{"get", kind, name, "--show-managed-fields", "-o", "json"}
	if namespace != "" {
		args = append(args, "-n", namespace)
	}
	text, err := in(ctx, args...)
	g.Expect(err).NotTo(HaveOccurred())
	o := &unstructured.Unstructured{}
	g.Expect(o.UnmarshalJSON([]byte(text))).To(Succeed())
	return o
}
