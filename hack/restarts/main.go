// Command restarts lists the workloads of a Garden whose Pods are replaced when this version of garden-operator takes the place of another
// one, in Markdown for release notes. It compares the golden files of the components in the working tree with the golden files of a commit:
// each variant of a component is a part of a Garden. `make restarts` runs it, and `make release-notes` prints the whole notes of a release.
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
	"strings"
	"testing/fstest"
)

func main() {
	base := flag.String("base", "", "commit or tag to compare with; empty: the last release or, if there is none, the parent of the commit")
	notes := flag.Bool("notes", false, "print the notes of the next release: what "+changelog+" says about it, and the list")
	flag.Parse()
	if err := run(*base, *notes, os.Stdout); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

const (
	// folder is the folder of all components, each of which has its golden files in testdata.
	folder = "internal/garden/component"

	changelog = "CHANGELOG.md"
	// unreleased is the title of the section of the next release.
	unreleased = "## Not released\n"
)

func run(base string, notes bool, out io.Writer) error {
	if base == "" {
		base = former()
	}
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
	text := changes.markdown(base)
	if notes {
		content, failure := os.ReadFile(changelog)
		if failure != nil {
			return failure
		}
		section, failure := sectionOf(string(content))
		if failure != nil {
			return failure
		}
		text = section + "\n" + text
	}
	_, err = io.WriteString(out, text)
	return err
}

// sectionOf returns the section of the next release in a change log, without its title.
func sectionOf(log string) (string, error) {
	_, section, found := strings.Cut(log, unreleased)
	if !found {
		return "", fmt.Errorf("%s has no section %q", changelog, strings.TrimSpace(unreleased))
	}
	section, _, _ = strings.Cut(section, "\n## ")
	return strings.TrimSpace(section) + "\n", nil
}

// former returns the tag of the last release before the commit of the working tree or, if there is none, the parent of the commit.
func former() string {
	tag, err := exec.Command("git", "describe", "--tags", "--abbrev=0", "--match=v*", "HEAD^").Output()
	if err != nil { // there is no tag
		return "HEAD^"
	}
	return strings.TrimSpace(string(tag))
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
