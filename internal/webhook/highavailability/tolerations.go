package highavailability

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/internal/admission/patch"
)

// givenToleration is the part of a toleration that the handler reads.
type givenToleration struct {
	Key    string             `json:"key"`
	Effect corev1.TaintEffect `json:"effect"`
}

// tolerate appends tolerations that limit, in seconds, how long Pods stay on nodes that are not ready or not reachable, unless the
// list tolerates exactly that taint already, with the effect NoExecute or for all effects. Nil seconds append nothing.
func tolerate(changes *patch.Patch, have []givenToleration, notReady, unreachable *int64) {
	var missing []corev1.Toleration
	for _, each := range []struct {
		taint   string
		seconds *int64
	}{{corev1.TaintNodeNotReady, notReady}, {corev1.TaintNodeUnreachable, unreachable}} {
		tolerated := slices.ContainsFunc(have, func(given givenToleration) bool {
			return given.Key == each.taint && (given.Effect == "" || given.Effect == corev1.TaintEffectNoExecute)
		})
		if !tolerated && each.seconds != nil {
			missing = append(missing, corev1.Toleration{
				Key: each.taint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: each.seconds,
			})
		}
	}
	patch.Append(changes, specOfPods+"/tolerations", len(have), missing...)
}
