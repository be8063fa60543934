package requestor

import (
	"errors"
	"fmt"
	"time"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/token/digest"
)

// holder is the Secret that must contain the token, as it was read.
type holder struct {
	found  bool
	digest digest.Digest
	// remote is true for a target Secret, which is not watched.
	remote bool
}

// fault classifies an error about the contents of a holder. A Secret of the source is watched, so an edit of the Secret triggers the next
// attempt. A target Secret is not watched, so the controller must read it again later: fault returns the error unchanged, which causes a
// retry.
func (h holder) fault(err error) error {
	if h.remote {
		return err
	}
	return &mistake{err}
}

// facts are the input of the decision whether a Secret needs a new token.
type facts struct {
	now         time.Time
	annotations map[string]string
	// ca is the hash of the certificate authority that must be beside the token; empty if the Secret asks for none.
	ca string
	// holder is the Secret that contains the token. It is used only if early returns no reason.
	holder holder
}

// decision is the result of the checks. If reason is empty, no token is requested, and the decision is valid for the time in wait.
type decision struct {
	reason string
	wait   time.Duration
}

// Reasons for a new token, for the log.
const (
	reasonFirst     = "no renewal time is noted"
	reasonForced    = "renewal was asked for"
	reasonNoSecret  = "the target Secret does not exist"
	reasonNoToken   = "there is no token"
	reasonCA        = "the certificate authority of the target is not beside the token"
	reasonDue       = "it is time"
	timestampRemedy = "write a time such as 2006-01-02T15:04:05Z, or remove the annotation to renew the token now"
)

// early returns the reason to request a token if the annotations alone give one, so that the holder need not be read; empty if not.
func early(annotations map[string]string) string {
	switch {
	case annotations[resourcesv1alpha1.ServiceAccountTokenRenewTimestamp] == "":
		return reasonFirst
	case forced(annotations):
		return reasonForced
	}
	return ""
}

// decide returns the decision of the first rule that matches.
func decide(f facts) (decision, error) {
	if reason := early(f.annotations); reason != "" {
		return decision{reason: reason}, nil
	}
	d := f.holder.digest
	switch {
	case !f.holder.found:
		return decision{reason: reasonNoSecret}, nil
	case d.Fault != "":
		return decision{}, f.holder.fault(fmt.Errorf("could not check whether token exists in secret data: %w", errors.New(d.Fault)))
	case !d.Token:
		return decision{reason: reasonNoToken}, nil
	case f.ca != "" && d.CA != f.ca:
		return decision{reason: reasonCA}, nil
	}
	renewAt, err := time.Parse(time.RFC3339, f.annotations[resourcesv1alpha1.ServiceAccountTokenRenewTimestamp])
	if err != nil {
		return decision{}, &mistake{fmt.Errorf("could not parse renew timestamp: %s; %s", shortened(err.Error()), timestampRemedy)}
	}
	if f.now.Before(renewAt) {
		return decision{wait: renewAt.Sub(f.now)}, nil
	}
	return decision{reason: reasonDue}, nil
}

// writable returns an error if the token could not be written to the holder, so that a request for a token would be useless.
func writable(h holder) error {
	switch {
	case h.digest.Fault != "":
		return h.fault(fmt.Errorf("could not update Secret with token: %w", errors.New(h.digest.Fault)))
	case h.digest.Immutable:
		return h.fault(errors.New("could not update Secret with token: it is immutable; replace it by one that is not"))
	}
	return nil
}
