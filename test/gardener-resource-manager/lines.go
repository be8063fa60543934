package main

import (
	"bytes"
	"io"
	"strconv"
	"sync"
)

// lockedWriter lets this process and its children share an output.
type lockedWriter struct {
	mu  sync.Mutex
	out io.Writer
}

// Write implements io.Writer.
func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(p)
}

// lineWriter adds the name of a binary to each line of its output: as a field of a JSON object, or as a prefix of any other text.
type lineWriter struct {
	name string
	out  io.Writer
	// partial is the beginning of a line whose end is not written yet.
	partial []byte
}

// Write implements io.Writer. It passes complete lines on, each in one call.
func (w *lineWriter) Write(p []byte) (int, error) {
	w.partial = append(w.partial, p...)
	for {
		line, rest, complete := bytes.Cut(w.partial, []byte("\n"))
		if !complete {
			return len(p), nil
		}
		if _, err := w.out.Write(w.named(line)); err != nil {
			return 0, err
		}
		w.partial = append([]byte(nil), rest...)
	}
}

// flush writes a last line that has no end.
func (w *lineWriter) flush() {
	if len(w.partial) > 0 {
		_, _ = w.Write([]byte("\n"))
	}
}

func (w *lineWriter) named(line []byte) []byte {
	field := []byte(`"binary":` + strconv.Quote(w.name))
	switch {
	case !bytes.HasPrefix(line, []byte(`{"`)):
		return append(append([]byte(w.name+": "), line...), '\n')
	case bytes.Contains(line, field): // as in the first line of each binary
		return append(bytes.Clone(line), '\n')
	default:
		return append(append(append([]byte{'{'}, append(field, ',')...), line[1:]...), '\n')
	}
}
