package highavailability_test

import (
	"os"
	"testing"

	"github.com/espalier-dev/espalier/test/binary"
)

// TestMain starts separate API servers: the tests make them serve Hvpas, which tests of other packages must not see.
func TestMain(m *testing.M) { os.Exit(binary.WithOwnServer(m)) }
