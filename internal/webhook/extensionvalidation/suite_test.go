package extensionvalidation_test

import (
	"os"
	"testing"

	"github.com/espalier-dev/espalier/test/binary"
)

func TestMain(m *testing.M) { os.Exit(binary.WithOwnServer(m)) }
