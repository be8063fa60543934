package handlers

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/espalier-dev/espalier/internal/admission/patch"
	"github.com/espalier-dev/espalier/internal/admission/registration"
	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/webhook/object"
)

const considerHints = "endpoint-slice-hints.resources.gardener.cloud/consider"

// endpointSliceHints keeps traffic in its zone. For each endpoint with a zone in an EndpointSlice, it sets the hints to this zone, so that
// only clients in this zone use the endpoint.
func endpointSliceHints() Handler {
	return Handler{
		Name: "endpoint-slice-hints", Path: "/webhooks/endpoint-slice-hints", Mutating: true,
		Section: "endpointSliceHints", Switch: func(w *config.Webhooks) *bool { return &w.EndpointSliceHints.Enabled }, Registered: true,
		Webhooks: func(Cluster) []registration.Webhook {
			return []registration.Webhook{{
				Rules: registration.Rules(registration.Rule(registration.OnWrite(), "discovery.k8s.io", registration.Versions("v1"),
					"endpointslices")),
				Namespaces:  registration.Selection{Standard: true},
				Objects:     registration.Selection{Labels: registration.Labelled(considerHints, "true")},
				MatchPolicy: admissionregistrationv1.Equivalent,
			}}
		},
		Policy: endpointSliceHintsPolicy(),
		Review: func(Settings) review.Handler {
			return object.Change(discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), planHints)
		},
	}
}

func endpointSliceHintsPolicy() *Policy {
	const hints = "Object.endpoints.hints{forZones: [Object.endpoints.hints.forZones{name: e.zone}]}"
	return &Policy{
		Patch: eachOf("endpoints", "e", "has(e.zone) && e.zone != ''", func(at string) string {
			return fmt.Sprintf("JSONPatch{op: 'add', path: %s/hints', value: %s}", at, hints)
		}),
	}
}

// endpointSlice is the part of an EndpointSlice that the handler reads. An endpoint that is null in JSON is a nil pointer.
type endpointSlice struct {
	Endpoints []*endpoint `json:"endpoints"`
}

type endpoint struct {
	Zone  string         `json:"zone"`
	Hints *endpointHints `json:"hints"`
}

// endpointHints is the part of the hints that the handler reads. The field Others of endpointHints contains hints that are not zones. The
// field Others of hintedZone contains the fields of a zone except the name. If one of these two fields is not empty, the handler replaces
// the hints.
type endpointHints struct {
	ForZones []hintedZone   `json:"forZones"`
	Others   jsontext.Value `json:",embed"`
}

type hintedZone struct {
	Name   string         `json:"name"`
	Others jsontext.Value `json:",embed"`
}

// planHints sets the hints of each endpoint to its own zone, and replaces other hints. Endpoints without a zone stay the same.
func planHints(found endpointSlice) patch.Patch {
	changes := patch.Patch{}
	for i, each := range found.Endpoints {
		if each != nil && each.Zone != "" && !each.Hints.hasOnlyZone(each.Zone) {
			changes.Add(patch.Pointer("endpoints", i, "hints"), discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: each.Zone}}})
		}
	}
	return changes
}

// hasOnlyZone reports whether the hints contain this zone and nothing else.
func (h *endpointHints) hasOnlyZone(name string) bool {
	return h != nil && len(h.Others) == 0 && len(h.ForZones) == 1 && len(h.ForZones[0].Others) == 0 && h.ForZones[0].Name == name
}
