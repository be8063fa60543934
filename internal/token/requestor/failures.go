package requestor

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// bindRole is the remedy if a right in the target is missing. The role is generated from the markers above Reconciler.
const bindRole = "; bind ClusterRole espalier-token-controllers-target in the target, at least in that namespace"

// Kinds of failures, as the metric counts them.
const (
	kindMistake   = "mistake"
	kindForbidden = "forbidden"
	kindNotFound  = "not_found"
	kindConflict  = "conflict"
	kindOther     = "other"
)

func kindsOfFailure() []string {
	return []string{kindMistake, kindForbidden, kindNotFound, kindConflict, kindOther}
}

func kindOf(err error) string {
	switch {
	case isMistake(err):
		return kindMistake
	case apierrors.IsForbidden(err):
		return kindForbidden
	case apierrors.IsNotFound(err):
		return kindNotFound
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return kindConflict
	}
	return kindOther
}

// bounded is a failure whose text is shortened: it may quote annotations and responses of any length.
type bounded struct {
	error
	text string
}

// Error implements error.
func (b *bounded) Error() string { return b.text }

// Unwrap returns the failure with its full text.
func (b *bounded) Unwrap() error { return b.error }

// aboutAccount adds to an error the attempted operation on a ServiceAccount, and the remedy.
func aboutAccount(attempt string, of types.NamespacedName, err error) error {
	remedy := ""
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		remedy = fmt.Sprintf("; namespace %q of the target is being deleted: wait until it is created again, or choose another one", of.Namespace)
	case apierrors.IsForbidden(err):
		remedy = bindRole
	case apierrors.IsNotFound(err):
		remedy = fmt.Sprintf("; create namespace %q in the target, or change annotation %q", of.Namespace,
			resourcesv1alpha1.ServiceAccountNamespace)
	case apierrors.IsInvalid(err):
		remedy = fmt.Sprintf("; check annotations %q and %q", resourcesv1alpha1.ServiceAccountName, resourcesv1alpha1.ServiceAccountLabels)
	}
	return fmt.Errorf("%s ServiceAccount %s: %w%s", attempt, of, err, remedy)
}

// aboutToken adds the remedy to an error of a token request.
func aboutToken(of types.NamespacedName, err error) error {
	remedy := ""
	switch {
	case apierrors.IsForbidden(err):
		remedy = bindRole
	case apierrors.IsInvalid(err):
		remedy = fmt.Sprintf("; check annotations %q and %q", resourcesv1alpha1.ServiceAccountTokenExpirationDuration,
			resourcesv1alpha1.TokenAudiences)
	}
	return fmt.Errorf("request token of ServiceAccount %s: %w%s", of, err, remedy)
}

// alreadyExpired returns the error for a new token whose lifetime is too short to be useful. The text of the error contains no time, so
// that each attempt returns the same text.
func alreadyExpired(of order) error {
	return fmt.Errorf("request token of ServiceAccount %s: by the clock of this process, the new token expires in less than %s: "+
		"that clock and the one of the target's API server differ by about its lifetime (%s) or more, or the API server does not say when "+
		"it expires; set both clocks right",
		of.account, leastRemaining, of.lifetime)
}

// aboutWriting adds the remedy to an error of writing a token.
func aboutWriting(target *types.NamespacedName, err error) error {
	if target == nil {
		return fmt.Errorf("could not update Secret with token: %w", err)
	}
	remedy := ""
	switch {
	case apierrors.IsForbidden(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		remedy = bindRole
	case apierrors.IsNotFound(err):
		remedy = fmt.Sprintf("; create namespace %q in the target, or change annotation %q", target.Namespace,
			resourcesv1alpha1.TokenRequestorTargetSecretNamespace)
	}
	return fmt.Errorf("could not update Secret with token: target Secret %s: %w%s", target, err, remedy)
}
