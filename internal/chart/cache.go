package chart

import (
	"slices"
	"sync"
)

// Cache keeps the charts that were pulled last, so that a reconciliation does not ask the registry again. After a restart, the charts are
// pulled again, by their digests. A Cache is safe for concurrent use.
type Cache struct {
	most int
	lock sync.Mutex
	last []cached
}

type cached struct {
	reference string
	Pulled
}

// NewCache returns a cache for at most this number of charts, each of at most MaxArchive bytes.
func NewCache(most int) *Cache { return &Cache{most: most} }

// Get returns the chart that was pulled from a reference with a digest.
func (c *Cache) Get(reference, digest string) (Pulled, bool) {
	c.lock.Lock()
	defer c.lock.Unlock()
	at := slices.IndexFunc(c.last, func(each cached) bool { return each.reference == reference && each.Digest == digest })
	if at < 0 {
		return Pulled{}, false
	}
	return c.last[at].Pulled, true
}

// Put keeps a chart, and drops the oldest one if the cache is full.
func (c *Cache) Put(reference string, pulled Pulled) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.last = append(c.last, cached{reference, pulled})
	if more := len(c.last) - c.most; more > 0 {
		c.last = slices.Delete(c.last, 0, more)
	}
}
