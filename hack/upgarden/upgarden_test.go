package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/garden/components"
	list "github.com/espalier-dev/espalier/internal/garden/images"
	"github.com/espalier-dev/espalier/internal/garden/validation"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

func TestEveryImageOfTheOperatorIsReplaced(t *testing.T) {
	g := NewWithT(t)
	embedded, err := list.Embedded()
	g.Expect(err).NotTo(HaveOccurred())
	var known list.List
	for _, each := range (options{kubernetes: "1.35.9", seed: true, observability: true}).used() {
		known = append(known, list.Image{Name: each.name, TargetVersion: each.target, Ref: "espalier.local/" + each.name + ":" + each.group})
	}
	text, err := imageList(known)
	g.Expect(err).NotTo(HaveOccurred())
	read, err := list.Parse([]byte(text))
	g.Expect(err).NotTo(HaveOccurred())
	unused := []string{ // by components that the operator always skips here
		"gardener-metrics-exporter", "plutono", "plutono-data-refresher", "vali", "vali-curator", "tune2fs", "fluent-bit-to-vali",
		"ext-authz-server",
	}
	for target, group := range map[string]string{defaultKubernetes: "kubernetes-1.36", "1.35.9": "kubernetes-1.35"} {
		cluster := list.Cluster{Target: version.MustParseGeneric(target)}
		for _, each := range embedded {
			if slices.Contains(unused, each.Name) {
				continue
			}
			found, err := embedded.Overwritten(read).Find(each.Name, cluster)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(found).To(HavePrefix("espalier.local/"+each.Name+":"), target)
		}
		g.Expect(read.Find("kube-apiserver", cluster)).To(HaveSuffix(":" + group))
	}
}

func TestGroupsOnRequest(t *testing.T) {
	for name, tc := range map[string]struct {
		options options
		want    []string
	}{
		"those of the default version": {options: options{kubernetes: defaultKubernetes}, want: []string{"kubernetes-1.36"}},
		"those of another version":     {options: options{kubernetes: "1.35.2"}, want: []string{"kubernetes-1.36", "kubernetes-1.35"}},
		"those of a Seed":              {options: options{kubernetes: defaultKubernetes, seed: true}, want: []string{"kubernetes-1.36", "seed"}},
		"those of observability": {
			options: options{kubernetes: defaultKubernetes, observability: true}, want: []string{"kubernetes-1.36", "observability"},
		},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(tc.options.requested()).To(Equal(tc.want)) })
	}
}

func TestTagsFollowTheContent(t *testing.T) {
	g := NewWithT(t)
	file := filepath.Join(t.TempDir(), "standin")
	pack := func(content string, i image) packed {
		g.Expect(os.WriteFile(file, []byte(content), 0o600)).To(Succeed())
		p, err := i.pack(map[string]string{"standin": file}, "/state")
		g.Expect(err).NotTo(HaveOccurred())
		return p
	}
	first := pack("1", only("a", "standin", "80"))
	g.Expect(pack("1", only("a", "standin", "80"))).To(Equal(first))
	g.Expect(pack("2", only("a", "standin", "80")).Image).NotTo(Equal(first.Image))
	g.Expect(pack("1", only("a", "standin", "81")).Image).NotTo(Equal(first.Image))
	g.Expect(first.Archive).To(Equal("/state/a-" + strings.TrimPrefix(first.Image, "espalier.local/a:") + ".tar"))
	_, err := only("a", "absent").pack(nil, "")
	g.Expect(err).To(MatchError("pack image a: there is no program absent"))
}

// appliedBy returns the standard input that a function of cluster.sh gives to kubectl apply.
func appliedBy(t *testing.T, args ...string) string {
	t.Helper()
	g := NewWithT(t)
	kubectl := filepath.Join(t.TempDir(), "kubectl")
	g.Expect(os.WriteFile(kubectl, []byte("#!/bin/sh\n[ \"$1\" != apply ] || cat\n"), 0o700)).To(Succeed())
	script := exec.CommandContext(t.Context(), "./cluster.sh", args...)
	script.Env = append(os.Environ(), "KUBECTL="+kubectl, "VIRTUAL=virtual")
	out, err := script.Output()
	g.Expect(err).NotTo(HaveOccurred())
	return string(out)
}

func TestObjectsParse(t *testing.T) {
	g := NewWithT(t)
	overlay, err := os.ReadFile("overlay.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	gardenlet, err := os.ReadFile(filepath.Join("seed", "gardenlet.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	all := appliedBy(t, "add-ons", "coredns:1") + "\n---\n" + string(gardenlet)
	for _, each := range append(strings.Split(all, "\n---\n"), string(overlay)) {
		var object map[string]any
		g.Expect(yaml.UnmarshalStrict([]byte(each), &object)).To(Succeed(), each)
		g.Expect(object).To(HaveKey("kind"), each)
	}
}

func TestGardenIsValid(t *testing.T) {
	g := NewWithT(t)
	for _, available := range []bool{false, true} {
		plane := options{highlyAvailable: available}.controlPlane()
		documents := strings.Split(appliedBy(t, "garden", defaultKubernetes, "/backups", plane), "\n---\n")
		o := &operatorv1alpha1.Garden{}
		g.Expect(yaml.UnmarshalStrict([]byte(documents[len(documents)-1]), o)).To(Succeed())
		g.Expect(o.Name).To(Equal(gardenName))
		g.Expect(o.Spec.VirtualCluster.ControlPlane.HighAvailability != nil).To(Equal(available))
		g.Expect(validation.Stored(o, o)).To(BeEmpty())
		_, err := values.New(o, values.Operator{})
		g.Expect(err).NotTo(HaveOccurred())
	}
}

func TestOperatorIsDeployedWithTheVersion(t *testing.T) {
	folder := t.TempDir()
	appliedBy(t, "operator", folder, "v1.2.3", "vali,plutono")
	written, err := os.ReadFile(filepath.Join(folder, "kustomization.yaml"))
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(written)).To(ContainSubstring(`{name: espalier.local/garden-operator, newTag: "v1.2.3"}`))
	g.Expect(string(written)).To(ContainSubstring(`annotations: {skipped: "vali,plutono"}`))
}

func TestOperatorSkipsObservability(t *testing.T) {
	g := NewWithT(t)
	shipped, err := os.ReadFile("../../deploy/garden-operator/base/configmap.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	for _, o := range []options{{}, {seed: true}, {observability: true}, {seed: true, observability: true}} {
		text, err := o.operatorConfiguration(shipped)
		g.Expect(err).NotTo(HaveOccurred())
		configuration := &corev1.ConfigMap{}
		g.Expect(yaml.UnmarshalStrict(text, configuration)).To(Succeed())
		c, warnings, err := config.Operator([]byte(configuration.Data["config.yaml"]))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(warnings).To(BeEmpty())
		g.Expect(c.Espalier.Garden.SkipComponents).To(ContainElement("vali"))
		g.Expect(components.ValidateSkipped(c.Espalier.Garden.SkipComponents, nil)).To(BeEmpty())
		g.Expect(slices.Contains(c.Espalier.Garden.SkipComponents, "prometheus-operator")).To(Equal(!o.seed && !o.observability))
		g.Expect(slices.Contains(c.Espalier.Garden.SkipComponents, "victoria-logs")).To(Equal(!o.observability))
		g.Expect(c.Enabled(config.GateRemoveVali)).To(Equal(o.observability))
		g.Expect(c.FeatureGates).To(HaveKeyWithValue(config.GateDefaultSeccompProfile, true), "the shipped settings stay")
	}
}

func TestObjectsOfTheSeedAreThoseOfItsConfiguration(t *testing.T) {
	g := NewWithT(t)
	folder := t.TempDir()
	args := []string{"seed", "espalier.local/provider-local:1", "/backups", "1.35.9", defaultKubernetes}
	applied := appliedBy(t, args...)
	g.Expect(appliedBy(t, args...)).To(Equal(applied), "the archive is the same")
	g.Expect(applied).To(ContainSubstring(`versions: [{version: "1.35.9"},{version: "` + defaultKubernetes + `"},]`))
	g.Expect(appliedBy(t, "gardenlet", folder, "v1")).To(BeEmpty(), "this kubectl says that gardenlet has a kubeconfig")
	var types []string
	for each := range strings.SplitSeq(applied, "\n---\n") {
		o := &corev1beta1.ControllerRegistration{}
		g.Expect(yaml.Unmarshal([]byte(each), o)).To(Succeed(), each)
		for _, resource := range o.Spec.Resources {
			types = append(types, resource.Kind+"/"+resource.Type)
		}
	}
	config := struct {
		SeedConfig corev1beta1.Seed
	}{}
	content, err := os.ReadFile(filepath.Join(folder, "config.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(yaml.Unmarshal(content, &config)).To(Succeed())
	g.Expect(config.SeedConfig.Name).To(Equal(seedName))
	// Gardener's API server refuses a Seed whose types are not registered.
	for _, kind := range []string{"ControlPlane", "Infrastructure", "Worker", "DNSRecord", "BackupBucket", "BackupEntry"} {
		g.Expect(types).To(ContainElement(kind + "/" + config.SeedConfig.Spec.Provider.Type))
	}
}

func TestGardenletGetsBothResourceManagers(t *testing.T) {
	g := NewWithT(t)
	images := list.List{{Name: "coredns", Ref: "a/coredns:1"}, {Name: resourceManagerImage, Ref: "a/gardener-resource-manager:1"}}
	g.Expect(gardenletLists(images, "")).To(Equal(map[string]list.List{"images.yaml": images, "gardener.yaml": images}))
	lists := gardenletLists(images, "b/gardener-resource-manager:2")
	g.Expect(lists["gardener.yaml"]).To(Equal(images))
	g.Expect(lists["images.yaml"].Find(resourceManagerImage, list.Cluster{})).To(Equal("b/gardener-resource-manager:2"))

	kustomization, err := os.ReadFile(filepath.Join("seed", "kustomization.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	for file := range lists {
		g.Expect(string(kustomization)).To(ContainSubstring(file))
	}
	g.Expect(run(t.Context(), []string{"-version=1", "-resource-manager=other"}, nil)).To(MatchError(HavePrefix("usage:")))
}

func TestSeedIsReadyWhenItIsReconciledAndHealthy(t *testing.T) {
	g := NewWithT(t)
	of := func(status string) error {
		seed := &corev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
		if status != "" {
			seed.Status = &runtime.RawExtension{Raw: []byte(status)}
		}
		return unready(seed)
	}
	withConditions := func(generation int, last string) string {
		return fmt.Sprintf(`{"observedGeneration": %d, "lastOperation": {"state": "Succeeded"}, "conditions": [
			{"type": "GardenletReady", "status": "True"}, {"type": "ExtensionsReady", "status": "True"},
			{"type": "BackupBucketsReady", "status": "True"}, %s]}`, generation, last)
	}
	const healthy = `{"type": "SeedSystemComponentsHealthy", "status": "True"}`
	g.Expect(of("")).To(MatchError("gardenlet has not begun"))
	g.Expect(of(`{"lastOperation": {"state": "Processing", "progress": 40, "description": "Waiting"}}`)).
		To(MatchError("Processing (40%): Waiting"))
	g.Expect(of(withConditions(1, healthy))).To(HaveOccurred(), "an earlier generation")
	g.Expect(of(withConditions(2, `{"type": "SeedSystemComponentsHealthy", "status": "False", "message": "no"}`))).
		To(MatchError("SeedSystemComponentsHealthy is False: no"))
	g.Expect(of(`{"observedGeneration": 2, "lastOperation": {"state": "Succeeded"}}`)).To(MatchError("GardenletReady is not known yet"))
	g.Expect(of(withConditions(2, healthy))).To(Succeed())
}
