package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// writeArchive writes an image under a name as an archive in OCI layout.
func writeArchive(file string, image v1.Image, reference string) error {
	dir, err := os.MkdirTemp(filepath.Dir(file), ".layout-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	written, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fmt.Errorf("write layout: %w", err)
	}
	// containerd and other tools read the name of the image in an archive from these annotations.
	names := map[string]string{"io.containerd.image.name": reference, "org.opencontainers.image.ref.name": reference}
	if err := written.AppendImage(image, layout.WithAnnotations(names)); err != nil {
		return fmt.Errorf("write layout: %w", err)
	}
	partial, err := os.Create(file + ".new")
	if err != nil {
		return err
	}
	archive := tar.NewWriter(partial)
	// The order of the files is fixed, so that the same folder always gives the same archive.
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		return add(archive, filepath.Join(dir, name), name, 0o644)
	})
	if err := errors.Join(err, archive.Close(), partial.Close()); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return os.Rename(partial.Name(), file)
}

func add(archive *tar.Writer, path, name string, mode int64) error {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	info, err := from.Stat()
	if err != nil {
		return err
	}
	header := &tar.Header{Name: name, Mode: mode, Size: info.Size(), Typeflag: tar.TypeReg, Format: tar.FormatPAX}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(archive, from)
	return err
}
