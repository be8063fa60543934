package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// section is a section of a configuration in the classic format: a kind, and keys with values. Keys are in lower case.
type section struct {
	kind string
	keys map[string]string
	// all are the values of keys that a section has several times.
	all map[string][]string
}

func (s section) is(kind, name string) bool { return s.kind == kind && s.keys["name"] == name }

// parse returns the sections of a text in the classic format.
func parse(text string) ([]section, error) {
	var sections []section
	for number, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "@") {
			continue
		}
		if strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]") {
			sections = append(sections, section{
				kind: strings.ToLower(line[1 : len(line)-1]), keys: map[string]string{}, all: map[string][]string{},
			})
			continue
		}
		if len(sections) == 0 {
			return nil, fmt.Errorf("line %d is in no section: %q", number+1, line)
		}
		key, value, _ := strings.Cut(line, " ")
		last := sections[len(sections)-1]
		key, value = strings.ToLower(key), strings.TrimSpace(value)
		last.keys[key] = value
		last.all[key] = append(last.all[key], value)
	}
	return sections, nil
}

// configuration is a configuration with all parts that garden-operator promises.
type configuration struct {
	service section
	tail    section
	filters []section
	outputs []section
	parsers map[string]section
}

// load reads the configuration of the file, and the parsers in the file that it names.
func load(file string) (configuration, error) {
	c := configuration{parsers: map[string]section{}}
	content, err := os.ReadFile(file) //nolint:gosec // the file that the container is started with
	if err != nil {
		return c, fmt.Errorf("read configuration: %w", err)
	}
	sections, err := parse(string(content))
	if err != nil {
		return c, fmt.Errorf("read configuration: %w", err)
	}
	for _, each := range sections {
		switch each.kind {
		case "service":
			c.service = each
		case "filter":
			c.filters = append(c.filters, each)
		case "output":
			c.outputs = append(c.outputs, each)
		}
		if each.is("input", "tail") {
			c.tail = each
		}
	}
	for _, each := range c.service.all["parsers_file"] {
		err := c.addParsers(inFolder(file, each))
		if err != nil {
			return c, err
		}
	}
	return c, c.check(sections)
}

func inFolder(of, file string) string {
	if filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(filepath.Dir(of), file)
}

func (c configuration) addParsers(file string) error {
	content, err := os.ReadFile(file) //nolint:gosec // a file that the configuration names
	if err != nil {
		return fmt.Errorf("read parsers: %w", err)
	}
	sections, err := parse(string(content))
	if err != nil {
		return fmt.Errorf("read parsers: %w", err)
	}
	for _, each := range sections {
		c.parsers[each.keys["name"]] = each
	}
	return nil
}

// check returns an error that names the promised parts which the configuration does not have.
func (c configuration) check(sections []section) error {
	var missing []string
	need := func(part string, present bool) {
		if !present {
			missing = append(missing, part)
		}
	}
	contains := func(kind, name string, keys map[string]string) bool {
		return slices.ContainsFunc(sections, func(s section) bool {
			if !s.is(kind, name) {
				return false
			}
			for key, value := range keys {
				if s.keys[key] != value {
					return false
				}
			}
			return true
		})
	}
	need("the port of the HTTP server", c.service.keys["http_port"] != "")
	need("an input of the files of containers", contains("input", "tail", map[string]string{
		"path": "/var/log/containers/*.log", "tag": "kubernetes.*",
	}))
	need("a file for the positions of the input tail", c.tail.keys["db"] != "")
	for _, unit := range []string{"kubelet", "containerd"} {
		need("an input of unit "+unit, contains("input", "systemd", map[string]string{
			"tag": "systemd." + unit, "systemd_filter": "_SYSTEMD_UNIT=" + unit + ".service",
		}))
	}
	for _, match := range []string{"kubernetes.*", "systemd.*"} {
		need("a lua filter for "+match, contains("filter", "lua", map[string]string{"match": match}))
		need("an output for "+match, slices.ContainsFunc(c.outputs, func(s section) bool {
			return s.is("output", "opentelemetry") && s.keys["match"] == match && s.keys["host"] != "" && s.keys["port"] != "" &&
				s.keys["logs_uri"] != ""
		}))
	}
	for _, each := range append(c.filters, c.tail) {
		if name := each.keys["parser"]; name != "" {
			_, found := c.parsers[name]
			need("parser "+name, found)
		}
		if script := each.keys["script"]; script != "" {
			_, err := os.Stat(script)
			need("script "+script, err == nil)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the configuration misses: %s", strings.Join(missing, "; "))
	}
	return nil
}

// seconds returns how long the program keeps records before it sends them.
func (c configuration) seconds() int {
	if found, err := strconv.Atoi(c.service.keys["flush"]); err == nil && found > 0 {
		return found
	}
	return 1
}

// matches reports whether a tag matches a pattern, in which * stands for any text.
func matches(pattern, tag string) bool {
	return regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*") + "$").MatchString(tag)
}
