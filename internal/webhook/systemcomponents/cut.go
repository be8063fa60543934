package systemcomponents

import "unicode/utf8"

// maxQuoted is how many bytes of what users wrote are quoted to them: it may be as long as a whole object.
const maxQuoted = 256

// cut shortens a text to maxQuoted bytes, between two characters, and shows that it did.
func cut(text string) string {
	const ellipsis = "…"
	if len(text) <= maxQuoted {
		return text
	}
	end := maxQuoted - len(ellipsis)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
}
