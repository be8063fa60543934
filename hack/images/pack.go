package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// home is the folder in a packed image in which the user of the image may write.
const home = "home/nonroot"

// packed is an image of programs that are already built. Its file system contains these programs, /tmp, and a home folder for its user.
type packed struct {
	// Image is the name of the image with a tag. Archive is the file to write.
	Image   string `json:"image"`
	Archive string `json:"archive"`
	// Programs are the files of the programs on this machine, by their paths in the image.
	Programs   map[string]string `json:"programs"`
	Entrypoint []string          `json:"entrypoint"`
}

// packImages writes the images of a list in JSON.
func packImages(list io.Reader) error {
	var images []packed
	if err := json.NewDecoder(list).Decode(&images); err != nil {
		return fmt.Errorf("read list of images: %w", err)
	}
	for _, each := range images {
		if err := each.write(); err != nil {
			return fmt.Errorf("pack image %s: %w", each.Image, err)
		}
	}
	return nil
}

func (p packed) write() error {
	var files bytes.Buffer
	archive := tar.NewWriter(&files)
	if err := errors.Join(p.fill(archive), archive.Close()); err != nil {
		return err
	}
	// The layer is not compressed, because the archive stays on this machine: compressing it would take more time than it saves.
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(files.Bytes())), nil
	}, tarball.WithCompressionLevel(gzip.NoCompression))
	if err != nil {
		return fmt.Errorf("read layer: %w", err)
	}
	image, err := nothing(runtime.GOARCH)
	if err != nil {
		return err
	}
	if image, err = mutate.AppendLayers(image, layer); err != nil {
		return fmt.Errorf("add layer: %w", err)
	}
	if image, err = mutate.Config(image, v1.Config{Entrypoint: p.Entrypoint, User: user, Env: []string{"HOME=/" + home}}); err != nil {
		return fmt.Errorf("configure image: %w", err)
	}
	return writeArchive(p.Archive, image, p.Image)
}

// fill writes the files of the image.
func (p packed) fill(layer *tar.Writer) error {
	for _, folder := range []tar.Header{
		{Name: "tmp/", Mode: 0o1777}, {Name: "home/", Mode: 0o755}, {Name: home + "/", Mode: 0o755, Uid: 65532, Gid: 65532},
	} {
		folder.Typeflag = tar.TypeDir
		if err := layer.WriteHeader(&folder); err != nil {
			return err
		}
	}
	for _, path := range slices.Sorted(maps.Keys(p.Programs)) {
		if err := add(layer, p.Programs[path], strings.TrimPrefix(path, "/"), 0o755); err != nil {
			return err
		}
	}
	return nil
}
