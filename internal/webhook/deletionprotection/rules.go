package deletionprotection

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/admission/confirmation"
	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/webhook/extensionvalidation"
)

// definitions is the group of CustomResourceDefinitions.
const definitions = "apiextensions.k8s.io"

// protected says whether objects of a resource need a confirmation. Bastions are short-lived and need none, although the
// webhook is registered for them.
func protected(resource schema.GroupVersionResource) bool {
	if resource.Group == definitions {
		return resource.Resource == "customresourcedefinitions" && (resource.Version == "v1" || resource.Version == "v1beta1")
	}
	return resource.Version == extensionvalidation.Version &&
		slices.ContainsFunc(extensionvalidation.Kinds(), func(kind extensionvalidation.Kind) bool {
			return kind.Group == resource.Group && kind.Plural == resource.Resource && kind.Kind != "Bastion"
		})
}

// metadata is what is read of an object.
type metadata struct {
	Metadata struct {
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
}

// judgeObject decides about an object that is deleted by its name.
func judgeObject(request *review.Request) review.Response {
	encoded := request.OldObject
	if len(encoded) == 0 {
		encoded = request.Object
	}
	if len(encoded) == 0 {
		return review.Errored(http.StatusInternalServerError, errors.New("no object found in admission request"))
	}
	found := metadata{}
	err := review.Decode(encoded, &found)
	var mistyped *json.SemanticError
	if errors.As(err, &mistyped) && mistyped.JSONPointer != "" { // annotations that are none confirm nothing
		found = metadata{}
	} else if err != nil {
		return review.Errored(http.StatusInternalServerError, fmt.Errorf("decode object: %w", err))
	}
	return judge(found.Metadata.Annotations)
}

func judge(annotations map[string]string) review.Response {
	if err := confirmation.Check(annotations); err != nil {
		return review.Denied(err.Error())
	}
	return review.Allowed("")
}
