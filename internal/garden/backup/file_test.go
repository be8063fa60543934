package backup

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// marker is a part of the content of the Secret of example, which no error may have.
const marker = "TopSecretMarker"

// object returns an object with a name, and further fields.
func object(apiVersion, kind, namespace, name string, fields map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	maps.Copy(o.Object, fields)
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

func gardenObject(fields map[string]any) *unstructured.Unstructured {
	if fields == nil {
		fields = map[string]any{}
	}
	if fields["spec"] == nil {
		fields["spec"] = map[string]any{"virtualCluster": map[string]any{"gardener": map[string]any{"clusterIdentity": "one"}}}
	}
	return object("operator.gardener.cloud/v1alpha1", "Garden", "", "local", fields)
}

func secretObject(name, value string, labels map[string]string) *unstructured.Unstructured {
	o := object("v1", "Secret", "garden", name, map[string]any{"type": "Opaque", "data": map[string]any{"key": value}})
	o.SetLabels(labels)
	return o
}

func example() *Backup {
	return &Backup{
		Manifest: Manifest{
			OperatorVersion: "v1", Taken: metav1.NewTime(time.Date(2026, time.February, 28, 12, 0, 0, 0, time.UTC)),
			Garden:    GardenReference{Name: "local", Namespace: "garden", UID: "u-1", ClusterIdentity: "one"},
			Rotations: map[string]string{"etcdEncryptionKey": "Prepared"},
			Etcds:     []EtcdReference{{Name: "virtual-garden-etcd-main", Provider: "S3", Container: "bucket", Prefix: "p", Secret: "s"}},
		},
		Objects: []*unstructured.Unstructured{
			secretObject("ca", marker, nil),
			object("v1", "ConfigMap", "garden", "policy", map[string]any{"data": map[string]any{"a": "b"}}),
			gardenObject(map[string]any{"status": map[string]any{"observedGeneration": int64(3)}}),
		},
	}
}

func newIdentity(t *testing.T) *age.X25519Identity {
	t.Helper()
	identity, err := age.GenerateX25519Identity()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return identity
}

// encrypted returns the bytes of a file.
func encrypted(t *testing.T, b *Backup, identity *age.X25519Identity) []byte {
	t.Helper()
	var file bytes.Buffer
	NewWithT(t).Expect(b.Write(&file, []age.Recipient{identity.Recipient()})).To(Succeed())
	return file.Bytes()
}

// decrypted returns the archive in a file.
func decrypted(t *testing.T, file []byte, identity age.Identity) []byte {
	t.Helper()
	g := NewWithT(t)
	plain, err := age.Decrypt(bytes.NewReader(file), identity)
	g.Expect(err).NotTo(HaveOccurred())
	content, err := io.ReadAll(plain)
	g.Expect(err).NotTo(HaveOccurred())
	return content
}

func TestAFileHasWhatWasWritten(t *testing.T) {
	g, b := NewWithT(t), example()
	one, other := newIdentity(t), newIdentity(t)
	var file bytes.Buffer
	g.Expect(b.Write(&file, []age.Recipient{one.Recipient(), other.Recipient()})).To(Succeed())
	g.Expect(file.String()).To(HavePrefix("age-encryption.org/v1\n"))
	for _, each := range []age.Identity{one, other} {
		read, err := Read(bytes.NewReader(file.Bytes()), []age.Identity{newIdentity(t), each})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(read.Objects).To(BeComparableTo(b.Objects))
		g.Expect(read.Manifest.FormatVersion).To(Equal(1))
		g.Expect(read.Manifest.Garden).To(Equal(b.Manifest.Garden))
		g.Expect(read.Manifest.Etcds).To(Equal(b.Manifest.Etcds))
		g.Expect(read.Manifest.Objects).To(HaveLen(3))
	}
	g.Expect(decrypted(t, encrypted(t, b, one), one)).To(Equal(decrypted(t, file.Bytes(), one)), "the layout does not depend on chance")
}

func TestAFileCanBeReadWithoutThisProgram(t *testing.T) {
	g, identity := NewWithT(t), newIdentity(t)
	archive, parts := tar.NewReader(bytes.NewReader(decrypted(t, encrypted(t, example(), identity), identity))), map[string]string{}
	var names []string
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(header.Mode).To(BeEquivalentTo(0o600))
		content, err := io.ReadAll(archive)
		g.Expect(err).NotTo(HaveOccurred())
		names, parts[header.Name] = append(names, header.Name), string(content)
	}
	g.Expect(names).To(Equal([]string{
		"manifest.yaml", "objects/secret-ca.yaml", "objects/configmap-policy.yaml", "objects/garden-local.yaml", "manifest.yaml.sha256",
	}))
	g.Expect(parts["objects/configmap-policy.yaml"]).To(Equal(
		"apiVersion: v1\ndata:\n  a: b\nkind: ConfigMap\nmetadata:\n  name: policy\n  namespace: garden\n"))
	g.Expect(parts["manifest.yaml.sha256"]).To(MatchRegexp("^[0-9a-f]{64}  manifest.yaml\n$"))
	g.Expect(parts["manifest.yaml"]).To(HavePrefix("etcds:\n- container: bucket\n"))
}

// rewritten returns a file whose archive was changed. It is encrypted again, so that age does not detect the change.
func rewritten(t *testing.T, identity *age.X25519Identity, change func(name, content string) (string, string)) []byte {
	t.Helper()
	g := NewWithT(t)
	archive := tar.NewReader(bytes.NewReader(decrypted(t, encrypted(t, example(), identity), identity)))
	var file bytes.Buffer
	to, err := age.Encrypt(&file, identity.Recipient())
	g.Expect(err).NotTo(HaveOccurred())
	written := &archiveWriter{tar: tar.NewWriter(to)}
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		g.Expect(err).NotTo(HaveOccurred())
		content, err := io.ReadAll(archive)
		g.Expect(err).NotTo(HaveOccurred())
		if name, changed := change(header.Name, string(content)); name != "" {
			written.add(name, []byte(changed))
		}
	}
	g.Expect(errors.Join(written.err, written.tar.Close(), to.Close())).To(Succeed())
	return file.Bytes()
}

// replaced changes a text in a part of a file.
func replaced(part, text, by string) func(name, content string) (string, string) {
	return func(name, content string) (string, string) {
		if name == part {
			content = strings.ReplaceAll(content, text, by)
		}
		return name, content
	}
}

func TestBadFilesAreRefused(t *testing.T) {
	identity := newIdentity(t)
	file := encrypted(t, example(), identity)
	flipped := bytes.Clone(file)
	flipped[len(flipped)-100] ^= 1
	without := func(part string) func(name, content string) (string, string) {
		return func(name, content string) (string, string) {
			if name == part {
				name = ""
			}
			return name, content
		}
	}
	foreign := example()
	foreign.Objects[0] = object("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "", "admin", nil)
	elsewhere := example()
	elsewhere.Objects[0].SetNamespace("kube-system")
	two := example()
	two.Objects = append(two.Objects, two.Objects[2])
	disordered := example()
	disordered.Objects[0], disordered.Objects[2] = disordered.Objects[2], disordered.Objects[0]
	for name, tc := range map[string]struct {
		file []byte
		want string
	}{
		"nothing":         {file: nil, want: "it is no file of age, or it is truncated or damaged: "},
		"another file":    {file: []byte("apiVersion: v1\n"), want: "it is no file of age, or it is truncated or damaged: "},
		"only the header": {file: file[:100], want: "it is no file of age, or it is truncated or damaged: "},
		"without its end": {file: file[:len(file)-1], want: "it is truncated or damaged: "},
		"without much":    {file: file[:len(file)/2], want: "it is truncated or damaged: "},
		"a changed byte":  {file: flipped, want: "it is truncated or damaged: "},
		"of other people": {
			file: encrypted(t, example(), newIdentity(t)),
			want: "it is encrypted to other recipients: none of the identities can decrypt it",
		},
		"of a later release": {
			file: rewritten(t, identity, replaced("manifest.yaml", "formatVersion: 1", "formatVersion: 2\nnew: field")),
			want: "it has format 2, and this release reads formats up to 1: use the release that made it, or a later one",
		},
		"without a version": {
			file: rewritten(t, identity, replaced("manifest.yaml", "formatVersion: 1", "")),
			want: "its part manifest.yaml has no formatVersion",
		},
		"an unknown field": {
			file: rewritten(t, identity, replaced("manifest.yaml", "formatVersion: 1", "formatVersion: 1\nnew: field")),
			want: "read its part manifest.yaml: ",
		},
		"a changed object": {
			file: rewritten(t, identity, replaced("objects/secret-ca.yaml", marker, marker+"!")),
			want: "the checksum of its part objects/secret-ca.yaml is wrong",
		},
		"a changed manifest": {
			file: rewritten(t, identity, replaced("manifest.yaml", "container: bucket", "container: other")),
			want: "the checksum of its part manifest.yaml is wrong",
		},
		"another checksum": {
			file: rewritten(t, identity, replaced("manifest.yaml.sha256", "manifest.yaml", "other.yaml")),
			want: "the checksum of its part manifest.yaml is wrong",
		},
		"without a checksum": {
			file: rewritten(t, identity, without("manifest.yaml.sha256")),
			want: "it ends before its part manifest.yaml.sha256",
		},
		"without an object": {
			file: rewritten(t, identity, without("objects/configmap-policy.yaml")),
			want: `it has part "objects/garden-local.yaml" where objects/configmap-policy.yaml must be, so it is no backup of a Garden, ` +
				"or a damaged one",
		},
		"a foreign kind": {
			file: encrypted(t, foreign, identity),
			want: "its part objects/clusterrolebinding-admin.yaml has ClusterRoleBinding admin, which does not belong to a backup of Garden local",
		},
		"another namespace": {
			file: encrypted(t, elsewhere, identity),
			want: "its part objects/secret-ca.yaml has Secret kube-system/ca, which does not belong to a backup of Garden local",
		},
		"two Gardens":      {file: encrypted(t, two, identity), want: "it does not have exactly one Garden behind all other objects"},
		"in another order": {file: encrypted(t, disordered, identity), want: "it does not have exactly one Garden behind all other objects"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := Read(bytes.NewReader(tc.file), []age.Identity{identity})
			g.Expect(err).To(MatchError(HavePrefix(tc.want)))
			g.Expect(err.Error()).NotTo(ContainSubstring(marker))
		})
	}
}

// A backup that cannot be restored must not look like a success.
func TestFilesThatCouldNotBeReadAreNotWritten(t *testing.T) {
	const mebi = 1 << 20
	for name, tc := range map[string]struct {
		objects, size int
		want          string
	}{
		"a large object": {objects: 1, size: 4 * mebi},
		"an object that is too large": {
			objects: 1, size: 4*mebi + 1, want: "part objects/0.yaml has more than 4 MiB, and restore could not read it",
		},
		"many objects": {objects: 15, size: 4 * mebi},
		"too many objects": {
			objects: 16, size: 4 * mebi,
			want: "the archive has 64 MiB or more, and restore could not read it: remove Secrets or ConfigMaps that the Garden does not need",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var manifest Manifest
			var parts [][]byte
			for i := range tc.objects {
				manifest.Objects = append(manifest.Objects, Entry{File: "objects/" + strconv.Itoa(i) + ".yaml"})
				parts = append(parts, make([]byte, tc.size))
			}
			_, err := newArchive(manifest, parts)
			if tc.want != "" {
				NewWithT(t).Expect(err).To(MatchError(tc.want))
				return
			}
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
		})
	}
}

// Everybody who knows a recipient can write a file.
func FuzzArchive(f *testing.F) {
	f.Add([]byte("formatVersion: 1\n"), []byte("kind: Secret\n"))
	f.Fuzz(func(t *testing.T, manifest, object []byte) {
		var file bytes.Buffer
		w := &archiveWriter{tar: tar.NewWriter(&file)}
		w.add(manifestFile, manifest)
		w.add("objects/a.yaml", object)
		w.add(checksumFile, checksum(manifest))
		if err := errors.Join(w.err, w.tar.Close()); err != nil {
			t.Skip(err)
		}
		b, err := (&archiveReader{tar: tar.NewReader(&file)}).backup()
		if err == nil && len(b.Objects) == 0 {
			t.Error("a file without a Garden was read")
		}
	})
}

func TestAFileIsOnlyForItsOwner(t *testing.T) {
	g, dir := NewWithT(t), t.TempDir()
	name := filepath.Join(dir, "garden.age")
	sum, err := save(name, func(w io.Writer) error { _, err := io.WriteString(w, "a"); return err })
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(sum).To(Equal("ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"))
	info, err := os.Stat(name)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(info.Mode().Perm()).To(BeEquivalentTo(0o600))

	_, err = save(name, func(io.Writer) error { return nil })
	g.Expect(err).To(MatchError(name + " exists already, or cannot be written: name a new file"))
	_, err = save(filepath.Join(dir, "other"), func(io.Writer) error { return errors.New("full") })
	g.Expect(err).To(MatchError("write " + filepath.Join(dir, "other") + ": full"))
	left, err := os.ReadDir(dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(left).To(HaveLen(1), "a file that is not complete does not stay")
}
