package settings

import (
	"fmt"
	"net/http"
	"os"
	"runtime"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/garden/images"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// ProgramsOfOthers returns the images of other projects' programs, and the two facts that select an image. These are the version of the
// runtime cluster, which is read once, and the architecture of the operator, because the operator runs on the same nodes as these
// programs.
func ProgramsOfOthers(cluster *rest.Config, c *http.Client) (values.Operator, error) {
	o := values.Operator{Architecture: runtime.GOARCH}
	var err error
	if o.Images, o.ComponentImages, err = imageLists(os.Getenv, os.ReadFile); err != nil {
		return o, err
	}
	discoverer, err := discovery.NewDiscoveryClientForConfigAndClient(cluster, c)
	if err != nil {
		return o, fmt.Errorf("create client for version of runtime cluster: %w", err)
	}
	served, err := discoverer.ServerVersion()
	if err != nil {
		return o, fmt.Errorf("read version of runtime cluster: %w", err)
	}
	if o.RuntimeKubernetes, err = version.ParseGeneric(served.GitVersion); err != nil {
		return o, fmt.Errorf("parse version of runtime cluster: %w", err)
	}
	return o, nil
}

// imageLists returns the embedded list, overwritten by the file that EnvOverwrite names, and the lists of components in the file that
// EnvComponentOverwrites names.
func imageLists(getenv func(string) string, readFile func(string) ([]byte, error)) (images.List, map[string]string, error) {
	list, err := images.Embedded()
	if err != nil {
		return nil, nil, err
	}
	overwrite, err := fromFile(images.EnvOverwrite, getenv, readFile, images.Parse)
	if err != nil {
		return nil, nil, err
	}
	components, err := fromFile(images.EnvComponentOverwrites, getenv, readFile, images.ParseComponents)
	return list.Overwritten(overwrite), components, err
}

// fromFile parses the file that an environment variable names. Without the variable it returns the zero value.
func fromFile[T any](
	variable string, getenv func(string) string, readFile func(string) ([]byte, error), parse func([]byte) (T, error),
) (parsed T, err error) {
	file := getenv(variable)
	if file == "" {
		return parsed, nil
	}
	content, err := readFile(file)
	if err == nil {
		parsed, err = parse(content)
	}
	if err != nil {
		return parsed, fmt.Errorf("environment variable %s names the file %q: %w; correct the file, or remove the variable", variable, file, err)
	}
	return parsed, nil
}
