package lifecycle_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	"github.com/espalier-dev/espalier/internal/garden/lifecycle"
)

// credential matches the parts of names, and the bundles, that a renewal changes.
var credential = regexp.MustCompile(`-[0-9a-f]{8}(-[0-9a-f]{5})?\b|\b[A-Za-z0-9+/]{500,}=*`)

// withoutCredentials returns the parts of texts, sorted, because keys with a hash in them change their order.
func withoutCredentials(texts map[string]string) map[string][]string {
	without := map[string][]string{}
	for name, each := range texts {
		without[name] = strings.FieldsFunc(credential.ReplaceAllString(each, ""), func(r rune) bool { return strings.ContainsRune("{},\n", r) })
		slices.Sort(without[name])
	}
	return without
}

// text returns the objects that the operator created, except for Secrets, and the contents of ManagedResources, by kind and name.
func (s *scene) text() map[string]string {
	s.t.Helper()
	texts := map[string]string{}
	for _, each := range s.ours() {
		if each.GetKind() == "Secret" || each.GetKind() == "ConfigMap" {
			continue
		}
		annotations := each.GetAnnotations()
		delete(annotations, "gardener.cloud/operation") // the request to etcd-druid, and its time
		delete(annotations, "gardener.cloud/timestamp")
		each.SetAnnotations(annotations)
		content, err := json.Marshal(each.Object)
		s.Expect(err).NotTo(HaveOccurred())
		texts[each.GetKind()+" "+each.GetName()] = string(content)
		if each.GetKind() != "ManagedResource" || each.GetNamespace() != s.namespace() {
			continue
		}
		for key, manifest := range s.contents(each.GetName()) {
			texts["manifest "+each.GetName()+" "+key] = string(manifest)
		}
	}
	return texts
}

// usesExpired returns the managed Secrets that objects of the operator use although they expire within a year.
func (s *scene) usesExpired(texts map[string]string) (uses []string) {
	s.t.Helper()
	soon := s.clock.Now().Add(365 * 24 * time.Hour)
	for _, secret := range s.secrets("") {
		until := secret.Labels["valid-until-time"]
		if secret.Data["tls.crt"] == nil || until > strconv.FormatInt(soon.Unix(), 10) {
			continue
		}
		whole := regexp.MustCompile(secret.Name + `([^-0-9a-z]|$)`)
		for name, each := range texts {
			if whole.MatchString(each) {
				uses = append(uses, name+" uses "+secret.Name)
			}
		}
	}
	return uses
}

func TestCertificatesOfARefusedGardenAreRenewed(t *testing.T) {
	for sentence, tc := range map[string]struct {
		refuse, allow func(*operatorv1alpha1.Garden)
		message       string
	}{
		"its specification breaks a rule": {
			func(g *operatorv1alpha1.Garden) {
				g.Spec.VirtualCluster.Networking.Services = operatorv1alpha1.CIDRList{"no network"}
			},
			func(g *operatorv1alpha1.Garden) {
				g.Spec.VirtualCluster.Networking.Services = operatorv1alpha1.CIDRList{"100.64.0.0/13"}
			},
			"spec.virtualCluster.networking.services",
		},
		"its version skips one": {
			func(g *operatorv1alpha1.Garden) { g.Spec.VirtualCluster.Kubernetes.Version = "1.35.0" },
			func(g *operatorv1alpha1.Garden) { g.Spec.VirtualCluster.Kubernetes.Version = "1.33.1" },
			"spec.virtualCluster.kubernetes.version",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newInstalledScene(t)
			s.reconciler.Expiry = lifecycle.NewExpiry(prometheus.NewRegistry())
			before := s.text()
			s.clock.SetTime(start.AddDate(9, 6, 0)) // certificates are valid for ten years
			s.Expect(s.usesExpired(before)).NotTo(BeEmpty())
			s.edit(tc.refuse)
			_, err := s.reconcile()
			s.Expect(err).To(MatchError(ContainSubstring(tc.message)))
			s.Expect(s.get().Status.LastOperation.Description).NotTo(ContainSubstring("renew certificates"))

			renewed := s.text()
			s.Expect(s.usesExpired(renewed)).To(BeEmpty())
			s.Expect(withoutCredentials(renewed)).To(BeComparableTo(withoutCredentials(before)))
			sample := &dto.Metric{}
			s.Expect(s.reconciler.Expiry.WithLabelValues("kube-apiserver", "certificate").Write(sample)).To(Succeed())
			s.Expect(sample.GetGauge().GetValue()).To(BeNumerically(">", start.AddDate(10, 6, 0).Unix()), "it was renewed")
			s.Expect(s.secrets("ca")).To(HaveLen(1))
			s.Expect(s.secrets("ca-garden-runtime")).To(HaveLen(2))
			key := &corev1.SecretList{}
			s.Expect(s.admin.List(t.Context(), key, client.MatchingLabels{"name": kubeapiserver.EncryptionKeyName})).To(Succeed())
			s.Expect(key.Items).To(HaveLen(1))

			s.requests.Reset()
			_, err = s.reconcile()
			s.Expect(err).To(MatchError(ContainSubstring(tc.message)))
			s.Expect(s.requests.Writes()).To(HaveEach(HaveSuffix("/gardens/garden/status")))

			// The next reconciliation finds everything as it would have created it.
			s.edit(tc.allow)
			s.mustReconcile()
			s.Expect(s.text()).To(BeComparableTo(renewed))
		})
	}
}
