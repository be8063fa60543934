//go:build e2e

package managedresourcecontroller_test

import (
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	// rolloutPatience is how long a rollout, or its failure, may take.
	rolloutPatience = 2 * time.Minute
	// deadlineSeconds is the progress deadline of the Deployments of specs. It is longer than Pods need on a busy machine.
	deadlineSeconds = int32(30)
)

func haveAll(matchers []any) types.GomegaMatcher {
	all := make([]types.GomegaMatcher, 0, len(matchers))
	for _, each := range matchers {
		if matcher, ok := each.(types.GomegaMatcher); ok {
			all = append(all, matcher)
		}
	}
	return And(all...)
}

func httpGet(path string) *corev1.HTTPGetAction {
	return &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(8080)}
}
