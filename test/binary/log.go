package binary

import (
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

// Log stores the log lines of a binary. Set Options.Log to its Logger.
type Log struct {
	// Verbosity is the highest verbosity of the stored messages.
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

// Containing returns the stored lines that contain the text.
func (l *Log) Containing(text string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.lines), func(line string) bool { return !strings.Contains(line, text) })
}
