package extension_test

import (
	"context"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/test/binary"
)

const (
	valid       = corev1beta1.ControllerInstallationValid
	installed   = corev1beta1.ControllerInstallationInstalled
	healthy     = corev1beta1.ControllerInstallationHealthy
	progressing = corev1beta1.ControllerInstallationProgressing
	required    = corev1beta1.ControllerInstallationRequired
)

// workload is a template with a Deployment in the namespace of the extension.
const workload = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: {{ .Release.Namespace }}}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      initContainers: [{name: first, image: a}]
      containers: [{name: web, image: b}]
`

// settings is a template that shows the values.
const settings = `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: {{ .Release.Namespace }}}
data:
  release: {{ .Release.Name }}
  own: {{ .Values.own | default "none" | quote }}
  gardener: {{ .Values.gardener | toJson | quote }}
`

func TestAnExtensionIsInstalledChangedAndDeleted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ci := f.register(f.deployment(files{"web.yaml": workload, "settings.yaml": settings}, "{own: mine, gardener: {version: wrong}}", true))
	ci.Annotations = map[string]string{"security.gardener.cloud/pod-security-enforce": "privileged"}
	f.Expect(f.Garden.Create(f.Ctx, ci)).To(Succeed())

	f.awaitCondition(valid, "True RegistrationValid: chart could be rendered successfully.")
	f.awaitCondition(installed, "True InstallationSuccessful: The controller was successfully installed in the seed cluster.")
	f.awaitCondition(healthy, "True ControllerHealthy: The controller running in the seed cluster is healthy.")
	f.awaitCondition(progressing, "False ControllerRolledOut: The controller has been rolled out successfully.")
	f.awaitCondition(required, "False NoExtensionObjects: No extension objects exist in the seed that the controller is responsible for.")

	found := get(f, f.Garden, "", f.name, &corev1beta1.ControllerInstallation{})
	f.Expect(found.Finalizers).To(Equal([]string{"core.gardener.cloud/controllerinstallation"}))
	namespace := get(f, f.Seed, "", "extension-"+f.name, &corev1.Namespace{})
	f.Expect(namespace.Labels).To(Equal(map[string]string{
		"kubernetes.io/metadata.name": namespace.Name, "gardener.cloud/role": "extension",
		"controllerregistration.core.gardener.cloud/name":            f.name,
		"high-availability-config.resources.gardener.cloud/consider": "true", "pod-security.kubernetes.io/enforce": "privileged",
	}))
	f.Expect(namespace.Annotations).To(HaveKeyWithValue("high-availability-config.resources.gardener.cloud/zones", "a,b"))

	access := get(f, f.Seed, namespace.Name, "garden-access-extension", &corev1.Secret{})
	f.Expect(access.Labels).To(HaveKeyWithValue("resources.gardener.cloud/purpose", "token-requestor"))
	f.Expect(access.Labels).To(HaveKeyWithValue("resources.gardener.cloud/class", "garden"))
	f.Expect(access.Annotations).To(Equal(map[string]string{
		"serviceaccount.resources.gardener.cloud/name":   "extension-" + f.name,
		"serviceaccount.resources.gardener.cloud/labels": fmt.Sprintf(`{"controllerregistration.core.gardener.cloud/name":%q}`, f.name),
	}))
	kubeconfig := f.kubeconfig()
	f.Expect(kubeconfig.Immutable).To(HaveValue(BeTrue()))
	f.Expect(kubeconfig.Labels).To(HaveKeyWithValue("resources.gardener.cloud/garbage-collectable-reference", "true"))
	f.Expect(string(kubeconfig.Data["kubeconfig"])).To(MatchYAML(`
apiVersion: v1
kind: Config
clusters: [{name: garden, cluster: {server: https://garden.example.org, certificate-authority-data: YXV0aG9yaXR5}}]
contexts: [{name: garden, context: {cluster: garden, user: extension}}]
current-context: garden
users: [{name: extension, user: {tokenFile: /var/run/secrets/gardener.cloud/garden/generic-kubeconfig/token}}]
`))
	f.expectInjected(kubeconfig.Name)
	f.expectValues(kubeconfig.Name)

	set := f.set()
	f.Expect(set.Spec.Class).To(HaveValue(Equal("seed")))
	f.Expect(set.Labels).To(And(
		HaveKeyWithValue("controllerinstallation-name", f.name), HaveKeyWithValue("controllerregistration-name", f.name)))
	f.Expect(set.Spec.SecretRefs).To(HaveLen(1))
	f.Expect(set.Spec.SecretRefs[0].Name).To(MatchRegexp("^" + f.name + "-[0-9a-f]{8}$"))

	f.awaitRest()
	f.touch()
	f.awaitRest()
	f.Expect(f.Requests.Writes()).To(BeEmpty())

	// A token stays, and a chart that changes leads to a new Secret.
	withToken := client.RawPatch("application/merge-patch+json", []byte(`{"data":{"token":"dG9rZW4="}}`))
	f.Expect(f.Seed.Patch(f.Ctx, access, withToken)).To(Succeed())
	f.replace(f.deployment(files{"settings.yaml": settings}, "{own: new}", true))
	f.Eventually(func() string { return f.contents()["shop_templates_settings.yaml"] }, binary.Patience).Should(ContainSubstring("own: new"))
	f.Expect(f.contents()).To(HaveLen(1))

	f.Expect(f.Garden.Create(f.Ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: "seed-" + f.seed, Name: "extension-" + f.name,
	}})).To(Succeed())
	f.Expect(f.Garden.Delete(f.Ctx, ci)).To(Succeed())
	f.awaitGone()
}

func TestChangesByOtherClientsAreReverted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Expect(f.Garden.Create(f.Ctx, f.register(f.deployment(files{"web.yaml": workload}, "", true)))).To(Succeed())
	f.awaitCondition(installed, "True")
	const consider, purpose = "high-availability-config.resources.gardener.cloud/consider", "resources.gardener.cloud/purpose"
	labels := func(o client.Object, namespace, name string) func() map[string]string {
		return func() map[string]string { return get(f, f.Seed, namespace, name, o).GetLabels() }
	}
	without := func(o client.Object, label string) {
		f.Expect(f.Seed.Patch(f.Ctx, o, client.RawPatch("application/merge-patch+json",
			[]byte(`{"metadata":{"labels":{"`+label+`":null}}}`)))).To(Succeed())
	}
	namespace := get(f, f.Seed, "", "extension-"+f.name, &corev1.Namespace{})
	access := get(f, f.Seed, namespace.Name, "garden-access-extension", &corev1.Secret{})
	without(access, purpose)
	without(namespace, consider) // which the controller watches
	f.Eventually(labels(&corev1.Namespace{}, "", namespace.Name), binary.Patience).Should(HaveKeyWithValue(consider, "true"))
	f.Eventually(labels(&corev1.Secret{}, namespace.Name, access.Name), binary.Patience).Should(HaveKeyWithValue(purpose, "token-requestor"))
}

func TestSecretsOfAnInstallationReturnAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Expect(f.Garden.Create(f.Ctx, f.register(f.deployment(files{"web.yaml": workload}, "", true)))).To(Succeed())
	f.awaitCondition(installed, "True")
	key := client.ObjectKey{Namespace: "extension-" + f.name, Name: "garden-access-extension"}
	restored := func(g Gomega, before *corev1.Secret) {
		found := &corev1.Secret{}
		g.Expect(f.Seed.Get(f.Ctx, key, found)).To(Succeed())
		g.Expect(found.Labels).To(Equal(before.Labels))
		g.Expect(found.Annotations).To(Equal(before.Annotations))
	}
	for name, change := range map[string]func(*corev1.Secret) error{
		"deleted": func(s *corev1.Secret) error { return f.Seed.Delete(f.Ctx, s) },
		"without a label": func(s *corev1.Secret) error {
			return f.Seed.Patch(f.Ctx, s, client.RawPatch("application/merge-patch+json",
				[]byte(`{"metadata":{"labels":{"resources.gardener.cloud/class":null}}}`)))
		},
		"for another ServiceAccount": func(s *corev1.Secret) error {
			return f.Seed.Patch(f.Ctx, s, client.RawPatch("application/merge-patch+json",
				[]byte(`{"metadata":{"annotations":{"serviceaccount.resources.gardener.cloud/name":"other"}}}`)))
		},
	} {
		f.awaitRest() // no event of the last change is left, which would trigger the repair
		before := get(f, f.Seed, key.Namespace, key.Name, &corev1.Secret{})
		f.Expect(change(before.DeepCopy())).To(Succeed())
		f.Eventually(restored, binary.Patience).WithArguments(before).Should(Succeed(), name)
	}
	content := f.set().Spec.SecretRefs[0].Name
	for _, each := range []client.ObjectKey{client.ObjectKeyFromObject(f.kubeconfig()), {Namespace: "garden", Name: content}} {
		f.awaitRest()
		before := get(f, f.Seed, each.Namespace, each.Name, &corev1.Secret{})
		f.Expect(f.Seed.Delete(f.Ctx, before.DeepCopy())).To(Succeed())
		f.Eventually(func(g Gomega) {
			found := &corev1.Secret{}
			g.Expect(f.Seed.Get(f.Ctx, each, found)).To(Succeed())
			g.Expect(found.UID).NotTo(Equal(before.UID))
			g.Expect(found.Data).To(Equal(before.Data))
		}, binary.Patience).Should(Succeed(), each.String())
	}
}

func TestInTheClusterOfTheGardenExtensionsReachItsAPIServer(t *testing.T) {
	f := newFixture(t)
	f.ensure(f.Seed, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gardens.operator.gardener.cloud}
spec:
  group: operator.gardener.cloud
  names: {kind: Garden, listKind: GardenList, plural: gardens, singular: garden}
  scope: Cluster
  versions:
  - {name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`)
	garden := f.object(`{apiVersion: operator.gardener.cloud/v1alpha1, kind: Garden, metadata: {name: local}}`)
	f.Eventually(func() error { return f.Seed.Create(f.Ctx, garden) }, binary.Patience).Should(Succeed())
	t.Cleanup(func() { f.Expect(f.Seed.Delete(context.WithoutCancel(t.Context()), garden)).To(Succeed()) })
	f.Restart(nil)
	f.Expect(f.Garden.Create(f.Ctx, f.register(f.deployment(files{"a.yaml": configMap}, "", false)))).To(Succeed())
	f.awaitCondition(installed, "True")
	f.Expect(get(f, f.Seed, "", "extension-"+f.name, &corev1.Namespace{}).Labels).To(
		HaveKeyWithValue("networking.gardener.cloud/access-target-apiserver", "allowed"))
}

// kubeconfig returns the Secret with the generic kubeconfig of the installation.
func (f *fixture) kubeconfig() *corev1.Secret {
	f.T.Helper()
	list := &corev1.SecretList{}
	f.Expect(f.Seed.List(f.Ctx, list, client.InNamespace("extension-"+f.name))).To(Succeed())
	for i := range list.Items {
		if list.Items[i].Data["kubeconfig"] != nil {
			f.Expect(list.Items[i].Name).To(MatchRegexp("^generic-garden-kubeconfig-[0-9a-f]{8}$"))
			return &list.Items[i]
		}
	}
	f.T.Fatal("there is no generic kubeconfig")
	return nil
}

// expectInjected requires that the Deployment has access to the garden. All other cases are tests of api/gardenaccess.
func (f *fixture) expectInjected(kubeconfig string) {
	f.T.Helper()
	deployment := f.object(f.contents()["shop_templates_web.yaml"])
	f.Expect(deployment.GetAnnotations()).To(And(
		HaveKeyWithValue("reference.resources.gardener.cloud/secret-795f7ca6", "garden-access-extension"), ContainElement(kubeconfig)))
	text, err := yaml.Marshal(deployment.Object["spec"])
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(string(text)).To(And(ContainSubstring("name: SEED_NAME\n        value: "+f.seed), ContainSubstring("name: GARDEN_KUBECONFIG")))
}

func (f *fixture) expectValues(kubeconfig string) {
	f.T.Helper()
	data, _ := f.object(f.contents()["shop_templates_settings.yaml"]).Object["data"].(map[string]any)
	f.Expect(data).To(And(HaveKeyWithValue("release", f.name), HaveKeyWithValue("own", "mine")))
	f.Expect(data["gardener"]).To(MatchJSON(`{
		"version": "1.149.3", "gardenlet": {"featureGates": {"DefaultSeccompProfile": true}},
		"garden": {"clusterIdentity": "eden", "genericKubeconfigSecretName": "` + kubeconfig + `"},
		"seed": {
			"name": "` + f.seed + `", "clusterIdentity": "eden-south", "annotations": null, "labels": {"colour": "blue"}, "provider": "local",
			"region": "here", "volumeProvider": "disk", "volumeProviders": [{"name": "disk", "purpose": "etcd"}],
			"ingressDomain": "ingress.south", "protected": true, "visible": false, "taints": [{"key": "seed.gardener.cloud/protected"}],
			"networks": {"pods": "10.0.0.0/16", "blockCIDRs": ["169.254.169.254/32"]}, "blockCIDRs": ["169.254.169.254/32"],
			"spec": {
				"provider": {"type": "local", "region": "here", "zones": ["a", "b"]}, "ingress": {"domain": "ingress.south"},
				"networks": {"pods": "10.0.0.0/16", "blockCIDRs": ["169.254.169.254/32"]},
				"taints": [{"key": "seed.gardener.cloud/protected"}], "settings": {"scheduling": {"visible": false}},
				"volume": {"providers": [{"name": "disk", "purpose": "etcd"}]}, "future": {"field": "kept"}
			}
		}
	}`))
}

// replace replaces the ControllerDeployment of the test.
func (f *fixture) replace(deployment client.Object) {
	f.T.Helper()
	live := f.object(fmt.Sprintf(`{apiVersion: core.gardener.cloud/v1beta1, kind: ControllerDeployment, metadata: {name: %s}}`, f.name))
	f.Expect(f.Garden.Get(f.Ctx, client.ObjectKeyFromObject(live), live)).To(Succeed())
	deployment.SetResourceVersion(live.GetResourceVersion())
	f.Expect(f.Garden.Update(f.Ctx, deployment)).To(Succeed())
	f.touch()
}

// awaitGone waits until the installation is deleted, and requires that nothing of it is left in both clusters.
func (f *fixture) awaitGone() {
	f.T.Helper()
	gone := func(c client.Reader, namespace, name string, o client.Object) {
		f.T.Helper()
		f.Eventually(func() bool {
			return apierrors.IsNotFound(c.Get(f.Ctx, client.ObjectKey{Namespace: namespace, Name: name}, o))
		}, binary.Patience).Should(BeTrue(), name)
	}
	gone(f.Garden, "", f.name, &corev1beta1.ControllerInstallation{})
	f.Expect(f.Seed.Get(f.Ctx, client.ObjectKey{Name: "extension-" + f.name}, &corev1.Namespace{})).
		To(MatchError(apierrors.IsNotFound, "gone"))
	f.Expect(f.Seed.Get(f.Ctx, client.ObjectKey{Namespace: "garden", Name: f.name}, &resourcesv1alpha1.ManagedResource{})).
		To(MatchError(apierrors.IsNotFound, "gone"))
	f.Expect(f.Garden.Get(f.Ctx, client.ObjectKey{Namespace: "seed-" + f.seed, Name: "extension-" + f.name}, &corev1.ServiceAccount{})).
		To(MatchError(apierrors.IsNotFound, "gone"))
	f.Expect(f.secretNames("garden")).NotTo(ContainElement(HavePrefix(f.name + "-")))
}
