package gauge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// AuditLog reads the audit log of an API server while it grows. Entry has the fields to read from each line.
type AuditLog[Entry any] struct {
	// File is the path of the log.
	File string

	offset int64
}

// Next returns the entries since the last call.
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
	content = content[:bytes.LastIndexByte(content, '\n')+1] // the last line may be incomplete
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
