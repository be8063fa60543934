package eviction

import (
	"fmt"
	"strings"
	"time"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// decision determines the eviction requirements of a VerticalPodAutoscaler for some time.
type decision struct {
	// onlyUpscale is true if a Pod may be evicted only for more CPU or memory than it requests.
	onlyUpscale bool
	// remains is how long the decision holds; 0: until the annotations change.
	remains time.Duration
}

// decide returns the decision for a VerticalPodAutoscaler with the label for managed requirements, by its annotations. An error names the
// wrong annotation. If the value of the restriction is unknown, decide returns no decision, and the requirements stay as they are. If
// decide cannot parse the window, it returns an error together with a decision: until the annotations change, only evictions for more CPU
// or memory are allowed.
func decide(annotations map[string]string, now time.Time) (*decision, error) {
	switch restriction := annotations[operatorv1alpha1.AnnotationDownscaleRestriction]; restriction {
	case operatorv1alpha1.DownscaleNever:
		return &decision{onlyUpscale: true}, nil
	case operatorv1alpha1.DownscaleInMaintenanceWindow:
		window, err := windowOf(annotations[operatorv1alpha1.AnnotationMaintenanceWindow])
		if err != nil {
			return &decision{onlyUpscale: true}, fmt.Errorf("read annotation %s: %w", operatorv1alpha1.AnnotationMaintenanceWindow, err)
		}
		open, remains := window.IsAt(now)
		return &decision{onlyUpscale: !open, remains: remains}, nil
	default:
		return nil, fmt.Errorf("annotation %s has the value %q, neither %q nor %q", operatorv1alpha1.AnnotationDownscaleRestriction,
			restriction, operatorv1alpha1.DownscaleNever, operatorv1alpha1.DownscaleInMaintenanceWindow)
	}
}

// windowOf parses a window of the form <begin>,<end>.
func windowOf(text string) (values.Maintenance, error) {
	begin, end, found := strings.Cut(text, ",")
	if !found || begin == "" && end == "" {
		return values.Maintenance{}, fmt.Errorf("%q is not of the form begin,end", text)
	}
	return values.NewMaintenance(operatorv1alpha1.MaintenanceTimeWindow{Begin: begin, End: end})
}

// requirements returns the eviction requirements for a decision, nil for none.
func requirements(onlyUpscale bool) []any {
	if !onlyUpscale {
		return nil
	}
	return []any{map[string]any{"resources": []any{"cpu", "memory"}, "changeRequirement": "TargetHigherThanRequests"}}
}
