package settings

import (
	"fmt"
	"strconv"
	"testing"

	. "github.com/onsi/gomega"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/garden/component/networkpolicies"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

func TestBackupMetadataServiceOfTheConfigurationOpensItForTheMainEtcd(t *testing.T) {
	for _, setting := range []bool{false, true} {
		t.Run(strconv.FormatBool(setting), func(t *testing.T) {
			g := NewWithT(t)
			cfg, warnings, err := config.Operator(fmt.Appendf(nil, "apiVersion: operator.config.gardener.cloud/v1alpha1\n"+
				"kind: OperatorConfiguration\ncontrollers: {networkPolicy: {concurrentSyncs: 5}}\n"+
				"espalier: {garden: {backupMetadataService: %t}}\n", setting))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(warnings).To(BeEmpty())
			garden := &operatorv1alpha1.Garden{}
			garden.Spec.VirtualCluster.Kubernetes.Version = "1.33.1"
			garden.Spec.VirtualCluster.DNS.Domains = []operatorv1alpha1.Domain{{Name: "example.com"}}
			v, err := values.New(garden, Values(cfg, values.Operator{}))
			g.Expect(err).NotTo(HaveOccurred())
			var names []string
			for _, each := range networkpolicies.Objects(v) {
				names = append(names, each.GetNamespace()+"/"+each.GetName())
			}
			g.Expect(names).To(ContainElement("garden/garden-networkpolicies-to-runtime-apiserver"))
			if policy := ContainElement("garden/garden-etcd-main-to-metadata-service"); setting {
				g.Expect(names).To(policy)
			} else {
				g.Expect(names).NotTo(policy)
			}
		})
	}
}

func TestOperatorDoesNotStartIfItWouldSkipAnUnknownComponent(t *testing.T) {
	g := NewWithT(t)
	cfg := &config.OperatorConfiguration{}
	cfg.Espalier.Garden.SkipComponents = []string{"vali", "etcd-druid"}
	_, err := SkippedComponents(cfg)
	g.Expect(err).To(MatchError(ContainSubstring(`espalier.garden.skipComponents[1]: Unsupported value: "etcd-druid": supported values: "`)))
	cfg.Espalier.Garden.SkipComponents = []string{"vali"}
	g.Expect(SkippedComponents(cfg)).To(Equal([]string{"vali"}))
	cfg.Default()
	cfg.Controllers.NetworkPolicy.ConcurrentSyncs = new(int)
	g.Expect(Values(cfg, values.Operator{}).SkipComponents).To(Equal([]string{"vali"}))
}
