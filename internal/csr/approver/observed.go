package approver

import (
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/csr/rules"
)

// Observed remembers the requests that were judged in observe-only mode, so that each is reported once. It also covers requests that
// another approver has decided, because that approver is usually faster. After a restart, all undecided requests that still exist are
// reported again. It locks itself. A nil Observed remembers nothing.
type Observed struct {
	// Since is the start time of the process. Requests that were created earlier and are already decided are skipped, because their Nodes
	// may have changed or may be deleted. It is compared with the creation timestamp: whole seconds of the API server's clock.
	Since time.Time

	mu  sync.Mutex
	ids map[string]types.UID
}

// passes reports whether the request must be skipped: it was reported already, or it was decided before the process started.
func (o *Observed) passes(csr *certificatesv1.CertificateSigningRequest) bool {
	if o == nil {
		return false
	}
	if rules.Decided(csr.Status) && csr.CreationTimestamp.Time.Before(o.Since.Truncate(time.Second)) {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	id, known := o.ids[csr.Name]
	return known && id == csr.UID
}

func (o *Observed) add(csr *certificatesv1.CertificateSigningRequest) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ids == nil {
		o.ids = map[string]types.UID{}
	}
	o.ids[csr.Name] = csr.UID
}

func (o *Observed) forget(name string) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.ids, name)
}
