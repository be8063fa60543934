package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// record is a log line with its fields.
type record map[string]any

// pipeline turns lines into records, by the parsers and filters of a configuration.
type pipeline struct {
	configuration
	state       *lua.LState
	expressions map[string]*regexp.Regexp
}

// newPipeline loads the scripts, and compiles the regular expressions.
func newPipeline(c configuration) (*pipeline, error) {
	p := &pipeline{configuration: c, state: lua.NewState(), expressions: map[string]*regexp.Regexp{}}
	for name, each := range c.parsers {
		if each.keys["format"] != "regex" {
			continue
		}
		compiled, err := regexp.Compile(strings.Trim(each.keys["regex"], "/"))
		if err != nil {
			return nil, fmt.Errorf("compile parser %s: %w", name, err)
		}
		p.expressions[name] = compiled
	}
	for _, each := range c.filters {
		if script := each.keys["script"]; script != "" {
			if err := p.state.DoFile(script); err != nil {
				return nil, fmt.Errorf("load script: %w", err)
			}
		}
	}
	return p, nil
}

// parse returns the fields of a text, or nil if the text has another form.
func (p *pipeline) parse(parser, text string) record {
	if p.parsers[parser].keys["format"] == "json" {
		fields := record{}
		if json.Unmarshal([]byte(text), &fields) != nil {
			return nil
		}
		return fields
	}
	compiled := p.expressions[parser]
	if compiled == nil {
		return nil
	}
	found := compiled.FindStringSubmatch(text)
	if found == nil {
		return nil
	}
	fields := record{}
	for i, name := range compiled.SubexpNames() {
		if name != "" && found[i] != "" {
			fields[name] = found[i]
		}
	}
	return fields
}

// apply runs the filters that match the tag.
func (p *pipeline) apply(tag string, r record) (record, error) {
	for _, each := range p.filters {
		if !matches(each.keys["match"], tag) {
			continue
		}
		switch each.keys["name"] {
		case "parser":
			text, _ := r[each.keys["key_name"]].(string)
			fields := p.parse(each.keys["parser"], text)
			if fields == nil {
				continue
			}
			kept := maps.Clone(r)
			delete(kept, each.keys["key_name"])
			maps.Copy(kept, fields)
			r = kept
		case "modify":
			for _, rule := range each.all["rename"] {
				from, to, _ := strings.Cut(rule, " ")
				if value, found := r[from]; found {
					delete(r, from)
					r[strings.TrimSpace(to)] = value
				}
			}
		case "lua":
			changed, err := p.call(each.keys["call"], tag, r)
			if err != nil {
				return nil, err
			}
			r = changed
		}
	}
	return r, nil
}

// call runs a function of a script on a record, and returns the resulting record; nil if the script drops it. The script returns a negative
// number to drop the record, 0 to keep it, and a positive number to replace it.
func (p *pipeline) call(function, tag string, r record) (record, error) {
	table := p.state.NewTable()
	for key, value := range r {
		table.RawSetString(key, luaValue(value))
	}
	err := p.state.CallByParam(lua.P{Fn: p.state.GetGlobal(function), NRet: 3, Protect: true},
		lua.LString(tag), p.state.NewTable(), table)
	if err != nil {
		return nil, fmt.Errorf("call %s: %w", function, err)
	}
	code, changed := p.state.ToInt(-3), p.state.ToTable(-1)
	p.state.Pop(3)
	if code < 0 { // the filter drops the record
		return nil, nil
	}
	if code == 0 || changed == nil {
		return r, nil
	}
	fields := record{}
	changed.ForEach(func(key, value lua.LValue) { fields[key.String()] = value.String() })
	return fields, nil
}

func luaValue(value any) lua.LValue {
	switch typed := value.(type) {
	case string:
		return lua.LString(typed)
	case float64:
		return lua.LNumber(typed)
	case bool:
		return lua.LBool(typed)
	}
	content, _ := json.Marshal(value) // a decoded JSON value can be encoded
	return lua.LString(content)
}
