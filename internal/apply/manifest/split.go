// Package manifest converts the bytes of one value of a Secret into objects: it decompresses the value, splits it into documents, and
// parses a document when the caller requests it.
//
// The package does no I/O. Users write the input, so the size of the input and the limits below bound the time and memory of every
// function. No error quotes its input, because that is the content of Secrets.
package manifest

import (
	"bytes"
	"cmp"
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
	// defaultMaxDecompressedBytes is the limit of a decompressed value if the caller sets none. A Secret contains at most 1 MiB, but an
	// attacker can make a value that decompresses to gigabytes.
	defaultMaxDecompressedBytes int64 = 64 << 20

	// compressedSuffix marks the data keys whose values are compressed with Brotli.
	compressedSuffix = ".br"

	// maxDocuments bounds the cost of a value with many empty documents. The largest values in use contain a few thousand objects.
	maxDocuments = 100_000
)

// separator starts a line that separates two YAML documents.
var separator = []byte("---")

// Split decompresses the value of a data key (keys that end in ".br" contain Brotli) and splits it into documents. It does not parse YAML,
// so the caller can parse only the documents that have changed. A compressed value may be at most maxDecompressedBytes long after
// decompression; zero means 64 MiB.
//
// If the first character that is not space is '{', the value is a stream of JSON values. If a line "---" follows one of them, Split reads
// the rest as YAML. All other values are YAML. Lines that begin with "---", also inside block scalars, separate YAML documents, exactly as
// in k8s.io/apimachinery. An empty line or a comment is a document and counts for the index. So does a separator line that opens a document
// and is followed by another separator line.
//
// The documents may share memory with value, so the caller must not change value afterwards. If a part of the value is invalid (not Brotli,
// larger than the limits, malformed JSON), Split returns the documents before that part together with the error. It reads nothing after
// that part, because it cannot find the start of the next document.
func Split(key string, value []byte, maxDecompressedBytes int64) ([]Document, *DocumentError) {
	if strings.HasSuffix(key, compressedSuffix) {
		decompressed, err := decompress(value, cmp.Or(maxDecompressedBytes, defaultMaxDecompressedBytes))
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

// decompress reads Brotli. It stops one byte after the limit, and returns an error then.
func decompress(value []byte, limit int64) ([]byte, error) {
	decompressed, err := io.ReadAll(io.LimitReader(brotli.NewReader(bytes.NewReader(value)), limit+1))
	if err != nil {
		return nil, fault("decompress value: not a valid Brotli stream")
	}
	if int64(len(decompressed)) > limit {
		return nil, fault(fmt.Sprintf("decompress value: larger than %d bytes", limit))
	}
	return decompressed, nil
}

// splitJSON splits a stream of JSON values.
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

// splitYAML appends the YAML documents of the value to the given ones. A separator line with content ("--- a: b", "----") belongs to the
// document before it, which then cannot be decoded, as in apimachinery's reader. A value in UTF-16 is one document.
func splitYAML(documents []Document, value []byte) ([]Document, *DocumentError) {
	if isUTF16(value) {
		return append(documents, Document{Index: len(documents), Raw: value}), nil // here a line feed may be part of a character
	}
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

// normalize ends every line with a line feed, as apimachinery's reader does.
func normalize(value []byte) []byte {
	if bytes.Contains(value, []byte("\r\n")) {
		value = bytes.ReplaceAll(value, []byte("\r\n"), []byte("\n"))
	}
	if len(value) > 0 && value[len(value)-1] != '\n' {
		value = append(slices.Clip(value), '\n')
	}
	return value
}

// isUTF16 reports whether a value begins with the byte order mark of UTF-16.
func isUTF16(value []byte) bool {
	return bytes.HasPrefix(value, []byte{0xff, 0xfe}) || bytes.HasPrefix(value, []byte{0xfe, 0xff})
}

// otherBreaks are the characters other than a line feed that end a line in YAML 1.1.
const otherBreaks = "\r\u0085\u2028\u2029"

// brokenSeparator reports whether a line begins with a separator that is followed by content other than space and a comment. A comment that
// contains one of otherBreaks counts as content, because YAML 1.1 ends the comment there.
func brokenSeparator(line []byte) bool {
	rest, found := bytes.CutPrefix(line, separator)
	rest = bytes.TrimSpace(rest)
	return found && len(rest) > 0 && (rest[0] != '#' || bytes.ContainsAny(rest, otherBreaks))
}

func tooManyDocuments() *DocumentError {
	return &DocumentError{Index: maxDocuments, Err: fault(fmt.Sprintf("value holds more than %d documents", maxDocuments))}
}
