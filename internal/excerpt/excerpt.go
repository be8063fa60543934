// Package excerpt shortens texts of other authors, such as users and API servers, before they are shown.
package excerpt

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Of returns a text of at most limit bytes: the text itself, or its beginning, cut between two characters, and an ellipsis. The limit must
// be at least the length of the ellipsis, 3.
func Of(text string, limit int) string {
	const ellipsis = "…"
	if len(text) <= limit {
		return text
	}
	end := limit - len(ellipsis)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
}

// Ends returns a text of at most limit bytes: the text itself, or its beginning and its end with an ellipsis between them. The end matters
// in errors of API servers, which quote a value before they name its fault. The limit must be at least 9.
func Ends(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	start := len(text) - limit/3
	for start < len(text) && !utf8.RuneStart(text[start]) {
		start++
	}
	return Of(text[:start], limit-(len(text)-start)) + text[start:]
}

// maxQuoted limits how much of a user's text is quoted in a response to the user, in bytes: the text may be as long as a whole object.
const maxQuoted = 256

// Quoted is like Of, with a limit of 256 bytes, for responses that quote the user's own text.
func Quoted(text string) string { return Of(text, maxQuoted) }

// Printable replaces control characters, except line ends: they could change the screen of a terminal.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' {
			return utf8.RuneError
		}
		return r
	}, text)
}
