package deletionprotection

import (
	"encoding/json"
	"strconv"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/admission/reviewtest"
)

// annotated makes annotations from one byte, of any type that a client can send, and reports whether they confirm a deletion.
func annotated(choice byte) (annotations any, confirm bool) {
	values := []any{"true", "1", "T", "false", "yes", "", nil, true, 1, []any{"true"}, map[string]any{}}
	switch choice % 4 {
	case 0:
		return nil, false
	case 1:
		return map[string]any{"a": "true"}, false
	case 2:
		return "true", false
	}
	value := values[int(choice/4)%len(values)]
	text, is := value.(string)
	confirmed, err := strconv.ParseBool(text)
	return map[string]any{"confirmation.gardener.cloud/deletion": value, "a": "b"}, is && err == nil && confirmed
}

func FuzzDelete(f *testing.F) {
	f.Add("DELETE", uint8(0), "one", []byte{3}, []byte(nil))
	f.Add("DELETE", uint8(1), "", []byte{0}, []byte{3, 7, 11})
	f.Add("DELETE", uint8(2), "", []byte{3}, []byte{3, 15})
	f.Add("DELETE", uint8(3), "one", []byte{27, 3}, []byte{})
	f.Add("CREATE", uint8(200), "one", []byte{}, []byte{})
	f.Fuzz(func(t *testing.T, operation string, which uint8, name string, objects, listed []byte) {
		g := NewWithT(t)
		all := protectedResources()
		request := collection(all[int(which)%len(all)], "Any", "ns")
		request.Operation, request.Name, request.OldObject = review.Operation(operation), name, nil
		want := len(objects) > 0
		for i, choice := range objects[:min(len(objects), 2)] {
			annotations, confirmed := annotated(choice)
			encoded, err := json.Marshal(map[string]any{
				"kind": "Any", "metadata": map[string]any{"annotations": annotations, "name": name}, "spec": annotations,
			})
			g.Expect(err).NotTo(HaveOccurred())
			if i == 0 {
				request.OldObject, want = encoded, confirmed // the old object counts
			} else {
				request.Object = encoded
			}
		}
		s := &source{}
		if name == "" {
			want = true
		}
		for _, choice := range listed {
			annotations, confirmed := annotated(choice)
			texts := map[string]string{}
			given, _ := annotations.(map[string]any)
			for key, value := range given {
				if text, is := value.(string); is {
					texts[key] = text
				}
			}
			s.annotations = append(s.annotations, texts)
			want = want && (confirmed || name != "")
		}
		response, _ := reviewtest.Handle(t, &Handler{Source: s}, request)
		g.Expect(response.Allowed).To(Equal(want || operation != "DELETE"), response.Message)
		g.Expect(response.Patch).To(BeNil())
		g.Expect(s.asked).To(BeNumerically("<=", 1))
	})
}
