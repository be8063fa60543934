// Command document writes the generated tables of the documentation from declarations in Go, so that the content of each row is written in
// one place. hack/generate.sh runs it in the root of the repository. It replaces the text between two such lines in the pages of docs/:
//
//	<!-- begin generated: metrics internal/node -->
//	<!-- end generated -->
//
// The first word is the key of a function in writer.tables, the other words are the arguments of the function.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	if err := run("."); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	w := newWriter(os.DirFS(root))
	pages, err := w.pages()
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		after, err := w.fill(pages[name])
		if err != nil {
			return fmt.Errorf("write tables of %s: %w", name, err)
		}
		if after == pages[name] {
			continue
		}
		if err := os.WriteFile(filepath.Join(root, filepath.FromSlash(name)), []byte(after), 0o644); err != nil {
			return err
		}
	}
	return w.complete()
}

// writer writes the tables of all pages. Pages are processed in their order.
type writer struct {
	root fs.FS
	// shown contains the names of the metrics, and the keys of the constants and reasons, that a table shows.
	shown map[string]bool
	// described are the descriptions of settings; nil before the first table of settings.
	described *settings
}

func newWriter(root fs.FS) *writer {
	return &writer{root: root, shown: map[string]bool{}}
}

// tables returns the kinds of tables, each with the function that returns its lines.
func (w *writer) tables() map[string]func(arguments []string) (string, error) {
	return map[string]func([]string) (string, error){
		"binaries":   w.binaries,
		"checks":     w.checks,
		"conditions": w.conditions,
		"events":     w.events,
		"metrics":    w.metrics,
		"reasons":    w.reasons,
		"rights":     w.rights,
		"settings":   w.settings,
		"unrepaired": w.unrepaired,
		"webhooks":   w.webhooks,
	}
}

// complete returns an error for each declaration that must be in a table and is in none.
func (w *writer) complete() error {
	metrics, err := metricsBelow(w.root, "internal")
	var errs []error
	for _, each := range metrics {
		if !w.shown[each.name] {
			errs = append(errs, fmt.Errorf("no table shows the metric %s of %s", each.name, each.folder))
		}
	}
	return errors.Join(slices.Concat(errs, []error{err}, w.unshownConstants(), w.unshownFiles())...)
}

// pages returns the contents of the README and of the pages of the documentation, by their files.
func (w *writer) pages() (map[string]string, error) {
	pages := map[string]string{}
	for _, pattern := range []string{"README.md", "docs/*.md", "docs/reference/*.md"} {
		found, err := fs.Glob(w.root, pattern)
		if err != nil {
			return nil, err
		}
		for _, name := range found {
			content, err := fs.ReadFile(w.root, name)
			if err != nil {
				return nil, err
			}
			pages[name] = string(content)
		}
	}
	return pages, nil
}

const (
	begin = "<!-- begin generated: "
	end   = "<!-- end generated -->"
)

var block = regexp.MustCompile(`(?ms)^` + begin + `([^\n]*?) -->\n((?:[^\n]*\n)*?)` + end + `$`)

// fill returns the page with all its tables replaced.
func (w *writer) fill(page string) (string, error) {
	var errs []error
	blocks := 0
	filled := block.ReplaceAllStringFunc(page, func(old string) string {
		blocks++
		parts := block.FindStringSubmatch(old)
		words := strings.Fields(parts[1])
		table, known := w.tables()[words[0]]
		if !known || strings.Contains(parts[2], begin) {
			errs = append(errs, fmt.Errorf("unknown table, or no line %q after: %s", end, parts[1]))
			return old
		}
		text, err := table(words[1:])
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", parts[1], err))
			return old
		}
		return begin + parts[1] + " -->\n" + text + end
	})
	if strings.Count(page, begin) != blocks || strings.Count(page, end) != blocks {
		errs = append(errs, fmt.Errorf("each line %q… needs a line %q", begin, end))
	}
	return filled, errors.Join(errs...)
}

// table returns the lines of a table. A column that is empty in all rows is left out.
func table(head []string, rows [][]string) string {
	used := func(column int) bool {
		return slices.ContainsFunc(rows, func(row []string) bool { return row[column] != "" })
	}
	var text strings.Builder
	for _, row := range append([][]string{head, slices.Repeat([]string{"---"}, len(head))}, rows...) {
		text.WriteString("|")
		for column, cell := range row {
			switch {
			case !used(column):
			case cell == "":
				text.WriteString(" |")
			case cell == "---":
				text.WriteString("---|")
			default:
				text.WriteString(" " + strings.ReplaceAll(cell, "|", `\|`) + " |")
			}
		}
		text.WriteString("\n")
	}
	return text.String()
}

// code returns a word in a code span; "" stays empty.
func code(word string) string {
	if word == "" {
		return ""
	}
	return "`" + word + "`"
}
