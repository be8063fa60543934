package lifecycle

import (
	"errors"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestOnlyConflicts(t *testing.T) {
	conflict := fmt.Errorf("patch: %w", apierrors.NewConflict(schema.GroupResource{Resource: "rolebindings"}, "b", errors.New("changed")))
	forbidden := fmt.Errorf("patch: %w", apierrors.NewForbidden(schema.GroupResource{Resource: "rolebindings"}, "b", errors.New("no")))
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"a conflict":                        {err: conflict, want: true},
		"something else":                    {err: forbidden},
		"no answer of an API server":        {err: errors.New("away")},
		"several conflicts":                 {err: fmt.Errorf("roles: %w", errors.Join(errors.Join(conflict, conflict), errors.Join(conflict))), want: true},
		"a conflict before something else":  {err: errors.Join(conflict, forbidden)},
		"something else deep in a conflict": {err: errors.Join(conflict, fmt.Errorf("more: %w", errors.Join(conflict, errors.New("away"))))},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(onlyConflicts(tc.err)).To(Equal(tc.want)) })
	}
}
