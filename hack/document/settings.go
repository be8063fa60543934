package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"reflect"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/config"
)

// configuration is the type of the content of a configuration file.
type configuration interface{ Default() }

// files returns an empty value of each configuration type.
func files() []configuration {
	return []configuration{
		&config.ResourceManagerConfiguration{}, &config.ControllerManagerConfiguration{}, &config.OperatorConfiguration{},
		&config.GardenletConfiguration{},
	}
}

// settings are the descriptions of all settings, from the comments of types and fields in package config.
type settings struct {
	// comments contains the comments of types by their names, and of fields by "Type.Field".
	comments map[string]string
	// names contains the name in YAML of each field that is not a section.
	names map[string]string
	// tables contains, for each type of section, the path of the first table or row that shows its fields.
	tables map[reflect.Type]string
	// sections contains the sections with a table of their own, as "<type of the file> <path>".
	sections map[string]bool
	// undescribed are the fields that have no comment.
	undescribed []string
}

// settings returns the table of the settings in a section. The arguments are the type of a file and the path of the section; without a
// path, the section is the whole file. A section that has a table of its own is one row. If two sections have the same type, only one table
// shows the fields.
func (w *writer) settings(arguments []string) (string, error) {
	path := strings.Join(arguments[1:], "")
	if w.described == nil {
		described, err := w.describeSettings()
		if err != nil {
			return "", err
		}
		w.described = described
	}
	plain, full := files(), files()
	i := slices.IndexFunc(plain, func(c configuration) bool { return reflect.TypeOf(c).Elem().Name() == arguments[0] })
	if i < 0 {
		return "", fmt.Errorf("%s is not the type of a configuration file", arguments[0])
	}
	enable(reflect.ValueOf(full[i]).Elem())
	plain[i].Default()
	full[i].Default()
	enabled := at(reflect.ValueOf(full[i]).Elem(), path)
	if !enabled.IsValid() {
		return "", fmt.Errorf("%s has no section %q", arguments[0], path)
	}
	rows := w.described.rows(section{file: arguments[0], path: path}, at(reflect.ValueOf(plain[i]).Elem(), path), enabled)
	if len(w.described.undescribed) > 0 {
		return "", fmt.Errorf("no comment describes %s", strings.Join(w.described.undescribed, ", "))
	}
	return table([]string{"setting", "default", "meaning"}, rows), nil
}

// unshownFiles returns an error for each type of a configuration file without a table, if another type has one.
func (w *writer) unshownFiles() []error {
	var errs []error
	for _, file := range files() {
		if name := reflect.TypeOf(file).Elem().Name(); w.described != nil && !w.described.sections[name+" "] {
			errs = append(errs, fmt.Errorf("no table shows the settings of %s", name))
		}
	}
	return errs
}

// describeSettings reads the comments, and finds out which sections have tables on the pages.
func (w *writer) describeSettings() (*settings, error) {
	s := &settings{comments: map[string]string{}, names: map[string]string{}, tables: map[reflect.Type]string{}, sections: map[string]bool{}}
	parsed, err := parse(w.root, "internal/config")
	if err != nil {
		return nil, err
	}
	for _, each := range parsed {
		for _, declaration := range each.syntax.Decls {
			general, ok := declaration.(*ast.GenDecl)
			if !ok || len(general.Specs) != 1 {
				continue
			}
			if spec, ok := general.Specs[0].(*ast.TypeSpec); ok {
				s.describe(spec, general.Doc)
			}
		}
	}
	pages, err := w.pages()
	for _, page := range pages {
		for _, match := range regexp.MustCompile(begin+`settings (\w+) ?(\S*) -->`).FindAllStringSubmatch(page, -1) {
			s.claim(match[1], match[2])
		}
	}
	return s, err
}

// claim records that a section has a table of its own.
func (s *settings) claim(file, path string) {
	s.sections[file+" "+path] = true
	for _, each := range files() {
		value := reflect.ValueOf(each).Elem()
		if section := at(value, path); value.Type().Name() == file && path != "" && section.IsValid() {
			s.tables[section.Type()] = path
		}
	}
}

func (s *settings) describe(spec *ast.TypeSpec, comment *ast.CommentGroup) {
	s.comments[spec.Name.Name] = firstParagraph(comment.Text())
	fields, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, field := range fields.Fields.List {
		if len(field.Names) == 1 {
			s.comments[spec.Name.Name+"."+field.Names[0].Name] = firstParagraph(field.Doc.Text())
		}
	}
}

// firstParagraph returns the part of a comment that is for users, which is its first paragraph, in one line.
func firstParagraph(comment string) string {
	first, _, _ := strings.Cut(comment, "\n\n")
	return oneLine(first)
}

// section is a section of a configuration file. The rows of its table name fields by their paths below the section.
type section struct{ file, path, below string }

func (s section) field(name string) section {
	return section{file: s.file, path: join(s.path, name), below: join(s.below, name)}
}

func join(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }

// rows returns the rows of the fields of a section. The argument plain contains the defaults of an empty file, full the defaults of a file
// that enables everything. A field without a comment whose name is in the comment of the field before it shares the row of that field.
func (s *settings) rows(in section, plain, full reflect.Value) [][]string {
	var rows [][]string
	for i := range full.NumField() {
		field := full.Type().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" {
			continue
		}
		at, value := in.field(name), full.Field(i)
		of := elem(field.Type)
		isSection := isOurs(of)
		comment := s.comments[full.Type().Name()+"."+field.Name]
		if comment == "" && isSection {
			comment = s.comments[of.Name()]
		}
		var before reflect.Value
		if plain.IsValid() {
			before = plain.Field(i)
		}
		row := []string{code(at.below), "", s.sentence(comment)}
		if !isSection {
			row[1] = defaultOf(field.Name, before, value)
		}
		if comment == "" && i > 0 && strings.Contains(s.comments[full.Type().Name()+"."+full.Type().Field(i-1).Name], " "+field.Name+" ") {
			shareRow(rows[len(rows)-1], row)
			continue
		}
		if comment == "" {
			s.undescribed = append(s.undescribed, full.Type().Name()+"."+field.Name)
		}
		fields := s.fields(at, of, isSection, before, value)
		if isSection && len(fields) == 0 && !s.sections[at.file+" "+at.path] {
			row[2] += " Fields as in " + code(s.tables[of]) + "."
		}
		rows = append(append(rows, row), fields...)
	}
	return rows
}

// shareRow adds a field without a comment to the row of the field before it.
func shareRow(shared, row []string) {
	shared[0] += ", " + row[0]
	if row[1] != shared[1] {
		shared[1] += ", " + row[1]
	}
}

// fields returns the rows of the fields of a section below this one, unless another table or row shows them.
func (s *settings) fields(at section, of reflect.Type, isSection bool, plain, full reflect.Value) [][]string {
	if _, shown := s.tables[of]; !isSection || shown || s.sections[at.file+" "+at.path] {
		return nil
	}
	s.tables[of] = at.path
	if full.Kind() == reflect.Slice {
		at.below += "[]"
		plain, full = reflect.Value{}, reflect.New(of).Elem()
	}
	return s.rows(at, pointed(plain), pointed(full))
}

var (
	subject = regexp.MustCompile(`^\w+(?: and \w+)? (?:(?:is|are) )?`)
	absent  = regexp.MustCompile(`\b([Nn])il\b`)
	goName  = regexp.MustCompile(`\b[A-Z]\w*[a-z][A-Z]\w*\b`)
)

// sentence returns the comment of a field as a text for users, with the names of fields in YAML.
func (s *settings) sentence(comment string) string {
	comment = sentence(subject.ReplaceAllString(comment, ""))
	comment = absent.ReplaceAllStringFunc(comment, func(word string) string {
		return map[string]string{"nil": "absent", "Nil": "Absent"}[word]
	})
	return goName.ReplaceAllStringFunc(comment, func(word string) string {
		if name := s.yamlName(word); name != "" {
			return code(name)
		}
		return word
	})
}

// yamlName returns the name in YAML of a field of any type; "" if no type has this field, or if the field is a section.
func (s *settings) yamlName(field string) string {
	if len(s.names) == 0 {
		for _, file := range files() {
			collectNames(reflect.TypeOf(file).Elem(), s.names)
		}
	}
	return s.names[field]
}

func collectNames(in reflect.Type, names map[string]string) {
	for field := range in.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" {
			continue
		}
		if field.Type.Kind() != reflect.Struct || field.Type == reflect.TypeFor[metav1.Duration]() {
			names[field.Name] = name
		}
		if of := elem(field.Type); isOurs(of) {
			collectNames(of, names)
		}
	}
}

// defaultOf returns the default of a setting: the value in an empty file, or else in a file that enables its section.
func defaultOf(name string, plain, full reflect.Value) string {
	if value := written(plain); value != "" || name == "Enabled" {
		return code(value)
	}
	value := written(full)
	if value != "" && plain.IsValid() {
		return code(value) + " if enabled"
	}
	return code(value)
}

// written returns a value as it is written in a file; "" if it is not set.
func written(value reflect.Value) string {
	value = pointed(value)
	if !value.IsValid() || value.IsZero() && value.Kind() != reflect.Bool {
		return ""
	}
	switch v := value.Interface().(type) {
	case metav1.Duration:
		return strings.NewReplacer("h0m0s", "h", "m0s", "m").Replace(v.Duration.String())
	case string:
		return v
	}
	text, err := json.Marshal(value.Interface())
	if err != nil {
		return ""
	}
	return strings.ReplaceAll(string(text), `"`, "")
}

// enable sets every field with the name Enabled, and every section that an empty file leaves out.
func enable(value reflect.Value) {
	for i := range value.NumField() {
		field, kind := value.Field(i), value.Type().Field(i)
		switch {
		case kind.Name == "Enabled":
			field.SetBool(true)
		case field.Kind() == reflect.Pointer && isOurs(field.Type().Elem()):
			field.Set(reflect.New(field.Type().Elem()))
			enable(field.Elem())
		case isOurs(field.Type()):
			enable(field)
		}
	}
}

// isOurs reports whether a type is a section of a configuration file.
func isOurs(in reflect.Type) bool {
	return in.Kind() == reflect.Struct && strings.HasSuffix(in.PkgPath(), "/internal/config")
}

// at returns the section at a path in a configuration; an empty one if the configuration does not contain it. The result is invalid if
// there is no such section.
func at(value reflect.Value, path string) reflect.Value {
	if path == "" {
		return value
	}
	for name := range strings.SplitSeq(path, ".") {
		fields := reflect.VisibleFields(value.Type())
		i := slices.IndexFunc(fields, func(f reflect.StructField) bool { return strings.HasPrefix(f.Tag.Get("json"), name+",") })
		if i < 0 {
			return reflect.Value{}
		}
		next := value.FieldByIndex(fields[i].Index)
		if next.Kind() == reflect.Pointer && next.IsNil() {
			next = reflect.New(next.Type().Elem())
		}
		value = pointed(next)
	}
	return value
}

// elem returns the type of the elements of a list, or the type that a pointer points to.
func elem(in reflect.Type) reflect.Type {
	for in.Kind() == reflect.Pointer || in.Kind() == reflect.Slice {
		in = in.Elem()
	}
	return in
}

// pointed returns the value that a pointer points to; an invalid value if the pointer is nil.
func pointed(value reflect.Value) reflect.Value {
	for value.Kind() == reflect.Pointer {
		value = value.Elem()
	}
	return value
}
