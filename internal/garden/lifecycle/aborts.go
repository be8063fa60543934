package lifecycle

import (
	"context"
	"fmt"
	"strings"
	"time"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/components"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
)

// endsAbortAfter is the time between two reconciliations while a prepared abort does not complete, because Pods that the operator does not
// wait for still have the aborted credentials.
const endsAbortAfter = time.Minute

// abortProblems returns why rotations must not be aborted, by their credentials: there is no former credential to go back to, or it has
// expired. Began contains the rotations to abort and when they began.
func (r *Reconciler) abortProblems(
	ctx context.Context, s *status, began map[rotation.Credential]time.Time,
) (map[rotation.Credential]string, error) {
	m, err := r.secretsManager(ctx, s.garden, s.clocks)
	if err != nil {
		return nil, err
	}
	problems := map[rotation.Credential]string{}
	for _, each := range components.RotatedSecrets() {
		start, isAborted := began[each.Credential]
		if !isAborted || !each.Irreplaceable || problems[each.Credential] != "" {
			continue
		}
		former, err := m.Before(each.Name, start)
		if err != nil {
			return nil, err
		}
		if former == nil {
			problems[each.Credential] = fmt.Sprintf("no Secret has %s from before the rotation; restore it, or complete the rotation", each.Name)
			continue
		}
		if end, expires := endOf(former); expires && !end.After(r.Clock.Now()) {
			problems[each.Credential] = fmt.Sprintf("%s in Secret %s expired at %s; complete the rotation",
				each.Name, former.Name, end.UTC().Format(time.RFC3339))
		}
	}
	return problems, nil
}

// awaitsEndOfAbort reports whether an abort of the rotation of the certificate authorities is prepared, did not complete, and will complete
// without an operation of the user.
func awaitsEndOfAbort(garden *operatorv1alpha1.Garden) bool {
	return skippedProof(garden) == "" && rotation.AwaitsEnd(rotationOf(garden), rotation.CertificateAuthorities)
}

// asksForAbort reports whether the annotation of a Garden names rotations to abort.
func asksForAbort(annotations map[string]string) bool {
	return strings.TrimSpace(annotations[operatorv1alpha1.AnnotationAbortRotation]) != ""
}
