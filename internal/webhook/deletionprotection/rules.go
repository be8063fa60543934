package deletionprotection

import (
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/go-json-experiment/json"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/espalier-dev/espalier/internal/admission/confirmation"
	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/webhook/extensionvalidation"
)

// definitions is the API group of CustomResourceDefinitions.
const definitions = "apiextensions.k8s.io"

// needConfirmation returns the resources whose deletion needs a confirmation. Bastions are not among them, although the webhook may be
// registered for them.
var needConfirmation = sync.OnceValue(func() sets.Set[schema.GroupVersionResource] {
	resources := sets.New(
		schema.GroupVersionResource{Group: definitions, Version: "v1", Resource: "customresourcedefinitions"},
		schema.GroupVersionResource{Group: definitions, Version: "v1beta1", Resource: "customresourcedefinitions"},
	)
	for _, kind := range extensionvalidation.Kinds() {
		if kind.ConfirmDeletion {
			resources.Insert(schema.GroupVersionResource{Group: kind.Group, Version: extensionvalidation.Version, Resource: kind.Plural})
		}
	}
	return resources
})

// protected reports whether the deletion of objects of a resource needs a confirmation.
func protected(resource schema.GroupVersionResource) bool { return needConfirmation().Has(resource) }

// metadata is the part of an object that the handler reads.
type metadata struct {
	Metadata struct {
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
}

// judgeObject decides about the deletion of one object by its name.
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
	if errors.As(err, &mistyped) && mistyped.JSONPointer != "" { // annotations of a wrong type confirm nothing
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
