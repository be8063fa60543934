package reference

import (
	"cmp"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/yaml"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

func garden(t *testing.T, virtualCluster string) *operatorv1alpha1.Garden {
	t.Helper()
	g := &operatorv1alpha1.Garden{}
	NewWithT(t).Expect(yaml.UnmarshalStrict([]byte("{metadata: {name: a}, spec: {virtualCluster: "+virtualCluster+"}}"), g)).To(Succeed())
	return g
}

// everything refers to all that a Garden can refer to.
const everything = `
etcd: {main: {backup: {provider: S3, secretRef: {name: backup}}}}
gardener:
  clusterIdentity: a
  gardenerAPIServer:
    admissionPlugins: [{name: a, kubeconfigSecretName: gardener-plugin}]
    auditConfig: {auditPolicy: {configMapRef: {name: gardener-policy}}}
    auditWebhook: {kubeconfigSecretName: gardener-audit}
kubernetes:
  version: 1.36.1
  kubeAPIServer:
    admissionPlugins: [{name: a, kubeconfigSecretName: plugin}, {name: b}, {name: c, kubeconfigSecretName: plugin}]
    auditConfig: {auditPolicy: {configMapRef: {name: policy}}}
    auditWebhook: {kubeconfigSecretName: audit}
    authentication: {webhook: {kubeconfigSecretName: authentication}}
    sni: {secretName: sni}
`

// later are the references that Gardener 1.84 did not have.
const later = `
kubernetes:
  version: 1.36.1
  kubeAPIServer:
    structuredAuthentication: {configMapName: authentication}
    structuredAuthorization: {configMapName: authorization, kubeconfigs: [
      {authorizerName: a, secretName: b}, {authorizerName: c, secretName: d}]}
`

// read reads a block of the virtual cluster.
func read(t *testing.T, block string) *operatorv1alpha1.Garden {
	t.Helper()
	g := &operatorv1alpha1.Garden{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	NewWithT(t).Expect(yaml.UnmarshalStrict([]byte(block), &g.Spec.VirtualCluster)).To(Succeed())
	return g
}

func names(secrets []string, configMaps ...string) sets.Set[Name] {
	all := sets.New[Name]()
	for _, each := range secrets {
		all.Insert(Name{Kind: "Secret", Name: each})
	}
	for _, each := range configMaps {
		all.Insert(Name{Kind: "ConfigMap", Name: each})
	}
	return all
}

func TestNames(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Of(read(t, everything))).To(BeComparableTo(names(
		[]string{"audit", "authentication", "backup", "gardener-audit", "gardener-plugin", "plugin", "sni"},
		"gardener-policy", "policy",
	)))
	g.Expect(Of(read(t, later))).To(BeComparableTo(names([]string{"b", "d"}, "authentication", "authorization")))
	extended := &operatorv1alpha1.Garden{}
	g.Expect(yaml.UnmarshalStrict([]byte(`{spec: {
		dns: {providers: [{name: a, type: b, secretRef: {name: dns}}, {name: c, type: d, secretRef: {name: dns}}]},
		resources: [{name: a, resourceRef: {apiVersion: v1, kind: Secret, name: s}},
			{name: b, resourceRef: {apiVersion: v1, kind: ConfigMap, name: m}}, {name: c, resourceRef: {kind: Pod, name: p}}]}}`,
	), extended)).To(Succeed())
	g.Expect(Of(extended)).To(BeComparableTo(names([]string{"dns", "s"}, "m")))
	for sentence, cluster := range map[string]string{
		"nothing": `{}`,
		"empty parts": `{etcd: {main: {}}, gardener: {gardenerAPIServer: {auditConfig: {}}},
			kubernetes: {kubeAPIServer: {auditConfig: {auditPolicy: {}},
			authentication: {}, sni: {}}}}`,
		"empty names": `{etcd: {main: {backup: {secretRef: {name: ''}}}}, kubernetes: {kubeAPIServer: {auditConfig: {auditPolicy: ` +
			`{configMapRef: {}}}}}}`,
	} {
		g.Expect(Of(garden(t, cluster))).To(BeEmpty(), sentence)
	}
}

func TestTriggers(t *testing.T) {
	now := metav1.Now()
	deleted := func(finalizers ...string) *operatorv1alpha1.Garden {
		g := read(t, everything)
		g.DeletionTimestamp, g.Finalizers = &now, finalizers
		return g
	}
	reordered := read(t, everything)
	plugins := reordered.Spec.VirtualCluster.Kubernetes.KubeAPIServer.AdmissionPlugins
	plugins[0], plugins[1] = plugins[1], plugins[0]
	reordered.Status.ObservedGeneration = 5
	for sentence, tc := range map[string]struct {
		old, updated *operatorv1alpha1.Garden
		want         bool
	}{
		"the same names":                 {old: read(t, everything), updated: reordered},
		"other names":                    {old: read(t, everything), updated: read(t, later), want: true},
		"names removed":                  {old: read(t, everything), updated: garden(t, `{}`), want: true},
		"deletion with the finalizer":    {old: read(t, everything), updated: deleted("gardener.cloud/reference-protection"), want: true},
		"deletion without the finalizer": {old: read(t, everything), updated: deleted("gardener.cloud/operator")},
		"a ConfigMap in place of a Secret": {
			old:     garden(t, `{kubernetes: {kubeAPIServer: {sni: {secretName: a}}}}`),
			updated: garden(t, `{kubernetes: {kubeAPIServer: {structuredAuthentication: {configMapName: a}}}}`), want: true,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			NewWithT(t).Expect(relevant(Of).Update(event.UpdateEvent{ObjectOld: tc.old, ObjectNew: tc.updated})).To(Equal(tc.want))
		})
	}
	g := NewWithT(t)
	g.Expect(relevant(Of).Create(event.CreateEvent{Object: garden(t, `{}`)})).To(BeTrue())
	g.Expect(relevant(Of).Delete(event.DeleteEvent{Object: garden(t, `{}`)})).To(BeFalse())
	g.Expect(relevant(Of).Generic(event.GenericEvent{Object: garden(t, `{}`)})).To(BeFalse())
	g.Expect(relevant(Of).Update(event.UpdateEvent{ObjectOld: &corev1.Secret{}, ObjectNew: &corev1.Secret{}})).To(BeFalse())
}

type objectChange func(*metav1.PartialObjectMetadata)

func object(kind, name string, changes ...objectChange) metav1.PartialObjectMetadata {
	o := metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: kind}, ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, change := range changes {
		change(&o)
	}
	return o
}

func protected(o *metav1.PartialObjectMetadata) {
	o.Finalizers = []string{"foreign", "gardener.cloud/reference-protection"}
}

func withRole(value string) objectChange {
	return func(o *metav1.PartialObjectMetadata) { o.Labels = map[string]string{"gardener.cloud/role": value} }
}

func deletedObject(o *metav1.PartialObjectMetadata) { o.DeletionTimestamp = &metav1.Time{} }

func TestPlan(t *testing.T) {
	const refers = `{kubernetes: {kubeAPIServer: {sni: {secretName: s}, structuredAuthentication: {configMapName: c}}}}`
	names := names([]string{"s"}, "c")
	for sentence, tc := range map[string]struct {
		deleted    bool
		cluster    string // the virtual cluster; empty: refers
		referenced sets.Set[Name]
		objects    []metav1.PartialObjectMetadata

		release, protect []string
		garden           bool
		problems         []string
	}{
		"new references": {
			referenced: names,
			objects: []metav1.PartialObjectMetadata{
				object("Secret", "s"), object("ConfigMap", "c"), object("Secret", "c"), object("ConfigMap", "s"),
			},
			protect: []string{"Secret s", "ConfigMap c"}, garden: true,
		},
		"protected references": {
			referenced: names, objects: []metav1.PartialObjectMetadata{object("Secret", "s", protected), object("ConfigMap", "c", protected)},
			garden: true,
		},
		"missing references": {
			referenced: names, objects: []metav1.PartialObjectMetadata{object("ConfigMap", "c")}, protect: []string{"ConfigMap c"}, garden: true,
			problems: []string{`referenced Secret "s" does not exist`},
		},
		"missing references are sorted: Secrets before ConfigMaps, then by name": {
			cluster: `{kubernetes: {kubeAPIServer: {sni: {secretName: b}, auditWebhook: {kubeconfigSecretName: a},
				structuredAuthorization: {configMapName: d}, structuredAuthentication: {configMapName: c}}}}`,
			problems: []string{
				`referenced Secret "a" does not exist`, `referenced Secret "b" does not exist`,
				`referenced ConfigMap "c" does not exist`, `referenced ConfigMap "d" does not exist`,
			},
		},
		"references that are being deleted": {
			referenced: names,
			objects:    []metav1.PartialObjectMetadata{object("ConfigMap", "c", deletedObject), object("Secret", "s", deletedObject, protected)},
			garden:     true,
			problems:   []string{`referenced ConfigMap "c" is being deleted`},
		},
		"objects that are not referenced any more": {
			cluster: "{}",
			objects: []metav1.PartialObjectMetadata{
				object("Secret", "s", protected), object("ConfigMap", "c", protected, withRole("x")), object("Secret", "t"),
			},
			release: []string{"Secret s", "ConfigMap c"},
		},
		"objects that another Garden refers to": {
			cluster: "{}", referenced: names, objects: []metav1.PartialObjectMetadata{object("Secret", "s", protected)},
		},
		"Secrets of components": {
			referenced: sets.Set[Name]{},
			objects: []metav1.PartialObjectMetadata{
				object("Secret", "s", withRole("ca")), object("ConfigMap", "c", withRole("ca")), object("Secret", "t", protected, withRole("ca")),
			},
			protect: []string{"ConfigMap c"}, garden: true,
		},
		"Secrets with an empty role": {
			referenced: names,
			objects: []metav1.PartialObjectMetadata{
				object("Secret", "s", withRole("")), object("ConfigMap", "c", protected), object("Secret", "t", protected, withRole("")),
			},
			release: []string{"Secret t"}, protect: []string{"Secret s"}, garden: true,
		},
		"a Garden in deletion": {
			deleted: true, objects: []metav1.PartialObjectMetadata{object("Secret", "s", protected), object("ConfigMap", "c")},
			release: []string{"Secret s"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			owner := garden(t, cmp.Or(tc.cluster, refers))
			f := facts{owner: owner, names: Of(owner), referenced: tc.referenced, objects: tc.objects}
			if tc.deleted {
				owner.DeletionTimestamp = &metav1.Time{}
			}
			todo := plan(f)
			g.Expect(described(todo.release)).To(BeComparableTo(tc.release))
			g.Expect(described(todo.protect)).To(BeComparableTo(tc.protect))
			g.Expect(todo.protectOwner).To(Equal(tc.garden))
			var problems []string
			for _, each := range todo.problems {
				problems = append(problems, each.Error())
			}
			g.Expect(problems).To(BeComparableTo(tc.problems))
		})
	}
}

func described(objects []metav1.PartialObjectMetadata) []string {
	var all []string
	for _, each := range objects {
		all = append(all, each.Kind+" "+each.Name)
	}
	return all
}
