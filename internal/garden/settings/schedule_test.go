package settings

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
)

func TestScheduleIsThatOfTheConfiguration(t *testing.T) {
	const header = "apiVersion: operator.config.gardener.cloud/v1alpha1\nkind: OperatorConfiguration\n" +
		"controllers: {networkPolicy: {concurrentSyncs: 5}}\n"
	for sentence, tc := range map[string]struct {
		settings string
		want     rotation.Schedule
	}{
		"nothing is set": {"", rotation.Schedule{OverdueAfter: 720 * time.Hour, Plans: map[rotation.Credential]rotation.Plan{
			"certificateAuthorities": {MaxAge: 70080 * time.Hour}, "serviceAccountKey": {}, "etcdEncryptionKey": {}, "observability": {},
			"workloadIdentityKey": {},
		}}},
		"everything is set": {`espalier: {garden: {rotation: {overdueAfter: 25h, certificateAuthorities: {maxAge: 26h},
  serviceAccountKey: {maxAge: 27h, automatic: true, completeAfter: 28h}, etcdEncryptionKey: {maxAge: 29h}, observability: {maxAge: 30h},
  workloadIdentityKey: {maxAge: 31h}}}}`, rotation.Schedule{OverdueAfter: 25 * time.Hour, Plans: map[rotation.Credential]rotation.Plan{
			"certificateAuthorities": {MaxAge: 26 * time.Hour},
			"serviceAccountKey":      {MaxAge: 27 * time.Hour, Automatic: true, CompleteAfter: 28 * time.Hour},
			"etcdEncryptionKey":      {MaxAge: 29 * time.Hour}, "observability": {MaxAge: 30 * time.Hour},
			"workloadIdentityKey": {MaxAge: 31 * time.Hour},
		}}},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			cfg, warnings, err := config.Operator([]byte(header + tc.settings))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(warnings).To(BeEmpty())
			g.Expect(Schedule(cfg.Espalier.Garden.Rotation)).To(Equal(tc.want))
			g.Expect(Schedule(cfg.Espalier.Garden.Rotation).HasAutomatic()).To(Equal(tc.settings != ""))
		})
	}
}
