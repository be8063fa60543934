package manifest

import (
	"bytes"
	"fmt"
)

const (
	// maxDocumentBytes is the size of the largest document that Decode parses: the API server refuses larger requests. A parsed document takes
	// up to a hundred times its size in memory.
	maxDocumentBytes = 3 << 20

	// maxDepth is how deep maps and lists may be nested. Callers walk through the result recursively.
	maxDepth = 1_000
)

// Document is one document of a data value, not parsed yet.
type Document struct {
	// Index counts all documents of the data key from 0, including those without an object.
	Index int
	// Raw contains the bytes of this document only.
	Raw []byte
	// JSON is true if the document is an element of a JSON stream. Otherwise it is YAML.
	JSON bool
}

// DocumentError is the error of a document of a data value that could not be read. Its text quotes nothing of the document.
type DocumentError struct {
	// Index counts all documents of the data key from 0.
	Index int
	// Err is the cause.
	Err error
}

// Error implements error.
func (e *DocumentError) Error() string { return fmt.Sprintf("document %d: %v", e.Index, e.Err) }

// Unwrap returns the cause.
func (e *DocumentError) Unwrap() error { return e.Err }

// errContentAfterSeparator is the error of a document whose last line begins with "---" and has further content.
var errContentAfterSeparator = fault("document separator is followed by content on the same line")

// Decode parses the document into JSON-compatible values, as in unstructured objects: numbers are int64 if they are whole and fit, float64
// otherwise. The result shares nothing with the document. For a document that is empty, null or a comment, Decode returns nil and no error.
//
// YAML is decoded as by sigs.k8s.io/yaml (YAML 1.1 booleans, timestamps as text), except that a key which occurs twice is an error. In
// documents with merge keys ("<<"), the last value of such a key is used, because these documents override merged keys on purpose.
//
// Errors are: syntax errors, a separator line with content, a further document that Split does not separate, a byte order mark that is not
// at the beginning, lists and scalars at the top, keys that occur twice, aliases that multiply the document, values that JSON cannot
// express, nesting deeper than 1,000, documents larger than 3 MiB.
func (d Document) Decode() (map[string]any, error) {
	if len(d.Raw) > maxDocumentBytes {
		return nil, fault(fmt.Sprintf("document is larger than %d bytes", maxDocumentBytes))
	}
	if d.JSON {
		return decodeJSON(d.Raw)
	}
	if brokenSeparator(lastLine(d.Raw)) {
		return nil, errContentAfterSeparator
	}
	return decodeYAML(d.Raw)
}

// lastLine returns the last line of a document. Split leaves a malformed separator there.
func lastLine(raw []byte) []byte {
	raw = bytes.TrimSuffix(raw, []byte("\n"))
	return raw[bytes.LastIndexByte(raw, '\n')+1:]
}
