package managedresources

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/andybalholm/brotli"
)

const (
	compressedSuffix   = ".br"
	compressedFileName = "data.yaml" + compressedSuffix
)

// compressFiles joins all files, in the order of their names, into a single compressed file.
func compressFiles(files map[string][]byte) (map[string][]byte, error) {
	for name := range files {
		if strings.HasSuffix(name, compressedSuffix) {
			return nil, fmt.Errorf("compress file %q: it is compressed already", name)
		}
	}
	var compressed bytes.Buffer
	writer := brotli.NewWriter(&compressed)
	if _, err := writer.Write(joinDocuments(files)); err != nil {
		return nil, fmt.Errorf("compress files: %w", err)
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("compress files: %w", err)
	}
	return map[string][]byte{compressedFileName: compressed.Bytes()}, nil
}

// joinDocuments makes one YAML stream of all files, in the order of their names; blank files are left out. The stream also starts with a
// separator: if it started with a JSON document, readers would read the whole stream as JSON.
func joinDocuments[T ~string | ~[]byte](files map[string]T) []byte {
	var stream bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(files)) {
		document := bytes.TrimSpace([]byte(files[name]))
		if len(document) == 0 {
			continue
		}
		stream.WriteString("---\n")
		stream.Write(document)
		stream.WriteByte('\n')
	}
	return stream.Bytes()
}
