package gauge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// AuditLog reads the audit log of an API server as it grows. Entry has fields for what is looked at of each line.
type AuditLog[Entry any] struct {
	// File is where it is.
	File string

	offset int64
}

// Next returns what was written since the last call.
func (a *AuditLog[Entry]) Next() ([]Entry, error) {
	file, err := os.Open(a.File)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	if _, err = file.Seek(a.offset, io.SeekStart); err != nil {
		return nil, err
	}
	content, err := io.ReadAll(file)
	if err != nil {
		return nil, err
	}
	content = content[:bytes.LastIndexByte(content, '\n')+1] // the last line may be half written
	a.offset += int64(len(content))
	var entries []Entry
	for line := range bytes.Lines(content) {
		var e Entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("decode audit log: %w", err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}
