package connectivity_test

import (
	"os"
	"testing"

	"github.com/espalier-dev/espalier/test/binary"
)

// A report is about a whole cluster, and the pods of other tests would be in it.
func TestMain(m *testing.M) { os.Exit(binary.WithOwnServers(m)) }
