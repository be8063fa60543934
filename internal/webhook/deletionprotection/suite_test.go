package deletionprotection

import (
	"os"
	"testing"

	"github.com/espalier-dev/espalier/test/binary"
)

func TestMain(m *testing.M) { os.Exit(binary.WithOwnServer(m)) }
