package backup

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"filippo.io/age"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// A file is a tar archive that is encrypted with age, so that people can read it without this program:
//
//	manifest.yaml          the Manifest, with the digest of each object
//	objects/….yaml         the objects, in the order of the manifest
//	manifest.yaml.sha256   the digest of manifest.yaml, in the format of sha256sum
//
// age detects every change and every missing part. The digests also show which object is wrong. The last part shows that the program wrote
// the file to the end.
const (
	manifestFile = "manifest.yaml"
	checksumFile = manifestFile + ".sha256"
)

// formatVersion is the version of the format that this release writes, and the latest one that it reads.
const formatVersion = 1

// maxPart and maxFile limit the bytes of an object and of the archive. A restoration must not trust the size of a file: every user who
// knows the public key of a recipient can make a file that this recipient can decrypt. The API server accepts objects of at most 1.5 MiB.
const (
	maxPart = 4 << 20
	maxFile = 64 << 20
)

// Write encrypts the backup to the recipients. It computes the entries of the manifest. It writes nothing if Read would refuse the file.
func (b *Backup) Write(w io.Writer, recipients []age.Recipient) error {
	parts, manifest := make([][]byte, len(b.Objects)), b.Manifest
	manifest.FormatVersion, manifest.Objects = formatVersion, make([]Entry, len(b.Objects))
	for i, each := range b.Objects {
		content, err := yaml.Marshal(each.Object)
		if err != nil {
			return fmt.Errorf("encode %s", describe(each)) // the cause could have content
		}
		parts[i], manifest.Objects[i] = content, entryOf(each, content)
	}
	archive, err := newArchive(manifest, parts)
	if err != nil {
		return err
	}
	encrypted, err := age.Encrypt(w, recipients...)
	if err != nil {
		return fmt.Errorf("encrypt to recipients: %w", err)
	}
	if _, err := encrypted.Write(archive); err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	if err := encrypted.Close(); err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	return nil
}

// newArchive returns an archive of a manifest and the parts with its objects. It fails if Read would refuse the archive as too large.
func newArchive(manifest Manifest, parts [][]byte) ([]byte, error) {
	head, err := yaml.Marshal(manifest)
	if err != nil {
		return nil, fmt.Errorf("encode manifest: %w", err)
	}
	var plain bytes.Buffer
	archive := &archiveWriter{tar: tar.NewWriter(&plain)}
	archive.add(manifestFile, head)
	for i, each := range manifest.Objects {
		archive.add(each.File, parts[i])
	}
	archive.add(checksumFile, checksum(head))
	if archive.err != nil {
		return nil, archive.err
	}
	if err := archive.tar.Close(); err != nil {
		return nil, fmt.Errorf("write archive: %w", err)
	}
	if plain.Len() >= maxFile {
		return nil, fmt.Errorf("the archive has %d MiB or more, and restore could not read it: remove Secrets or ConfigMaps that the Garden "+
			"does not need", maxFile>>20)
	}
	return plain.Bytes(), nil
}

// archiveWriter writes parts of an archive until the first error.
type archiveWriter struct {
	tar *tar.Writer
	err error
}

func (a *archiveWriter) add(name string, content []byte) {
	if a.err == nil && len(content) > maxPart {
		a.err = fmt.Errorf("part %s has more than %d MiB, and restore could not read it", name, maxPart>>20)
	}
	if a.err == nil {
		a.err = a.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content)), Format: tar.FormatPAX})
	}
	if a.err == nil {
		_, a.err = a.tar.Write(content)
	}
}

func entryOf(o *unstructured.Unstructured, content []byte) Entry {
	return Entry{
		File:       "objects/" + strings.ToLower(o.GetKind()) + "-" + o.GetName() + ".yaml",
		APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName(), SHA256: digest(content),
	}
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func checksum(manifest []byte) []byte { return []byte(digest(manifest) + "  " + manifestFile + "\n") }

// Read decrypts a file with one of the identities, and checks all of it. Errors do not contain content of objects.
func Read(r io.Reader, identities []age.Identity) (*Backup, error) {
	decrypted, err := age.Decrypt(r, identities...)
	if _, others := errors.AsType[*age.NoIdentityMatchError](err); others {
		return nil, errors.New("it is encrypted to other recipients: none of the identities can decrypt it")
	}
	if err != nil {
		return nil, fmt.Errorf("it is no file of age, or it is truncated or damaged: %w", err)
	}
	limited := &io.LimitedReader{R: decrypted, N: maxFile}
	archive := &archiveReader{tar: tar.NewReader(limited)}
	b, err := archive.backup()
	if err != nil {
		return nil, err
	}
	// Only the end of the stream shows that it was not truncated.
	if _, err := io.Copy(io.Discard, limited); err != nil {
		return nil, damaged(err)
	}
	if limited.N == 0 {
		return nil, fmt.Errorf("it has more than %d MiB", maxFile>>20)
	}
	return b, nil
}

func damaged(err error) error { return fmt.Errorf("it is truncated or damaged: %w", err) }

// archiveReader reads the parts of an archive.
type archiveReader struct{ tar *tar.Reader }

// next reads the next part, whose name must be the argument.
func (a *archiveReader) next(name string) ([]byte, error) {
	header, err := a.tar.Next()
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("it ends before its part %s", name)
	case err != nil:
		return nil, damaged(err)
	case header.Name != name || header.Typeflag != tar.TypeReg:
		return nil, fmt.Errorf("it has part %q where %s must be, so it is no backup of a Garden, or a damaged one", header.Name, name)
	case header.Size > maxPart:
		return nil, fmt.Errorf("its part %s has more than %d MiB", name, maxPart>>20)
	}
	content, err := io.ReadAll(a.tar)
	if err != nil {
		return nil, damaged(err)
	}
	return content, nil
}

func (a *archiveReader) backup() (*Backup, error) {
	head, err := a.next(manifestFile)
	if err != nil {
		return nil, err
	}
	b := &Backup{}
	if b.Manifest, err = parseManifest(head); err != nil {
		return nil, err
	}
	for _, each := range b.Manifest.Objects {
		content, failure := a.next(each.File)
		if failure != nil {
			return nil, failure
		}
		o, failure := each.parse(content, b.Manifest.Garden)
		if failure != nil {
			return nil, failure
		}
		b.Objects = append(b.Objects, o)
	}
	sum, err := a.next(checksumFile)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(sum, checksum(head)) {
		return nil, fmt.Errorf("the checksum of its part %s is wrong", manifestFile)
	}
	return b, checkOrder(b.Objects)
}

// parseManifest reads a manifest. It first reads the version of the format, and refuses a later version. It also refuses fields that this
// format does not have.
func parseManifest(content []byte) (m Manifest, err error) {
	var version struct {
		FormatVersion int `json:"formatVersion"`
	}
	if err := yaml.Unmarshal(content, &version); err != nil {
		return m, fmt.Errorf("read its part %s: %w", manifestFile, err)
	}
	if version.FormatVersion > formatVersion {
		return m, fmt.Errorf("it has format %d, and this release reads formats up to %d: use the release that made it, or a later one",
			version.FormatVersion, formatVersion)
	}
	if version.FormatVersion < 1 {
		return m, fmt.Errorf("its part %s has no formatVersion", manifestFile)
	}
	if err := yaml.UnmarshalStrict(content, &m); err != nil {
		return m, fmt.Errorf("read its part %s: %w", manifestFile, err)
	}
	return m, nil
}

// parse decodes the content of an entry. It returns an error if the content is not the object that the entry describes, or if the object
// cannot belong to a backup of the given Garden.
func (e Entry) parse(content []byte, of GardenReference) (*unstructured.Unstructured, error) {
	if digest(content) != e.SHA256 {
		return nil, fmt.Errorf("the checksum of its part %s is wrong", e.File)
	}
	o := &unstructured.Unstructured{}
	encoded, err := yaml.YAMLToJSON(content)
	if err != nil || o.UnmarshalJSON(encoded) != nil { // the cause could have content
		return nil, fmt.Errorf("its part %s is malformed", e.File)
	}
	found := entryOf(o, content)
	found.File = e.File
	if found != e {
		return nil, fmt.Errorf("its part %s is not the object that the manifest names", e.File)
	}
	kind, namespace := o.GroupVersionKind(), ""
	if kind == secretKind || kind == configMapKind {
		namespace = of.Namespace
	}
	if !slices.Contains(kinds, kind) || o.GetNamespace() != namespace || kind == gardenKind && o.GetName() != of.Name {
		return nil, fmt.Errorf("its part %s has %s, which does not belong to a backup of Garden %s", e.File, describe(o), of.Name)
	}
	return o, nil
}

// checkOrder fails unless the objects are in the order of kinds, and the last one is the only Garden.
func checkOrder(objects []*unstructured.Unstructured) error {
	gardens := 0
	for _, each := range objects {
		if each.GroupVersionKind() == gardenKind {
			gardens++
		}
	}
	if gardens != 1 || !slices.IsSortedFunc(objects, compare) {
		return errors.New("it does not have exactly one Garden behind all other objects")
	}
	return nil
}

func compare(a, b *unstructured.Unstructured) int {
	rank := func(o *unstructured.Unstructured) int {
		return slices.IndexFunc(kinds, func(k schema.GroupVersionKind) bool { return k == o.GroupVersionKind() })
	}
	if difference := rank(a) - rank(b); difference != 0 {
		return difference
	}
	return strings.Compare(a.GetName(), b.GetName())
}
