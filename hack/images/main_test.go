package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// small is the smallest program of the repository.
const small = "test/local/node/pause"

// made builds the image of the small program, and returns the output folder.
func made(t *testing.T, arguments ...string) string {
	t.Helper()
	out := t.TempDir()
	arguments = append([]string{"-root", "../..", "-out", out, "-version", "v1.2.3"}, append(arguments, small)...)
	if err := run(t.Context(), arguments, io.Discard); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTwoBuildsAreTheSameByteByByte(t *testing.T) {
	first, second := made(t), made(t)
	for _, name := range []string{"pause.tar", "pause.spdx.json"} {
		if a, b := content(t, first, name), content(t, second, name); len(a) == 0 || !bytes.Equal(a, b) {
			t.Errorf("%s: %d and %d bytes are not the same", name, len(a), len(b))
		}
	}
	if other := made(t, "-version", "v1.2.4"); bytes.Equal(content(t, first, "pause.tar"), content(t, other, "pause.tar")) {
		t.Error("another version makes another image")
	}
}

func content(t *testing.T, elements ...string) []byte {
	t.Helper()
	found, err := os.ReadFile(filepath.Join(elements...))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestAnImageHoldsABinaryAndNothingElse(t *testing.T) {
	image, name := open(t, filepath.Join(made(t), "pause.tar"))
	if name != "espalier.local/pause:v1.2.3" {
		t.Errorf("its name is %q", name)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != "65532:65532" {
		t.Errorf("its user is %q", config.Config.User)
	}
	if want := []string{"/ko-app/pause"}; !reflect.DeepEqual(config.Config.Entrypoint, want) {
		t.Errorf("its entrypoint is %q", config.Config.Entrypoint)
	}
	if got, want := files(t, image), []string{"/ko-app/pause"}; !reflect.DeepEqual(got, want) {
		t.Errorf("it holds %q, not %q", got, want)
	}
}

// The binaries are in one folder, where the entrypoint looks for the others.
func TestTheImageOfTheResourceManagerContainsItsPrograms(t *testing.T) {
	out := t.TempDir()
	const binary = "gardener-resource-manager"
	if err := run(t.Context(), []string{"-root", "../..", "-out", out, binary}, io.Discard); err != nil {
		t.Fatal(err)
	}
	image, name := open(t, filepath.Join(out, binary+".tar"))
	if name != "espalier.local/gardener-resource-manager:v0.0.0-dev" {
		t.Errorf("its name is %q", name)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"/ko-app/" + binary}; !reflect.DeepEqual(config.Config.Entrypoint, want) {
		t.Errorf("its entrypoint is %q", config.Config.Entrypoint)
	}
	want := []string{"/ko-app/" + binary}
	for each := range strings.FieldsSeq(string(content(t, "../../test/gardener-resource-manager/programs"))) {
		want = append(want, "/ko-app/"+each)
		content(t, out, each+".spdx.json")
	}
	if got := files(t, image); len(want) < 2 || !reflect.DeepEqual(got, want) {
		t.Errorf("it holds %q, not %q", got, want)
	}
}

// open reads an archive, and the name of the image in it.
func open(t *testing.T, archive string) (v1.Image, string) {
	t.Helper()
	dir := t.TempDir()
	each(t, bytes.NewReader(content(t, archive)), func(header *tar.Header, in io.Reader) {
		data, err := io.ReadAll(in)
		to := filepath.Join(dir, filepath.FromSlash(header.Name))
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, data, 0o600)); err != nil {
			t.Fatal(err)
		}
	})
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 {
		t.Fatalf("there are %d images", len(manifest.Manifests))
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return image, manifest.Manifests[0].Annotations["io.containerd.image.name"]
}

// files lists the files in all layers of an image, without folders. It fails if a file is writable.
func files(t *testing.T, image v1.Image) []string {
	t.Helper()
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, layer := range layers {
		unpacked, err := layer.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		each(t, unpacked, func(header *tar.Header, _ io.Reader) {
			if header.Typeflag == tar.TypeDir {
				return
			}
			names = append(names, header.Name)
			if header.Mode&0o222 != 0 {
				t.Errorf("%s has the mode %o", header.Name, header.Mode)
			}
		})
	}
	return names
}

func each(t *testing.T, archive io.Reader, do func(*tar.Header, io.Reader)) {
	t.Helper()
	reader := tar.NewReader(archive)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		do(header, reader)
	}
}

func TestPackedImageHasPrograms(t *testing.T) {
	dir := t.TempDir()
	archive, program := filepath.Join(dir, "a.tar"), filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("a"), 0o700); err != nil {
		t.Fatal(err)
	}
	list := `[{"image": "espalier.local/a:v1", "archive": "` + archive + `", "programs": {"/bin/sh": "` + program + `"}, "entrypoint": ["/bin/sh"]}]`
	if err := packImages(strings.NewReader(list)); err != nil {
		t.Fatal(err)
	}
	image, name := open(t, archive)
	if name != "espalier.local/a:v1" {
		t.Errorf("its name is %q", name)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"/bin/sh"}; !reflect.DeepEqual(config.Config.Entrypoint, want) {
		t.Errorf("its entrypoint is %q", config.Config.Entrypoint)
	}
	found := map[string]int64{}
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	each(t, content, func(header *tar.Header, _ io.Reader) { found[header.Name] = header.Mode })
	if want := map[string]int64{"bin/sh": 0o755, "tmp/": 0o1777, "home/": 0o755, "home/nonroot/": 0o755}; !reflect.DeepEqual(found, want) {
		t.Errorf("it holds %v", found)
	}
}
