package required

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/extension/installations"
)

func parse[T any](t *testing.T, text string) *T {
	t.Helper()
	object := new(T)
	NewWithT(t).Expect(yaml.UnmarshalStrict([]byte(text), object)).To(Succeed(), text)
	return object
}

func TestDecideRuntime(t *testing.T) {
	const spec = `{spec: {resources: [{kind: BackupBucket, type: s3}, {kind: DNSRecord, type: s3},
		{kind: Extension, type: a, autoEnable: [garden]}, {kind: Extension, type: b, autoEnable: [seed]}]}}`
	const passive = `{spec: {resources: [{kind: BackupBucket, type: s3}, {kind: DNSRecord, type: s3}, {kind: Worker, type: s3}]}}`
	backup := func(more string) string {
		return `{spec: {virtualCluster: {etcd: {main: {backup: {provider: s3, secretRef: {name: a}` + more + `}}}}}}`
	}
	for name, tc := range map[string]struct {
		extension, garden string // no garden: there is none
		deleted           bool
		existing          map[resource]bool
		want              string // the message if it is required
	}{
		"no Garden":                        {extension: spec},
		"a Garden that needs nothing":      {extension: passive, garden: "{}"},
		"a type that is active in gardens": {extension: spec, garden: "{}", want: "Extension required for kinds [Extension]"},
		"a backup without a bucket":        {extension: passive, garden: backup(""), want: "Extension required for kinds [BackupBucket]"},
		"a backup that needs its folder": {
			extension: `{spec: {resources: [{kind: BackupEntry, type: s3}]}}`, garden: backup(""),
			want: "Extension required for kinds [BackupEntry]",
		},
		"a DNS provider": {
			extension: passive, garden: `{spec: {dns: {providers: [{name: p, type: s3, secretRef: {name: a}}]}}}`,
			want: "Extension required for kinds [DNSRecord]",
		},
		"a DNS provider of another type": {
			extension: passive, garden: `{spec: {dns: {providers: [{name: p, type: gcs, secretRef: {name: a}}]}}}`,
		},
		"an extension of the Garden": {
			extension: `{spec: {resources: [{kind: Extension, type: a}]}}`, garden: `{spec: {extensions: [{type: a}]}}`,
			want: "Extension required for kinds [Extension]",
		},
		"a backup with a bucket": {extension: passive, garden: backup(", bucketName: b")},
		"an object of class garden": {
			extension: passive, garden: "{}", existing: map[resource]bool{{"DNSRecord", "s3"}: true},
			want: "Extension required for kinds [DNSRecord]",
		},
		"an object of another type": {extension: passive, garden: "{}", existing: map[resource]bool{{"DNSRecord", "gcs"}: true}},
		"an object of a Garden that is deleted": {
			extension: spec, garden: backup(""), deleted: true, existing: map[resource]bool{{"DNSRecord", "s3"}: true},
			want: "Extension required for kinds [DNSRecord]",
		},
		"a Garden that is deleted needs no others": {extension: spec, garden: backup(""), deleted: true},
		"several kinds": {
			extension: spec, garden: backup(""), existing: map[resource]bool{{"DNSRecord", "s3"}: true},
			want: "Extension required for kinds [BackupBucket DNSRecord Extension]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var garden *operatorv1alpha1.Garden
			if tc.garden != "" {
				garden = parse[operatorv1alpha1.Garden](t, tc.garden)
			}
			if tc.deleted {
				garden.DeletionTimestamp = &metav1.Time{}
			}
			want := verdict{"True", "ExtensionRequired", tc.want}
			if tc.want == "" {
				want = verdict{"False", "ExtensionNotRequired", "Extension is not required by the Garden"}
			}
			NewWithT(t).Expect(decideRuntime(parse[operatorv1alpha1.Extension](t, tc.extension), garden, tc.existing)).To(Equal(want))
		})
	}
}

func TestDecideVirtual(t *testing.T) {
	g := NewWithT(t)
	no := verdict{"False", "NoRequiredControllerInstallation", "No ControllerInstallation of the extension is required"}
	g.Expect(decideVirtual(nil)).To(Equal(no))
	all := []installations.Installation{
		{Name: "a"}, {Name: "b", Seed: "s", Conditions: []corev1beta1.Condition{{Type: "Required", Status: "False"}}},
	}
	g.Expect(decideVirtual(all)).To(Equal(no))
	all[1].Conditions[0].Status = "True"
	g.Expect(decideVirtual(all)).To(Equal(
		verdict{"True", "RequiredControllerInstallation", `ControllerInstallation "b" for Seed "s" is required`}))
}
