package excerpt

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestTextsAreCutBetweenCharacters(t *testing.T) {
	for text, want := range map[string]string{
		"":             "",
		"as is":        "as is",
		"as long as":   "as long as",
		"a bit longer": "a bit l…",
		"a biß longer": "a biß …",
		"abcdefü long": "abcdef…",
		"日本日本":         "日本…",
	} {
		NewWithT(t).Expect(Of(text, 10)).To(Equal(want))
	}
}
