// Package images returns the images of other projects' programs that the garden operator deploys: a list that is part of the binary, and
// files of the user that override it. It is pure: the caller reads the files.
package images

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"
)

// The environment variables that name the files of the user.
const (
	// EnvOverwrite is an environment variable with the name of a file. The file contains a list of images. Each image of this list replaces
	// fields of the image with the same name and constraints. If there is no such image, it is added.
	EnvOverwrite = "IMAGEVECTOR_OVERWRITE"
	// EnvComponentOverwrites is an environment variable with the name of a file. The file contains a list of images for each component that
	// deploys further images. The component itself reads its list.
	EnvComponentOverwrites = "IMAGEVECTOR_OVERWRITE_COMPONENTS"
)

//go:embed images.yaml
var embedded []byte

// Image is one image of a list.
type Image struct {
	// Name is the name under which components request the image.
	Name string `json:"name"`
	// Repository is the image without its tag.
	Repository string `json:"repository,omitempty"`
	// Tag is a tag or, if it begins with "sha256:", a digest. Without one, the tag is the target version.
	Tag string `json:"tag,omitempty"`
	// Ref is the whole image. It is set instead of Repository and Tag.
	Ref string `json:"ref,omitempty"`
	// RuntimeVersion and TargetVersion are constraints for the versions of the cluster that runs the image, and of the cluster that the
	// program works for. Empty: any.
	RuntimeVersion string `json:"runtimeVersion,omitempty"`
	TargetVersion  string `json:"targetVersion,omitempty"`
	// Architectures are the architectures of nodes that the image supports, for example amd64. Empty: any.
	Architectures []string `json:"architectures,omitempty"`
}

// Cluster is the versions and the architecture with which the constraints of images are compared.
type Cluster struct {
	// Runtime and Target are versions of Kubernetes. Nil satisfies no constraint.
	Runtime, Target *version.Version
	// Architecture is the architecture of the nodes, for example amd64.
	Architecture string
}

// List is a list of images.
type List []Image

// Embedded returns the list that is part of the binary.
func Embedded() (List, error) { return Parse(embedded) }

// Parse reads a list of images. It ignores fields that it does not know, because the files of Gardener have more fields than Image.
func Parse(content []byte) (List, error) {
	file := struct {
		Images List `json:"images"`
	}{}
	if err := yaml.Unmarshal(content, &file); err != nil {
		return nil, fmt.Errorf("decode images: %w", err)
	}
	for i, each := range file.Images {
		if err := each.validate(); err != nil {
			return nil, fmt.Errorf("images[%d]: %w", i, err)
		}
	}
	return file.Images, nil
}

func (i Image) validate() error {
	if i.Name == "" {
		return errors.New("name is required")
	}
	if i.Ref != "" && (i.Repository != "" || i.Tag != "") {
		return fmt.Errorf("image %q has ref and one of repository and tag", i.Name)
	}
	if i.Ref == "" && i.Repository == "" && i.Tag == "" {
		return fmt.Errorf("image %q has neither ref nor repository nor tag", i.Name)
	}
	for _, each := range []string{i.RuntimeVersion, i.TargetVersion} {
		if _, err := semver.NewConstraint(each); each != "" && err != nil {
			return fmt.Errorf("image %q: parse constraint %q: %w", i.Name, each, err)
		}
	}
	return nil
}

// Overwritten returns a copy of l, changed by the images of another list. The fields of such an image replace the fields of the image in l
// with the same name and constraints. If l contains no such image, the image is added.
func (l List) Overwritten(by List) List {
	merged := slices.Clone(l)
	for _, each := range by {
		at := slices.IndexFunc(merged, each.isAlternativeOf)
		if at < 0 {
			merged = append(merged, each)
			continue
		}
		merged[at] = merged[at].overwritten(each)
	}
	return merged
}

func (i Image) isAlternativeOf(other Image) bool {
	return i.Name == other.Name && i.RuntimeVersion == other.RuntimeVersion && i.TargetVersion == other.TargetVersion &&
		slices.Equal(slices.Sorted(slices.Values(i.Architectures)), slices.Sorted(slices.Values(other.Architectures)))
}

func (i Image) overwritten(by Image) Image {
	if by.Ref != "" {
		return by
	}
	merged := i
	merged.Ref = ""
	merged.Repository = cmp.Or(by.Repository, i.Repository)
	merged.Tag = cmp.Or(by.Tag, i.Tag)
	return merged
}

// Find returns the image with a name whose constraints the cluster satisfies. If there are several such images, Find returns the image
// with the most constraints. Of several images with equally many constraints, it returns the first.
func (l List) Find(name string, cluster Cluster) (string, error) {
	best := -1
	var found Image
	for _, each := range l {
		if each.Name != name {
			continue
		}
		if score := each.score(cluster); score > best {
			best, found = score, each
		}
	}
	if best < 0 {
		return "", fmt.Errorf("there is no image %q for this cluster", name)
	}
	return found.reference(cluster)
}

// score returns the number of constraints, or -1 if one is not satisfied.
func (i Image) score(cluster Cluster) int {
	score := 0
	for _, each := range []struct {
		constraint string
		version    *version.Version
	}{{i.RuntimeVersion, cluster.Runtime}, {i.TargetVersion, cluster.Target}} {
		if each.constraint == "" {
			continue
		}
		if !satisfied(each.constraint, each.version) {
			return -1
		}
		score++
	}
	if len(i.Architectures) > 0 {
		if !slices.Contains(i.Architectures, cluster.Architecture) {
			return -1
		}
		score++
	}
	return score
}

func satisfied(constraint string, by *version.Version) bool {
	if by == nil {
		return false
	}
	parsed, err := semver.NewConstraint(constraint)
	// A pre-release, such as a version of a cloud provider, is compared like its release.
	return err == nil && parsed.Check(semver.New(uint64(by.Major()), uint64(by.Minor()), uint64(by.Patch()), "", ""))
}

func (i Image) reference(cluster Cluster) (string, error) {
	switch {
	case i.Ref != "":
		return i.Ref, nil
	case i.Repository == "":
		return "", fmt.Errorf("image %q has no repository", i.Name)
	case strings.HasPrefix(i.Tag, "sha256:"):
		return i.Repository + "@" + i.Tag, nil
	case i.Tag != "":
		return i.Repository + ":" + i.Tag, nil
	case cluster.Target != nil:
		return i.Repository + ":v" + cluster.Target.String(), nil
	}
	return "", fmt.Errorf("image %q has no tag", i.Name)
}

// ParseComponents reads the lists of components, by the names of the components. The components decode their lists. Unknown fields are
// ignored.
func ParseComponents(content []byte) (map[string]string, error) {
	file := struct {
		Components []struct {
			Name   string `json:"name"`
			Images string `json:"imageVectorOverwrite"`
		} `json:"components"`
	}{}
	if err := yaml.Unmarshal(content, &file); err != nil {
		return nil, fmt.Errorf("decode images of components: %w", err)
	}
	lists := map[string]string{}
	for i, each := range file.Components {
		if each.Name == "" || each.Images == "" {
			return nil, fmt.Errorf("components[%d]: name and imageVectorOverwrite are required", i)
		}
		lists[each.Name] = each.Images
	}
	return lists, nil
}
