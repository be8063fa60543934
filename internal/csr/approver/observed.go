package approver

import (
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/csr/rules"
)

// Observed remembers the requests that were judged and not written to, so that each is told of once. What somebody else
// has decided meanwhile is judged, too: whoever decides today is mostly faster. After a restart all that are still there
// and undecided are told of again. It locks itself. Of nil, nothing is known.
type Observed struct {
	// Since is when the process started. Requests from before that somebody else has decided are passed over: their Nodes
	// may have changed or gone. By the creation timestamp, in whole seconds of the API server's clock.
	Since time.Time

	mu  sync.Mutex
	ids map[string]types.UID
}

// passes tells whether there is nothing to be told of a request.
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
