package virtual

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// refusalsShown is how many refused objects an error names.
const refusalsShown = 10

// refusals are the objects that the virtual cluster has refused to write again, for example because of a webhook. Any goroutine may use it.
type refusals struct {
	mutex sync.Mutex
	// causes are the reasons by kind, namespace and name.
	causes map[string]error
}

func (r *refusals) add(object string, cause error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.causes == nil {
		r.causes = map[string]error{}
	}
	r.causes[object] = cause
}

// err names the refused objects with their reasons, the first ones if there are many. It is nil if there are none.
func (r *refusals) err() error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if len(r.causes) == 0 {
		return nil
	}
	shown := slices.Sorted(maps.Keys(r.causes))
	more := ""
	if len(shown) > refusalsShown {
		more = fmt.Sprintf("; and %d more", len(shown)-refusalsShown)
		shown = shown[:refusalsShown]
	}
	reasons := make([]string, 0, len(shown))
	for _, object := range shown {
		reasons = append(reasons, fmt.Sprintf("%s: %s", object, r.causes[object]))
	}
	return fmt.Errorf("the virtual cluster refuses to write %d encrypted objects again; correct the objects, or what refuses them: %s%s",
		len(r.causes), strings.Join(reasons, "; "), more)
}

// isRefusal reports whether an API server has answered that it does not write this object. Other objects may be written.
func isRefusal(err error) bool {
	var answer apierrors.APIStatus
	return errors.As(err, &answer) && !apierrors.IsNotFound(err) && !apierrors.IsUnauthorized(err) && !apierrors.IsTooManyRequests(err) &&
		!apierrors.IsServiceUnavailable(err) && !apierrors.IsServerTimeout(err) && !apierrors.IsTimeout(err)
}
