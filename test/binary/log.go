package binary

import (
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

// Log keeps the log lines of a binary. Its Logger is for Options.Log.
type Log struct {
	// Verbosity is the highest verbosity of the messages that are kept.
	Verbosity int

	mu    sync.Mutex
	lines []string
}

// Logger returns a logger that writes to the Log.
func (l *Log) Logger() logr.Logger {
	return funcr.New(func(prefix, line string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, prefix+" "+line)
	}, funcr.Options{LogTimestamp: true, Verbosity: l.Verbosity})
}

// Containing returns the lines with that text.
func (l *Log) Containing(text string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.lines), func(line string) bool { return !strings.Contains(line, text) })
}
