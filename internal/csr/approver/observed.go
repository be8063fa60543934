package approver

import (
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/espalier-dev/espalier/internal/csr/rules"
)

// Observed remembers the requests that the approver judged in observe-only mode, so that it reports each request once. Observed also
// contains requests that another approver has decided, because that approver is usually faster. After a restart, all undecided requests
// that still exist are reported again. The methods of Observed may be called concurrently. A nil Observed remembers nothing.
type Observed struct {
	// Since is the start time of the process. Requests that were created earlier and are already decided are skipped, because their Nodes may
	// have changed or may be deleted. Since is compared with the creation timestamps of requests, which the API server sets in whole seconds.
	Since time.Time

	ids sync.Map // UIDs of reported requests, by name
}

// passes reports whether the request must be skipped: it was reported already, or it was decided before the process started.
func (o *Observed) passes(csr *certificatesv1.CertificateSigningRequest) bool {
	if o == nil {
		return false
	}
	if rules.Decided(csr.Status) && csr.CreationTimestamp.Time.Before(o.Since.Truncate(time.Second)) {
		return true
	}
	id, known := o.ids.Load(csr.Name)
	return known && id == csr.UID
}

func (o *Observed) add(csr *certificatesv1.CertificateSigningRequest) { o.ids.Store(csr.Name, csr.UID) }

func (o *Observed) forget(name string) {
	if o != nil {
		o.ids.Delete(name)
	}
}
