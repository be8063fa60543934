// Package compare compares the objects that two programs have created for the same purpose, field by field, and keeps the differences in a
// file with a reason for each.
package compare

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Objects are the fields of objects by "Kind namespace/name".
type Objects map[string]Fields

// Fields are the values of the fields of an object, as JSON, by their paths.
type Fields map[string]string

// managers is the path under which Fields contains the managers of an object's fields.
const managers = "managers"

// volatile are the fields of metadata that differ between any two objects. unique are fields of this kind in other places.
var (
	volatile = []string{"generation", "creationTimestamp", "deletionTimestamp", "selfLink", "managedFields"}
	unique   = []string{"uid", "resourceVersion", "clusterIP", "clusterIPs"}
)

// replacements are the parts of texts that differ between any two runs of the same program: times, hashes, and certificates.
var replacements = []struct {
	pattern *regexp.Regexp
	by      string
}{
	{regexp.MustCompile(`(?s)-{5}BEGIN ([A-Z ]+)-{5}.*?-{5}END [A-Z ]+-{5}\n?`), "<$1>"},
	{regexp.MustCompile(`LS0tLS1CRUdJTi[A-Za-z0-9+/=]+`), "<PEM>"},
	{regexp.MustCompile(`\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})`), "<time>"},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "<uid>"},
	{regexp.MustCompile(`\b[0-9a-f]{64}\b`), "<checksum>"},
	{regexp.MustCompile(`\b[0-9a-f]{16}\b`), "<hash>"},
	{regexp.MustCompile(`\b[0-9a-f]{8}\b`), "<hash>"},
}

// Add adds an object. Objects whose names differ only in parts that are not compared are numbered. names are further texts that differ
// between the runs, such as generated names, with their replacements.
func (o Objects) Add(object *unstructured.Unstructured, names map[string]string) {
	text := func(s string) string {
		for _, name := range slices.SortedFunc(maps.Keys(names), func(a, b string) int { return len(b) - len(a) }) {
			s = strings.ReplaceAll(s, name, names[name])
		}
		for _, each := range replacements {
			s = each.pattern.ReplaceAllString(s, each.by)
		}
		return s
	}
	fields := Fields{managers: managersOf(object)}
	content := object.DeepCopy().Object
	if metadata, isObject := content["metadata"].(map[string]any); isObject {
		for _, field := range volatile {
			delete(metadata, field)
		}
	}
	if object.GetKind() == "Secret" {
		hideValues(content)
	}
	fields.add("", content, text)
	name := text(object.GetKind() + " " + strings.TrimPrefix(object.GetNamespace()+"/", "/") + object.GetName())
	key := name
	for i := 2; o[key] != nil; i++ {
		key = fmt.Sprintf("%s #%d", name, i)
	}
	o[key] = fields
}

// hideValues replaces the values of a Secret, because they are random.
func hideValues(secret map[string]any) {
	data, _ := secret["data"].(map[string]any)
	for key := range data {
		data[key] = "<secret>"
	}
}

// managersOf returns which programs have written an object.
func managersOf(object *unstructured.Unstructured) string {
	entries := object.GetManagedFields()
	found := make([]string, 0, len(entries))
	for _, each := range entries {
		found = append(found, strings.TrimSuffix(each.Manager+" "+string(each.Operation)+" "+each.Subresource, " "))
	}
	slices.Sort(found)
	return strings.Join(slices.Compact(found), ", ")
}

func (f Fields) add(path string, value any, text func(string) string) {
	switch v := value.(type) {
	case map[string]any:
		if len(v) == 0 && path != "" {
			f[path] = "{}"
		}
		f.addMap(path, v, text)
	case []any:
		if len(v) == 0 {
			f[path] = "[]"
		}
		for i, each := range v {
			at := strconv.Itoa(i)
			if item, isMap := each.(map[string]any); isMap && strings.HasSuffix(path, "conditions") {
				at = fmt.Sprint(item["type"]) // the order of conditions has no meaning
			}
			f.add(path+"["+at+"]", each, text)
		}
	case string:
		if document := (map[string]any{}); strings.Contains(v, "\n") && yaml.Unmarshal([]byte(v), &document) == nil {
			f.add(path, document, text)
			return
		}
		f[path] = text(v)
	default:
		encoded, err := json.Marshal(v)
		if err != nil { // the value was decoded from JSON
			encoded = []byte(err.Error())
		}
		f[path] = string(encoded)
	}
}

// addMap adds the fields of a map. Fields whose names differ only in parts that are not compared are numbered in the order of their values.
func (f Fields) addMap(path string, values map[string]any, text func(string) string) {
	number := map[string]int{}
	for _, original := range slices.SortedFunc(maps.Keys(values), func(a, b string) int {
		return cmp.Or(strings.Compare(fmt.Sprint(values[a]), fmt.Sprint(values[b])), strings.Compare(a, b))
	}) {
		if slices.Contains(unique, original) {
			continue
		}
		name := text(original)
		number[name]++
		if of := number[name]; of > 1 {
			name = fmt.Sprintf("%s #%d", name, of)
		}
		if strings.ContainsAny(name, "./") {
			name = "[" + name + "]"
		}
		f.add(strings.TrimPrefix(path+"."+name, "."), values[original], text)
	}
}
