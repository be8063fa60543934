package documented_test

import (
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// secretExamples are the examples for the values of Secrets.
func secretExamples() map[string]example {
	return map[string]example{"first": first(), "documents": documents(), "json": jsonObjects(), "compressed": compressedValue()}
}

func first() example {
	return example{claims: map[string]func(s *scene){
		"The ConfigMap is created, and status.resources of the set lists it.": func(s *scene) {
			s.apply()
			s.awaitApplied(applied)
			s.awaitValue("greeting", "text", "hello")
			s.Expect(s.managed()).To(Equal([]string{"ConfigMap/greeting"}))
		},
		"Change the text in the Secret: the ConfigMap follows.": func(s *scene) {
			s.apply("text: hello", "text: good evening")
			s.awaitValue("greeting", "text", "good evening")
		},
		"Change the ConfigMap by hand, or delete it: it is restored.": func(s *scene) {
			s.Edit("greeting", `{"data":{"text":"by hand"}}`)
			s.awaitValue("greeting", "text", "good evening")
			uid := s.uid(configMap, "greeting")
			s.Remove(configMap, "greeting")
			s.awaitAnother(configMap, "greeting", uid)
		},
		"Delete the ManagedResource: the ConfigMap is deleted first.": func(s *scene) {
			s.remove()
			s.Expect(s.LiveConfigMap("greeting")).To(BeNil())
		},
	}}
}

func documents() example {
	return example{claims: map[string]func(s *scene){
		"Both objects are created. colours, which occurs twice, is as its last document says: red.": func(s *scene) {
			s.apply()
			s.awaitApplied(applied)
			s.awaitValue("colours", "door", "red")
			s.Expect(s.Live("v1/ServiceAccount", "painter")).NotTo(BeNil())
		},
		"Make one document just text: DecodingFailed names Secret, key and document. All others are applied, and nothing is deleted, not even " +
			"what that document was before.": func(s *scene) {
			s.apply("apiVersion: v1\n    kind: ServiceAccount\n    metadata:\n      name: painter\n      namespace: shop\n", "just text\n",
				"door: red", "door: blue")
			s.awaitApplied(undecodable)
			s.Expect(s.message()).To(Equal("Could not decode all new resources: [Could not decode resource at index 2 in '1-settings.yaml' in " +
				"secret '" +
				s.Namespace + "/documents': document is not an object.]"))
			s.awaitValue("colours", "door", "blue")
			s.Fence()
			s.Expect(s.Live("v1/ServiceAccount", "painter")).NotTo(BeNil())
			s.apply()
			s.awaitApplied(applied)
		},
		"Write kind: List: it is taken for an object of that kind, which the API server does not serve; ApplyFailed.": func(s *scene) {
			s.apply("kind: ServiceAccount", "kind: List")
			s.awaitApplied(applyFailed)
			s.Expect(s.message()).To(ContainSubstring(`no matches for kind "List" in version "v1"`))
		},
	}}
}

func jsonObjects() example {
	return example{claims: map[string]func(s *scene){
		"Both ConfigMaps are created.": func(s *scene) {
			s.apply()
			s.awaitApplied(applied)
			s.awaitValue("one", "text", "one")
			s.awaitValue("two", "text", "two")
		},
		"Forget a closing brace of the second one: what stands before is applied, what stands after is not read, nothing is deleted; " +
			"DecodingFailed.": func(s *scene) {
			s.apply(`"text": "one"`, `"text": "changed"`, `"text": "two"}}`, `"text": "changed"}`)
			s.awaitApplied(undecodable)
			s.awaitValue("one", "text", "changed")
			s.Fence()
			s.awaitValue("two", "text", "two")
		},
	}}
}

func compressedValue() example {
	return example{claims: map[string]func(s *scene){
		"The ConfigMap is created.": func(s *scene) {
			s.apply()
			s.awaitApplied(applied)
			s.awaitValue("packed", "text", "hello")
		},
		"A value that is not Brotli is one document that cannot be read: DecodingFailed, and nothing is deleted.": func(s *scene) {
			s.apply(compressed.FindStringSubmatch(s.yaml)[2], "bm90IEJyb3RsaQ==")
			s.awaitApplied(undecodable)
			s.Expect(s.message()).To(ContainSubstring("at index 0 in 'objects.yaml.br'"))
			s.Fence()
			s.Expect(s.LiveConfigMap("packed")).NotTo(BeNil())
		},
	}}
}

// A reader of the page cannot see the content of the compressed value, so the test compares this content with the first example.
func TestTheCompressedValueIsTheFirstExample(t *testing.T) {
	g := NewWithT(t)
	shown := readPage(t).examples()
	content, err := unpack(compressed.FindStringSubmatch(shown["compressed"].yaml)[2])
	g.Expect(err).NotTo(HaveOccurred())
	value := regexp.MustCompile(`(?m)^ {4}(.*\n)`)
	var manifest strings.Builder
	_, text, _ := strings.Cut(shown["first"].yaml, "objects.yaml: |\n")
	text, _, _ = strings.Cut(text, "---")
	for _, line := range value.FindAllStringSubmatch(text, -1) {
		_, _ = manifest.WriteString(line[1])
	}
	g.Expect(content).To(Equal(strings.Replace(manifest.String(), "greeting", "packed", 1)))
}

// labels returns the labels of an object or template at a path.
func labels(live *unstructured.Unstructured, path ...string) map[string]string {
	found, _, _ := unstructured.NestedStringMap(live.Object, append(path, "metadata", "labels")...)
	return found
}
