package local

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
)

// AuditLines iterates over the lines of an API server's audit log, beginning at an offset in the file. It omits the text after the last
// line end, because that line is not complete yet. An error ends the iteration.
func AuditLines(file string, place int64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		log, err := os.Open(file)
		if err == nil {
			defer func() { _ = log.Close() }()
			_, err = log.Seek(place, io.SeekStart)
		}
		for reader := bufio.NewReaderSize(log, 1<<20); err == nil; {
			var line []byte
			if line, err = reader.ReadBytes('\n'); err == nil && !yield(line, nil) {
				return
			}
		}
		if !errors.Is(err, io.EOF) {
			yield(nil, fmt.Errorf("read audit log: %w", err))
		}
	}
}
