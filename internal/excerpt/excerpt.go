// Package excerpt shortens texts that others have written, before they are shown.
package excerpt

import "unicode/utf8"

// Of returns a text of at most so many bytes: the text itself, or its beginning, cut between two characters, with an ellipsis that
// shows it. The limit is at least the length of the ellipsis, 3.
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

// Ends returns a text of at most so many bytes: the text itself, or its beginning and its end with an ellipsis between them. Answers of an
// API server quote a value before they name its fault. The limit is at least 9.
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

// maxQuoted limits how much of a user's text is quoted to the user, in bytes: the text may be as long as a whole object.
const maxQuoted = 256

// Quoted is Of for texts that are part of an answer to their author: at most 256 bytes.
func Quoted(text string) string { return Of(text, maxQuoted) }
