package extensionvalidation

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

type operatingSystemConfigSpec struct {
	CRIConfig            *criConfig `json:"criConfig,omitempty"`
	DefaultSpec          `json:",inline"`
	Purpose              string  `json:"purpose"`
	ReloadConfigFilePath *string `json:"reloadConfigFilePath,omitempty"`
	Units                []unit  `json:"units,omitempty"`
	Files                []file  `json:"files,omitempty"`
}

// operatingSystemConfigStatus contains the units and files that an extension adds.
type operatingSystemConfigStatus struct {
	ExtensionUnits []unit `json:"extensionUnits,omitempty"`
	ExtensionFiles []file `json:"extensionFiles,omitempty"`
}

type criConfig struct {
	Name string `json:"name"`
}

type unit struct {
	Name      string      `json:"name"`
	Command   *string     `json:"command,omitempty"`
	Enable    *bool       `json:"enable,omitempty"`
	Content   *opaqueText `json:"content,omitempty"`
	DropIns   []dropIn    `json:"dropIns,omitempty"`
	FilePaths []string    `json:"filePaths,omitempty"`
}

type dropIn struct {
	Name    string     `json:"name"`
	Content opaqueText `json:"content"`
}

type file struct {
	Path        string      `json:"path"`
	Permissions *int32      `json:"permissions,omitempty"`
	Content     fileContent `json:"content"`
}

type fileContent struct {
	SecretRef         *fileSecret `json:"secretRef,omitempty"`
	Inline            *fileInline `json:"inline,omitempty"`
	TransmitUnencoded *bool       `json:"transmitUnencoded,omitempty"`
	ImageRef          *fileImage  `json:"imageRef,omitempty"`
}

type fileSecret struct {
	Name    string `json:"name"`
	DataKey string `json:"dataKey"`
}

type fileInline struct {
	Encoding string     `json:"encoding"`
	Data     opaqueText `json:"data"`
}

type fileImage struct {
	Image           string `json:"image"`
	FilePathInImage string `json:"filePathInImage"`
}

func checkOperatingSystemConfig(config *object[operatingSystemConfigSpec, operatingSystemConfigStatus], found *findings) {
	spec, status := &config.Spec, &config.Status
	if spec.Purpose == "" {
		found.require(specPath("purpose"), spec.Purpose)
	} else {
		found.oneOf(specPath("purpose"), spec.Purpose, "provision", "reconcile")
	}
	paths := sets.New[string]()
	for _, each := range slices.Concat(spec.Files, status.ExtensionFiles) {
		paths.Insert(each.Path)
	}
	found.units(specPath("units"), spec.Units, paths)
	found.units(statusPath("extensionUnits"), status.ExtensionUnits, paths)
	found.files(specPath("files"), spec.Files)
	found.files(statusPath("extensionFiles"), status.ExtensionFiles)
	seen := sets.New[string]()
	found.repeatedFiles(specPath("files"), spec.Files, seen)
	found.repeatedFiles(statusPath("extensionFiles"), status.ExtensionFiles, seen)
}

func (f *findings) units(path *field.Path, units []unit, files sets.Set[string]) {
	for i, each := range units {
		if f.full() {
			return
		}
		at := path.Index(i)
		f.require(at.Child("name"), each.Name)
		for j, dropIn := range each.DropIns {
			if f.full() {
				return
			}
			f.require(at.Child("dropIns").Index(j).Child("name"), dropIn.Name)
			f.require(at.Child("dropIns").Index(j).Child("content"), string(dropIn.Content))
		}
		for k, needed := range each.FilePaths {
			if f.full() {
				return
			}
			if !files.Has(needed) {
				f.add(field.Invalid(at.Child("filePaths").Index(k), needed, "'filePath' requires a matching 'path' in 'spec.files'"))
			}
		}
	}
}

func (f *findings) files(path *field.Path, files []file) {
	for i := range files {
		if f.full() {
			return
		}
		at := path.Index(i)
		f.require(at.Child("path"), files[i].Path)
		f.content(at.Child("content"), &files[i].Content)
	}
}

// content validates the source of a file; there must be exactly one.
func (f *findings) content(path *field.Path, content *fileContent) {
	const oneOf = "either 'secretRef', 'inline' or 'imageRef' must be provided"
	secret, inline, image := content.SecretRef, content.Inline, content.ImageRef
	switch {
	case secret == nil && inline == nil && image == nil:
		f.add(field.Required(path, oneOf))
	case secret != nil && inline == nil && image == nil:
		f.require(path.Child("secretRef", "name"), secret.Name)
		f.require(path.Child("secretRef", "dataKey"), secret.DataKey)
	case secret == nil && inline != nil && image == nil:
		f.oneOf(path.Child("inline", "encoding"), inline.Encoding, "", "b64")
		f.require(path.Child("inline", "data"), string(inline.Data))
	case secret == nil && inline == nil:
		f.require(path.Child("imageRef", "image"), image.Image)
		f.require(path.Child("imageRef", "filePathInImage"), image.FilePathInImage)
	default:
		f.add(field.Invalid(path, content, oneOf+", not multiple at the same time"))
	}
}

// repeatedFiles adds an error for each path that is in seen, and adds the other paths to seen.
func (f *findings) repeatedFiles(path *field.Path, files []file, seen sets.Set[string]) {
	for i, each := range files {
		if f.full() {
			return
		}
		if each.Path == "" {
			continue
		}
		if seen.Has(each.Path) {
			f.add(field.Duplicate(path.Index(i).Child("path"), each.Path))
		}
		seen.Insert(each.Path)
	}
}
