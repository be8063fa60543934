package backup

import (
	"cmp"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/components"
)

// managed returns the labels of a Secret of the manager of secrets.
func managed(name, rotated string, more ...string) map[string]string {
	labels := map[string]string{
		"name": name, "managed-by": "secrets-manager", "manager-identity": "gardener-operator", "last-rotation-initiation-time": rotated,
	}
	for i := 0; i < len(more); i += 2 {
		labels[more[i]] = more[i+1]
	}
	return labels
}

func TestWhatABackupIncludes(t *testing.T) {
	garden := &operatorv1alpha1.Garden{}
	garden.Spec.VirtualCluster.ETCD = &operatorv1alpha1.ETCD{Main: &operatorv1alpha1.ETCDMain{Backup: &operatorv1alpha1.Backup{
		SecretRef: corev1.LocalObjectReference{Name: "bucket"},
	}}}
	garden.Spec.DNS = &operatorv1alpha1.DNSManagement{Providers: []operatorv1alpha1.DNSProvider{
		{Name: "one", SecretRef: corev1.LocalObjectReference{Name: "dns"}},
	}}
	c := newContents(garden, nil, []EtcdReference{{Name: "virtual-garden-etcd-main", Secret: "etcd-backup"}})
	for name, tc := range map[string]struct {
		kind, name string
		labels     map[string]string
		want       bool
	}{
		"a certificate authority":               {name: "ca-1", labels: managed("ca", ""), want: true},
		"its bundle":                            {name: "ca-bundle-1", labels: managed("ca-bundle", "", "bundle-for", "ca"), want: true},
		"a key":                                 {name: "k-1", labels: managed("kube-apiserver-etcd-encryption-key", "1"), want: true},
		"a password":                            {name: "p-1", labels: managed("global-observability-ingress", "1"), want: true},
		"a password of a landscape of Gardener": {name: "p-1", labels: managed("plutono-admin", ""), want: true},
		"a probe of a former generation":        {name: "p-1", labels: managed("rotation-probe-token", "1"), want: true},
		"an authority that renews itself":       {name: "ca-1", labels: managed("ca-garden-runtime", "")},
		"a certificate":                         {name: "c-1", labels: managed("kube-apiserver", "")},
		"a key of another manager": {
			name: "ca-1", labels: map[string]string{"name": "ca", "managed-by": "secrets-manager", "manager-identity": "a"},
		},
		"an encryption configuration": {
			name: "e-1", labels: map[string]string{"role": "kube-apiserver-etcd-encryption-configuration"},
			want: true,
		},
		"an encryption configuration of Gardener": {
			name: "e-1", labels: map[string]string{"role": "gardener-apiserver-etcd-encryption-configuration"},
			want: true,
		},
		"a Secret with another role": {name: "e-1", labels: map[string]string{"role": "audit"}},
		"a ConfigMap with the role of a Secret": {
			kind: "ConfigMap", name: "e-1", labels: map[string]string{"role": "kube-apiserver-etcd-encryption-configuration"},
		},
		"a key of a deleted Garden": {
			name: "kept-ca", labels: map[string]string{"espalier.dev/kept-credential": "ca"},
			want: true,
		},
		"a donor": {
			name: "mine", labels: map[string]string{"secrets-manager-use-data-for-name": "ca"},
			want: true,
		},
		"the credentials of the bucket":         {name: "bucket", want: true},
		"the credentials that the etcd uses":    {name: "etcd-backup", want: true},
		"the credentials of a DNS provider":     {name: "dns", want: true},
		"a ConfigMap with the name of a Secret": {kind: "ConfigMap", name: "bucket"},
		"a wildcard certificate":                {name: "w", labels: map[string]string{"gardener.cloud/role": "garden-cert"}, want: true},
		"a former wildcard certificate": {
			name: "w", labels: map[string]string{"gardener.cloud/role": "controlplane-cert"},
			want: true,
		},
		"a password for monitoring of a user": {
			name: "w", labels: map[string]string{"gardener.cloud/role": "global-monitoring"},
			want: true,
		},
		"a pull secret": {name: "w", labels: map[string]string{"gardener.cloud/role": "helm-pull-secret"}, want: true},
		"a ConfigMap with values of an Extension": {
			kind: "ConfigMap", name: "w", labels: map[string]string{"gardener.cloud/role": "resource-reference"},
			want: true,
		},
		"a token for the virtual cluster": {
			name: "shoot-access-a", labels: map[string]string{"resources.gardener.cloud/purpose": "token-requestor"},
		},
		"the content of a ManagedResource":         {name: "managedresource-a-1"},
		"a Secret that does not concern a Garden":  {name: "other"},
		"a ConfigMap that does not concern Garden": {kind: "ConfigMap", name: "kube-root-ca.crt"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.kind == "" {
				tc.kind = "Secret"
			}
			o := &metav1.PartialObjectMetadata{
				TypeMeta: metav1.TypeMeta{Kind: tc.kind}, ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: tc.name, Labels: tc.labels},
			}
			NewWithT(t).Expect(c.includes(o)).To(Equal(tc.want))
		})
	}
	NewWithT(t).Expect(c.absent([]*unstructured.Unstructured{secretObject("dns", "", nil)})).
		To(Equal([]string{"Secret bucket", "Secret etcd-backup"}))
}

func TestAGardenIsNotSavedOrRestoredWithoutItsKeys(t *testing.T) {
	began := time.Unix(1646060228, 0)
	now, before := strconv.FormatInt(began.Unix(), 10), "1600000000"
	const name = "service-account-key"
	for phase, tc := range map[string]struct {
		generations []string
		want        []string
	}{
		"":                        {generations: []string{""}},
		"without a key":           {want: []string{name}},
		"Preparing, as it begins": {generations: []string{""}},
		"Preparing":               {generations: []string{"", now}},
		"Preparing without the former": {
			generations: []string{now},
			want:        []string{name + " from before the rotation that began at 2022-02-28T14:57:08Z"},
		},
		"Prepared": {generations: []string{before, now}},
		"Prepared without the former": {
			generations: []string{now},
			want:        []string{name + " from before the rotation that began at 2022-02-28T14:57:08Z"},
		},
		"Prepared without the current": {
			generations: []string{before},
			want:        []string{name + " of the rotation that began at 2022-02-28T14:57:08Z"},
		},
		"Completing": {generations: []string{now}},
		"Completing without the current": {
			generations: []string{""},
			want:        []string{name + " of the rotation that began at 2022-02-28T14:57:08Z"},
		},
		"Completed": {generations: []string{now}},
		"Completed with an old file": {
			generations: []string{""},
			want:        []string{name + " of the rotation that began at 2022-02-28T14:57:08Z"},
		},
	} {
		t.Run(phase, func(t *testing.T) {
			garden := &operatorv1alpha1.Garden{}
			for _, each := range []operatorv1alpha1.RotationPhase{"Preparing", "Prepared", "Completing", "Completed"} {
				if len(phase) >= len(each) && phase[:len(each)] == string(each) {
					garden.Status.Credentials = &operatorv1alpha1.Credentials{Rotation: &operatorv1alpha1.CredentialsRotation{
						ServiceAccountKey: &operatorv1alpha1.Rotation{Phase: each, LastInitiationTime: &metav1.Time{Time: began}},
					}}
				}
			}
			var objects []*unstructured.Unstructured
			for _, kept := range components.RotatedSecrets().Kept() {
				if kept != name {
					objects = append(objects, secretObject(kept, "", managed(kept, "")))
				}
			}
			for _, generation := range tc.generations {
				objects = append(objects, secretObject(name+generation, "", managed(name, generation)))
			}
			objects = append(objects, secretObject("bundle", "", managed(name+"-bundle", now, "bundle-for", name)))
			NewWithT(t).Expect(lost(garden, objects)).To(Equal(tc.want))
		})
	}
}

func TestARestoredGardenNamesTheBucketThatItsOperatorCreated(t *testing.T) {
	const etcd = "virtual-garden-etcd-main"
	used := []EtcdReference{{Name: etcd, Container: "garden-u-1", Prefix: "garden--u-1/" + etcd + "/etcd-main", Secret: "etcd-backup"}}
	plain := []EtcdReference{{Name: etcd, Container: "garden-u-1", Prefix: etcd + "/etcd-main"}}
	for name, tc := range map[string]struct {
		backup, want map[string]any
		etcds        []EtcdReference
	}{
		"no backup":        {etcds: used},
		"a bucket of mine": {backup: map[string]any{"bucketName": "mine"}, want: map[string]any{"bucketName": "mine"}, etcds: used},
		"no etcd":          {backup: map[string]any{"provider": "S3"}, want: map[string]any{"provider": "S3"}},
		"a folder in the bucket": {
			backup: map[string]any{"provider": "S3", "secretRef": map[string]any{"name": "a"}}, etcds: used,
			want: map[string]any{
				"provider": "S3", "bucketName": "garden-u-1/garden--u-1", "secretRef": map[string]any{"name": "etcd-backup"},
			},
		},
		"the bucket itself": {
			backup: map[string]any{"bucketName": "", "secretRef": map[string]any{"name": "a"}}, etcds: plain,
			want: map[string]any{"bucketName": "garden-u-1", "secretRef": map[string]any{"name": "a"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, garden := NewWithT(t), gardenObject(nil)
			at := []string{"spec", "virtualCluster", "etcd", "main", "backup"}
			if tc.backup != nil {
				g.Expect(unstructured.SetNestedMap(garden.Object, tc.backup, at...)).To(Succeed())
			}
			before := garden.DeepCopy()
			changed, err := nameBucket(garden, etcd, tc.etcds)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(changed).To(Equal(!isEqual(before, garden, "spec")))
			found, _, err := unstructured.NestedMap(garden.Object, at...)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(found).To(Equal(tc.want))
		})
	}
}

// backupField returns the path of a field of the settings of backups.
func backupField(name string) []string {
	return []string{"spec", "virtualCluster", "etcd", "main", "backup", name}
}

func TestProblemsOfARestorationNameObjectsAndRemedies(t *testing.T) {
	blank := gardenObject(nil)
	saved := gardenObject(map[string]any{"status": map[string]any{"credentials": map[string]any{"rotation": "a"}}})
	key := secretObject("service-account-key-1", marker, managed("service-account-key", ""))
	b := &Backup{
		Manifest: Manifest{
			Garden:  GardenReference{Name: "local", Namespace: "garden", ClusterIdentity: "one"},
			Objects: []Entry{{}, {SHA256: "0123456789abcdef0123"}},
		},
		Objects: []*unstructured.Unstructured{key, saved},
	}
	with := func(o *unstructured.Unstructured, change func(*unstructured.Unstructured)) *unstructured.Unstructured {
		o = o.DeepCopy()
		change(o)
		return o
	}
	set := func(o *unstructured.Unstructured, value any, path ...string) *unstructured.Unstructured {
		return with(o, func(o *unstructured.Unstructured) {
			NewWithT(t).Expect(unstructured.SetNestedField(o.Object, value, path...)).To(Succeed())
		})
	}
	deleted := func(o *unstructured.Unstructured) { o.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)}) }
	marked := func(mark string) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) {
			o.SetAnnotations(map[string]string{"espalier.dev/restoring": mark})
		}
	}
	const other = "Secret garden/service-account-key-1 exists with other content (%s): if the file has the right one, pause the Garden and " +
		"delete the object; otherwise restore a newer file"
	for name, tc := range map[string]struct {
		gardens  []*unstructured.Unstructured
		existing *unstructured.Unstructured
		keys     []string
		gone     bool
		// saved and wanted are the Garden of the file, and as it is to be restored. Nil: they do not differ from others.
		saved, wanted *unstructured.Unstructured
		want          []string
	}{
		"an empty cluster":                 {},
		"a Garden that was not reconciled": {gardens: []*unstructured.Unstructured{blank}},
		"the Garden of the file":           {gardens: []*unstructured.Unstructured{saved}, existing: key, keys: []string{key.GetName()}},
		"a restoration that has begun":     {gardens: []*unstructured.Unstructured{with(blank, marked("0123456789abcdef true"))}, existing: key},
		"everything, and a later key": {
			gardens:  []*unstructured.Unstructured{saved},
			existing: key, keys: []string{"service-account-key-2"},
		},
		"a restoration from another file": {
			gardens: []*unstructured.Unstructured{with(blank, marked("1123456789abcdef"))},
			want:    []string{"Garden local is being restored from another file: end that restoration first"},
		},
		"another Garden": {
			gardens: []*unstructured.Unstructured{with(blank, func(o *unstructured.Unstructured) { o.SetName("b") })},
			want: []string{`the file is of Garden local with cluster identity "one", and the cluster has Garden b with cluster identity "one": ` +
				"use the file of that Garden, or another cluster"},
		},
		"a Garden with the same name": {
			gardens: []*unstructured.Unstructured{set(blank, "two", "spec", "virtualCluster", "gardener", "clusterIdentity")},
			want: []string{`the file is of Garden local with cluster identity "one", and the cluster has Garden local with cluster identity ` +
				`"two": use the file of that Garden, or another cluster`},
		},
		"two Gardens": {
			gardens: []*unstructured.Unstructured{blank, blank},
			want:    []string{"the cluster has 2 Gardens: delete all of them that were never reconciled, but at most one is left"},
		},
		"a Garden in deletion": {
			gardens: []*unstructured.Unstructured{with(saved, deleted)}, want: []string{"Garden local is being deleted: wait until it is gone"},
		},
		"another specification": {
			gardens: []*unstructured.Unstructured{set(saved, "a", "spec", "a")},
			want:    []string{"Garden local exists with another specification: make spec equal to that in the file"},
		},
		"a Garden that was not reconciled, and a bucket of the operator": {
			gardens: []*unstructured.Unstructured{set(blank, "S3", backupField("provider")...)},
			saved:   set(saved, "S3", backupField("provider")...),
			wanted:  set(set(saved, "S3", backupField("provider")...), "garden-u-1", backupField("bucketName")...),
			want: []string{"Garden local was never reconciled, and does not name the bucket of its backups, which the operator had created " +
				"(spec.virtualCluster.etcd.main.backup.bucketName and secretRef): delete the Garden that was never reconciled, and restore again"},
		},
		"a Garden that was not reconciled, and names the bucket of the operator": {
			gardens: []*unstructured.Unstructured{set(blank, "garden-u-1", backupField("bucketName")...)},
			wanted:  set(saved, "garden-u-1", backupField("bucketName")...),
		},
		"a Garden that was not reconciled, and has another specification": {
			gardens: []*unstructured.Unstructured{set(blank, "a", "spec", "a")},
			want:    []string{"Garden local exists with another specification: make spec equal to that in the file"},
		},
		"a later state of the credentials": {
			gardens: []*unstructured.Unstructured{set(saved, "b", "status", "credentials", "rotation")},
			want: []string{"Garden local exists with another state of credentials (status.credentials): restore a file that was made in this " +
				"state"},
		},
		"a reconciled Garden without credentials": {
			gardens: []*unstructured.Unstructured{gardenObject(map[string]any{"status": map[string]any{"observedGeneration": int64(1)}})},
			want: []string{"Garden local exists with another state of credentials (status.credentials): restore a file that was made in this " +
				"state"},
		},
		"another key":  {existing: set(key, "b", "data", "key"), want: []string{sprintf(other, "data")}},
		"another type": {existing: set(key, "b", "type"), want: []string{sprintf(other, "type")}},
		"another label": {
			existing: set(key, "1", "metadata", "labels", "last-rotation-initiation-time"),
			want:     []string{sprintf(other, "label last-rotation-initiation-time")},
		},
		"a further label and annotation": {
			existing: set(set(key, "a", "metadata", "labels", "a"), "a", "metadata", "annotations", "a"),
		},
		"a key in deletion": {
			existing: with(key, deleted), want: []string{"Secret garden/service-account-key-1 is being deleted: wait until it is gone"},
		},
		"a later key": {
			keys: []string{"service-account-key-2"},
			want: []string{"Secret garden/service-account-key-2 has a key that the file does not have: restore a file that was made after it, or, " +
				"if nothing was written with this key, pause the Garden and delete the Secret"},
		},
		"a namespace in deletion": {gone: true, want: []string{"Namespace garden is being deleted: wait until it is gone"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := cluster{existing: []*unstructured.Unstructured{tc.existing}, keys: tc.keys}
			for _, each := range tc.gardens {
				c.gardens = append(c.gardens, *each)
			}
			if tc.gone {
				c.namespace = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "garden", DeletionTimestamp: &metav1.Time{}}}
			}
			file := *b
			file.Objects = []*unstructured.Unstructured{key, cmp.Or(tc.saved, saved)}
			found := problems(&file, cmp.Or(tc.wanted, file.Objects[1]), c)
			NewWithT(t).Expect(found).To(Equal(tc.want))
			NewWithT(t).Expect(found).NotTo(ContainElement(ContainSubstring(marker)))
		})
	}
}

func TestABackupHasNoPartsThatAClusterSets(t *testing.T) {
	o := secretObject("a", "b", map[string]string{"l": "1"})
	o.SetUID(types.UID("u"))
	o.SetResourceVersion("1")
	o.SetFinalizers([]string{"gardener.cloud/reference-protection"})
	o.SetAnnotations(map[string]string{"a": "1", "kubectl.kubernetes.io/last-applied-configuration": "{}"})
	want := secretObject("a", "b", map[string]string{"l": "1"})
	want.SetAnnotations(map[string]string{"a": "1"})
	NewWithT(t).Expect(stripped(o)).To(BeComparableTo(want))
}

func TestABackupHasNoRequestsOfUsers(t *testing.T) {
	for annotation, kept := range map[string]bool{
		"gardener.cloud/operation":             false,
		"espalier.dev/abort-rotation":          false,
		"espalier.dev/confirm-lost-keys":       false,
		"espalier.dev/confirm-leftovers":       false,
		"espalier.dev/confirm-lost-resources":  false,
		"espalier.dev/confirm-lost-backups":    false,
		"espalier.dev/confirm-lost-logs":       false,
		"espalier.dev/abandon-virtual-cluster": false,
		"espalier.dev/skipped-checks":          false,
		"confirmation.gardener.cloud/deletion": false,
		"espalier.dev/paused-until":            true,
		"team":                                 true,
	} {
		t.Run(annotation, func(t *testing.T) {
			g, garden, secret := NewWithT(t), gardenObject(nil), secretObject("a", "b", nil)
			garden.SetAnnotations(map[string]string{annotation: "true"})
			secret.SetAnnotations(map[string]string{annotation: "true"})
			_, found := stripped(garden).GetAnnotations()[annotation]
			g.Expect(found).To(Equal(kept))
			g.Expect(stripped(secret).GetAnnotations()).To(HaveKey(annotation), "only those of the Garden are requests")
		})
	}
}
