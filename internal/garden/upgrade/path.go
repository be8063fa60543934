package upgrade

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/espalier-dev/espalier/internal/garden/versions"
)

// Path contains the versions of an upgrade.
type Path struct {
	target *version.Version
	// anyPatch is true if the target was given without a patch version: then each patch version of its minor version ends the path.
	anyPatch bool
	// patches are the versions that were given for minor versions, the target included, by minor version.
	patches map[uint]*version.Version
}

// NewPath returns the path to a version. A minor version without a patch version means the first version of this minor version. The
// parameter via contains versions that the path uses in place of the first versions of their minor versions.
func NewPath(target string, via []string) (Path, error) {
	p := Path{patches: map[uint]*version.Version{}, anyPatch: strings.Count(target, ".") == 1}
	var err error
	if p.target, err = parse(target); err != nil {
		return Path{}, err
	}
	for _, each := range via {
		stop, err := parse(each)
		if err != nil {
			return Path{}, err
		}
		if stop.Minor() >= p.target.Minor() {
			return Path{}, fmt.Errorf("version %s is not on the way to %s", each, target)
		}
		if other := p.patches[stop.Minor()]; other != nil {
			return Path{}, fmt.Errorf("versions %s and %s have the same minor version", other, stop)
		}
		p.patches[stop.Minor()] = stop
	}
	p.patches[p.target.Minor()] = p.target
	return p, nil
}

// parse returns a supported version with a patch version.
func parse(text string) (*version.Version, error) {
	parsed, err := versions.ParseKubernetes(text)
	if err != nil {
		return nil, err
	}
	if !parsed.Supported() {
		return nil, fmt.Errorf("version %s of Kubernetes is not supported; supported are %s", text,
			strings.Join(versions.SupportedKubernetes(), ", "))
	}
	if strings.Count(text, ".") == 1 {
		text += ".0"
	}
	return version.ParseSemantic(text)
}

// After returns the version that follows a version; nil if it is the last one.
func (p Path) After(current string) (*version.Version, error) {
	now, err := version.ParseGeneric(current)
	if err != nil {
		return nil, fmt.Errorf("read version of the virtual cluster: %w", err)
	}
	switch {
	case p.target.EqualTo(now), p.anyPatch && p.target.Minor() == now.Minor():
		return nil, nil //nolint:nilnil // it is the last one
	case p.target.LessThan(now):
		return nil, fmt.Errorf("%w: the virtual cluster has Kubernetes %s, which is later than %s", errRefused, current, p.target)
	case p.target.Minor() == now.Minor():
		return p.target, nil
	}
	next := now.Minor() + 1
	if named := p.patches[next]; named != nil {
		return named, nil
	}
	return version.MustParseSemantic(fmt.Sprintf("%d.%d.0", now.Major(), next)), nil
}
