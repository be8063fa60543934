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

// The annotations with which containerd and other tools name the image of an archive.
const (
	annotationName = "io.containerd.image.name"
	annotationTag  = "org.opencontainers.image.ref.name"
)

// writeArchive writes an image as the archive of an OCI layout under a name.
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
	names := map[string]string{annotationName: reference, annotationTag: reference}
	if err := written.AppendImage(image, layout.WithAnnotations(names)); err != nil {
		return fmt.Errorf("write layout: %w", err)
	}
	partial := file + ".new"
	if err := pack(partial, dir); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return os.Rename(partial, file)
}

// pack writes a folder as an archive. The same folder always gives the same archive.
func pack(file, dir string) error {
	return writeTar(file, func(archive *tar.Writer) error {
		return fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			return add(archive, filepath.Join(dir, name), name, 0o644)
		})
	})
}

// writeTar creates an archive with what fill adds to it.
func writeTar(file string, fill func(*tar.Writer) error) error {
	to, err := os.Create(file)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(to)
	return errors.Join(fill(archive), archive.Close(), to.Close())
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
