package lifecycle_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/defaulting"
	"github.com/espalier-dev/espalier/internal/garden/plan"
	"github.com/espalier-dev/espalier/internal/garden/takeover"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

const (
	claimOfMain   = "main-virtual-garden-etcd-virtual-garden-etcd-main-0"
	claimOfEvents = "virtual-garden-etcd-events-virtual-garden-etcd-events-0"
)

// planTakeOver makes a plan for the take-over of the garden in the scene, by a user with the rights of deploy/garden-read.
func (s *scene) planTakeOver(reader client.WithWatch, g *operatorv1alpha1.Garden) *plan.Plan {
	s.t.Helper()
	g = g.DeepCopy()
	g.SetGroupVersionKind(operatorv1alpha1.SchemeGroupVersion.WithKind("Garden"))
	g.Status, g.ManagedFields, g.ResourceVersion = operatorv1alpha1.GardenStatus{}, nil, ""
	file, err := json.Marshal(g)
	s.Expect(err).NotTo(HaveOccurred())
	content := map[string]any{}
	s.Expect(json.Unmarshal(file, &content)).To(Succeed())
	delete(content, "status")
	file, err = json.Marshal(content)
	s.Expect(err).NotTo(HaveOccurred())
	foreseen := *s.reconciler
	foreseen.Client = reader
	sent := s.requests.Record()
	p, err := plan.Make(s.t.Context(), plan.Input{
		File: file, Reconciler: foreseen, TakeOver: true,
		Virtual: func(context.Context) (client.Reader, error) { return s.connect(s.virtual, nil), nil },
		Preflight: plan.Preflight{
			Reader: reader, Namespace: s.namespace(), Namespaces: []string{s.namespace()}, Operator: s.reconciler.Operator,
			Allowed: func(context.Context, authorizationv1.ResourceAttributes) (bool, error) { return true, nil },
			Resolve: func(context.Context, string) ([]string, error) { return []string{"192.0.2.1"}, nil },
		},
	})
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(sent.InOrder("POST", "PUT", "PATCH", "DELETE")).To(BeEmpty())
	s.Expect(p.TakeOver).NotTo(BeNil(), p.Text())
	return p
}

// named returns the objects of findings, with ! before an object whose finding blocks.
func named(findings []takeover.Finding) (objects []string) {
	for _, f := range findings {
		objects = append(objects, map[bool]string{true: "! "}[f.Blocks]+strings.TrimSpace(f.Object))
	}
	return objects
}

// createAll creates objects that the test deletes at its end if they are in the virtual cluster, which all scenes share.
func (s *scene) createAll(c client.Client, objects ...client.Object) {
	s.t.Helper()
	for _, each := range objects {
		s.Expect(client.IgnoreAlreadyExists(c.Create(s.t.Context(), each))).To(Succeed(), each.GetName())
	}
}

// formerService creates Service and Endpoints gardener-apiserver in namespace garden of the virtual cluster, as garden-setup does.
func (s *scene) formerService() client.Client {
	s.t.Helper()
	cluster := s.connect(s.virtual, nil)
	named := metav1.ObjectMeta{Namespace: "garden", Name: "gardener-apiserver"}
	service := &corev1.Service{ObjectMeta: named, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}}}
	endpoints := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Endpoints", "metadata": map[string]any{"namespace": "garden", "name": "gardener-apiserver"},
		"subsets": []any{map[string]any{
			"addresses": []any{map[string]any{"ip": "192.0.2.2"}}, "ports": []any{map[string]any{"port": int64(443)}},
		}},
	}}
	s.createAll(cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "garden"}}, service, endpoints)
	s.t.Cleanup(func() {
		for _, each := range []client.Object{service, endpoints} {
			_ = cluster.Delete(context.Background(), each)
		}
	})
	return cluster
}

// handmade are the credentials of a garden by hand, by the names of the secrets manager.
func (s *scene) handmade() map[string]map[string][]byte {
	s.t.Helper()
	all := map[string]map[string][]byte{}
	source := s.source()
	source.Now = start.Add(-24 * time.Hour)
	for _, name := range []string{"ca", "ca-client", "ca-front-proxy"} {
		data, err := secretconfig.Certificate{Name: name, CommonName: name, Type: secretconfig.CA}.Generate(source)
		s.Expect(err).NotTo(HaveOccurred())
		all[name] = data
	}
	key, err := secretconfig.RSAKey{Name: "service-account-key", Bits: 1024}.Generate(source)
	s.Expect(err).NotTo(HaveOccurred())
	all["service-account-key"] = key
	for _, name := range []string{"kube-apiserver-etcd-encryption-key", "gardener-apiserver-etcd-encryption-key"} {
		// A text of 32 characters, which the API server decodes to 24 bytes: the form before Gardener 1.113.
		all[name] = map[string][]byte{"key": []byte("key1600000000"), "secret": []byte("0123456789abcdefghijklmnopqrstuv")}
	}
	return all
}

// createByHand creates a garden as the document's section about migration describes it: volumes under the names of etcd-druid, labelled
// credentials, and further objects of the former installation.
func (s *scene) createByHand() (credentials map[string]map[string][]byte, virtual client.Client) {
	s.t.Helper()
	in := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: s.namespace(), Name: name} }
	for _, name := range []string{claimOfMain, claimOfEvents} {
		s.createAll(s.admin, &corev1.PersistentVolumeClaim{ObjectMeta: in(name), Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}},
		}})
	}
	credentials = s.handmade()
	for name, data := range credentials {
		s.createAll(s.admin, &corev1.Secret{ObjectMeta: in("former-" + name), Data: data})
	}
	labels := map[string]string{"app": "former"}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/c:1"}}},
	}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	etcd := &appsv1.StatefulSet{ObjectMeta: in("etcd-main"), Spec: appsv1.StatefulSetSpec{Selector: selector, Template: *template.DeepCopy()}}
	etcd.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claimOfMain},
	}}}
	s.createAll(s.admin, etcd,
		&appsv1.Deployment{ObjectMeta: in("former-dashboard"), Spec: appsv1.DeploymentSpec{Selector: selector, Template: template}},
		&appsv1.Deployment{ObjectMeta: in("gardener-scheduler"), Spec: appsv1.DeploymentSpec{Selector: selector, Template: template}},
		&corev1.Service{ObjectMeta: in("former-apiserver"), Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 443}},
		}},
	)
	return credentials, s.formerService()
}

// label labels the Secrets of a garden by hand, so that their data are used.
func (s *scene) label(credentials map[string]map[string][]byte, label bool) {
	s.t.Helper()
	for name := range credentials {
		secret := &corev1.Secret{}
		s.Expect(s.exists(secret, s.namespace(), "former-"+name)).To(BeTrue())
		before := secret.DeepCopy()
		secret.Labels = nil
		if label {
			secret.Labels = map[string]string{"secrets-manager-use-data-for-name": name}
		}
		s.Expect(s.admin.Patch(s.t.Context(), secret, client.MergeFrom(before))).To(Succeed())
	}
}

func TestTakeOverOfAGardenByHand(t *testing.T) {
	s := newScene(t)
	reader := s.readOnlyUser()
	credentials, cluster := s.createByHand()
	g := garden("garden")

	// Without labels, all credentials would be lost.
	p := s.planTakeOver(reader, g)
	s.Expect(p.IsRefused()).To(BeTrue())
	s.Expect(p.TakeOver.Lost).To(HaveLen(len(credentials)), p.Text())
	for name := range credentials {
		s.Expect(p.TakeOver.Lost).To(ContainElement(And(HaveField("Blocks", true), HaveField("Message", HavePrefix(name+": ")))))
	}
	s.label(credentials, true)
	p = s.planTakeOver(reader, g)
	s.Expect(p.TakeOver.Lost).To(BeEmpty(), p.Text())
	s.Expect(named(p.TakeOver.Remove)).To(ConsistOf(
		"! Deployment garden/gardener-scheduler", "! StatefulSet garden/etcd-main", "! Service garden/gardener-apiserver",
		"! Endpoints garden/gardener-apiserver", "Secret garden/former-ca", "Secret garden/former-ca-client",
		"Secret garden/former-ca-front-proxy",
		"Secret garden/former-service-account-key", "Secret garden/former-kube-apiserver-etcd-encryption-key",
		"Secret garden/former-gardener-apiserver-etcd-encryption-key",
	), p.Text())
	s.Expect(named(p.TakeOver.Unmanaged)).To(ConsistOf("Deployment garden/former-dashboard", "Service garden/former-apiserver"), p.Text())
	s.Expect(p.Missing).To(ContainElement(HaveField("Message", HavePrefix("api.example.com resolves to 192.0.2.1; it must become"))))

	// The user removes the objects that the operator does not remove, and confirms the others.
	for _, each := range []client.Object{
		&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace(), Name: "etcd-main"}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace(), Name: "gardener-scheduler"}},
	} {
		s.Expect(s.admin.Delete(t.Context(), each)).To(Succeed())
	}
	metav1.SetMetaDataAnnotation(&g.ObjectMeta, "espalier.dev/confirm-leftovers", p.TakeOver.Confirm)
	p = s.planTakeOver(reader, g)
	s.Expect(p.TakeOver.Blocks()).To(BeFalse(), p.Text())
	s.Expect(p.TakeOver.Confirm).To(BeEmpty())
	s.Expect(p.Refused).To(BeEmpty())

	s.create(annotated("espalier.dev/confirm-leftovers", g.Annotations["espalier.dev/confirm-leftovers"]))
	s.mustReconcile()
	for name, data := range credentials {
		found := s.secrets(name)
		s.Expect(found).To(HaveLen(1), name)
		s.Expect(maps.EqualFunc(found[0].Data, data, bytes.Equal)).To(BeTrue(), name)
	}
	s.Expect(cluster.Get(t.Context(), client.ObjectKey{Namespace: "garden", Name: "gardener-apiserver"}, &corev1.Service{})).NotTo(Succeed())
	s.Expect(s.get().Annotations).NotTo(HaveKey("espalier.dev/confirm-leftovers"))
	s.Expect(s.exists(&appsv1.Deployment{}, s.namespace(), "former-dashboard")).To(BeTrue(), "it stays unmanaged")

	// A rotation is refused as long as the labels are there.
	s.clock.SetTime(start.Add(time.Hour))
	s.edit(annotated("gardener.cloud/operation", "rotate-ca-start"))
	_, err := s.reconcile()
	s.Expect(err).To(MatchError(ContainSubstring(`still has the label "secrets-manager-use-data-for-name"`)))
	s.label(credentials, false)
	s.mustReconcile()
	s.Expect(s.secrets("ca")).To(HaveLen(2))
	s.Expect(s.get().Status.Credentials.Rotation.CertificateAuthorities.Phase).To(Equal(operatorv1alpha1.RotationPrepared))
}

// leaveAsGardener changes the objects of the installed scene into the form in which Gardener's operator v1.149 leaves them: as the field
// manager gardener-operator, without labels of garden-operator, with other names where they differ, and with the objects that
// garden-operator does not have.
func (s *scene) leaveAsGardener() {
	s.t.Helper()
	for _, kind := range createdKinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := s.admin.List(s.t.Context(), list, client.InNamespace(s.namespace())); err != nil {
			continue // a definition is missing
		}
		for i := range list.Items {
			o := &list.Items[i]
			if o.GetLabels()["espalier.dev/created-by"] == "" {
				continue
			}
			before := o.DeepCopy()
			labels := o.GetLabels()
			delete(labels, "espalier.dev/created-by")
			o.SetLabels(labels)
			s.Expect(s.admin.Patch(s.t.Context(), o, client.MergeFrom(before), client.FieldOwner("gardener-operator"))).To(Succeed(), o.GetName())
		}
	}
	in := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: s.namespace(), Name: name} }
	for _, name := range []string{
		"kube-apiserver-sni", "istio-tls-secrets", "gardener-dashboard-runtime", "gardener-dashboard-virtual", "terminal-runtime",
		"gardener-discovery-server-runtime", "extension-provider-local-garden",
	} {
		s.createAll(s.admin,
			&corev1.Secret{ObjectMeta: in("managedresource-" + name), Data: map[string][]byte{
				"a.yaml": []byte(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "garden", "name": "of-` + name + `"}}`),
			}},
			&resourcesv1alpha1.ManagedResource{ObjectMeta: in(name), Spec: resourcesv1alpha1.ManagedResourceSpec{
				Class: ptr.To("seed"), SecretRefs: []corev1.LocalObjectReference{{Name: "managedresource-" + name}},
			}})
	}
	labels := map[string]string{"app": "gardener", "role": "operator"}
	s.createAll(s.admin,
		&corev1.Service{ObjectMeta: in(apiServer + "-mtls"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}}},
		&appsv1.Deployment{ObjectMeta: in("gardener-operator"), Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "gardener-operator", Image: "example.com/operator:v1.149.3"}}},
			},
		}},
		&coordinationv1.Lease{ObjectMeta: in("gardener-operator-leader-election"), Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("gardener-operator-5d5b8_1"), LeaseDurationSeconds: ptr.To[int32](15),
			RenewTime: ptr.To(metav1.NewMicroTime(start)),
		}},
	)
	deployment := s.apiServer()
	before := deployment.DeepCopy()
	metav1.SetMetaDataAnnotation(&deployment.ObjectMeta, "credentials.gardener.cloud/resources-labeled", "true")
	delete(deployment.Annotations, "espalier.dev/kubernetes-version")
	container := &deployment.Spec.Template.Spec.Containers[0]
	container.Args = append(container.Args, "--profiling=false")
	s.Expect(s.admin.Patch(s.t.Context(), deployment, client.MergeFrom(before))).To(Succeed())
}

func TestTakeOverFromGardenersOperator(t *testing.T) {
	s := newInstalledScene(t)
	s.leaveAsGardener()
	reader := s.readOnlyUser()
	p := s.planTakeOver(reader, s.get())
	s.Expect(p.TakeOver.Lost).To(BeEmpty(), p.Text())
	s.Expect(named(p.TakeOver.Remove)).To(ConsistOf(
		"! Deployment garden/gardener-operator", "! Lease garden/gardener-operator-leader-election",
		"! ManagedResource garden/kube-apiserver-sni", "! ManagedResource garden/istio-tls-secrets", "! Service garden/"+apiServer+"-mtls",
	), p.Text())
	s.Expect(named(p.TakeOver.Unmanaged)).To(ConsistOf(
		"ManagedResource garden/gardener-dashboard-runtime", "ManagedResource garden/gardener-dashboard-virtual",
		"ManagedResource garden/terminal-runtime", "ManagedResource garden/gardener-discovery-server-runtime",
		"ManagedResource garden/extension-provider-local-garden",
	), p.Text())

	// A part of the confirmation is not enough, and then nothing is removed.
	first, _, _ := strings.Cut(p.TakeOver.Confirm, ",")
	s.edit(annotated("espalier.dev/confirm-leftovers", first))
	_, err := s.reconcile()
	s.Expect(err).To(MatchError(ContainSubstring("does not confirm all leftovers of a former garden in the runtime cluster")))
	s.Expect(s.exists(&resourcesv1alpha1.ManagedResource{}, s.namespace(), "kube-apiserver-sni")).To(BeTrue())

	s.edit(annotated("espalier.dev/confirm-leftovers", p.TakeOver.Confirm))
	s.edit(defaulting.Garden) // as the webhook does, and as the plan does
	former := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace(), Name: "gardener-operator"}}
	s.Expect(s.admin.Delete(t.Context(), former)).To(Succeed())
	s.clock.SetTime(start.Add(time.Minute))
	p = s.planTakeOver(reader, s.get())
	s.Expect(p.Refused).To(BeEmpty())
	s.Expect(p.TakeOver.Blocks()).To(BeFalse(), p.Text())
	keys, before := s.secrets(""), s.snapshot()
	s.mustReconcile()
	s.Expect(foreseenEffects(p)).To(Equal(before.effects(s.snapshot())), p.Text())
	for _, each := range keys {
		same := slices.ContainsFunc(s.secrets(""), func(o corev1.Secret) bool {
			return o.Name == each.Name && maps.EqualFunc(o.Data, each.Data, bytes.Equal) && o.Labels["name"] == each.Labels["name"]
		})
		s.Expect(same).To(BeTrue(), "Secret %s must stay for the way back", each.Name)
	}
	s.Expect(s.apiServer().Annotations).To(HaveKeyWithValue("credentials.gardener.cloud/resources-labeled", "true"))
	for name, stays := range map[string]bool{"kube-apiserver-sni": false, "istio-tls-secrets": false, "gardener-dashboard-runtime": true} {
		s.Expect(s.exists(&resourcesv1alpha1.ManagedResource{}, s.namespace(), name)).To(Equal(stays), name)
	}
}
