package endpointslicehints

import (
	"github.com/go-json-experiment/json/jsontext"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/espalier-dev/espalier/internal/admission/patch"
)

// slice is what the handler reads of an EndpointSlice. Endpoints that are null stay so.
type slice struct {
	Endpoints []*endpoint `json:"endpoints"`
}

type endpoint struct {
	Zone  string `json:"zone"`
	Hints *hints `json:"hints"`
}

// hints have Others for what is no zone: hints are right only if there is none of it.
type hints struct {
	ForZones []zone         `json:"forZones"`
	Others   jsontext.Value `json:",embed"`
}

type zone struct {
	Name   string         `json:"name"`
	Others jsontext.Value `json:",embed"`
}

// plan hints at the endpoint's own zone, whatever was hinted at before. Endpoints without a zone stay as they are.
func plan(found slice) patch.Patch {
	changes := patch.Patch{}
	for i, each := range found.Endpoints {
		if each != nil && each.Zone != "" && !each.Hints.only(each.Zone) {
			changes.Add(patch.Pointer("endpoints", i, "hints"), discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: each.Zone}}})
		}
	}
	return changes
}

// only is true for hints at one zone and at nothing else.
func (h *hints) only(name string) bool {
	return h != nil && len(h.Others) == 0 && len(h.ForZones) == 1 && len(h.ForZones[0].Others) == 0 && h.ForZones[0].Name == name
}
