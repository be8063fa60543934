package approver

import (
	"sync"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Observed remembers the requests that were decided and not written to, so that each is told of once. After a restart
// all that are still there are told of again. The zero value is ready; it locks itself. Of nil, nothing is known.
type Observed struct {
	mu  sync.Mutex
	ids map[string]types.UID
}

func (o *Observed) knows(csr *certificatesv1.CertificateSigningRequest) bool {
	if o == nil {
		return false
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
