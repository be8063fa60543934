package validation_test

import (
	"os"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/defaulting"
	"github.com/espalier-dev/espalier/internal/garden/validation"
)

func TestFieldsThatExtensionsMakePossible(t *testing.T) {
	const (
		bucket     = "V: {etcd: {main: {backup: {provider: local, secretRef: {name: a}}}}}"
		noOffer    = "no Extension has a resource of kind Extension and of this type whose clusterCompatibility contains garden"
		noProvider = "provider name must be set if `.spec.dns` is set"
	)
	ingress := "R: {ingress: {domains: [{name: ingress.example.com, provider: p}]}}"
	for sentence, tc := range map[string]struct {
		old, changes []string
		want         []string
	}{
		"DNS providers": {changes: []string{dns, ingress}},
		"no DNS providers": {
			changes: []string{dns, ingress, "{spec: {dns: {providers: []}}}"},
			want: []string{
				"Required spec.dns.providers: must provide at least one DNS provider",
				"Invalid R.ingress.domains[0].provider: provider name not found in .spec.dns.providers",
				"Invalid V.dns.domains[0].provider: provider name not found in .spec.dns.providers",
			},
		},
		"DNS providers with the same name": {
			changes: []string{
				dns, ingress, "{spec: {dns: {providers: [{name: p, type: a, secretRef: {name: a}}, {name: p, type: b, secretRef: {name: a}}]}}}",
			},
			want: []string{"Duplicate spec.dns.providers[1].name: "},
		},
		"an empty DNS provider": {
			changes: []string{dns, ingress, "{spec: {dns: {providers: [{name: p, type: a, secretRef: {name: a}}, {secretRef: {}}]}}}"},
			want: []string{
				"Required spec.dns.providers[1].name: must provide a name",
				"Required spec.dns.providers[1].type: must provide the type of the DNSRecords",
				"Required spec.dns.providers[1].secretRef.name: must provide a name",
			},
		},
		"domains without provider": {
			changes: []string{dns, "V: {dns: {domains: [example.com, {name: example.org, provider: q}]}}"},
			want: []string{
				"Required R.ingress.domains[0].provider: " + noProvider,
				"Required V.dns.domains[0].provider: " + noProvider,
				"Invalid V.dns.domains[1].provider: provider name not found in .spec.dns.providers",
			},
		},
		"an extension for Gardens": {changes: []string{"{spec: {extensions: [{type: a, providerConfig: {a: b}}]}}"}},
		"extensions that are not for Gardens": {
			changes: []string{"{spec: {extensions: [{type: b}, {type: c}, {type: ''}]}}"},
			want: []string{
				"Invalid spec.extensions[0].type: " + noOffer, "Invalid spec.extensions[1].type: " + noOffer,
				"Required spec.extensions[2].type: must provide a type",
			},
		},
		"an extension twice": {
			changes: []string{"{spec: {extensions: [{type: a}, {type: a}]}}"}, want: []string{"Duplicate spec.extensions[1].type: "},
		},
		"an extension whose Extension is gone": {
			old: []string{"{spec: {extensions: [{type: c}]}}"}, changes: []string{"{spec: {extensions: [{type: c}, {type: a}]}}"},
		},
		"resources": {
			changes: []string{"{spec: {resources: [{name: a, resourceRef: {apiVersion: v1, kind: Secret, name: x}}, " +
				"{name: b, resourceRef: {apiVersion: v1, kind: ConfigMap, name: x}}]}}"},
		},
		"wrong resources": {
			changes: []string{"{spec: {resources: [{name: a, resourceRef: {apiVersion: v1, kind: Pod, name: x}}, " +
				"{name: a, resourceRef: {apiVersion: v2, kind: Secret, name: ''}}, " +
				"{name: '', resourceRef: {apiVersion: v1, kind: Secret, name: x}}]}}"},
			want: []string{
				`NotSupported spec.resources[0].resourceRef.kind: supported values: "Secret", "ConfigMap"`,
				"Duplicate spec.resources[1].name: ",
				`NotSupported spec.resources[1].resourceRef.apiVersion: supported values: "v1"`,
				"Required spec.resources[1].resourceRef.name: must provide a name",
				"Required spec.resources[2].name: must provide a name",
			},
		},
		"a bucket of the operator": {changes: []string{bucket, "R: {provider: {region: r}}"}},
		"a bucket of the operator in a region of its own": {
			changes: []string{bucket, "V: {etcd: {main: {backup: {region: r}}}}"},
		},
		"a bucket of the operator without region": {
			changes: []string{bucket},
			want: []string{
				"Required V.etcd.main.backup.region: name the region in which the operator creates the bucket, here or in " +
					"spec.runtimeCluster.provider.region",
			},
		},
		"the region of a bucket that exists": {
			old: []string{bucket, "R: {provider: {region: r}}"}, changes: []string{"R: {provider: {region: s}}"},
			want: []string{`Invalid V.etcd.main.backup.region: the bucket is in region "r"; set this field if spec.runtimeCluster.provider.region ` +
				"has changed"},
		},
		"another region of the runtime cluster than of the bucket": {
			old:     []string{bucket, "R: {provider: {region: r}}"},
			changes: []string{"R: {provider: {region: s}}", "V: {etcd: {main: {backup: {region: r}}}}"},
		},
		"a bucket of the operator with the Secret that its controller writes": {
			changes: []string{bucket, "V: {etcd: {main: {backup: {region: r, secretRef: {name: etcd-backup}}}}}"},
			want: []string{"Invalid V.etcd.main.backup.secretRef.name: the controller of the BackupEntry replaces the content of this Secret, " +
				"and deletes it"},
		},
		"a bucket of a type that no Extension offers": {
			changes: []string{bucket, "V: {etcd: {main: {backup: {provider: S3, region: r}}}}"},
			want: []string{
				"Required V.etcd.main.backup.bucketName: name an existing bucket, or create an Extension that offers BackupBucket and " +
					`BackupEntry of type "S3"`,
			},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			if tc.old == nil {
				g.Expect(texts(validation.Create(garden(t, tc.changes...), local(t)))).To(ConsistOf(tc.want))
				return
			}
			old := garden(t, tc.old...)
			g.Expect(texts(validation.Update(garden(t, append(tc.old, tc.changes...)...), old, local(t)))).To(ConsistOf(tc.want))
		})
	}
}

func TestGardenOfTodayIsValid(t *testing.T) {
	g := NewWithT(t)
	text, err := os.ReadFile("../lifecycle/testdata/today.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	_, manifest, found := strings.Cut(string(text), "\n---\napiVersion: operator")
	g.Expect(found).To(BeTrue())
	today := &operatorv1alpha1.Garden{}
	g.Expect(yaml.UnmarshalStrict([]byte("apiVersion: operator"+manifest), today)).To(Succeed())
	defaulting.Garden(today)
	g.Expect(texts(validation.Create(today, local(t)))).To(BeEmpty())
	g.Expect(validation.Warnings(today, local(t))).To(Equal([]string{
		"spec.virtualCluster.gardener.gardenerDashboard has no effect, this operator does not deploy the dashboard",
	}), "null is no setting of the discovery server")
}
