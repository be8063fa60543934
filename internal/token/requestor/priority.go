package requestor

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/handler"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/token/digest"
)

// Priorities in the queue; higher goes first. After a downtime, or while requests are slow, those who have nothing that
// works are served first.
const (
	// priorityExpired: the token that somebody uses has expired.
	priorityExpired = 30
	// priorityMissing: there is no token yet, or a new one is asked for.
	priorityMissing = 20
	// priorityDue: the token is still good, but is to be renewed.
	priorityDue = 10
	// priorityNone: nothing is to be done.
	priorityNone = handler.LowPriority
)

// urgency is the priority of a Secret, by what its digest tells.
func urgency(now time.Time, annotations map[string]string, d digest.Digest) int {
	expiry := expiryOf(annotations, d)
	switch {
	case !expiry.IsZero() && !now.Before(expiry):
		return priorityExpired
	case early(annotations) != "":
		return priorityMissing
	case !d.Token && !hasTarget(annotations):
		return priorityMissing
	}
	if renewAt, err := time.Parse(time.RFC3339, annotations[resourcesv1alpha1.ServiceAccountTokenRenewTimestamp]); err == nil && !now.Before(renewAt) {
		return priorityDue
	}
	return priorityNone
}

// expiryOf is when a token expires: as it says itself, else by the rule that renewal times follow, at the latest. Zero:
// nothing is known.
func expiryOf(annotations map[string]string, d digest.Digest) time.Time {
	if !d.Expiry.IsZero() {
		return d.Expiry
	}
	renewAt, err := time.Parse(time.RFC3339, annotations[resourcesv1alpha1.ServiceAccountTokenRenewTimestamp])
	if err != nil || !d.Token && !hasTarget(annotations) {
		return time.Time{}
	}
	lifetime, err := lifetimeOf(annotations)
	if err != nil {
		return time.Time{}
	}
	return renewAt.Add(lifetime - renewAfter(lifetime, 0))
}

func hasTarget(annotations map[string]string) bool {
	return annotations[resourcesv1alpha1.TokenRequestorTargetSecretName] != "" && annotations[resourcesv1alpha1.TokenRequestorTargetSecretNamespace] != ""
}
