package extensionvalidation_test

func operatingSystemConfigs() map[string]example {
	config := func(change string, want ...string) example {
		return example{kind: "OperatingSystemConfig", object: change, want: want}
	}
	// API servers ignore the status when a client writes an object.
	withStatus := func(change string, want ...string) example {
		return example{kind: "OperatingSystemConfig", object: change, impossible: true, want: want}
	}
	const (
		units = "[{dropIns: [{}], filePaths: [foo]}]"
		files = `[{}, {path: p1, content: {secretRef: {name: foo, dataKey: bar}, inline: {encoding: "", data: foo}}},
			{path: p2, content: {secretRef: {}}}, {path: p3, content: {inline: {encoding: foo}}}, {path: p3, content: {inline: {encoding: b64, data: foo}}}]`
		noMatch = `Invalid value: "foo": 'filePath' requires a matching 'path' in 'spec.files'`
		none    = "Required value: either 'secretRef', 'inline' or 'imageRef' must be provided"
	)
	wrongFiles := func(at string) []string {
		return []string{
			"Required " + at + "[0].path: Required value: field is required", "Required " + at + "[0].content: " + none,
			"Invalid " + at + "[1].content", "Required " + at + "[2].content.secretRef.name", "Required " + at + "[2].content.secretRef.dataKey",
			"NotSupported " + at + `[3].content.inline.encoding: Unsupported value: "foo": supported values: "", "b64"`,
			"Required " + at + "[3].content.inline.data",
			"Duplicate " + at + `[4].path: Duplicate value: "p3"`,
		}
	}
	wrongUnits := func(at string) []string {
		return []string{
			"Required " + at + "[0].name", "Required " + at + "[0].dropIns[0].name", "Required " + at + "[0].dropIns[0].content",
			"Invalid " + at + "[0].filePaths[0]: " + noMatch,
		}
	}
	const image = "content: {imageRef: {image: i, filePathInImage: f}}"
	return map[string]example{
		"a purpose that is none": config("spec: {purpose: foo}",
			`NotSupported spec.purpose: Unsupported value: "foo": supported values: "provision", "reconcile"`),
		"purpose reconcile":     config("spec: {purpose: reconcile}"),
		"no purpose":            config("spec: {purpose: ''}", "Required spec.purpose: Required value: field is required"),
		"wrong units":           config("spec: {units: "+units+"}", wrongUnits("spec.units")...),
		"wrong units in status": withStatus("status: {extensionUnits: "+units+"}", wrongUnits("status.extensionUnits")...),
		"wrong files":           config("spec: {units: [], files: "+files+"}", wrongFiles("spec.files")...),
		"wrong files in status": withStatus("status: {extensionFiles: "+files+"}", wrongFiles("status.extensionFiles")...),
		"a file in both": withStatus("{spec: {units: [], files: [{path: p, "+image+"}]}, status: {extensionFiles: [{path: p, "+image+
			"}]}}", `Duplicate status.extensionFiles[0].path: Duplicate value: "p"`),
		"a file that an extension adds is there for units": withStatus("{spec: {units: [{name: u, filePaths: [p]}], files: []}, status: " +
			"{extensionFiles: [{path: p, " + image + "}]}}"),
		"units of extensions find files of both": withStatus("{status: {extensionFiles: [{path: p, " + image +
			"}], extensionUnits: [{name: u, filePaths: [p, foo/bar]}]}}"),
		"a path three times": config("spec: {units: [], files: [{path: p, "+image+"}, {path: p, "+image+
			"}, {path: p, "+image+"}]}", "Duplicate spec.files[1].path", "Duplicate spec.files[2].path"),
		"empty paths are no repetition": config("spec: {units: [], files: [{path: '', "+image+"}, {path: '', "+image+"}]}",
			"Required spec.files[0].path", "Required spec.files[1].path"),
		"an image without anything": config("spec: {units: [], files: [{path: p, content: {imageRef: {}}}]}",
			"Required spec.files[0].content.imageRef.image", "Required spec.files[0].content.imageRef.filePathInImage"),
		"three contents": config("spec: {units: [], files: [{path: p, content: {secretRef: {}, inline: {},"+
			" imageRef: {}}}]}", "Invalid spec.files[0].content"),
		"text in base64": config("spec: {units: [], files: [{path: p, content: {inline: {encoding: b64, " +
			"data: Zm9v}}}]}"),
		"what multiple contents hold stays hidden": config("spec: {units: [], files: [{path: p, content: {inline: {encoding: '', data: "+
			"hush}, imageRef: {image: i, filePathInImage: f}}}]}",
			`Invalid spec.files[0].content: Invalid value: {"inline":{"encoding":"","data":"(hidden)"},"imageRef":{"image":"i",`+
				`"filePathInImage":"f"}}: either 'secretRef', 'inline' or 'imageRef' must be provided, not multiple at the same time`),
		"nothing but type and purpose": config("spec: {units: null, files: null}"),
		"units, files and configuration dropped": {
			kind: "OperatingSystemConfig", updated: true, before: "spec: {providerConfig: {a: b}}",
			object: "spec: {units: null, files: null, providerConfig: null}",
		},
	}
}
