package extensionvalidation_test

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/webhook/extensionvalidation"
	"github.com/espalier-dev/espalier/internal/webhook/webhooktest"
)

// validated is a cluster in which a running server validates the extension kinds.
type validated struct{ *webhooktest.Env }

func cluster(t *testing.T) *validated {
	t.Helper()
	webhooktest.InstallKinds(t)
	return &validated{webhooktest.New(t, webhooktest.Options{Webhooks: "extensionValidation: {enabled: true}"})}
}

// judge writes each example to the API server and compares the errors. An example that no API server sends is posted to the server
// directly.
func (v *validated) judge(examples map[string]example) {
	v.T.Helper()
	for _, title := range slices.Sorted(maps.Keys(examples)) {
		e := examples[title]
		v.T.Run(title, func(t *testing.T) {
			in := *v
			env := *v.Env
			inner := *v.Env.Env
			inner.T, inner.WithT, inner.Ctx = t, NewWithT(t), t.Context()
			env.Env, in.Env = &inner, &env
			if e.impossible {
				e.matches(t, v.Namespace, in.post(e))
			} else {
				e.matches(t, v.Namespace, in.refusal(kindOf(t, e.kind), in.write(e)))
			}
		})
	}
}

// post sends an example to the path of its kind's webhook.
func (v *validated) post(e example) []string {
	v.T.Helper()
	request := e.request(v.T, v.Namespace)
	members := map[string]any{"operation": request.Operation, "name": request.Name, "namespace": request.Namespace}
	for member, object := range map[string][]byte{"object": request.Object, "oldObject": request.OldObject} {
		if object != nil {
			members[member] = json.RawMessage(object)
		}
	}
	encoded, err := json.Marshal(members)
	v.Expect(err).NotTo(HaveOccurred())
	answer := v.Review(kindOf(v.T, e.kind).Path, string(encoded))
	return found(v.T, review.Response{
		Allowed: answer.Allowed, Code: answer.Status.Code, Reason: answer.Status.Reason, Message: answer.Status.Message,
		Details: answer.Status.Details,
	})
}

// write sends an example to the API server as a dry run. For an update it first creates the earlier object, without a dry run, and removes
// it at the end.
func (v *validated) write(e example) error {
	v.T.Helper()
	request := e.request(v.T, v.Namespace)
	object := v.decode(request.Object)
	if !e.updated {
		return v.Target.Create(v.Ctx, object, client.DryRunAll)
	}
	live := v.decode(request.OldObject)
	live.Object["metadata"] = map[string]any{"name": object.GetName(), "namespace": object.GetNamespace()}
	if e.deleting {
		live.SetFinalizers([]string{"espalier.dev/test"})
	}
	v.Expect(v.Target.Create(v.Ctx, live)).To(Succeed())
	defer v.remove(live)
	if e.deleting {
		v.Expect(v.Target.Delete(v.Ctx, live)).To(Succeed())
		v.Expect(v.Target.Get(v.Ctx, client.ObjectKeyFromObject(live), live)).To(Succeed())
	}
	changed := live.DeepCopy()
	changed.Object["spec"] = object.Object["spec"]
	changed.SetLabels(object.GetLabels())
	changed.SetAnnotations(object.GetAnnotations())
	return v.Target.Update(v.Ctx, changed, client.DryRunAll)
}

// remove deletes an object, and removes its finalizer. The webhook must allow this for invalid objects too.
func (v *validated) remove(object *unstructured.Unstructured) {
	v.T.Helper()
	v.Expect(client.IgnoreNotFound(v.Target.Delete(v.Ctx, object))).To(Succeed())
	if len(object.GetFinalizers()) > 0 {
		_, err := v.Update(object, `{"metadata":{"finalizers":null}}`)
		v.Expect(err).NotTo(HaveOccurred())
	}
}

func (v *validated) decode(encoded []byte) *unstructured.Unstructured {
	v.T.Helper()
	object := &unstructured.Unstructured{}
	v.Expect(json.Unmarshal(encoded, &object.Object)).To(Succeed())
	return object
}

// refusal returns the validation errors in an error of the API server. The webhook of the kind must have caused the error.
func (v *validated) refusal(kind extensionvalidation.Kind, err error) []string {
	v.T.Helper()
	if err == nil {
		return nil
	}
	var status apierrors.APIStatus
	v.Expect(errors.As(err, &status)).To(BeTrue(), err.Error())
	v.Expect(err.Error()).To(HavePrefix(`admission webhook "validation.extensions.` + kind.Plural +
		`.resources.gardener.cloud" denied the request: ` +
		kind.Kind + `.` + kind.Group + ` "sample" is invalid: `))
	v.Expect(status.Status().Code).To(BeEquivalentTo(422))
	v.Expect(status.Status().Reason).To(BeEquivalentTo("Invalid"))
	encoded, err := json.Marshal(status.Status().Details.Causes)
	v.Expect(err).NotTo(HaveOccurred())
	return causes(v.T, encoded)
}

func TestMissingRequiredFieldsAreRejected(t *testing.T) {
	cluster(t).judge(emptyObjects())
}

func TestSpecOfAnObjectInDeletionIsImmutable(t *testing.T) {
	cluster(t).judge(deletedObjects())
}

func TestChangesOfImmutableFieldsAreRejected(t *testing.T) { cluster(t).judge(immutableFields()) }

func TestPurposeOfAControlPlaneIsValidated(t *testing.T) {
	cluster(t).judge(controlPlanePurposes())
}

func TestDNSRecordsAreValidated(t *testing.T) { cluster(t).judge(dnsRecords()) }

func TestNetworksAreValidated(t *testing.T) { cluster(t).judge(networks()) }

func TestOperatingSystemConfigsAreValidated(t *testing.T) {
	cluster(t).judge(operatingSystemConfigs())
}

func TestWorkersAreValidated(t *testing.T) { cluster(t).judge(workers()) }

func TestEtcdsAreValidated(t *testing.T) { cluster(t).judge(etcds()) }

func TestUpdateWithoutResourceVersionIsRejected(t *testing.T) { cluster(t).judge(metadata()) }

func TestErrorContainsWebhookKindAndObject(t *testing.T) {
	v := cluster(t)
	for _, kind := range extensionvalidation.Kinds() {
		wrong := "spec: {type: ''}"
		if kind.Kind == "Etcd" {
			wrong = "spec: {backup: {store: {prefix: x}}}"
		}
		err := v.write(example{kind: kind.Kind, object: wrong})
		v.Expect(err).To(MatchError(HavePrefix(`admission webhook "validation.extensions.`+kind.Plural+
			`.resources.gardener.cloud" denied the request: `+
			kind.Kind+`.`+kind.Group+` "sample" is invalid: spec.`)), kind.Kind)
	}
}

func TestStatusIsNotValidated(t *testing.T) {
	admin := webhooktest.InstallKinds(t)
	bucket := webhooktest.ObjectOf(extensionvalidation.Kinds()[0], "", "without-anything")
	NewWithT(t).Expect(admin.Create(t.Context(), bucket)).To(Succeed()) // no webhook is registered yet
	v := cluster(t)
	defer func() { v.Expect(v.Target.Delete(v.Ctx, bucket)).To(Succeed()) }()
	invalid := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"extensionFiles":[{}]}}`))
	v.Expect(v.Target.Status().Patch(v.Ctx, bucket, invalid)).To(Succeed())
	_, err := v.Update(bucket, `{"metadata":{"labels":{"a":"b"}}}`)
	v.Expect(err).To(MatchError(ContainSubstring("spec.type: Required value")), "the object itself is validated")

	config := v.decode(example{kind: "OperatingSystemConfig"}.request(t, v.Namespace).Object)
	v.Expect(v.Target.Create(v.Ctx, config)).To(Succeed())
	v.Expect(v.Target.Status().Patch(v.Ctx, config, invalid)).To(Succeed())
	files, _, _ := unstructured.NestedSlice(config.Object, "status", "extensionFiles")
	v.Expect(files).To(Equal([]any{map[string]any{}}))
	_, err = v.Update(config, `{"metadata":{"labels":{"a":"b"}}}`)
	v.Expect(err).To(MatchError(ContainSubstring("status.extensionFiles[0].path: Required value")),
		"writes of the object are, with the status that it has")
}

func TestObjectsFromBeforeAnyRuleCanBeDeleted(t *testing.T) {
	admin := webhooktest.InstallKinds(t)
	kinds := extensionvalidation.Kinds()
	bucket := webhooktest.ObjectOf(kinds[0], "", "held")
	bucket.SetFinalizers([]string{"espalier.dev/test"})
	NewWithT(t).Expect(admin.Create(t.Context(), bucket)).To(Succeed())
	v := cluster(t)
	_, err := v.Update(bucket, `{"metadata":{"finalizers":null}}`)
	v.Expect(err).To(MatchError(ContainSubstring("spec.type: Required value")), "while no user deletes it")
	v.Expect(v.Target.Delete(v.Ctx, bucket)).To(Succeed())
	_, err = v.Update(bucket, `{"metadata":{"finalizers":null}}`)
	v.Expect(err).NotTo(HaveOccurred())
	v.Expect(apierrors.IsNotFound(v.Target.Get(v.Ctx, client.ObjectKeyFromObject(bucket), bucket))).To(BeTrue())
}

func TestUnknownFieldsSurvive(t *testing.T) {
	v := cluster(t)
	for _, kind := range extensionvalidation.Kinds() {
		object := v.decode(example{kind: kind.Kind, object: "spec: {unheardOf: [1]}"}.request(t, v.Namespace).Object)
		v.Expect(v.Target.Create(v.Ctx, object)).To(Succeed(), kind.Kind)
		left, _, _ := unstructured.NestedSlice(object.Object, "spec", "unheardOf")
		v.Expect(left).To(Equal([]any{int64(1)}), kind.Kind)
		v.Expect(v.Target.Delete(v.Ctx, object)).To(Succeed())
	}
}
