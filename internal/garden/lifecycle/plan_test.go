package lifecycle_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/difference"
	"github.com/espalier-dev/espalier/internal/garden/plan"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

// hashed matches the end of the name of an object whose name depends on random content.
var hashed = regexp.MustCompile(`-[0-9a-f]{8}$`)

// effects are objects that change, and workloads that restart, as "Kind name".
type effects struct{ Objects, Restarts []string }

// A plan must name every object and every restart of the reconciliation that follows, and no others. Its client has only the rights of
// deploy/garden-read, and it writes nothing.
func TestPlanForeseesWhatAReconciliationChanges(t *testing.T) {
	s := newInstalledScene(t)
	s.createPolicy()
	reader := s.readOnlyUser()
	for _, tc := range []struct {
		name   string
		change func(*operatorv1alpha1.Garden)
		// restarts are the workloads that must be among the restarts, each with a part of a reason; nil: nothing changes at all.
		restarts map[string]string
	}{
		{name: "nothing", change: func(*operatorv1alpha1.Garden) {}},
		{
			name: "another domain", restarts: map[string]string{"Deployment " + apiServer: "Secret kube-apiserver-"},
			change: func(g *operatorv1alpha1.Garden) {
				g.Spec.VirtualCluster.DNS.Domains = append(g.Spec.VirtualCluster.DNS.Domains, operatorv1alpha1.Domain{Name: "example.org"})
			},
		},
		{
			name: "feature gate, audit policy", restarts: map[string]string{
				"Deployment " + apiServer: "flag --feature-gates of container kube-apiserver",
			},
			change: configured(func(server *operatorv1alpha1.KubeAPIServer) {
				server.FeatureGates = map[string]bool{"ContextualLogging": false}
				server.AuditConfig = &operatorv1alpha1.AuditConfig{AuditPolicy: &operatorv1alpha1.AuditPolicy{
					ConfigMapRef: &corev1.ObjectReference{Name: "policy"},
				}}
			}),
		},
		{
			name: "encrypted resources", restarts: map[string]string{"Deployment " + apiServer: "file encryption-configuration.yaml"},
			change: func(g *operatorv1alpha1.Garden) {
				g.Spec.VirtualCluster.Kubernetes.KubeAPIServer.EncryptionConfig = &operatorv1alpha1.EncryptionConfig{Resources: []string{"configmaps"}}
			},
		},
		{
			name: "version", restarts: map[string]string{
				"Deployment " + apiServer:                           "image of container kube-apiserver",
				"Deployment virtual-garden-kube-controller-manager": "image of container",
			},
			change: func(g *operatorv1alpha1.Garden) { g.Spec.VirtualCluster.Kubernetes.Version = "1.34.1" },
		},
		{
			name: "high availability", restarts: map[string]string{"Etcd virtual-garden-etcd-main": "field spec.etcd.peerUrlTls"},
			change: func(g *operatorv1alpha1.Garden) {
				g.Spec.VirtualCluster.ControlPlane = &operatorv1alpha1.ControlPlane{HighAvailability: &operatorv1alpha1.HighAvailability{}}
			},
		},
	} {
		live := s.get()
		next := live.DeepCopy()
		tc.change(next)
		sent := s.requests.Record()
		foreseen := *s.reconciler
		foreseen.Client = reader
		p, err := plan.Compute(t.Context(), foreseen, live, next)
		s.Expect(err).NotTo(HaveOccurred(), tc.name)
		s.Expect(sent.InOrder("POST", "PUT", "PATCH", "DELETE")).To(BeEmpty(), tc.name)
		s.Expect(p.Refused).To(BeEmpty(), tc.name)
		s.Expect(p.Changes()).To(Equal(tc.restarts != nil), "%s: %s", tc.name, p.Text())
		for workload, reason := range tc.restarts {
			s.Expect(p.Restarts).To(ContainElement(And(
				WithTransform(func(r plan.Restart) string { return r.Kind + " " + r.Name }, Equal(workload)),
				HaveField("Reasons", ContainElement(ContainSubstring(reason))),
			)), "%s: %s", tc.name, p.Text())
		}
		before := s.snapshot()
		s.edit(tc.change)
		result := s.mustReconcile()
		for result.RequeueAfter < s.reconciler.SyncPeriod/2 {
			result = s.mustReconcile()
		}
		s.Expect(foreseenEffects(p)).To(Equal(before.effects(s.snapshot())), "%s: %s", tc.name, p.Text())
	}
}

// createPolicy creates a ConfigMap with an audit policy.
func (s *scene) createPolicy() {
	s.t.Helper()
	s.Expect(s.admin.Create(s.t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace(), Name: "policy"},
		Data:       map[string]string{"policy": `{"apiVersion":"audit.k8s.io/v1","kind":"Policy","rules":[{"level":"None"}]}`},
	})).To(Succeed())
}

// readOnlyUser returns a client of a user with the rights of deploy/garden-read.
func (s *scene) readOnlyUser() client.WithWatch {
	s.t.Helper()
	manifests, err := local.ReadManifests("../../../deploy/garden-read/role.yaml")
	s.Expect(err).NotTo(HaveOccurred())
	istio := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "istio-system"}}
	s.Expect(client.IgnoreAlreadyExists(s.admin.Create(s.t.Context(), istio))).To(Succeed())
	subject := []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "planner"}}
	for _, role := range manifests {
		s.Expect(client.IgnoreAlreadyExists(s.admin.Create(s.t.Context(), role))).To(Succeed())
		ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: role.GetKind(), Name: role.GetName()}
		named := metav1.ObjectMeta{Namespace: role.GetNamespace(), Name: "planner"}
		var binding client.Object = &rbacv1.RoleBinding{ObjectMeta: named, RoleRef: ref, Subjects: subject}
		if role.GetKind() == "ClusterRole" {
			binding = &rbacv1.ClusterRoleBinding{ObjectMeta: named, RoleRef: ref, Subjects: subject}
		}
		s.Expect(s.admin.Create(s.t.Context(), binding)).To(Succeed())
	}
	config := rest.CopyConfig(binary.Servers(s.t).Target.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "planner"}
	planner := s.connect(config, s.requests.Wrap)
	s.Eventually(func() error {
		return planner.List(s.t.Context(), &corev1.SecretList{}, client.InNamespace("istio-system"))
	}, binary.Patience).Should(Succeed())
	return planner
}

// foreseenEffects returns the effects of a plan that are not in ManagedResources, but for the names of these.
func foreseenEffects(p *plan.Plan) effects {
	objects, restarts := map[string]bool{}, map[string]bool{}
	for _, each := range p.Objects {
		onlyMetadata := each.Action == plan.Change && !slices.ContainsFunc(each.Fields, func(f difference.Field) bool {
			return !strings.HasPrefix(f.Path, "metadata.")
		})
		switch {
		case each.Set != "":
			objects["ManagedResource "+strings.TrimPrefix(each.Set, "garden/")] = true
		case !onlyMetadata:
			objects[each.Kind+" "+hashed.ReplaceAllString(each.Name, "")] = true
		}
	}
	for _, each := range p.Restarts { // no controller applies the objects of ManagedResources here
		if name := each.Kind + " " + each.Name; objects[name] {
			restarts[name] = true
		}
	}
	return effects{slices.Sorted(maps.Keys(objects)), slices.Sorted(maps.Keys(restarts))}
}

// snapshot contains the objects of createdKinds, without metadata and status.
type snapshot map[string]map[string]any

func (s *scene) snapshot() snapshot {
	s.t.Helper()
	all := snapshot{}
	for _, kind := range createdKinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		err := s.admin.List(s.t.Context(), list)
		if meta.IsNoMatchError(err) {
			continue
		}
		s.Expect(err).NotTo(HaveOccurred())
		for _, each := range list.Items {
			if strings.HasPrefix(each.GetName(), "system:") || kind.Kind == "Pod" {
				continue
			}
			content := map[string]any{}
			for field, value := range each.Object {
				if !slices.Contains([]string{"apiVersion", "kind", "metadata", "status"}, field) {
					content[field] = value
				}
			}
			all[kind.Kind+" "+each.GetNamespace()+"/"+each.GetName()] = content
		}
	}
	return all
}

// effects returns the differences between two snapshots. The Secrets of ManagedResources do not count.
func (before snapshot) effects(after snapshot) effects {
	objects, restarts := map[string]bool{}, map[string]bool{}
	content := map[string]bool{}
	for _, each := range []snapshot{before, after} {
		for key, object := range each {
			if kind, _, _ := strings.Cut(key, " "); kind != "ManagedResource" {
				continue
			}
			refs, _, _ := unstructured.NestedSlice(object, "spec", "secretRefs")
			for _, ref := range refs {
				fields, _ := ref.(map[string]any)
				name, _ := fields["name"].(string)
				content["Secret garden/"+name], content["Secret istio-system/"+name] = true, true
			}
		}
	}
	all := maps.Clone(before)
	maps.Copy(all, after)
	for key := range all {
		was, existed := before[key]
		is, exists := after[key]
		if content[key] || existed == exists && equality.Semantic.DeepEqual(was, is) {
			continue
		}
		kind, name, _ := strings.Cut(key, " ")
		_, short, _ := strings.Cut(name, "/")
		objects[kind+" "+hashed.ReplaceAllString(short, "")] = true
		template := []string{"spec", "template"}
		if kind == "Etcd" {
			template = []string{"spec"}
		}
		if existed && exists && slices.Contains([]string{"Deployment", "Etcd"}, kind) {
			former, _, _ := unstructured.NestedMap(was, template...)
			next, _, _ := unstructured.NestedMap(is, template...)
			if !equality.Semantic.DeepEqual(former, next) {
				restarts[kind+" "+short] = true
			}
		}
	}
	return effects{slices.Sorted(maps.Keys(objects)), slices.Sorted(maps.Keys(restarts))}
}
