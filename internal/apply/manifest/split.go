// Package manifest turns the bytes of one value of a Secret into objects: it decompresses the value, cuts it
// into documents and parses a document when somebody asks for it.
//
// Nothing here does I/O. Everything that is read comes from people, so every function is bounded in time and
// memory by the size of its input and the limits below, and no error ever quotes what it read: the values are
// those of Secrets.
package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/andybalholm/brotli"
)

const (
	// DefaultMaxDecompressedBytes is the limit of a decompressed value when Limits names none. A Secret holds at
	// most 1 MiB, which a hostile value blows up to gigabytes.
	DefaultMaxDecompressedBytes int64 = 64 << 20

	// compressedSuffix marks the data keys whose values are compressed with Brotli.
	compressedSuffix = ".br"

	// maxDocuments bounds what a value of many empty documents costs. The largest honest values hold a few
	// thousand objects.
	maxDocuments = 100_000
)

// separator starts a line that parts two YAML documents.
var separator = []byte("---")

// Limits bounds what one data value may cost.
type Limits struct {
	// MaxDecompressedBytes is the size that a compressed value may have after decompression, in bytes. Zero
	// means DefaultMaxDecompressedBytes.
	MaxDecompressedBytes int64
}

// Split decompresses the value of a data key (keys that end in ".br" hold Brotli) and cuts it into documents. It
// does not parse YAML, so it is cheap for values of which little has changed.
//
// A value whose first character that is not space is '{' is a stream of JSON values; as soon as a line "---"
// follows one of them, the rest is read as YAML. Everything else is YAML, whose documents are parted by lines
// that begin with "---", also inside block scalars, exactly as k8s.io/apimachinery parts them: an empty line or a
// comment is a document and counts for the index, and so does a separator line that opens a document before the
// next one follows.
//
// The documents may share memory with value, which must not be changed afterwards. When the value breaks (not
// Brotli, larger than the limits, malformed JSON) the documents before that point come with the error that says
// so; nothing after it is read, since nobody can tell where the next document starts.
func Split(key string, value []byte, l Limits) ([]Document, *DocumentError) {
	if strings.HasSuffix(key, compressedSuffix) {
		decompressed, err := decompress(value, l)
		if err != nil {
			return nil, &DocumentError{Err: err}
		}
		value = decompressed
	}
	if trimmed := bytes.TrimLeftFunc(value, unicode.IsSpace); bytes.HasPrefix(trimmed, []byte("{")) {
		return splitJSON(value)
	}
	return splitYAML(nil, value)
}

// decompress reads Brotli up to the limit and not a byte further.
func decompress(value []byte, l Limits) ([]byte, error) {
	limit := l.MaxDecompressedBytes
	if limit <= 0 {
		limit = DefaultMaxDecompressedBytes
	}
	decompressed, err := io.ReadAll(io.LimitReader(brotli.NewReader(bytes.NewReader(value)), limit+1))
	if err != nil {
		return nil, fault("decompress value: not a valid Brotli stream")
	}
	if int64(len(decompressed)) > limit {
		return nil, fault(fmt.Sprintf("decompress value: larger than %d bytes", limit))
	}
	return decompressed, nil
}

// splitJSON cuts a stream of JSON values.
func splitJSON(value []byte) ([]Document, *DocumentError) {
	var documents []Document
	decoder := json.NewDecoder(bytes.NewReader(value))
	for {
		offset := decoder.InputOffset()
		var raw json.RawMessage
		err := decoder.Decode(&raw)
		switch {
		case errors.Is(err, io.EOF):
			return documents, nil
		case err != nil:
			rest := bytes.TrimLeftFunc(value[offset:], unicode.IsSpace)
			if len(documents) > 0 && bytes.HasPrefix(rest, separator) {
				return splitYAML(documents, rest)
			}
			return documents, &DocumentError{Index: len(documents), Err: jsonFault(err)}
		case len(documents) == maxDocuments:
			return documents, tooManyDocuments()
		}
		documents = append(documents, Document{Index: len(documents), Raw: raw, JSON: true})
	}
}

// splitYAML appends the YAML documents of the value to those that were found before. A separator line that
// carries content ("--- a: b", "----") belongs to the document before it and makes that one undecodable, as in
// apimachinery's reader.
func splitYAML(documents []Document, value []byte) ([]Document, *DocumentError) {
	value = normalize(value)
	start := 0
	for position := 0; position < len(value) && len(documents) <= maxDocuments; {
		end := position + bytes.IndexByte(value[position:], '\n') + 1
		line := value[position:end]
		switch {
		case brokenSeparator(line):
			documents = append(documents, Document{Index: len(documents), Raw: value[start:end:end]})
			start = end
		case bytes.HasPrefix(line, separator) && position > start:
			documents = append(documents, Document{Index: len(documents), Raw: value[start:position:position]})
			start = end
		}
		position = end
	}
	if start < len(value) {
		documents = append(documents, Document{Index: len(documents), Raw: value[start:]})
	}
	if len(documents) > maxDocuments {
		return documents[:maxDocuments], tooManyDocuments()
	}
	return documents, nil
}

// normalize makes every line end in a line feed, which is what apimachinery's reader hands on.
func normalize(value []byte) []byte {
	if bytes.Contains(value, []byte("\r\n")) {
		value = bytes.ReplaceAll(value, []byte("\r\n"), []byte("\n"))
	}
	if len(value) > 0 && value[len(value)-1] != '\n' {
		value = append(slices.Clip(value), '\n')
	}
	return value
}

// brokenSeparator tells whether a line begins with a separator and holds more than space and a comment after it.
func brokenSeparator(line []byte) bool {
	rest, found := bytes.CutPrefix(line, separator)
	rest = bytes.TrimSpace(rest)
	return found && len(rest) > 0 && rest[0] != '#'
}

func tooManyDocuments() *DocumentError {
	return &DocumentError{Index: maxDocuments, Err: fault(fmt.Sprintf("value holds more than %d documents", maxDocuments))}
}
