package etcddruid_test

import (
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/garden/component/etcddruid"
	"github.com/espalier-dev/espalier/internal/garden/goldentest"
	"github.com/espalier-dev/espalier/internal/garden/images"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// shipped returns the values that the default configuration determines.
func shipped(t *testing.T) values.Values {
	t.Helper()
	list, err := images.Embedded()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	cfg := config.OperatorConfiguration{}
	cfg.Default()
	return values.Values{
		Operator:              values.Operator{Namespace: "garden", Images: list, ETCDConfig: *cfg.Controllers.Garden.ETCDConfig},
		VerticalPodAutoscaler: true,
	}
}

func TestObjectsAreAsInTheGoldenFiles(t *testing.T) {
	plain := shipped(t)
	ownAutoscaler := shipped(t)
	ownAutoscaler.VerticalPodAutoscaler = false
	configured := shipped(t)
	configured.ComponentImages = map[string]string{
		"etcd-druid": "images:\n- name: etcd-wrapper\n  ref: example.com/etcd-wrapper:v1\n  sourceRepository: a\n",
	}
	configured.ETCDConfig = config.ETCDConfig{
		ETCDController: &config.ETCDWorkers{Workers: ptr.To[int64](7)},
		BackupCompactionController: &config.BackupCompactionController{
			Workers: ptr.To[int64](2), EnableBackupCompaction: ptr.To(true), EventsThreshold: ptr.To[int64](500),
			ActiveDeadlineDuration:    &metav1.Duration{Duration: 90 * time.Minute},
			MetricsScrapeWaitDuration: &metav1.Duration{Duration: 30 * time.Second},
		},
		FeatureGates: map[string]bool{"UpgradeEtcdVersion": true},
	}
	unset := shipped(t)
	unset.ETCDConfig = config.ETCDConfig{}
	objects := map[string][]client.Object{}
	for name, v := range map[string]values.Values{
		"shipped": plain, "own-vpa": ownAutoscaler, "configured": configured, "no-etcd-config": unset,
	} {
		var err error
		objects[name], err = etcddruid.Objects(v)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
	}
	goldentest.Compare(t, "shipped", objects)
}

func TestImageIsRequired(t *testing.T) {
	for _, missing := range []string{"etcd-druid", "etcd-wrapper", "etcd-backup-restore"} {
		v := shipped(t)
		v.Images = slices.DeleteFunc(v.Images, func(each images.Image) bool { return each.Name == missing })
		_, err := etcddruid.Objects(v)
		NewWithT(t).Expect(err).To(MatchError(`there is no image "` + missing + `" for this cluster`))
	}
}

func TestImageListOfTheUserIsYAML(t *testing.T) {
	v := shipped(t)
	v.ComponentImages = map[string]string{"etcd-druid": "images: a"}
	_, err := etcddruid.Objects(v)
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("decode images of etcd-druid: ")))
}
