package applier_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	. "github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
	"github.com/espalier-dev/espalier/test/generate"
)

// mistakesPerManifest is how many mistakes each manifest gets, unless MISTAKES says otherwise.
const mistakesPerManifest = 1

// Each manifest of the corpus is changed by generated mistakes, which the decoder or the API server refuses. A mistake never deletes the
// live object, and the condition names the document, and the field if the API server does.
func TestGeneratedMistakesDeleteNothing(t *testing.T) {
	t.Parallel()
	count := mistakesPerManifest
	if text := os.Getenv("MISTAKES"); text != "" {
		var err error
		count, err = strconv.Atoi(text)
		NewWithT(t).Expect(err).NotTo(HaveOccurred(), "MISTAKES")
	}
	e := New(t, Options{Stopped: true, TwoClusters: true, Configure: longSyncPeriod})
	manifests := e.Corpus()
	NewWithT(t).Expect(len(manifests)).To(BeNumerically(">=", 70))
	denyLabel(e)
	e.Start()
	targets := make([]*target, 0, len(manifests))
	for number, manifest := range manifests {
		targets = append(targets, newTarget(e, fmt.Sprintf("set-%d", number), manifest))
	}
	var made, harmless atomic.Int64
	generate.Cases(t, 1, func(t *testing.T, random *rand.Rand) {
		t.Helper()
		t.Run("objects", func(t *testing.T) { // returns when its parallel tests have ended
			for _, each := range targets {
				seed := random.Uint64()
				t.Run(each.name, func(t *testing.T) {
					t.Parallel()
					of := rand.New(rand.NewPCG(seed, 0))
					for done := 0; done < count; {
						mistake, refusal := each.mistake(of)
						if refusal == nil {
							harmless.Add(1)
							continue
						}
						each.suffer(e.Within(t), mistake, refusal)
						done++
						made.Add(1)
					}
					each.recover(e.Within(t))
				})
			}
		})
	})
	t.Logf("%d mistakes, %d changes that were no mistakes", made.Load(), harmless.Load())
}

// denyLabel makes the target refuse objects with the label "denied" in the namespace of the env.
func denyLabel(e *Env) {
	e.T.Helper()
	deny(e, "label", `{apiGroups: ["*"], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: ["*"], scope: Namespaced}`,
		"has(object.metadata.labels) && 'denied' in object.metadata.labels", "the label denied")
	probe := &unstructured.Unstructured{}
	e.Expect(yaml.Unmarshal([]byte(e.ConfigMap("probe", "1", "labels: {denied: x}")), &probe.Object)).To(Succeed())
	e.Eventually(func() error { return e.Target.Create(e.Ctx, probe.DeepCopy(), client.DryRunAll) }).WithTimeout(Patience).
		ShouldNot(Succeed())
}

// target is a set with one object, whose manifest suffers mistakes.
type target struct {
	env      *Env
	set      string
	name     string
	manifest *unstructured.Unstructured
	uid      string
	// number is how often the Secret was written, and last is the last mistake.
	number int
	last   string
}

func newTarget(e *Env, set, manifest string) *target {
	e.T.Helper()
	object := &unstructured.Unstructured{}
	e.Expect(yaml.Unmarshal([]byte(manifest), &object.Object)).To(Succeed(), manifest)
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations["resources.gardener.cloud/delete-on-invalid-update"] = "true" // the most dangerous setting
	object.SetAnnotations(annotations)
	x := &target{env: e, set: set, name: object.GetKind() + "/" + object.GetName(), manifest: object}
	x.write(e, object)
	e.Expect(e.Source.Create(e.Ctx, e.ManagedResource(set, set))).To(Succeed())
	e.Eventually(func(g Gomega) {
		mr := e.Get(set)
		g.Expect(Condition(mr, "ResourcesApplied")).To(Equal(succeeded), "%s", Message(mr, "ResourcesApplied"))
	}).WithTimeout(Patience).Should(Succeed())
	x.uid = string(x.live(e).GetUID())
	return x
}

// live reads the object.
func (x *target) live(e *Env) *unstructured.Unstructured {
	e.T.Helper()
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(x.manifest.GroupVersionKind())
	e.Expect(e.Target.Get(e.Ctx, client.ObjectKeyFromObject(x.manifest), live)).To(Succeed(), "%s", x.last)
	return live
}

// write replaces the Secret of the set. Its data key, which conditions name, and its checksum are others each time.
func (x *target) write(e *Env, manifest any) string {
	e.T.Helper()
	x.number++
	key := fmt.Sprintf("mistake-%d.yaml", x.number)
	text, isText := manifest.(string)
	if object, ok := manifest.(*unstructured.Unstructured); ok && !isText {
		content, err := yaml.Marshal(object.Object)
		e.Expect(err).NotTo(HaveOccurred())
		text = string(content)
	}
	e.SecretData(x.set, map[string][]byte{key: fmt.Appendf(nil, "# %d\n%s", x.number, text)})
	return key
}

// mistake returns a changed manifest, and the error of the API server or the decoder about it; nil if it is acceptable.
func (x *target) mistake(random *rand.Rand) (string, error) {
	object := x.manifest.DeepCopy()
	content := func() string {
		text, _ := yaml.Marshal(object.Object)
		return string(text)
	}
	switch random.IntN(12) {
	case 0:
		broken := breakText(random, content())
		parsed := map[string]any{}
		if err := yaml.Unmarshal([]byte(broken), &parsed); err != nil {
			return broken, errDecoding
		}
		object.Object = parsed
	case 1:
		object.SetName(pick(random, "Not_A_Name", "-", "a..b", "UPPER", strings.Repeat("long", 70), "a b"))
	case 2:
		object.SetKind(object.GetKind() + pick(random, "s", "x", "List"))
	case 3:
		object.SetAPIVersion(pick(random, "v11", "no.such.example.com/v1", object.GetAPIVersion()+"x", "a/b/c"))
	case 4:
		if object.GetNamespace() == "" {
			return "", nil
		}
		object.SetNamespace(object.GetNamespace() + pick(random, "x", "-", "_"))
	case 5:
		object.SetLabels(map[string]string{pick(random, "denied", "not a key", "a/b/c"): pick(random, "x", "not a value!")})
	case 6, 7:
		removeField(random, object.Object)
	default:
		changeField(random, object.Object)
	}
	return content(), x.refusal(object)
}

// errDecoding stands for any error of the decoder.
var errDecoding = errors.New("cannot be decoded")

// refusal returns the error of the API server about the creation of an object; nil if it is acceptable.
func (x *target) refusal(object *unstructured.Unstructured) error {
	tried := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(normalized(object.Object))}
	if tried.GetKind() == "" || tried.GetAPIVersion() == "" || tried.GetName() == "" {
		return errors.New("no name") // a client would not send it
	}
	namespace, _, _ := unstructured.NestedFieldNoCopy(tried.Object, "metadata", "namespace")
	if (namespace == nil || namespace == "") && x.manifest.GetNamespace() != "" {
		return nil // it would go to the namespace "default"
	}
	err := x.env.Target.Create(x.env.Ctx, tried, client.DryRunAll)
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// normalized returns a copy with the types of JSON.
func normalized(object map[string]any) map[string]any {
	text, _ := yaml.Marshal(object)
	result := map[string]any{}
	_ = yaml.Unmarshal(text, &result)
	content, _ := runtime.DefaultUnstructuredConverter.ToUnstructured(&unstructured.Unstructured{Object: result})
	return content
}

// suffer applies a mistake and checks its effects.
func (x *target) suffer(e *Env, mistake string, refusal error) {
	e.T.Helper()
	before := e.Get(x.set)
	x.last = fmt.Sprintf("%s\n%v", mistake, refusal)
	key := x.write(e, mistake)
	applied, message := "", ""
	e.Eventually(func() bool {
		mr := e.Get(x.set)
		applied, message = Condition(mr, "ResourcesApplied"), Message(mr, "ResourcesApplied")
		accepted := applied == succeeded && ptr.Deref(mr.Status.SecretsDataChecksum, "") != ptr.Deref(before.Status.SecretsDataChecksum, "")
		return accepted || strings.HasPrefix(applied, "False/") && strings.Contains(message, "'"+key+"'")
	}).WithTimeout(Patience).Should(BeTrue(), func() string { return x.last + "\n" + applied + " " + message })
	live := x.live(e)
	e.Expect(string(live.GetUID())).To(Equal(x.uid), "%s\n%v", mistake, refusal)
	e.Expect(live.GetDeletionTimestamp()).To(BeNil(), "%s\n%v", mistake, refusal)
	if applied == "False/ApplyFailed" {
		e.Expect(names(e.Get(x.set))).To(ContainElement(HaveSuffix("/"+x.manifest.GetKind()+"/"+x.manifest.GetName())), "%s", x.last)
	}
	var status apierrors.APIStatus
	isInvalid := applied == "False/ApplyFailed" && strings.Contains(message, "is invalid:")
	if isInvalid && errors.As(refusal, &status) && status.Status().Details != nil {
		var fields []string
		for _, cause := range status.Status().Details.Causes {
			fields = append(fields, cause.Field)
		}
		e.Expect(len(fields) == 0 || slices.ContainsFunc(fields, func(field string) bool { return strings.Contains(message, field) })).
			To(BeTrue(), "%s\n%v\n%s", mistake, refusal, message)
	}
}

// recover applies the manifest without mistakes again.
func (x *target) recover(e *Env) {
	e.T.Helper()
	before := e.Get(x.set)
	x.write(e, x.manifest)
	e.Eventually(func(g Gomega) {
		mr := e.Get(x.set)
		g.Expect(Condition(mr, "ResourcesApplied")).To(Equal(succeeded), "%s", Message(mr, "ResourcesApplied"))
		g.Expect(names(mr)).To(HaveLen(1))
	}).WithTimeout(Patience).Should(Succeed(), "%v", before.Status)
	e.Expect(string(x.live(e).GetUID())).To(Equal(x.uid))
}

func pick[T any](random *rand.Rand, values ...T) T { return values[random.IntN(len(values))] }

// breakText changes a YAML text so that it probably cannot be parsed any more.
func breakText(random *rand.Rand, text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	at := random.IntN(len(lines))
	lines[at] = pick(random, " "+lines[at], "\t"+lines[at], strings.Replace(lines[at], ":", "", 1), lines[at]+" '", lines[at]+": x",
		"- "+lines[at], strings.Replace(lines[at], ": ", ": {", 1), strings.Replace(lines[at], ": ", ": [", 1), lines[at]+"\n"+lines[at])
	return strings.Join(lines, "\n")
}

// place is the position of a value in an object.
type place struct {
	inMap  map[string]any
	key    string
	inList []any
	index  int
}

func (p place) set(value any) {
	if p.inMap != nil {
		p.inMap[p.key] = value
		return
	}
	p.inList[p.index] = value
}

// places lists the positions of all values in an object, except for the values that name it and its annotations.
func places(value any) []place {
	var found []place
	switch typed := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(typed)) {
			if key == "annotations" || key == "apiVersion" && typed["metadata"] != nil || key == "kind" && typed["metadata"] != nil {
				continue
			}
			found = append(found, place{inMap: typed, key: key})
			found = append(found, places(typed[key])...)
		}
	case []any:
		for index := range typed {
			found = append(found, place{inList: typed, index: index})
			found = append(found, places(typed[index])...)
		}
	}
	return found
}

func removeField(random *rand.Rand, object map[string]any) {
	all := slices.DeleteFunc(places(object), func(p place) bool { return p.inMap == nil })
	chosen := pick(random, all...)
	delete(chosen.inMap, chosen.key)
}

// changeField replaces a value by one of another type, or by one that is rarely allowed.
func changeField(random *rand.Rand, object map[string]any) {
	chosen := pick(random, places(object)...)
	chosen.set(pick[any](random, "?! no", int64(-1), int64(99999999), true, 1.5, map[string]any{"x": "y"}, []any{"x"}, []any{map[string]any{}},
		"", map[string]any{"": []any{}}, strings.Repeat("x", 300)))
}
