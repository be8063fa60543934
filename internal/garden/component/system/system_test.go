package system_test

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/system"
	"github.com/espalier-dev/espalier/internal/garden/goldentest"
)

func TestObjectsAreAsInTheGoldenFiles(t *testing.T) {
	goldentest.Compare(t, "", map[string][]client.Object{"all": system.Objects()})
}
