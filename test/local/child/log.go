package child

import (
	"bytes"
	"fmt"
	"os"
	"strings"
)

const (
	tailBytes = 16 << 10
	tailLines = 30
	lineBytes = 400
)

// Tail returns the last lines of a log, indented and shortened for a message, or the reason why it cannot be read.
func Tail(file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return "    " + err.Error()
	}
	return lastLines(data[max(0, len(data)-tailBytes):])
}

func lastLines(data []byte) string {
	data = bytes.TrimSpace(data)
	if len(data) == 0 {
		return "    (the log is empty)"
	}
	lines := strings.Split(string(data), "\n")
	if len(lines) > tailLines {
		lines = lines[len(lines)-tailLines:]
	}
	for i, line := range lines {
		if len(line) > lineBytes {
			line = fmt.Sprintf("%s … (%d bytes)", line[:lineBytes], len(line))
		}
		lines[i] = "    " + line
	}
	return strings.Join(lines, "\n")
}
