package main

import (
	"bytes"
	"strings"
)

// progressWriter passes the lines with a prefix, without it, and drops the others.
type progressWriter struct {
	prefix string
	to     func(line string)
	rest   []byte
}

// Write accepts parts of lines, too.
func (p *progressWriter) Write(data []byte) (int, error) {
	p.rest = append(p.rest, data...)
	for {
		line, rest, whole := bytes.Cut(p.rest, []byte("\n"))
		if !whole {
			return len(data), nil
		}
		if text, ok := strings.CutPrefix(string(line), p.prefix); ok {
			p.to(text)
		}
		p.rest = bytes.Clone(rest)
	}
}
