package project_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

func full() []string {
	return []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
}

func read() []string { return []string{"get", "list", "watch"} }

func rule(group string, verbs []string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
}

// pair returns a role that the cluster fills by aggregation, and the role that it takes the rules from. The first must not have rules, not
// even an empty list: otherwise each apply of the manifest would conflict with the cluster about them.
func pair(name string, rules ...rbacv1.PolicyRule) []rbacv1.ClusterRole {
	selected := map[string]string{"rbac.gardener.cloud/aggregate-to-" + name: "true"}
	return []rbacv1.ClusterRole{
		{
			TypeMeta:        metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"},
			ObjectMeta:      metav1.ObjectMeta{Name: "gardener.cloud:system:" + name, Labels: map[string]string{"gardener.cloud/role": name}},
			AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: selected}}},
		},
		{
			TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"},
			ObjectMeta: metav1.ObjectMeta{Name: "gardener.cloud:system:" + name + "-aggregation", Labels: selected},
			Rules:      rules,
		},
	}
}

// The API servers of tests have no controller that fills aggregated roles, so the shipped manifests are compared literally. "make
// up" shows the filled roles in use.
func TestTheRolesThatAreShippedForProjectsAreThoseOfTheTable(t *testing.T) {
	want := map[string][]rbacv1.ClusterRole{
		"member.yaml": pair("project-member",
			rule("", full(), "secrets", "configmaps"),
			rule("core.gardener.cloud", full(), "shoots", "secretbindings", "quotas", "plants"),
			rule("security.gardener.cloud", full(), "credentialsbindings"),
			rule("settings.gardener.cloud", full(), "openidconnectpresets"),
			rule("operations.gardener.cloud", full(), "bastions"),
			rule("rbac.authorization.k8s.io", full(), "roles", "rolebindings"),
			rule("", read(), "events", "resourcequotas", "serviceaccounts"),
			rule("events.k8s.io", read(), "events"),
			rule("core.gardener.cloud", []string{"create"}, "shoots/adminkubeconfig"),
		),
		"viewer.yaml": pair("project-viewer",
			rule("", read(), "events", "configmaps", "resourcequotas", "serviceaccounts"),
			rule("events.k8s.io", read(), "events"),
			rule("core.gardener.cloud", read(), "shoots", "secretbindings", "quotas", "plants"),
			rule("security.gardener.cloud", read(), "credentialsbindings"),
			rule("settings.gardener.cloud", read(), "openidconnectpresets"),
			rule("operations.gardener.cloud", read(), "bastions"),
			rule("rbac.authorization.k8s.io", read(), "roles", "rolebindings"),
		),
		"serviceaccountmanager.yaml": pair("project-serviceaccountmanager",
			rule("", full(), "serviceaccounts"),
			rule("", []string{"create"}, "serviceaccounts/token"),
		),
		"creation.yaml": {{
			TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"},
			ObjectMeta: metav1.ObjectMeta{Name: "gardener.cloud:system:project-creation"},
			Rules:      []rbacv1.PolicyRule{rule("core.gardener.cloud", []string{"create"}, "projects")},
		}},
	}
	g := NewWithT(t)
	files, err := filepath.Glob(filepath.Join("..", "..", "deploy", "project-controller", "roles", "*"))
	g.Expect(err).NotTo(HaveOccurred())
	got := map[string][]rbacv1.ClusterRole{}
	for _, file := range files {
		got[filepath.Base(file)] = clusterRoles(t, file)
	}
	g.Expect(got).To(BeComparableTo(want))
}

// clusterRoles reads every document of a file, and fails on unknown fields.
func clusterRoles(t *testing.T, file string) []rbacv1.ClusterRole {
	t.Helper()
	g := NewWithT(t)
	content, err := os.ReadFile(file)
	g.Expect(err).NotTo(HaveOccurred())
	var roles []rbacv1.ClusterRole
	documents := utilyaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(content)))
	buffer := make([]byte, len(content)+1)
	for {
		n, err := documents.Read(buffer)
		if errors.Is(err, io.EOF) {
			return roles
		}
		g.Expect(err).NotTo(HaveOccurred())
		var role rbacv1.ClusterRole
		g.Expect(utilyaml.UnmarshalStrict(buffer[:n], &role)).To(Succeed())
		roles = append(roles, role)
	}
}
