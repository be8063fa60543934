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

func TestBothEndsOfTextsAreKept(t *testing.T) {
	for text, want := range map[string]string{
		"":                 "",
		"as long as":       "as long as",
		"begin to the end": "begi…end",
		"日本日本日本":           "日…本",
	} {
		NewWithT(t).Expect(Ends(text, 10)).To(Equal(want))
	}
}
