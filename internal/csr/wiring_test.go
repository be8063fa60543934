package csr

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/config"
)

func TestCheck(t *testing.T) {
	for name, tc := range map[string]struct {
		controller config.KubeletCSRApproverController
		own        config.EspalierCSRApprover
		want       string
	}{
		"enabled": {controller: config.KubeletCSRApproverController{Enabled: true}},
		"without Machines": {
			controller: config.KubeletCSRApproverController{Enabled: true}, own: config.EspalierCSRApprover{WithoutMachines: true},
		},
		"with Machines in one namespace": {controller: config.KubeletCSRApproverController{Enabled: true, MachineNamespace: "m"}},
		"not enabled":                    {want: "nothing to do: set controllers.kubeletCSRApprover.enabled: true, or do not run csr-approver"},
		"a namespace of no Machines": {
			controller: config.KubeletCSRApproverController{Enabled: true, MachineNamespace: "m"},
			own:        config.EspalierCSRApprover{WithoutMachines: true},
			want: "controllers.kubeletCSRApprover.machineNamespace and espalier.csrApprover.withoutMachines contradict each other: remove " +
				"one of them",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			cfg := &config.ResourceManagerConfiguration{}
			cfg.Controllers.KubeletCSRApprover, cfg.Espalier.CSRApprover = tc.controller, tc.own
			if tc.want == "" {
				g.Expect(Check(cfg)).To(Succeed())
				return
			}
			g.Expect(Check(cfg)).To(MatchError(tc.want))
		})
	}
}

// Only the explicit field disables the check of Machines. With an empty namespace, the API server must serve the kind, and rights in all
// namespaces are required.
func TestNeeds(t *testing.T) {
	g := NewWithT(t)
	cfg := &config.ResourceManagerConfiguration{}
	needs, err := Needs(cfg)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(needs.SourceAccess).To(HaveLen(1))
	g.Expect(needs.SourceAccess[0].Kind.String()).To(Equal("machine.sapcloud.io/v1alpha1, Kind=Machine"))
	g.Expect(needs.SourceAccess[0].Verbs).To(Equal([]string{"list", "watch"}))

	cfg.Espalier.CSRApprover.WithoutMachines = true
	needs, err = Needs(cfg)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(needs.SourceAccess).To(BeEmpty())
	g.Expect(needs.SourceCache.ByObject).To(BeEmpty())
}
