package lifecycle_test

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/difference"
	"github.com/espalier-dev/espalier/internal/garden/plan"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

// hashed matches the end of the name of an object whose name depends on random content.
var hashed = regexp.MustCompile(`-[0-9a-f]{8}$`)

// effects are objects that change, and workloads that restart, as "Kind name".
type effects struct{ Objects, Restarts []string }

// foreseenChange is a change of a Garden, or of the settings of the operator.
type foreseenChange struct {
	name   string
	change func(*operatorv1alpha1.Garden)
	// operator changes the settings of the operator. Nil: they stay.
	operator func(*values.Operator)
	// restarts are the workloads that must be among the restarts, each with a part of a reason; empty: something changes, and no such
	// workload restarts; nil: nothing changes at all.
	restarts map[string]string
}

func unchanged(*operatorv1alpha1.Garden) {}

const (
	gardenerServer = "Deployment gardener-apiserver"
	mainEtcd       = "Etcd virtual-garden-etcd-main"
	kubeServer     = "Deployment " + apiServer
)

// foreseenChanges are more than twenty kinds of changes. The changes that a Garden does not take back are the last ones.
func foreseenChanges() []foreseenChange {
	flag := func(name string) map[string]string {
		return map[string]string{kubeServer: "flag " + name + " of container kube-apiserver"}
	}
	audited := &operatorv1alpha1.AuditConfig{AuditPolicy: &operatorv1alpha1.AuditPolicy{ConfigMapRef: &corev1.ObjectReference{Name: "policy"}}}
	return []foreseenChange{
		{name: "nothing", change: unchanged},
		{
			name: "another domain", restarts: map[string]string{kubeServer: "Secret kube-apiserver-"},
			change: func(g *operatorv1alpha1.Garden) {
				g.Spec.VirtualCluster.DNS.Domains = append(g.Spec.VirtualCluster.DNS.Domains, operatorv1alpha1.Domain{Name: "example.org"})
			},
		},
		{
			name: "no vertical pod autoscaler", restarts: map[string]string{},
			change: func(g *operatorv1alpha1.Garden) {
				g.Spec.RuntimeCluster.Settings.VerticalPodAutoscaler.Enabled = ptr.To(false)
			},
		},
		{
			name: "feature gate", restarts: flag("--feature-gates"), change: configured(func(server *operatorv1alpha1.KubeAPIServer) {
				server.FeatureGates = map[string]bool{"ContextualLogging": false}
			}),
		},
		{
			name: "audit policy", restarts: map[string]string{kubeServer: "ConfigMap audit-policy-config"},
			change: configured(func(server *operatorv1alpha1.KubeAPIServer) {
				server.AuditConfig = audited
			}),
		},
		{
			name: "audit webhook", restarts: flag("--audit-webhook-config-file"), change: configured(func(server *operatorv1alpha1.KubeAPIServer) {
				server.AuditConfig, server.AuditWebhook = audited, &operatorv1alpha1.AuditWebhook{KubeconfigSecretName: "hook"}
			}),
		},
		{
			name: "encrypted resources", restarts: map[string]string{kubeServer: "file encryption-configuration.yaml"},
			change: configured(func(server *operatorv1alpha1.KubeAPIServer) {
				server.EncryptionConfig = &operatorv1alpha1.EncryptionConfig{Resources: []string{"configmaps"}}
			}),
		},
		{
			name: "more memory for an etcd", restarts: map[string]string{mainEtcd: "field spec.etcd.resources"},
			change: func(g *operatorv1alpha1.Garden) {
				g.Spec.VirtualCluster.ETCD = &operatorv1alpha1.ETCD{Main: &operatorv1alpha1.ETCDMain{Autoscaling: &operatorv1alpha1.Autoscaling{
					MinAllowed: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2Gi")},
				}}}
			},
		},
		{
			name: "another log level", restarts: flag("--v"), change: configured(func(server *operatorv1alpha1.KubeAPIServer) {
				server.Logging = &operatorv1alpha1.APIServerLogging{Verbosity: ptr.To[int32](4)}
			}),
		},
		{
			name: "another log level of Gardener", restarts: map[string]string{},
			change: func(g *operatorv1alpha1.Garden) {
				g.Spec.VirtualCluster.Gardener.ControllerManager = &operatorv1alpha1.GardenerControllerManager{LogLevel: ptr.To("debug")}
			},
		},
		{
			name: "OpenID Connect", restarts: flag("--oidc-issuer-url"), change: configured(func(server *operatorv1alpha1.KubeAPIServer) {
				server.OIDCConfig = &operatorv1alpha1.OIDCConfig{ //nolint:staticcheck // Gardens may still have the deprecated field
					IssuerURL: ptr.To("https://issuer.example.com"), ClientID: ptr.To("garden"),
				}
			}),
		},
		{
			name: "admission plugin with kubeconfig", restarts: map[string]string{kubeServer: "admission"},
			change: configured(func(server *operatorv1alpha1.KubeAPIServer) {
				server.AdmissionPlugins = []operatorv1alpha1.AdmissionPlugin{{Name: "ValidatingAdmissionWebhook", KubeconfigSecretName: ptr.To("hook")}}
			}),
		},
		{
			name: "limits of requests", restarts: flag("--max-requests-inflight"), change: configured(func(server *operatorv1alpha1.KubeAPIServer) {
				server.Requests = &operatorv1alpha1.APIServerRequests{MaxNonMutatingInflight: ptr.To[int32](500)}
			}),
		},
		{
			name: "lifetime of Events", restarts: flag("--event-ttl"), change: configured(func(server *operatorv1alpha1.KubeAPIServer) {
				server.EventTTL = &metav1.Duration{Duration: 2 * time.Hour}
			}),
		},
		{
			name: "API", restarts: flag("--runtime-config"), change: configured(func(server *operatorv1alpha1.KubeAPIServer) {
				server.RuntimeConfig = map[string]bool{"resource.k8s.io/v1beta1": true}
			}),
		},
		{
			name: "size of watch caches", restarts: flag("--watch-cache-sizes"), change: configured(func(server *operatorv1alpha1.KubeAPIServer) {
				server.WatchCacheSizes = &operatorv1alpha1.WatchCacheSizes{Resources: []operatorv1alpha1.ResourceWatchCacheSize{
					{Resource: "secrets", CacheSize: 500},
				}}
			}),
		},
		{
			name: "setting of gardener-apiserver", restarts: map[string]string{gardenerServer: "flag --goaway-chance"},
			change: func(g *operatorv1alpha1.Garden) {
				g.Spec.VirtualCluster.Gardener.APIServer = &operatorv1alpha1.GardenerAPIServer{GoAwayChance: ptr.To(0.01)}
			},
		},
		{
			name: "validity of certificates", restarts: map[string]string{
				"Deployment virtual-garden-kube-controller-manager": "flag --cluster-signing-duration",
			},
			change: func(g *operatorv1alpha1.Garden) {
				g.Spec.VirtualCluster.Kubernetes.KubeControllerManager = &operatorv1alpha1.KubeControllerManager{
					CertificateSigningDuration: &metav1.Duration{Duration: 72 * time.Hour},
				}
			},
		},
		{
			name: "blocked networks", restarts: map[string]string{},
			change: func(g *operatorv1alpha1.Garden) {
				g.Spec.RuntimeCluster.Networking.BlockCIDRs = []string{"169.254.169.254/32"}
			},
		},
		{
			name: "images of Espalier", change: unchanged, restarts: map[string]string{"Deployment gardener-resource-manager": "image of container"},
			operator: func(o *values.Operator) {
				o.Image = func(binary string) string { return "example.com/" + binary + ":v2" }
			},
		},
		{
			name: "each image of other projects", change: unchanged,
			restarts: map[string]string{kubeServer: "image of container kube-apiserver", gardenerServer: "image of container"},
			operator: func(o *values.Operator) {
				o.Images = slices.Clone(o.Images)
				for i := range o.Images {
					if o.Images[i].Repository != "" {
						o.Images[i].Repository = "mirror.example.com/" + o.Images[i].Repository
					}
				}
			},
		},
		{
			name: "start of a rotation", change: annotated("gardener.cloud/operation", "rotate-serviceaccount-key-start"),
			restarts: map[string]string{kubeServer: "Secret service-account-key"},
		},
		{
			name: "end of a rotation", change: annotated("gardener.cloud/operation", "rotate-serviceaccount-key-complete"),
			restarts: map[string]string{kubeServer: "Secret service-account-key"},
		},
		{
			name: "version", restarts: map[string]string{
				kubeServer: "image of container kube-apiserver",
				"Deployment virtual-garden-kube-controller-manager": "image of container",
			},
			change: func(g *operatorv1alpha1.Garden) { g.Spec.VirtualCluster.Kubernetes.Version = "1.34.1" },
		},
		{
			name: "high availability", restarts: map[string]string{mainEtcd: "field spec.etcd.peerUrlTls"},
			change: func(g *operatorv1alpha1.Garden) {
				g.Spec.VirtualCluster.ControlPlane = &operatorv1alpha1.ControlPlane{HighAvailability: &operatorv1alpha1.HighAvailability{}}
			},
		},
	}
}

// A plan must name every object and every restart of the reconciliation that follows, and no others. Its client has only the rights of
// deploy/garden-read, and it writes nothing.
func TestPlanForeseesWhatAReconciliationChanges(t *testing.T) {
	s := newInstalledScene(t)
	s.createPolicy()
	s.createHook()
	reader := s.readOnlyUser()
	for i, tc := range foreseenChanges() {
		s.clock.SetTime(start.Add(time.Duration(i) * time.Minute))
		t.Run(tc.name, func(t *testing.T) {
			p := s.foresee(NewWithT(t), reader, tc)
			t.Logf("%d objects and %d restarts, as foreseen", len(p.Objects), len(p.Restarts))
		})
	}
}

// foresee makes a plan for a change, and then the change.
func (s *scene) foresee(g *WithT, reader client.WithWatch, tc foreseenChange) *plan.Plan {
	if tc.operator != nil {
		tc.operator(&s.reconciler.Operator)
	}
	live := s.get()
	next := live.DeepCopy()
	tc.change(next)
	sent := s.requests.Record()
	foreseen := *s.reconciler
	foreseen.Client = reader
	p, err := plan.Compute(s.t.Context(), foreseen, live, next)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(sent.InOrder("POST", "PUT", "PATCH", "DELETE")).To(BeEmpty())
	g.Expect(p.Refused).To(BeEmpty())
	g.Expect(p.Changes()).To(Equal(tc.restarts != nil), p.Text())
	for workload, reason := range tc.restarts {
		g.Expect(p.Restarts).To(ContainElement(And(
			WithTransform(func(r plan.Restart) string { return r.Kind + " " + r.Name }, Equal(workload)),
			HaveField("Reasons", ContainElement(ContainSubstring(reason))),
		)), p.Text())
	}
	before := s.snapshot()
	s.edit(tc.change)
	result := s.mustReconcile()
	for result.RequeueAfter < s.reconciler.SyncPeriod/2 {
		result = s.mustReconcile()
	}
	want, got := foreseenEffects(p), before.effects(s.snapshot())
	if strings.Contains(p.Text(), rotation.TokenProbe+"-…") { // a remark, because the proof creates it with data of the virtual cluster
		for _, all := range []*effects{&want, &got} {
			all.Objects = slices.DeleteFunc(all.Objects, func(o string) bool { return strings.HasPrefix(o, "Secret "+rotation.TokenProbe) })
		}
	}
	g.Expect(want).To(Equal(got), p.Text())
	return p
}

// createHook creates a Secret with a kubeconfig.
func (s *scene) createHook() {
	s.t.Helper()
	s.Expect(s.admin.Create(s.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace(), Name: "hook"},
		Data: map[string][]byte{"kubeconfig": []byte(`{apiVersion: v1, kind: Config, current-context: a,
contexts: [{name: a, context: {cluster: a}}], clusters: [{name: a, cluster: {server: "https://hook.example.com"}}]}`)},
	})).To(Succeed())
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
			objects["ManagedResource "+path.Base(each.Set)] = true
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
