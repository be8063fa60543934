// Package excerpt shortens texts that others have written, before they are shown.
package excerpt

import "unicode/utf8"

// Of returns a text of at most so many bytes: the text itself, or its beginning, cut between two characters, with an
// ellipsis that shows it. The limit is at least that of the ellipsis, 3.
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

// maxQuoted is how much of what users wrote is quoted to them, in bytes: it may be as long as a whole object.
const maxQuoted = 256

// Quoted is Of for texts that are part of an answer to their author: at most 256 bytes.
func Quoted(text string) string { return Of(text, maxQuoted) }
