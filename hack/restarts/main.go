// Command restarts lists the workloads of a Garden whose Pods are replaced when this version of garden-operator takes the place of another
// one, in Markdown for release notes. It compares the golden files of the components in the working tree with the golden files of a commit:
// each variant of a component is a part of a Garden. `make restarts BASE=v1.0.0` runs it.
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"testing/fstest"
)

func main() {
	base := flag.String("base", "HEAD", "commit or tag to compare with")
	flag.Parse()
	if err := run(*base, os.Stdout); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// folder is the folder of all components, each of which has its golden files in testdata.
const folder = "internal/garden/component"

func run(base string, out io.Writer) error {
	before, err := read(base)
	if err != nil {
		return err
	}
	components, err := fs.Sub(os.DirFS("."), folder)
	if err != nil {
		return fmt.Errorf("open %s: %w", folder, err)
	}
	changes, err := compare(before, components)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, changes.markdown(base))
	return err
}

// read returns the folder of all components in a commit.
func read(commit string) (fs.FS, error) {
	var problem bytes.Buffer
	command := exec.Command("git", "archive", "--format=tar", commit+":"+folder)
	command.Stderr = &problem
	archive, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("read %s of commit %s: %w: %s", folder, commit, err, problem.String())
	}
	files := fstest.MapFS{}
	for part := tar.NewReader(bytes.NewReader(archive)); ; {
		header, err := part.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read %s of commit %s: %w", folder, commit, err)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		content, err := io.ReadAll(part)
		if err != nil {
			return nil, fmt.Errorf("read %s of commit %s: %w", header.Name, commit, err)
		}
		files[header.Name] = &fstest.MapFile{Data: content}
	}
}
