package requestor

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/handler"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/token/digest"
)

// Priorities in the queue; the queue returns a request with a higher priority first. So after a downtime, or while requests are slow,
// Secrets without a working token come first.
const (
	// priorityExpired: the token that a client may be using has expired.
	priorityExpired = 30
	// priorityMissing: there is no token yet, or a new one was requested.
	priorityMissing = 20
	// priorityDue: the token is still valid, and its renewal time has come.
	priorityDue = 10
	// priorityNone: there is nothing to do.
	priorityNone = handler.LowPriority
)

// urgency returns the priority of a Secret, according to its digest.
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
	if renewAt, err := time.Parse(time.RFC3339, annotations[resourcesv1alpha1.ServiceAccountTokenRenewTimestamp]); err == nil &&
		!now.Before(renewAt) {
		return priorityDue
	}
	return priorityNone
}

// expiryOf returns the expiry time of a token: the time in the token or, if that is not known, the latest time that is possible with the
// renewal time of the token. It returns zero if both times are unknown.
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
	return annotations[resourcesv1alpha1.TokenRequestorTargetSecretName] != "" &&
		annotations[resourcesv1alpha1.TokenRequestorTargetSecretNamespace] != ""
}
