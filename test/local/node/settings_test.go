package node

import (
	"encoding/json"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"
)

func TestEverythingThatIsKeptIsInFoldersOfTheNode(t *testing.T) {
	g := NewWithT(t)
	for name, content := range settings("/state", "/tools") {
		for _, word := range strings.FieldsFunc(content, func(r rune) bool { return strings.ContainsRune(" \t\n\"{},[]()'", r) }) {
			path := strings.TrimPrefix(word, "unix://")
			if !strings.HasPrefix(path, "/") {
				continue
			}
			known := path == "/tools" || strings.HasPrefix(path, "/tools/") || strings.HasPrefix(path, "/state/") ||
				strings.HasPrefix(path, "/run/espalier-node/") || path == podLogs || path == "/espalier"
			g.Expect(known).To(BeTrue(), "%s names %s", name, path)
		}
	}
}

func TestSettingsParse(t *testing.T) {
	g := NewWithT(t)
	all := settings("/state", "/tools")
	for _, name := range []string{"kubelet.yaml", "kube-proxy.yaml"} {
		var fields map[string]any
		g.Expect(yaml.UnmarshalStrict([]byte(all[name]), &fields)).To(Succeed(), name)
		g.Expect(fields).To(HaveKey("kind"))
	}
	var cni map[string]any
	g.Expect(json.Unmarshal([]byte(all["cni/espalier.conflist"]), &cni)).To(Succeed())
	g.Expect(cni).To(HaveKeyWithValue("name", "espalier"))
}
