package highavailability_test

import (
	"os"
	"testing"

	"github.com/espalier-dev/espalier/test/binary"
)

// TestMain brings API servers of their own: the tests make Hvpas be served, which tests of others must not see.
func TestMain(m *testing.M) { os.Exit(binary.WithOwnServer(m)) }
