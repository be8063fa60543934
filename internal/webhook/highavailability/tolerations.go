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

// tolerate appends tolerations that limit how many seconds Pods stay on nodes that are not ready or not reachable. It appends no
// toleration for a taint if the list already has one with the key of this taint, with the effect NoExecute or for all effects. If a number
// of seconds is nil, it appends no toleration for that taint.
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
