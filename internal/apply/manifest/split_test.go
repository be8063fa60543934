package manifest

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	. "github.com/onsi/gomega"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

func TestSplit(t *testing.T) {
	for name, tc := range map[string]struct {
		value string
		want  []string
	}{
		"an empty value has no documents":               {value: ""},
		"a document without a line end gets a line end": {value: "a: b", want: []string{"a: b\n"}},
		"two documents": {value: "a: b\n---\nc: d\n", want: []string{"a: b\n", "c: d\n"}},
		"a separator at the start opens the first document": {value: "---\na: b\n---\n", want: []string{"---\na: b\n"}},
		"the second of two separators opens the next document": {
			value: "a: b\n---\n---\nc: d\n", want: []string{"a: b\n", "---\nc: d\n"},
		},
		"two separators at the start enclose an empty document": {value: "---\n---\nc: d\n", want: []string{"---\n", "c: d\n"}},
		"an empty line and a comment count as documents": {
			value: "\n---\n# c\n---\na: b\n", want: []string{"\n", "# c\n", "a: b\n"},
		},
		"a comment and space may follow a separator": {
			value: "a: b\n---  # c\nc: d\n--- \t\ne: f\n", want: []string{"a: b\n", "c: d\n", "e: f\n"},
		},
		"lines may end as on Windows": {
			value: "a: b\r\n---\r\nc: d\r\n", want: []string{"a: b\n", "c: d\n"},
		},
		"an indented separator is text":                                      {value: "a: |\n ---\n", want: []string{"a: |\n ---\n"}},
		"a separator at the start of a line of a block scalar separates too": {value: "a: |\n---\nc: d\n", want: []string{"a: |\n", "c: d\n"}},
		"a separator with content stays in the broken document": {
			value: "a: b\n--- c: d\ne: f\n", want: []string{"a: b\n--- c: d\n", "e: f\n"},
		},
		"four dashes are a broken separator":               {value: "----\ne: f\n", want: []string{"----\n", "e: f\n"}},
		"a JSON document after a separator is one of YAML": {value: "---\n{\"a\": 1}\n", want: []string{"---\n{\"a\": 1}\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			documents, err := Split("data.yaml", []byte(tc.value), 0)
			g.Expect(err).NotTo(HaveOccurred())
			var got []string
			for i, document := range documents {
				g.Expect(document.Index).To(Equal(i))
				g.Expect(document.JSON).To(BeFalse())
				got = append(got, string(document.Raw))
			}
			g.Expect(got).To(Equal(tc.want))
		})
	}
}

func TestSplitJSON(t *testing.T) {
	for name, tc := range map[string]struct {
		value string
		want  []Document
		err   string
	}{
		"a stream of objects": {
			value: "\n {\"a\":1}{\"b\":2}\n\n{\"c\":3}\n",
			want: []Document{
				{Index: 0, Raw: []byte(`{"a":1}`), JSON: true},
				{Index: 1, Raw: []byte(`{"b":2}`), JSON: true},
				{Index: 2, Raw: []byte(`{"c":3}`), JSON: true},
			},
		},
		"values after the first object need not be objects, and fail only when they are decoded": {
			value: `{"a":1} [2] "three"`,
			want: []Document{
				{Index: 0, Raw: []byte(`{"a":1}`), JSON: true},
				{Index: 1, Raw: []byte(`[2]`), JSON: true},
				{Index: 2, Raw: []byte(`"three"`), JSON: true},
			},
		},
		"malformed JSON ends the stream with one error": {
			value: `{"a":1}{"password":hunter2}{"c":3}`,
			want:  []Document{{Index: 0, Raw: []byte(`{"a":1}`), JSON: true}},
			err:   "document 1: invalid JSON at byte 20",
		},
		"malformed JSON at the start": {value: `{a: b}`, err: "document 0: invalid JSON at byte 2"},
		"cut-off JSON":                {value: `{"a":`, err: "document 0: invalid JSON"},
		"the part after a separator is YAML": {
			value: "{\"a\":1}\n---\nb: 2\n---\n{\"c\":3}\n",
			want: []Document{
				{Index: 0, Raw: []byte(`{"a":1}`), JSON: true}, {Index: 1, Raw: []byte("---\nb: 2\n")}, {Index: 2, Raw: []byte("{\"c\":3}\n")},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			documents, err := Split("data.json", []byte(tc.value), 0)
			g.Expect(documents).To(Equal(tc.want))
			if tc.err == "" {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(tc.err))
			}
		})
	}
}

func compressed(value []byte) []byte {
	var buffer bytes.Buffer
	writer := brotli.NewWriter(&buffer)
	if _, err := writer.Write(value); err != nil {
		panic(err)
	}
	if err := writer.Close(); err != nil {
		panic(err)
	}
	return buffer.Bytes()
}

// bombOf65MiB is 65 MiB of zero bytes, compressed with Brotli.
const bombOf65MiB = "cbffff3f002400e2b14072effff8ffff078004401c1680eefd1fffffff00900088c302d0bdffe3ffff1f001200715800baf7" +
	"7ffcffff034002200e0b40f7fe8f" +
	"ffff7f004800c46101e8defff1ffff0f000980382c00ddfb3ffeffff012001108705a07bff57ffff0f4002200e0b40f7fe01"

func TestSplitCompressed(t *testing.T) {
	t.Run("a key that ends in .br contains Brotli", func(t *testing.T) {
		g := NewWithT(t)
		documents, err := Split("data.yaml.br", compressed([]byte("a: b\n---\nc: d\n")), 0)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(documents).To(Equal([]Document{{Index: 0, Raw: []byte("a: b\n")}, {Index: 1, Raw: []byte("c: d\n")}}))
	})
	t.Run("the error about a value that is not Brotli does not quote the value", func(t *testing.T) {
		documents, err := Split("data.yaml.br", []byte("password: hunter2"), 0)
		g := NewWithT(t)
		g.Expect(documents).To(BeEmpty())
		g.Expect(err).To(MatchError("document 0: decompress value: not a valid Brotli stream"))
	})
	t.Run("cut-off Brotli is an error", func(t *testing.T) {
		whole := compressed([]byte(strings.Repeat("a: b\n---\n", 100)))
		_, err := Split("x.br", whole[:len(whole)-3], 0)
		NewWithT(t).Expect(err).To(MatchError("document 0: decompress value: not a valid Brotli stream"))
	})
	t.Run("a value may decompress to the limit", func(t *testing.T) {
		documents, err := Split("x.br", compressed([]byte("a: b\n")), 5)
		g := NewWithT(t)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(documents).To(HaveLen(1))
	})
	t.Run("a value may not decompress to one byte more", func(t *testing.T) {
		_, err := Split("x.br", compressed([]byte("a: bc\n")), 5)
		NewWithT(t).Expect(err).To(MatchError("document 0: decompress value: larger than 5 bytes"))
	})
	t.Run("a decompression bomb is stopped at 64 MiB", func(t *testing.T) {
		g := NewWithT(t)
		bomb, err := hex.DecodeString(bombOf65MiB)
		g.Expect(err).NotTo(HaveOccurred())
		_, bombErr := Split("x.br", bomb, 0)
		g.Expect(bombErr).To(MatchError("document 0: decompress value: larger than 67108864 bytes"))
	})
	t.Run("a value full of empty YAML documents is stopped", func(t *testing.T) {
		documents, err := Split("x.br", compressed([]byte(strings.Repeat("\n---\n", 100_001))), 0)
		g := NewWithT(t)
		g.Expect(documents).To(HaveLen(100_000))
		g.Expect(err).To(MatchError("document 100000: value holds more than 100000 documents"))
	})
	t.Run("a value full of empty JSON documents is stopped", func(t *testing.T) {
		documents, err := Split("x.br", compressed([]byte(strings.Repeat("{}", 100_001))), 0)
		g := NewWithT(t)
		g.Expect(documents).To(HaveLen(100_000))
		g.Expect(err).To(MatchError("document 100000: value holds more than 100000 documents"))
	})
}

func TestDocumentErrorUnwraps(t *testing.T) {
	cause := fault("cause")
	NewWithT(t).Expect(errors.Is(&DocumentError{Index: 1, Err: cause}, cause)).To(BeTrue())
}

// documentsOfReader splits a value with apimachinery's reader. A document that the reader refuses is "broken".
func documentsOfReader(value []byte) []string {
	const broken = "broken"
	var documents []string
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(value)))
	for {
		document, err := reader.Read()
		switch {
		case errors.Is(err, io.EOF):
			return documents
		case err != nil:
			documents = append(documents, broken)
		default:
			documents = append(documents, string(document))
		}
	}
}

func documentsOfSplit(documents []Document) []string {
	var result []string
	for _, document := range documents {
		if brokenSeparator(lastLine(document.Raw)) {
			result = append(result, "broken")
		} else {
			result = append(result, string(document.Raw))
		}
	}
	return result
}

// FuzzSplit proves that Split separates YAML documents as apimachinery's reader does, and that every failure of Split is an
// error.
func FuzzSplit(f *testing.F) {
	for _, seed := range []string{
		"a: b\n---\nc: d\n", "---\r\na: b\r\n--- # c\r\n\r\n---\n", "--- x\na: |\n---\n----\n", "a\r", "a\r\r\n---\r", "{\"a\":1}{", "---",
		strings.Repeat("a", 4096),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		g := NewWithT(t)
		_, _ = Split("x.br", value, 1<<16)
		if _, err := Split("x", value, 0); err != nil {
			g.Expect(value).To(ContainElement(byte('{')))
		}
		documents, err := splitYAML(nil, value)
		g.Expect(err).NotTo(HaveOccurred())
		// apimachinery's reader drops a last line without a line feed if that line fills the reader's buffer exactly. It also drops content after
		// one of otherBreaks in the comment of a separator.
		if last := value[bytes.LastIndexByte(value, '\n')+1:]; (len(last) == 0 || len(last)%4096 != 0) &&
			!bytes.ContainsAny(normalize(value), otherBreaks) && !isUTF16(value) {
			g.Expect(documentsOfSplit(documents)).To(Equal(documentsOfReader(value)))
		}
	})
}
