package virtual

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/version"
)

func TestRemovedAPIsAreThoseThatTheWantedVersionDoesNotHave(t *testing.T) {
	g := NewWithT(t)
	metrics := []byte(`# HELP apiserver_requested_deprecated_apis Deprecated APIs that were requested.
# TYPE apiserver_requested_deprecated_apis gauge
apiserver_requested_deprecated_apis{group="a.example.com",removed_release="1.36",resource="tests",subresource="",version="v1beta1"} 1
apiserver_requested_deprecated_apis{group="a.example.com",removed_release="1.36",resource="tests",subresource="status",version="v1beta1"} 1
apiserver_requested_deprecated_apis{group="a.example.com",removed_release="1.37",resource="later",subresource="",version="v1beta1"} 1
apiserver_requested_deprecated_apis{group="",removed_release="1.35",resource="olds",subresource="",version="v1"} 1
apiserver_requested_deprecated_apis{group="",removed_release="",resource="endpoints",subresource="",version="v1"} 1
`)
	removed, err := removedAPIs(metrics, version.MustParseSemantic("1.36.3"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(removed).To(Equal([]string{"olds.v1 (removed in 1.35)", "tests.v1beta1.a.example.com (removed in 1.36)"}))
	removed, err = removedAPIs(nil, version.MustParseSemantic("1.36.3"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(removed).To(BeEmpty())
}
