package main

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/garden/golden"
	"github.com/espalier-dev/espalier/internal/garden/plan"
)

// variants are the objects of the variants of all components, by component/variant.
type variants map[string][]*unstructured.Unstructured

func (v variants) hasComponent(name string) bool {
	for each := range v {
		if path.Dir(each) == name {
			return true
		}
	}
	return false
}

// changes are the differences between two versions.
type changes struct {
	// restarts are the variants in which Pods are replaced, by the workload and the reason.
	restarts map[string]map[string][]string
	// counted is the number of variants of each component, apart are the variants that only one of the versions has, although both have the
	// component.
	counted map[string]int
	apart   []string
}

// compare returns the restarts that the second version causes.
func compare(before, after fs.FS) (*changes, error) {
	was, err := readVariants(before)
	if err != nil {
		return nil, err
	}
	is, err := readVariants(after)
	if err != nil {
		return nil, err
	}
	c := &changes{restarts: map[string]map[string][]string{}, counted: map[string]int{}}
	for _, name := range slices.Sorted(maps.Keys(is)) {
		former, compared := was[name]
		if !compared {
			if was.hasComponent(path.Dir(name)) {
				c.apart = append(c.apart, name+" is new")
			}
			continue
		}
		c.counted[path.Dir(name)]++
		for _, each := range plan.RestartsBetween(former, is[name]) {
			c.add(each, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if _, stays := is[name]; !stays && is.hasComponent(path.Dir(name)) {
			c.apart = append(c.apart, name+" is gone")
		}
	}
	return c, nil
}

func (c *changes) add(restart plan.Restart, variant string) {
	workload := fmt.Sprintf("%s `%s/%s`", restart.Kind, restart.Namespace, restart.Name)
	if c.restarts[workload] == nil {
		c.restarts[workload] = map[string][]string{}
	}
	for _, reason := range restart.Reasons {
		c.restarts[workload][reason] = append(c.restarts[workload][reason], variant)
	}
}

// markdown returns the list for users.
func (c *changes) markdown(base string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "## Pods that restart after an upgrade from %s\n\n", base)
	if len(c.restarts) == 0 {
		text.WriteString("None.\n")
	}
	for _, workload := range slices.Sorted(maps.Keys(c.restarts)) {
		fmt.Fprintf(&text, "- %s\n", workload)
		for _, reason := range slices.Sorted(maps.Keys(c.restarts[workload])) {
			fmt.Fprintf(&text, "  - %s%s\n", reason, c.where(c.restarts[workload][reason]))
		}
	}
	if len(c.apart) > 0 {
		fmt.Fprintf(&text, "\nNot compared: %s.\n", strings.Join(c.apart, ", "))
	}
	return text.String()
}

// where names the variants to which a reason applies; it is empty if these are all variants of the component.
func (c *changes) where(names []string) string {
	if len(names) == c.counted[path.Dir(names[0])] {
		return ""
	}
	short := make([]string, 0, len(names))
	for _, each := range names {
		short = append(short, path.Base(each))
	}
	return " (" + strings.Join(short, ", ") + ")"
}

// base finds the name of the variant to which the golden files of a component refer; see package goldentest.
var base = regexp.MustCompile(`goldentest\.Compare\(t, "([^"]*)"`)

// readVariants reads the golden files of all components.
func readVariants(components fs.FS) (variants, error) {
	all := variants{}
	files, err := fs.Glob(components, "*/testdata/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("find golden files: %w", err)
	}
	bases, err := readBases(components)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		component, variant := path.Dir(path.Dir(file)), strings.TrimSuffix(path.Base(file), ".yaml")
		refers, known := bases[component]
		if !known {
			return nil, fmt.Errorf("no test in %s calls goldentest.Compare with a literal base, so the golden file %s cannot be read",
				component, file)
		}
		objects, missing, err := readObjects(components, file)
		if err != nil {
			return nil, err
		}
		if refers != "" && refers != variant {
			whole, _, err := readObjects(components, path.Join(component, "testdata", refers+".yaml"))
			if err != nil {
				return nil, err
			}
			objects = completed(objects, whole, missing)
		}
		all[component+"/"+variant] = objects
	}
	return all, nil
}

// readBases returns the name of the base of each component; empty if each of its golden files is complete.
func readBases(components fs.FS) (map[string]string, error) {
	tests, err := fs.Glob(components, "*/*_test.go")
	if err != nil {
		return nil, fmt.Errorf("find tests: %w", err)
	}
	bases := map[string]string{}
	for _, test := range tests {
		content, err := fs.ReadFile(components, test)
		if err != nil {
			return nil, err
		}
		if found := base.FindSubmatch(content); found != nil {
			bases[path.Dir(test)] = string(found[1])
		}
	}
	return bases, nil
}

// readObjects reads a golden file. Missing are the identities of objects of the base that the variant does not have.
func readObjects(components fs.FS, file string) (objects []*unstructured.Unstructured, missing []string, err error) {
	content, err := fs.ReadFile(components, file)
	if err != nil {
		return nil, nil, err
	}
	if objects, missing, err = golden.Decode(content); err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", file, err)
	}
	return objects, missing, nil
}

// completed adds the objects of the base that a variant has, too.
func completed(own, whole []*unstructured.Unstructured, missing []string) []*unstructured.Unstructured {
	all := slices.Clone(own)
	for _, each := range whole {
		differs := slices.ContainsFunc(own, func(o *unstructured.Unstructured) bool { return golden.Identity(o) == golden.Identity(each) })
		if !differs && !slices.Contains(missing, golden.Identity(each)) {
			all = append(all, each)
		}
	}
	return all
}
