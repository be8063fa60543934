package applier

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clocktesting "k8s.io/utils/clock/testing"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/managedresource/desired"
	"github.com/espalier-dev/espalier/internal/managedresource/ownership"
	"github.com/espalier-dev/espalier/internal/managedresource/prune"
	"github.com/espalier-dev/espalier/internal/managedresource/state"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// brief formats conditions as "type=status/reason" in their order.
func brief(conditions []corev1beta1.Condition) string {
	var parts []string
	for _, c := range conditions {
		parts = append(parts, string(c.Type)+"="+string(c.Status)+"/"+c.Reason)
	}
	return strings.Join(parts, " ")
}

func condition(status corev1beta1.ConditionStatus, reason, message string) []corev1beta1.Condition {
	return []corev1beta1.Condition{{Type: "ResourcesApplied", Status: status, Reason: reason, Message: message}}
}

func TestVerdicts(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(noon)
	for name, tc := range map[string]struct {
		known    []corev1beta1.Condition
		verdicts func([]corev1beta1.Condition) []corev1beta1.Condition
		want     string
	}{
		"a new set is announced in the usual order": {
			verdicts: changedVerdicts,
			want: "ResourcesHealthy=Unknown/ChecksPending ResourcesProgressing=Unknown/ChecksPending " +
				"ResourcesApplied=Progressing/ApplyProgressing",
		},
		"an announcement keeps an earlier failure": {
			known: condition("False", "ApplyFailed", "x"), verdicts: changedVerdicts,
			want: "ResourcesApplied=Progressing/ApplyFailed ResourcesHealthy=Unknown/ChecksPending ResourcesProgressing=Unknown/ChecksPending",
		},
		"an announcement replaces a decoding fault": {
			known: condition("False", "DecodingFailed", "x"), verdicts: changedVerdicts,
			want: "ResourcesApplied=Progressing/ApplyProgressing ResourcesHealthy=Unknown/ChecksPending ResourcesProgressing=Unknown/ChecksPending",
		},
		"a deletion": {
			verdicts: func(c []corev1beta1.Condition) []corev1beta1.Condition { return deletionVerdicts(c, false) },
			want: "ResourcesHealthy=False/DeletionPending ResourcesProgressing=True/DeletionPending " +
				"ResourcesApplied=Progressing/DeletionPending",
		},
		"a deletion that keeps objects": {
			verdicts: func(c []corev1beta1.Condition) []corev1beta1.Condition { return deletionVerdicts(c, true) },
			want:     "ResourcesHealthy=False/DeletionPending ResourcesProgressing=True/DeletionPending",
		},
		"an ignored set": {
			verdicts: func([]corev1beta1.Condition) []corev1beta1.Condition { return ignoredVerdicts() },
			want: "ResourcesHealthy=True/ManagedResourceIgnored ResourcesProgressing=False/ManagedResourceIgnored " +
				"ResourcesApplied=True/ManagedResourceIgnored",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			once := withVerdicts(clk, tc.known, tc.verdicts(tc.known)...)
			g.Expect(brief(once)).To(Equal(tc.want))
			later := clocktesting.NewFakePassiveClock(noon.Add(time.Hour))
			g.Expect(withVerdicts(later, once, tc.verdicts(once)...)).To(BeComparableTo(once), "the same verdicts change nothing")
		})
	}
}

func TestCompleted(t *testing.T) {
	for name, tc := range map[string]struct {
		conditions []corev1beta1.Condition
		want       bool
	}{
		"nothing is known": {},
		"succeeded":        {conditions: condition("True", "ApplySucceeded", ""), want: true},
		"under way":        {conditions: condition("Progressing", "ApplyProgressing", "")},
		"under way after a failure": {conditions: marked(condition("Progressing", "ApplyFailed",
			"held by another ManagedResource: x"))},
		"failed":                             {conditions: condition("False", "ApplyFailed", "error during apply")},
		"failed, quoting the text of claims": {conditions: condition("False", "ApplyFailed", "x held by another ManagedResource: x")},
		"all but what other sets hold": {conditions: marked(condition("False", "ApplyFailed",
			"held by another ManagedResource: x")), want: true},
		"held by other sets, of an earlier version":  {conditions: condition("False", "ApplyFailed", "held by another ManagedResource: x")},
		"succeeded, but a repair is postponed":       {conditions: coded(condition("True", "ApplySucceeded", ""), "ESPALIER_REPAIR_POSTPONED")},
		"decoded in part, and a repair is postponed": {conditions: coded(condition("False", "DecodingFailed", "x"), "ESPALIER_REPAIR_POSTPONED")},
		"all but what could not be decoded":          {conditions: condition("False", "DecodingFailed", "x"), want: true},
		"ignored, whatever was before":               {conditions: condition("True", "ManagedResourceIgnored", "")},
		"deletions were pending":                     {conditions: condition("Progressing", "DeletionPending", "")},
		"a Secret could not be read meanwhile":       {conditions: condition("False", "CannotReadSecret", "")},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(completed(tc.conditions)).To(Equal(tc.want)) })
	}
}

// marked sets the error code of the first condition that stands for objects of other sets.
func marked(conditions []corev1beta1.Condition) []corev1beta1.Condition {
	return coded(conditions, "ESPALIER_OBJECTS_CLAIMED")
}

func coded(conditions []corev1beta1.Condition, code corev1beta1.ErrorCode) []corev1beta1.Condition {
	conditions[0].Codes = []corev1beta1.ErrorCode{code}
	return conditions
}

func entry(name string, labels map[string]string) resourcesv1alpha1.ObjectReference {
	ref := resourcesv1alpha1.ObjectReference{Labels: labels}
	ref.APIVersion, ref.Kind, ref.Namespace, ref.Name = "v1", "ConfigMap", "ns", name
	return ref
}

func TestInUseKeepsTheLabelsOfBothSides(t *testing.T) {
	had := []resourcesv1alpha1.ObjectReference{entry("a", map[string]string{"gone": "1", "stays": "old"}), entry("b", nil)}
	gets := []resourcesv1alpha1.ObjectReference{entry("a", map[string]string{"stays": "new"}), entry("c", nil)}
	want := []resourcesv1alpha1.ObjectReference{entry("a", map[string]string{"gone": "1", "stays": "new"}), entry("b", nil), entry("c", nil)}
	g := NewWithT(t)
	joined := inUse(had, gets, inventory.Equivalences{})
	g.Expect(joined).To(BeComparableTo(want))
	g.Expect(inUse(joined, gets, inventory.Equivalences{})).To(BeComparableTo(want), "announcing again changes nothing")
	g.Expect(had[0].Labels).To(Equal(map[string]string{"gone": "1", "stays": "old"}), "the input is not touched")
	g.Expect(stillInUse(joined, gets, prune.Withheld{})).To(BeComparableTo([]resourcesv1alpha1.ObjectReference{want[0], want[2]}))
}

func TestInUseKeepsTheLabelsAndAnnotationsOfAFormerGroup(t *testing.T) {
	deployment := func(apiVersion, key, value string) resourcesv1alpha1.ObjectReference {
		ref := resourcesv1alpha1.ObjectReference{Labels: map[string]string{key: value}, Annotations: map[string]string{key: value}}
		ref.APIVersion, ref.Kind, ref.Namespace, ref.Name = apiVersion, "Deployment", "ns", "web"
		return ref
	}
	had, gets := deployment("extensions/v1beta1", "gone", "1"), deployment("apps/v1", "new", "2")
	want := deployment("apps/v1", "new", "2")
	want.Labels["gone"], want.Annotations["gone"] = "1", "1"
	g := NewWithT(t)
	wanted, equivalences := []resourcesv1alpha1.ObjectReference{gets}, inventory.NewEquivalences(nil)
	joined := inUse([]resourcesv1alpha1.ObjectReference{had}, wanted, equivalences)
	g.Expect(joined).To(BeComparableTo([]resourcesv1alpha1.ObjectReference{want, had}))
	g.Expect(gets.Labels).To(Equal(map[string]string{"new": "2"}), "the input is not touched")
	kept := stillInUse(joined, wanted, prune.Withheld{})
	g.Expect(kept).To(BeComparableTo([]resourcesv1alpha1.ObjectReference{want}))
	g.Expect(inUse(kept, wanted, equivalences)).To(BeComparableTo(kept), "announcing again changes nothing")
}

func TestMessages(t *testing.T) {
	configMap := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	items := []*state.Object{
		{Item: &desired.Item{
			Kind: configMap, Key: inventory.KeyOf("", "ConfigMap", "ns", "a"),
			Place: desired.Place{Secret: "s", DataKey: "objects.yaml"},
		}},
		{Item: &desired.Item{
			Kind: configMap, Key: inventory.KeyOf("", "ConfigMap", "ns", "b"),
			Place: desired.Place{Secret: "s", DataKey: "objects.yaml", Index: 4},
		}},
	}
	for name, tc := range map[string]struct{ have, want string }{
		"failures stand in the order of the set": {
			have: failureMessage("ns", []failure{
				{item: items[1], err: errors.New("refused"), note: "; a stays"},
				{item: items[0], err: errors.New(`error during apply of object "v1/ConfigMap/ns/a": boom`)},
			}, items),
			want: `error during apply of object "v1/ConfigMap/ns/a": boom (index 0 in 'objects.yaml' in secret 'ns/s'); error during apply of ` +
				`object "v1/ConfigMap/ns/b": refused; a stays (index 4 in 'objects.yaml' in secret 'ns/s')`,
		},
		"undecodable documents": {
			have: decodingMessage([]string{"a.", "b."}),
			want: "Could not decode all new resources: [a. b.]",
		},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(tc.have).To(Equal(tc.want)) })
	}
}

func TestJudge(t *testing.T) {
	kind := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	a := &state.Object{Item: &desired.Item{
		Kind: kind, Key: inventory.KeyOf("", "ConfigMap", "ns", "a"), Place: desired.Place{Secret: "s", DataKey: "k"},
	}}
	refused, claimed := failure{item: a, err: errors.New("refused")}, failure{item: a, err: &ownership.ClaimedError{Claimant: "ns/other"}}
	const refusedText = `error during apply of object "v1/ConfigMap/ns/a": refused (index 0 in 'k' in secret 'ns/s')`
	const claimedText = `error during apply of object "v1/ConfigMap/ns/a": it is held by ManagedResource "ns/other", which wants it as ` +
		`well; remove it from one of the two (index 0 in 'k' in secret 'ns/s')`
	succeeded := verdict("ResourcesApplied", "True", "ApplySucceeded", "All resources are applied.")
	postponed := succeeded
	postponed.Codes = []corev1beta1.ErrorCode{"ESPALIER_REPAIR_POSTPONED"}
	for name, tc := range map[string]struct {
		outcome outcome
		faults  []string
		want    corev1beta1.Condition
		err     string
	}{
		"everything is applied": {want: succeeded},
		"a repair is postponed": {outcome: outcome{postponed: true}, want: postponed},
		"a document cannot be read": {
			faults: []string{"a."}, want: verdict("ResourcesApplied", "False", "DecodingFailed", "Could not decode all new resources: [a.]"),
		},
		"an object is refused": {
			outcome: outcome{failures: []failure{refused}}, want: verdict("ResourcesApplied", "False", "ApplyFailed", refusedText),
			err: "could not apply all new resources: " + refusedText,
		},
		"an object is held by another set": {
			outcome: outcome{failures: []failure{claimed}},
			want:    marked(condition("False", "ApplyFailed", "held by another ManagedResource: "+claimedText))[0],
		},
		"an object is held by another set, and a document cannot be read": {
			outcome: outcome{failures: []failure{claimed}}, faults: []string{"a."},
			want: verdict("ResourcesApplied", "False", "ApplyFailed", claimedText+"; Could not decode all new resources: [a.]"),
			err:  "could not apply all new resources: " + claimedText + "; Could not decode all new resources: [a.]",
		},
		"an object is refused, and a repair is postponed": {
			outcome: outcome{failures: []failure{refused}, postponed: true},
			want:    verdict("ResourcesApplied", "False", "ApplyFailed", refusedText),
			err:     "could not apply all new resources: " + refusedText,
		},
		"an object is refused, and a document cannot be read": {
			outcome: outcome{failures: []failure{refused}}, faults: []string{"a."},
			want: verdict("ResourcesApplied", "False", "ApplyFailed", refusedText+"; Could not decode all new resources: [a.]"),
			err:  "could not apply all new resources: " + refusedText + "; Could not decode all new resources: [a.]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			judgement, err := judge("ns", []*state.Object{a}, tc.faults, &tc.outcome)
			g.Expect(judgement).To(Equal(tc.want))
			if tc.err == "" {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(tc.err))
			}
		})
	}
}

func TestALongAnswerOfTheAPIServerKeepsFieldsAndReasons(t *testing.T) {
	i := &state.Object{Item: &desired.Item{
		Kind: schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}, Key: inventory.KeyOf("batch", "Job", "ns", "a"),
	}}
	template := map[string]any{"quoted": strings.Repeat("x", 5000)}
	err := apierrors.NewInvalid(schema.GroupKind{Group: "batch", Kind: "Job"}, "a", field.ErrorList{
		field.Invalid(field.NewPath("spec", "template"), template, "field is immutable"),
		field.Required(field.NewPath("spec", "other"), "is required"),
	})
	text := failureText(failure{item: i, err: fmt.Errorf("error during apply of object %q: %w", "batch/v1/Job/ns/a", err)})
	g := NewWithT(t)
	g.Expect(len(text)).To(BeNumerically("<", 600))
	g.Expect(text).To(And(HavePrefix(`error during apply of object "batch/v1/Job/ns/a": Job "a" is invalid: [spec.template: Invalid value: `),
		ContainSubstring("field is immutable, spec.other: Required value: is required")))
}

func TestFieldsThatAreNotAppliedAreNamed(t *testing.T) {
	account := &state.Object{Item: &desired.Item{
		Kind: schema.GroupVersionKind{Version: "v1", Kind: "ServiceAccount"}, Key: inventory.KeyOf("", "ServiceAccount", "ns", "a"),
	}}
	account.Known.Unapplied = []string{"metadata.finalizers", "imagePullSecrets"}
	judgement, err := judge("ns", []*state.Object{account}, nil, &outcome{})
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(judgement).To(Equal(verdict("ResourcesApplied", "True", "ApplySucceeded", "All resources are applied. The objects exist and "+
		"keep these fields, which differ from the manifests: v1/ServiceAccount/ns/a (metadata.finalizers, imagePullSecrets)")))
}

func TestAFailureTextIsBounded(t *testing.T) {
	i := &state.Object{Item: &desired.Item{
		Kind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
		Key:  inventory.KeyOf("", "ConfigMap", "ns", "a"),
	}}
	text := failureText(failure{item: i, err: errors.New(strings.Repeat("é", 2000))})
	NewWithT(t).Expect(len(text)).To(BeNumerically("<=", 1024+len("…")))
}

// The health controller does not check a set that could not be applied.
func TestMissingObjectsMakeTheSetUnhealthy(t *testing.T) {
	web := &state.Object{Item: &desired.Item{
		Key:  inventory.KeyOf("", "Secret", "shop", "web"),
		Kind: schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, Namespace: "shop",
	}}
	role := &state.Object{Item: &desired.Item{
		Key: inventory.KeyOf("rbac.authorization.k8s.io", "ClusterRole", "",
			"all"), Kind: schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
	}}
	items := []*state.Object{role, web}
	unhealthy := func(message string) []corev1beta1.Condition {
		return []corev1beta1.Condition{{Type: "ResourcesHealthy", Status: "False", Message: message}}
	}
	webIsMissing := []corev1beta1.Condition{
		verdict("ResourcesHealthy", "False", "SecretMissing", `Required Secret "web" in namespace "shop" is missing`),
	}
	for name, tc := range map[string]struct {
		conditions []corev1beta1.Condition
		missing    []*state.Object
		want       []corev1beta1.Condition
	}{
		"none is missing":     {nil, nil, nil},
		"one":                 {nil, []*state.Object{web}, webIsMissing},
		"after another fault": {unhealthy("Pod is unhealthy"), []*state.Object{web}, webIsMissing},
		"one that the condition lists among others": {
			unhealthy(`Required Secret "web" in namespace "shop" is missing; and 3 more`),
			[]*state.Object{web},
			nil,
		},
		"several, in the order of the set": {nil, []*state.Object{web, role}, []corev1beta1.Condition{verdict(
			"ResourcesHealthy", "False", "ClusterRoleMissing",
			`Required ClusterRole "all" in namespace "" is missing; Required Secret "web" in namespace "shop" is missing`,
		)}},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(missingVerdicts(tc.conditions, items, tc.missing)).To(Equal(tc.want))
		})
	}
}
