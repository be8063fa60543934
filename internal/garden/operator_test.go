package garden_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// code returns the HTTP code of an error of an API server.
func code(err error) int32 {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Code
	}
	return 0
}

func TestThereIsOneGardenOnly(t *testing.T) {
	o := newOperator(t)
	o.created()
	err := o.admin.Create(t.Context(), o.garden("{metadata: {name: second}}"))
	o.Expect(denial(err)).To(Equal("there can be only one operator.gardener.cloud/v1alpha1.Garden resource in the system at a time"))
	o.Expect(code(err)).To(BeEquivalentTo(http.StatusBadRequest))
}

func TestGardensAreDeniedOnCreation(t *testing.T) {
	o := newOperator(t)
	for name, tc := range map[string]struct {
		change, message string
		code            int
		paths           []string
	}{
		"the finalizer of the operator": {
			change: "{metadata: {finalizers: [gardener.cloud/operator]}}", code: http.StatusBadRequest,
			message: `finalizer "gardener.cloud/operator" cannot be added on creation`,
		},
		"the finalizer of references": {
			change: "{metadata: {finalizers: [a.b/c, gardener.cloud/reference-protection]}}", code: http.StatusBadRequest,
			message: `finalizer "gardener.cloud/reference-protection" cannot be added on creation`,
		},
		"the completion of a rotation that has not begun": {
			change: "{metadata: {annotations: {gardener.cloud/operation: rotate-credentials-complete}}}", code: http.StatusUnprocessableEntity,
			paths: []string{"metadata.annotations[gardener.cloud/operation]"},
		},
		"topology-aware routing with one zone and no high availability": {
			change: "{spec: {runtimeCluster: {settings: {topologyAwareRouting: {enabled: true}}}}}", code: http.StatusUnprocessableEntity,
			paths: []string{"spec.runtimeCluster.settings.topologyAwareRouting.enabled"},
		},
		"a mode of limits that does not exist": {
			change: "{spec: {virtualCluster: {gardener: {gardenerAdmissionController: {resourceAdmissionConfiguration: {limits: [], " +
				"operationMode: foo}}}}}}",
			code:  http.StatusUnprocessableEntity,
			paths: []string{"spec.virtualCluster.gardener.gardenerAdmissionController.resourceAdmissionConfiguration.mode"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			err := o.admin.Create(t.Context(), o.garden(tc.change))
			g.Expect(code(err)).To(BeEquivalentTo(tc.code), "%v", err)
			if tc.message != "" {
				g.Expect(denial(err)).To(Equal(tc.message))
			}
			g.Expect(pathsOf(err)).To(HaveExactElements(tc.paths))
		})
	}
}

// pathsOf returns the fields that an error names, each once.
func pathsOf(err error) []string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	var paths []string
	for _, cause := range status.Status().Details.Causes {
		if len(paths) == 0 || paths[len(paths)-1] != cause.Field {
			paths = append(paths, cause.Field)
		}
	}
	return paths
}

func TestGardensAreDeniedOnUpdate(t *testing.T) {
	o := newOperator(t)
	existing := o.created("{spec: {virtualCluster: {controlPlane: {highAvailability: {}}}}}")
	for name, tc := range map[string]struct {
		patch string
		paths []string // nil allows
	}{
		"high availability is removed": {
			"{spec: {virtualCluster: {controlPlane: {highAvailability: }}}}", []string{"spec.virtualCluster.controlPlane.highAvailability"},
		},
		"the first domain changes": {
			"{spec: {virtualCluster: {dns: {domains: [{name: example.net}, {name: example.org}]}}}}",
			[]string{"spec.virtualCluster.dns.domains[0].name"},
		},
		"a domain is appended": {
			"{spec: {virtualCluster: {dns: {domains: [{name: example.com}, {name: example.org}, {name: example.net}]}}}}", nil,
		},
		"a later domain is removed": {"{spec: {virtualCluster: {dns: {domains: [{name: example.com}]}}}}", nil},
		"the version decreases": {
			"{spec: {virtualCluster: {kubernetes: {version: 1.33.1}}}}", []string{"spec.virtualCluster.kubernetes.version"},
		},
		"the version skips a minor": {
			"{spec: {virtualCluster: {kubernetes: {version: 1.36.0}}}}", []string{"spec.virtualCluster.kubernetes.version"},
		},
		"the next version": {"{spec: {virtualCluster: {kubernetes: {version: 1.35.0}}}}", nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			err := o.change(existing.DeepCopy(), tc.patch, client.DryRunAll)
			if tc.paths == nil {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(code(err)).To(BeEquivalentTo(http.StatusUnprocessableEntity), "%v", err)
			g.Expect(pathsOf(err)).To(Equal(tc.paths))
		})
	}
}

func TestAuditPoliciesMustBeUsable(t *testing.T) {
	o := newOperator(t)
	const usable = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}`
	good := o.configMap("good", map[string]string{"policy": usable})
	other := o.configMap("other", map[string]string{"policy": "none"})
	o.configMap("empty", map[string]string{"a": "b"})

	const at = "spec.virtualCluster.kubernetes.kubeAPIServer.auditConfig.auditPolicy.configMapRef.name"
	from := func(name string) string {
		return "{spec: {virtualCluster: {kubernetes: {kubeAPIServer: {auditConfig: {auditPolicy: {configMapRef: {name: " + name + "}}}}}}}}"
	}
	for name, problem := range map[string]string{
		"missing": "there is no ConfigMap of this name in the namespace of the Garden", "empty": `the ConfigMap has no key "policy"`,
		"other": "the ConfigMap has a policy that API servers cannot use: decode audit policy: ",
	} {
		err := o.admin.Create(t.Context(), o.garden(from(name)), client.DryRunAll)
		o.Expect(err).To(MatchError(ContainSubstring(problem)), name)
		o.Expect(code(err)).To(BeEquivalentTo(http.StatusUnprocessableEntity))
		o.Expect(pathsOf(err)).To(Equal([]string{at}))
	}
	garden := o.created(from("good"))
	o.Expect(o.change(garden.DeepCopy(), from("other"), client.DryRunAll)).To(MatchError(ContainSubstring("cannot use")))
	o.Expect(o.change(garden.DeepCopy(), "{metadata: {labels: {a: b}}}")).To(Succeed())

	err := o.change(good.DeepCopy(), "{data: {policy: none}}")
	o.Expect(err).To(MatchError(ContainSubstring("a Garden takes its audit policy from here: decode audit policy: ")))
	o.Expect(pathsOf(err)).To(Equal([]string{"data[policy]"}))
	o.Expect(o.change(good.DeepCopy(), "{data: {policy: }}")).To(
		MatchError(ContainSubstring("data[policy]: Required value: a Garden takes its audit policy from here")),
	)
	o.Expect(o.change(good.DeepCopy(), "{data: {policy: '"+strings.ReplaceAll(usable, "Metadata", "Request")+"', a: b}}")).To(Succeed())
	o.Expect(o.change(other, "{data: {policy: still none}}")).To(Succeed(), "no Garden refers to it")
}

// configMap creates a ConfigMap in the namespace of the Garden for the duration of the test.
func (o *operator) configMap(name string, data map[string]string) *corev1.ConfigMap {
	o.t.Helper()
	created := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: name}, Data: data}
	o.Expect(o.admin.Create(o.t.Context(), created)).To(Succeed())
	o.t.Cleanup(func() { o.Expect(o.admin.Delete(context.Background(), created)).To(Succeed()) })
	return created
}

func TestOperationsDependOnThePhaseThatIsStored(t *testing.T) {
	o := newOperator(t)
	garden := o.created()
	typed := &operatorv1alpha1.Garden{}
	o.Expect(o.admin.Get(t.Context(), client.ObjectKeyFromObject(garden), typed)).To(Succeed())
	typed.Status.Credentials = &operatorv1alpha1.Credentials{Rotation: &operatorv1alpha1.CredentialsRotation{
		CertificateAuthorities: &operatorv1alpha1.Rotation{Phase: operatorv1alpha1.RotationPrepared},
	}}
	o.Expect(o.admin.Status().Update(t.Context(), typed)).To(Succeed())
	const annotate = "{metadata: {annotations: {gardener.cloud/operation: "
	err := o.change(garden.DeepCopy(), annotate+"rotate-ca-start}}}")
	o.Expect(code(err)).To(BeEquivalentTo(http.StatusUnprocessableEntity))
	o.Expect(err).To(
		MatchError(ContainSubstring("cannot start CA rotation if .status.credentials.rotation.certificateAuthorities.phase is not 'Completed'")),
	)
	o.Expect(o.change(garden.DeepCopy(), annotate+"rotate-ca-complete}}}")).To(Succeed())
}

func TestDeletionNeedsAConfirmation(t *testing.T) {
	o := newOperator(t)
	garden := o.created()
	for _, value := range []string{"", "false", "yes"} {
		o.Expect(o.change(garden.DeepCopy(), "{metadata: {annotations: {confirmation.gardener.cloud/deletion: '"+value+"'}}}")).To(Succeed())
		err := o.admin.Delete(t.Context(), garden)
		o.Expect(denial(err)).To(Equal(`must have a "confirmation.gardener.cloud/deletion" annotation to delete`), value)
		o.Expect(code(err)).To(BeEquivalentTo(http.StatusForbidden))
	}
	err := o.admin.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "garden"}}, client.DryRunAll)
	o.Expect(denial(err)).To(
		Equal(`deletion of namespace "garden" is forbidden while a Garden resource exists - delete it first before deleting the namespace`),
	)
	o.Expect(code(err)).To(BeEquivalentTo(http.StatusForbidden))

	o.Expect(o.change(garden.DeepCopy(), "{metadata: {annotations: {confirmation.gardener.cloud/deletion: 'true'}}}")).To(Succeed())
	o.Expect(o.admin.Delete(t.Context(), garden)).To(Succeed())
	o.Expect(
		o.admin.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "garden"}}, client.DryRunAll),
	).To(Succeed(), "the Garden is gone")
	o.Expect(o.admin.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "espalier-system"}}, client.DryRunAll)).
		To(Succeed(), "namespaces of others are not its business")
}

func TestDefaultsAreStoredAndEverythingElseStaysAsItWasSent(t *testing.T) {
	o := newOperator(t)
	// Old forms: the domains and networks were strings.
	created := o.created(`{spec: {runtimeCluster: {networking: {pods: 10.2.0.0/16}}, virtualCluster: {dns: {domains: [example.com]}, ` +
		`kubernetes: {version: 1.34.1, kubeAPIServer: {}}}}}`)
	at := func(path ...string) any {
		value, found, err := unstructured.NestedFieldNoCopy(created.Object, path...)
		o.Expect(err).NotTo(HaveOccurred())
		o.Expect(found).To(BeTrue(), "%v", path)
		return value
	}
	server := []string{"spec", "virtualCluster", "kubernetes", "kubeAPIServer"}
	o.Expect(at(append(server, "requests")...)).To(
		Equal(map[string]any{"maxNonMutatingInflight": int64(400), "maxMutatingInflight": int64(200)}),
	)
	o.Expect(at(append(server, "enableAnonymousAuthentication")...)).To(BeFalse())
	o.Expect(at(append(server, "eventTTL")...)).To(Equal("1h0m0s"))
	o.Expect(at(append(server, "logging", "verbosity")...)).To(Equal(int64(2)))
	o.Expect(at("spec", "virtualCluster", "kubernetes", "kubeControllerManager", "certificateSigningDuration")).To(Equal("48h"))
	o.Expect(at("spec", "runtimeCluster", "settings", "verticalPodAutoscaler", "enabled")).To(BeTrue())
	o.Expect(at("spec", "runtimeCluster", "networking", "pods")).To(Equal("10.2.0.0/16"))
	o.Expect(at("spec", "virtualCluster", "dns", "domains")).To(Equal([]any{"example.com"}))

	version := created.GetResourceVersion()
	o.Expect(o.admin.Update(t.Context(), created)).To(Succeed())
	o.Expect(created.GetResourceVersion()).To(Equal(version), "defaulting what has defaults changes nothing")
}

func TestWarningsAreShownWhenTheSpecChanges(t *testing.T) {
	o := newOperator(t)
	garden := o.created("{spec: {virtualCluster: {gardener: {gardenerAPIServer: {featureGates: {HVPA: true}}}}}}")
	o.Expect(o.warnings.take()).To(ContainElement(ContainSubstring("HVPA")))
	o.Expect(o.change(garden.DeepCopy(), "{metadata: {labels: {a: b}}}")).To(Succeed())
	o.Expect(o.warnings.take()).To(BeEmpty(), "nothing new about the spec")
}

func TestOperatorAtRestSendsNothingButLeases(t *testing.T) {
	o := newOperator(t)
	o.created()
	o.Requests.Reset()
	o.Consistently(o.Requests.Seen, 3*time.Second, 100*time.Millisecond).Should(BeEmpty())
}

func TestOperatorAfterARestartWritesNothingButLeases(t *testing.T) {
	o := newOperator(t)
	o.Stop()
	o.Requests.Reset()
	o.Start()
	o.awaitWebhooks()
	o.Expect(withoutReviews(o.Requests.Writes())).To(BeEmpty())
}

// withoutReviews removes the questions about own rights, which are sent by POST and write nothing.
func withoutReviews(writes []string) []string {
	var left []string
	for _, each := range writes {
		if each != "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews" {
			left = append(left, each)
		}
	}
	return left
}

func TestOperatorDoesNotStartAfterALaterVersion(t *testing.T) {
	o := stoppedOperator(t)
	created := &operatorv1alpha1.Garden{}
	o.created()
	o.Expect(o.admin.Get(t.Context(), client.ObjectKey{Name: "garden"}, created)).To(Succeed())
	created.Status.Gardener = &operatorv1alpha1.OperatorIdentity{ID: "a", Name: "b", Version: "v1.150.0"}
	o.Expect(o.admin.Status().Update(t.Context(), created)).To(Succeed())

	needs, err := o.Needs()
	o.Expect(err).NotTo(HaveOccurred())
	clusters, err := o.Setup().Connect(t.Context(), needs)
	o.Expect(err).NotTo(HaveOccurred())
	o.Expect(o.Add(t.Context(), clusters)).To(MatchError("failed verifying Gardener version: downgrading Gardener is not supported " +
		"(old version was v1.150.0, my version is v1.149.3), start a version that is not earlier"))
}
