package applier_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managedresource/diff"
	. "github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

// These attacks want the deletion limit, the plans, the reads of Secrets or the subcommand diff to do more than they may.

// definition returns the reference to a definition of a kind of the victim.
func (s *scene) definition(plural string) resourcesv1alpha1.ObjectReference {
	return resourcesv1alpha1.ObjectReference{ObjectReference: corev1.ObjectReference{
		APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition", Name: plural + "." + s.victim + ".example.org",
	}}
}

// suspended waits until a set says that a deletion is suspended for a reason. It returns the message, and how to confirm the deletion.
func (s *scene) suspended(set, reason string) (message, confirmation string) {
	s.T.Helper()
	s.Eventually(func() string {
		message, confirmation, _ = strings.Cut(Message(s.Get(set), "ResourcesApplied"), ". Restore them")
		return message
	}).WithTimeout(Patience).Should(ContainSubstring("Pruning is suspended: " + reason))
	return message, confirmation
}

// definitions are attempts to delete a definition that has objects of others, or to learn whether one has objects. The kind "gems" has an
// object, "voids" has none.
func definitions() []attack {
	alike := func(account, refusal string, kinds ...string) func(*scene, string) {
		return func(s *scene, set string) {
			var texts [2][]string
			for _, kind := range kinds {
				each := set + "-" + kind
				s.forged(each, account, nil, s.definition(kind))
				change, _ := s.suspended(each, "the sources no longer contain")
				s.Expect(change).To(ContainSubstring(refusal))
				s.Expect(s.Source.Delete(s.Ctx, s.Get(each))).To(Succeed())
				removal, _ := s.suspended(each, "the deletion of the set")
				for i, text := range []string{change, removal} {
					texts[i] = append(texts[i], strings.ReplaceAll(text, kind, "KIND"))
				}
			}
			for _, each := range texts {
				s.Expect(slices.Compact(each)).To(HaveLen(1))
			}
		}
	}
	return []attack{
		{
			"learn whether a kind has objects, without the right to read its definition",
			alike("deployer", `deployer" cannot get resource "customresourcedefinitions"`, "gems", "voids", "nothings"),
		},
		{
			"learn whether a kind has objects, without the right to list them",
			alike("counter", `counter" cannot list resource`, "gems", "voids"),
		},
		{"confirm the deletion of a definition", func(s *scene, set string) {
			s.forged(set, "counter", nil, reference(s.guard(s.lure("definition", set))))
			_, confirmation := s.suspended(set, "the sources no longer contain")
			s.Change(set, func(mr *resourcesv1alpha1.ManagedResource) {
				metav1.SetMetaDataAnnotation(&mr.ObjectMeta, "espalier.dev/confirm-deletion", strings.Split(confirmation, `"`)[1])
			})
			s.Eventually(func() string { return Message(s.Get(set), "ResourcesApplied") }).WithTimeout(Patience).
				Should(ContainSubstring(`counter" cannot delete resource "customresourcedefinitions"`))
		}},
	}
}

// paths are names that lead to other objects if they become part of the path of a request.
func paths() []attack {
	all := []attack{{"name a Secret by a path", func(s *scene, set string) {
		mr := s.ManagedResource(set, "../../"+s.victim+"/secrets/treasure")
		mr.Annotations = map[string]string{"espalier.dev/service-account": "deployer"}
		s.Expect(s.Source.Create(s.Ctx, mr)).To(Succeed())
		s.AwaitApplied(set, "False/CannotReadSecret")
	}}}
	for _, metadata := range []string{
		"{name: ../../$V/configmaps/treasure, namespace: $NS}", "{name: treasure, namespace: ../namespaces/$V}",
	} {
		all = append(all, attack{"name an object by a path: " + metadata, func(s *scene, set string) {
			setOf(s.Env, set, "deployer", s.fill("apiVersion: v1\nkind: ConfigMap\nmetadata: "+metadata+"\ndata: {key: mine}"))
			s.Eventually(func() string { return Condition(s.Get(set), "ResourcesApplied") }).WithTimeout(Patience).Should(HavePrefix("False/"))
		}})
	}
	return all
}

// plans are attempts to change or delete a ConfigMap of the namespace with the rights by which the controller publishes plans.
func plans() []attack {
	return []attack{{"a plan in place of a ConfigMap", func(s *scene, set string) {
		prey := object(s.Env, s.ConfigMap(set+"-plan", "1"))
		s.Expect(s.Source.Create(s.Ctx, prey)).To(Succeed())
		s.annotatedSet(set, "no-get", map[string]string{"espalier.dev/plan": "true"}, s.ConfigMap(set, "1"))
		s.Eventually(func() []string { return s.Events(set) }).WithTimeout(Patience).Should(ContainElement(HavePrefix("PlanNotPublished")))
		s.Change(set, func(mr *resourcesv1alpha1.ManagedResource) {
			delete(mr.Annotations, "espalier.dev/plan")
			mr.Annotations["espalier.dev/planned"] = prey.GetName()
		})
		s.Eventually(func() string { return s.Get(set).Annotations["espalier.dev/planned"] }).WithTimeout(Patience).Should(BeEmpty())
		live := prey.DeepCopy()
		s.Expect(s.Source.Get(s.Ctx, client.ObjectKeyFromObject(prey), live)).To(Succeed())
		s.Expect(live.GetResourceVersion()).To(Equal(prey.GetResourceVersion()))
	}}}
}

// differences are plans that the attackers compute with the subcommand diff and their own credentials.
func differences(documents map[string]string) []attack {
	var all []attack
	for _, kind := range slices.Sorted(maps.Keys(documents)) {
		all = append(all, attack{"diff " + kind, func(s *scene, set string) {
			refusal := s.fill(`person" cannot (get resource .* in the namespace "$V"|watch resource)`)
			s.Expect(s.diff(set, s.fill(documents[kind]))).To(MatchRegexp(refusal))
		}})
	}
	return append(all, attack{"diff a set that names a Secret by a path", func(s *scene, set string) {
		s.Expect(s.diff("../../"+s.victim+"/secrets/treasure", s.ConfigMap(set, "1"))).NotTo(BeEmpty())
	}})
}

// diff runs the subcommand diff for a set with the ServiceAccount "deployer", and for a Secret with the given name and document. The user
// is the ServiceAccount "person", which has the same ClusterRole "test-team" as "deployer". diff returns one text with the output and the
// error.
func (s *scene) diff(secret, document string) string {
	s.T.Helper()
	cfg := &strings.Builder{}
	cfg.WriteString("apiVersion: resourcemanager.config.gardener.cloud/v1alpha1\nkind: ResourceManagerConfiguration\n" +
		"leaderElection: {leaderElect: false}\n" +
		"espalier: {managedResource: {serviceAccounts: {lockdown: true}}}\n")
	for side, c := range map[string]client.Client{"source": s.Source, "target": s.Target} {
		server := s.Servers.Source
		if c != s.Source {
			server = s.Servers.Target
		}
		person := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "person"}}
		s.Expect(client.IgnoreAlreadyExists(c.Create(s.Ctx, person))).To(Succeed())
		s.GrantTo(c, "person", "test-team", authorizationv1.ResourceAttributes{Resource: "configmaps", Verb: "delete"})
		kubeconfig, err := local.ServiceAccountKubeconfig(s.Ctx, server.Config, s.Namespace, "person", time.Hour)
		s.Expect(err).NotTo(HaveOccurred())
		fmt.Fprintf(cfg, "%sClientConnection: {kubeconfig: %q}\n", side, binary.WriteKubeconfig(s.T, kubeconfig))
	}
	file := filepath.Join(s.T.TempDir(), "config.yaml")
	s.Expect(os.WriteFile(file, []byte(cfg.String()), 0o600)).To(Succeed())
	in := fmt.Sprintf(`apiVersion: v1
kind: Secret
metadata: {name: %[1]q, namespace: %[2]s}
stringData: {objects.yaml: %[3]q}
---
apiVersion: resources.gardener.cloud/v1alpha1
kind: ManagedResource
metadata:
  name: diff
  namespace: %[2]s
  annotations: {espalier.dev/service-account: deployer, espalier.dev/plan-values: 'true'}
spec: {secretRefs: [{name: %[1]q}]}
`, secret, s.Namespace, document)
	var out bytes.Buffer
	command := diff.Command(process.Program{Name: "managedresource-controller"}, strings.NewReader(in))
	err := command.Run(s.Ctx, []string{"-f", "-", "--config", file}, &out)
	s.printed = fmt.Sprintf("%s%v", out.String(), err)
	return s.printed
}
