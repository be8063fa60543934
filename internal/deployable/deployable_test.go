package deployable_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/deployable"
	"github.com/espalier-dev/espalier/test/local"
)

func root(t *testing.T) string {
	t.Helper()
	folder, err := local.RepositoryRoot()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return folder
}

func TestEveryBinaryIsDeployable(t *testing.T) {
	g := NewWithT(t)
	entries, err := os.ReadDir(filepath.Join(root(t), "cmd"))
	g.Expect(err).NotTo(HaveOccurred())
	var built, declared []string
	for _, each := range entries {
		built = append(built, each.Name())
	}
	for _, each := range deployable.All() {
		declared = append(declared, each.Name)
	}
	g.Expect(declared).To(Equal(built))
}

func TestConfigurationsAreValidWithoutWarning(t *testing.T) {
	for _, each := range deployable.All() {
		t.Run(each.Name, func(t *testing.T) {
			g := NewWithT(t)
			if each.Name == "project-controller" {
				c, warnings, err := config.ControllerManager([]byte(each.Config))
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(warnings).To(BeEmpty())
				g.Expect(c.Validate()).To(BeEmpty())
				g.Expect([]int{c.Server.HealthProbes.Port, c.Server.Metrics.Port, c.Espalier.Project.Webhooks.Port}).
					To(Equal([]int{int(each.ProbePort), int(each.MetricsPort), int(each.WebhookPort)}))
				return
			}
			c, warnings, err := config.ResourceManager([]byte(each.Config))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(warnings).To(BeEmpty())
			g.Expect(c.Validate()).To(BeEmpty())
			g.Expect([]int{c.Server.HealthProbes.Port, c.Server.Metrics.Port}).To(Equal([]int{int(each.ProbePort), int(each.MetricsPort)}))
			if each.WebhookPort != 0 {
				g.Expect(c.Server.Webhooks.Port).To(Equal(int(each.WebhookPort)))
			}
		})
	}
}

// TestRolesAreThoseThatAreShipped holds that nothing is bound that is not shipped, and that what is shipped and not bound is
// so on purpose.
func TestRolesAreThoseThatAreShipped(t *testing.T) {
	unbound := map[string][]string{
		// cluster-admin includes what a narrower role would need.
		"managedresource-controller": {"espalier-managedresource-controller-target-base", "espalier-managedresource-controller-target-garbagecollector"},
		// The invalidator is off.
		"token-controllers": {"espalier-token-controllers-target-invalidator"},
	}
	for _, each := range deployable.All() {
		t.Run(each.Name, func(t *testing.T) {
			g := NewWithT(t)
			bound := unbound[each.Name]
			for _, role := range each.Roles {
				if role.Name != "cluster-admin" {
					bound = append(bound, strings.TrimSuffix(role.Namespace+"/", "/")+"/"+role.Name)
				}
			}
			for i := range bound {
				bound[i] = strings.TrimPrefix(bound[i], "/")
			}
			var shipped []string
			for _, role := range objectsIn(t, filepath.Join(root(t), "deploy", each.Name, "rbac", "role.yaml")) {
				shipped = append(shipped, strings.TrimPrefix(role.GetNamespace()+"/"+role.GetName(), "/"))
			}
			slices.Sort(bound)
			slices.Sort(shipped)
			g.Expect(bound).To(Equal(shipped))
		})
	}
}

func objectsIn(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	content, err := os.ReadFile(file)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	var objects []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for {
		object := &unstructured.Unstructured{}
		if decoder.Decode(&object.Object) != nil {
			return objects
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// TestAnAPIServerTakesAllOfItUnderTheStrictestPodSecurity creates everything in a namespace that enforces the restricted
// standard, and the Pods that the Deployments would have.
func TestAnAPIServerTakesAllOfItUnderTheStrictestPodSecurity(t *testing.T) {
	g := NewWithT(t)
	servers, err := local.ForTests()
	g.Expect(err).NotTo(HaveOccurred())
	c, err := client.New(servers.Source.Config, client.Options{Scheme: clientgoscheme.Scheme})
	g.Expect(err).NotTo(HaveOccurred())
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "deployable-", Labels: map[string]string{
		"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/enforce-version": "latest",
	}}}
	g.Expect(c.Create(t.Context(), namespace)).To(Succeed())
	for _, each := range deployable.All() {
		for _, object := range each.Objects("example.com/" + each.Name + ":v1") {
			if object.GetNamespace() != "" {
				object.SetNamespace(namespace.Name) // whatever it is for: nothing of other tests is touched
			} else {
				object.SetName(namespace.Name + object.GetName())
			}
			g.Expect(c.Create(t.Context(), object)).To(Succeed(), "%s %s", object.GetObjectKind().GroupVersionKind().Kind, object.GetName())
			if deployment, ok := object.(*appsv1.Deployment); ok {
				pod := &corev1.Pod{ObjectMeta: deployment.Spec.Template.ObjectMeta, Spec: deployment.Spec.Template.Spec}
				pod.Namespace, pod.GenerateName = namespace.Name, each.Name+"-"
				g.Expect(c.Create(t.Context(), pod)).To(Succeed())
			}
		}
	}
	loose := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "loose"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	g.Expect(c.Create(t.Context(), loose)).To(MatchError(ContainSubstring("violates PodSecurity")), "the standard is enforced")
}
