package extensionvalidation

type extensionSpec struct {
	DefaultSpec `json:",inline"`
}

// plainExtensions are objects of kind Extension.
func plainExtensions() rules[extensionSpec, unread] {
	return rules[extensionSpec, unread]{
		namespaced: true,
		check: func(extension *object[extensionSpec, unread], found *findings) {
			found.require(specPath("type"), extension.Spec.Type)
		},
		keep: func(now, before *extensionSpec, found *findings) {
			found.keep(specPath("type"), now.Type, before.Type)
		},
	}
}
