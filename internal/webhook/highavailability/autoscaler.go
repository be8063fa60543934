package highavailability

import "github.com/espalier-dev/espalier/internal/admission/patch"

// limits are the minimum and maximum number of replicas of an autoscaler.
type limits struct {
	Min *int32 `json:"minReplicas"`
	Max int32  `json:"maxReplicas"`
}

type horizontalPodAutoscaler struct {
	Metadata metadata `json:"metadata"`
	Spec     limits   `json:"spec"`
}

type hvpa struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		HPA struct {
			Template struct {
				Spec limits `json:"spec"`
			} `json:"template"`
		} `json:"hpa"`
	} `json:"spec"`
}

// changeScaler raises the minimum of an autoscaler to the number of replicas that the component should have, and the maximum to at least
// the minimum. It never lowers a limit. The argument path is the path of the object that contains the two limits. If the autoscaler has no
// minimum, or in legacy mode, changeScaler changes nothing.
func changeScaler(changes *patch.Patch, component metadata, have limits, path string, in namespace) error {
	if have.Min == nil || in.criteria != nil { // legacy mode does not change autoscalers
		return nil
	}
	computed, wanted, err := countReplicas(*have.Min, component, in)
	if err != nil || !wanted {
		return err
	}
	fewest := max(*have.Min, computed)
	if fewest != *have.Min {
		changes.Add(path+"/minReplicas", fewest)
	}
	if have.Max < fewest {
		changes.Add(path+"/maxReplicas", fewest)
	}
	return nil
}
