package manifest

import (
	"bytes"
	"fmt"
)

const (
	// maxDocumentBytes is the size from which on no document is parsed: the API server refuses larger requests.
	// A parsed document takes a hundred times its size, so this bounds the memory of a decompressed value.
	maxDocumentBytes = 3 << 20

	// maxDepth is how deep maps and lists may be nested. Readers further down recurse.
	maxDepth = 1_000
)

// Document is one document of a data value, not parsed yet.
type Document struct {
	// Index counts all documents of the data key from 0, those that hold no object too.
	Index int
	// Raw is the bytes of this document only.
	Raw []byte
	// JSON tells that the document is an element of a JSON stream; otherwise it is YAML.
	JSON bool
}

// DocumentError says which document of a data value could not be read. Its text holds nothing of the document.
type DocumentError struct {
	// Index counts all documents of the data key from 0.
	Index int
	// Err is the fault.
	Err error
}

// Error implements error.
func (e *DocumentError) Error() string { return fmt.Sprintf("document %d: %v", e.Index, e.Err) }

// Unwrap returns the fault.
func (e *DocumentError) Unwrap() error { return e.Err }

// Decode parses the document into JSON-compatible values as unstructured objects hold them: numbers are int64
// where they are whole and fit, float64 otherwise. The result shares nothing with the document. A document that
// is empty, null or a comment gives nil and no error.
//
// YAML gives what sigs.k8s.io/yaml gives (YAML 1.1 booleans, timestamps as text, the first of several documents),
// except that a key which occurs twice is an error. Only in documents that use merge keys ("<<") the last one
// wins, because overriding a merged key is what they are for.
//
// Errors are: syntax errors, lists and scalars at the top, keys that occur twice, aliases that multiply the
// document, values that JSON cannot express, nesting deeper than 1,000, documents larger than 3 MiB.
func (d Document) Decode() (map[string]any, error) {
	if len(d.Raw) > maxDocumentBytes {
		return nil, fault(fmt.Sprintf("document is larger than %d bytes", maxDocumentBytes))
	}
	if d.JSON {
		return decodeJSON(d.Raw)
	}
	if brokenSeparator(lastLine(d.Raw)) {
		return nil, fault("document separator is followed by content on the same line")
	}
	return decodeYAML(d.Raw)
}

// lastLine is where Split leaves a separator that it did not take for one.
func lastLine(raw []byte) []byte {
	raw = bytes.TrimSuffix(raw, []byte("\n"))
	return raw[bytes.LastIndexByte(raw, '\n')+1:]
}
