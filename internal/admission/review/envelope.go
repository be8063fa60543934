package review

import (
	"bytes"
	"unicode/utf8"
)

// API servers write reviews in one way. What is written so is read here, without a decoder; whatever is unusual, wrong or
// doubtful is left to the decoder, which also has the words for what is wrong. Objects are only looked through for where they
// end: handlers read of them what they need, with Decode.

// readEnvelope reads a body as API servers write it, to which the objects and options of the request then refer. It is not ok if the body is
// anything else. The outline of the object, which the request then has, takes the place of another one that nobody needs any more.
func readEnvelope(body []byte, used outline) (found review, ok bool) {
	given := false
	end := readMembers(body, space(body, 0), func(name []byte, at int) int {
		switch string(name) {
		case "apiVersion":
			return plain(body, at, &found.apiVersion)
		case "kind":
			return plain(body, at, &found.kind)
		case "request":
			if given {
				return -1
			}
			given = true
			found.request.outline = used[:0]
			return readRequest(body, at, &found.request)
		}
		return next(body, at)
	})
	ours := found.kind == reviewKind && (found.apiVersion == groupV1 || found.apiVersion == groupV1beta1)
	return found, end >= 0 && given && ours && space(body, end) == len(body)
}

func readRequest(body []byte, at int, request *Request) (end int) {
	return readMembers(body, at, func(name []byte, at int) int {
		switch string(name) {
		case "object":
			return readOutlined(body, at, request)
		case "oldObject":
			return readObject(body, at, &request.OldObject)
		case "options":
			return readObject(body, at, &request.Options)
		case "uid":
			return plain(body, at, &request.UID)
		case "kind":
			return readThree(body, at, "kind", &request.Kind.Group, &request.Kind.Version, &request.Kind.Kind)
		case "resource":
			return readThree(body, at, "resource", &request.Resource.Group, &request.Resource.Version, &request.Resource.Resource)
		case "subResource":
			return plain(body, at, &request.SubResource)
		case "name":
			return plain(body, at, &request.Name)
		case "namespace":
			return plain(body, at, &request.Namespace)
		case "operation":
			return plain(body, at, (*string)(&request.Operation))
		case "userInfo":
			return readUser(body, at, &request.User)
		case "dryRun":
			return readBool(body, at, &request.DryRun)
		}
		return next(body, at)
	})
}

// readThree reads a group, a version, and what else there is under a name of its own.
func readThree(body []byte, at int, third string, group, version, into *string) (end int) {
	return readMembers(body, at, func(name []byte, at int) int {
		switch string(name) {
		case "group":
			return plain(body, at, group)
		case "version":
			return plain(body, at, version)
		case third:
			return plain(body, at, into)
		}
		return next(body, at)
	})
}

func readUser(body []byte, at int, user *User) (end int) {
	return readMembers(body, at, func(name []byte, at int) int {
		switch string(name) {
		case "username":
			return plain(body, at, &user.Name)
		case "uid":
			return plain(body, at, &user.UID)
		case "groups":
			if user.Groups != nil {
				return -1
			}
			return readStrings(body, at, &user.Groups)
		case "extra":
			if user.Extra != nil {
				return -1
			}
			user.Extra = map[string][]string{}
			return readMembers(body, at, func(name []byte, at int) int {
				var values []string
				end := readStrings(body, at, &values)
				_, twice := user.Extra[string(name)]
				user.Extra[string(name)] = values
				if twice || !utf8.Valid(name) {
					return -1
				}
				return end
			})
		}
		return next(body, at)
	})
}

func readStrings(body []byte, at int, into *[]string) (end int) {
	*into = []string{}
	return walkList(body, at, func(at int) int {
		text := ""
		end := plain(body, at, &text)
		*into = append(*into, text)
		return end
	})
}

// readOutlined is readObject for the object of a request, and notes its outline.
func readOutlined(body []byte, at int, request *Request) (end int) {
	if at >= len(body) || body[at] != '{' || request.Object != nil {
		return readObject(body, at, &request.Object)
	}
	length, known := outlined(body[at:], request.outline)
	if length < 0 {
		return -1
	}
	end = at + length
	request.Object, request.outline = body[at:end:end], known
	return end
}

// readObject lets into refer to an object, unless there is null.
func readObject(body []byte, at int, into *[]byte) (end int) {
	end = next(body, at)
	switch {
	case end < 0 || *into != nil:
		return -1
	case body[at] == '{':
		*into = body[at:end:end]
	case string(body[at:end]) != "null":
		return -1
	}
	return end
}

func readBool(body []byte, at int, into *bool) (end int) {
	end = next(body, at)
	if end < 0 || *into {
		return -1
	}
	*into = string(body[at:end]) == "true"
	if !*into && string(body[at:end]) != "false" {
		return -1
	}
	return end
}

// readMembers is walk, but gives up if a name is written with escapes.
func readMembers(body []byte, at int, read func(name []byte, at int) int) (end int) {
	return walk(body, at, func(name []byte, at int) int {
		if bytes.IndexByte(name, '\\') >= 0 {
			return -1
		}
		return read(name[1:len(name)-1], at)
	})
}

// plain reads a string in which nothing is escaped, into one that is still empty.
func plain(body []byte, at int, into *string) (end int) {
	if *into != "" || at >= len(body) || body[at] != '"' {
		return -1
	}
	end = quoted(body, at)
	if end < 0 {
		return -1
	}
	inner := body[at+1 : end-1]
	for _, c := range inner {
		if c < ' ' || c == '\\' {
			return -1
		}
	}
	*into = string(inner)
	if !utf8.Valid(inner) {
		return -1
	}
	return end
}
