package components_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/basicauth"
	"github.com/espalier-dev/espalier/internal/garden/component/etcd"
	"github.com/espalier-dev/espalier/internal/garden/component/gardeneradmission"
	"github.com/espalier-dev/espalier/internal/garden/component/gardenerapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/gardenerscheduler"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/kubecontrollermanager"
	"github.com/espalier-dev/espalier/internal/garden/component/prometheus"
	"github.com/espalier-dev/espalier/internal/garden/component/resourcemanager"
	"github.com/espalier-dev/espalier/internal/garden/components"
	"github.com/espalier-dev/espalier/internal/garden/images"
	"github.com/espalier-dev/espalier/internal/garden/values"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// eachGarden runs a test with the Gardens of all releases.
func eachGarden(t *testing.T, test func(*testing.T, *operatorv1alpha1.Garden, values.Operator)) {
	t.Helper()
	list, err := images.Embedded()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	files, err := filepath.Glob("../lifecycle/testdata/releases/*.yaml")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(files).NotTo(BeEmpty())
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			g := NewWithT(t)
			text, err := os.ReadFile(file)
			g.Expect(err).NotTo(HaveOccurred())
			garden := &operatorv1alpha1.Garden{}
			g.Expect(yaml.Unmarshal(text, garden)).To(Succeed())
			test(t, garden, values.Operator{Namespace: "garden", Images: list})
		})
	}
}

// All tasks of a flow have the same values, whose maps, lists and pointers no component changes.
func TestComponentsDoNotChangeTheValues(t *testing.T) {
	eachGarden(t, func(t *testing.T, garden *operatorv1alpha1.Garden, operator values.Operator) {
		t.Helper()
		g := NewWithT(t)
		before, err := values.New(garden, operator)
		g.Expect(err).NotTo(HaveOccurred())
		operator.Image = func(binary string) string { return binary }
		v, err := values.New(garden, operator)
		g.Expect(err).NotTo(HaveOccurred())
		v.WithFacts("wildcard", []int32{443}).WithEncryption([]string{"secrets"}, "aesgcm").WithPhase("ca", "Preparing")
		for _, row := range components.All() {
			_, err := use(row, v)
			g.Expect(err).NotTo(HaveOccurred(), row.Name)
		}
		g.Expect(useSteps(v)).To(Succeed())
		v.Image = nil // functions are never equal
		g.Expect(v).To(Equal(before))
	})
}

// A deletion, and the removal of a component that the Garden does not want, find direct objects by the row. The garbage collector deletes
// immutable objects.
func TestRowsNameTheirDirectObjects(t *testing.T) {
	eachGarden(t, func(t *testing.T, garden *operatorv1alpha1.Garden, operator values.Operator) {
		t.Helper()
		g := NewWithT(t)
		operator.Image = func(binary string) string { return binary }
		v, err := values.New(garden, operator)
		g.Expect(err).NotTo(HaveOccurred())
		for _, row := range components.All() {
			objects, err := use(row, v)
			g.Expect(err).NotTo(HaveOccurred(), row.Name)
			for _, each := range objects.Direct {
				kind := each.GetObjectKind().GroupVersionKind()
				named := slices.ContainsFunc(row.Leftovers, func(o component.Object) bool {
					return o.GroupVersionKind == kind && o.Name == each.GetName() && o.Cluster == (each.GetNamespace() == "")
				})
				named = named || kind.Kind == "Secret" && slices.Contains(row.AccessSecrets, each.GetName())
				_, isCollectable := each.GetLabels()["resources.gardener.cloud/garbage-collectable-reference"]
				isKept := kind.Kind == "Namespace" && each.GetName() == "istio-system" // the operator has not created it
				g.Expect(named || isCollectable || isKept).To(BeTrue(), "%s: %s %s", row.Name, kind.Kind, each.GetName())
			}
		}
	})
}

// use calls the functions of a row, and returns its objects.
func use(row component.Component, v values.Values) (component.Objects, error) {
	if row.Unless != nil {
		row.Unless(v)
	}
	if row.Ignored != nil {
		row.Ignored(v)
	}
	found := component.Secrets{
		Bundles: map[string]*corev1.Secret{}, Current: map[string]*corev1.Secret{}, Generated: map[string]*corev1.Secret{},
	}
	for _, name := range row.Needs.Bundles {
		found.Bundles[name] = secret(name)
	}
	for _, name := range row.Needs.Current {
		found.Current[name] = secret(name)
	}
	for _, each := range row.Credentials {
		if each.Request != nil {
			each.Request(v)
		}
		found.Generated[each.Name] = secret(each.Name)
	}
	if row.Objects == nil {
		return component.Objects{}, nil
	}
	return row.Objects(v, found)
}

func secret(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// useSteps builds the objects of the components that have Steps instead of Objects.
func useSteps(v values.Values) error {
	keys := []secretconfig.UsableEncryptionKey{{Provider: secretconfig.AESCBC, Name: "key1", Secret: "c2VjcmV0"}}
	strategy, _ := gardenerscheduler.Strategy(v, nil)
	etcd.Object(v, etcd.Main, etcd.Secrets{}, nil)
	etcd.Autoscaler(v, etcd.Main, nil)
	_, err1 := kubeapiserver.Objects(v, kubeapiserver.Input{Secrets: kubeapiserver.Secrets{EncryptionKeys: keys}})
	_, err2 := gardenerapiserver.Objects(v, gardenerapiserver.Input{EncryptionKeys: keys})
	_, err3 := gardeneradmission.Objects(v, gardeneradmission.Input{})
	_, err4 := gardenerscheduler.Objects(v, "kubeconfig", strategy)
	_, err5 := kubecontrollermanager.Objects(v, kubecontrollermanager.Secrets{}, nil)
	_, err6 := resourcemanager.Objects(v)
	_, err7 := resourcemanager.VirtualObjects(v, resourcemanager.Credentials{})
	_, err8 := prometheus.Objects(v, prometheus.Credentials{}, prometheus.Seeds{})
	_, err9 := basicauth.Objects(v, basicauth.Credentials{}, nil)
	return errors.Join(err1, err2, err3, err4, err5, err6, err7, err8, err9)
}
