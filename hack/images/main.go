// Command images builds an image for every binary that has a Deployment in deploy/, or for the given binaries or packages, without a
// container engine and without a base image. Each image contains static binaries only (as a rule one), runs as an unprivileged user, and
// has no shell. For each image the command writes an archive in OCI layout (<binary>.tar), for each binary a bill of materials
// (<binary>.spdx.json), and prints sizes and digests. The same commit gives the same digests.
//
// A package may have a file named "programs" with names of further binaries of cmd/. Its image also contains them, in the folder of its own
// binary: this is how the image of test/gardener-resource-manager is built.
//
// "images pack" writes archives of images with programs that are already built. It reads a list of these images from standard input.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/ko/pkg/build"
)

const (
	module = "github.com/espalier-dev/espalier"
	// user is the unprivileged user of images that have no base image.
	user = "65532:65532"
	// maxSize is the maximum total size of the files in an image, unpacked, in bytes for each of its binaries.
	maxSize = 75_000_000
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		stop()
		os.Exit(1)
	}
}

// settings are the values of the flags.
type settings struct {
	root, out, version, repository, arch string
	binaries                             []string
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 1 && args[0] == "pack" {
		return packImages(os.Stdin)
	}
	s := settings{}
	flags := flag.NewFlagSet("images", flag.ContinueOnError)
	flags.StringVar(&s.root, "root", ".", "the folder of the repository")
	flags.StringVar(&s.out, "out", ".local/images", "where archives and bills of materials go")
	flags.StringVar(&s.version, "version", "v0.0.0-dev", "what the binaries say is their version; the tag of the images")
	flags.StringVar(&s.repository, "repository", "espalier.local", "what the names of the images start with")
	flags.StringVar(&s.arch, "arch", runtime.GOARCH, "the architecture to build for")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s.binaries = flags.Args()
	if len(s.binaries) == 0 {
		deployments := filepath.Join(s.root, "deploy", "*", "base", "deployment.yaml")
		found, err := filepath.Glob(deployments)
		if err != nil || len(found) == 0 {
			return errors.Join(fmt.Errorf("no binaries in %s", deployments), err)
		}
		for _, each := range found {
			s.binaries = append(s.binaries, filepath.Base(filepath.Dir(filepath.Dir(each))))
		}
	}
	if err := os.MkdirAll(s.out, 0o755); err != nil {
		return err
	}
	builder, err := newBuilder(ctx, s)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%-28s %10s  %s\n", "image", "MB", "digest")
	for _, binary := range s.binaries {
		if err := image(ctx, builder, s, binary, out); err != nil {
			return fmt.Errorf("image of %s: %w", binary, err)
		}
	}
	return nil
}

// newBuilder returns a builder that adds a binary to an empty base image.
func newBuilder(ctx context.Context, s settings) (build.Interface, error) {
	base, err := nothing(s.arch)
	if err != nil {
		return nil, err
	}
	builder, err := build.NewGo(ctx, s.root,
		build.WithBaseImages(func(context.Context, string) (name.Reference, build.Result, error) {
			reference, err := name.ParseReference("espalier.local/nothing:none")
			return reference, base, err
		}),
		build.WithPlatforms("linux/"+s.arch),
		build.WithTrimpath(true),
		build.WithDefaultEnv([]string{"CGO_ENABLED=0"}),
		build.WithDefaultFlags([]string{"-buildvcs=false"}),
		build.WithLdflags([]string{"-s", "-w", "-X", module + "/internal/process.Version=" + s.version}),
		build.WithCreationTime(v1.Time{Time: time.Unix(0, 0).UTC()}),
		build.WithUser(user),
		build.WithJobs(1),
		build.WithSPDX(builderVersion()),
		build.WithSBOMDir(s.out),
		build.WithLabel("org.opencontainers.image.source", "https://"+module),
		build.WithLabel("org.opencontainers.image.version", s.version),
		build.WithLabel("org.opencontainers.image.licenses", "Apache-2.0"),
	)
	if err != nil {
		return nil, fmt.Errorf("prepare build: %w", err)
	}
	return builder, nil
}

// builderVersion returns the version of the builder that the bills of materials contain.
func builderVersion() string {
	info, _ := debug.ReadBuildInfo()
	if info != nil {
		for _, each := range info.Deps {
			if each.Path == "github.com/google/ko" {
				return each.Version
			}
		}
	}
	return "of unknown version"
}

// nothing returns an image without files, for an architecture.
func nothing(arch string) (v1.Image, error) {
	image, err := mutate.ConfigFile(mutate.MediaType(empty.Image, types.OCIManifestSchema1),
		&v1.ConfigFile{OS: "linux", Architecture: arch, RootFS: v1.RootFS{Type: "layers"}})
	if err != nil {
		return nil, fmt.Errorf("make an image without files: %w", err)
	}
	return mutate.ConfigMediaType(image, types.OCIConfigJSON), nil
}

// image builds and writes the image of a binary of cmd/ or of a package, and prints its name, size and digest.
func image(ctx context.Context, builder build.Interface, s settings, binary string, out io.Writer) error {
	pkg := packageOf(s.root, binary)
	binary = path.Base(pkg)
	further, err := programs(filepath.Join(s.root, pkg))
	if err != nil {
		return err
	}
	made, err := built(ctx, builder, s, pkg)
	if err != nil {
		return err
	}
	for _, each := range further {
		if made, err = with(ctx, builder, s, made, "cmd/"+each); err != nil {
			return fmt.Errorf("add %s: %w", each, err)
		}
	}
	files := mutate.Extract(made)
	size, err := io.Copy(io.Discard, files)
	if err = errors.Join(err, files.Close()); err != nil {
		return fmt.Errorf("unpack: %w", err)
	}
	if limit := int64(maxSize * (1 + len(further))); size > limit {
		return fmt.Errorf("%d bytes unpacked, more than %d", size, limit)
	}
	digest, err := made.Digest()
	if err != nil {
		return err
	}
	if err := writeArchive(filepath.Join(s.out, binary+".tar"), made, s.repository+"/"+binary+":"+s.version); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%-28s %10.1f  %s\n", binary, float64(size)/1e6, digest)
	return err
}

// packageOf returns the package of a binary of cmd/, or else of test/. A package stands for itself.
func packageOf(root, binary string) string {
	if strings.Contains(binary, "/") {
		return binary
	}
	if _, err := os.Stat(filepath.Join(root, "cmd", binary)); errors.Is(err, fs.ErrNotExist) {
		return "test/" + binary
	}
	return "cmd/" + binary
}

// programs returns the further binaries of a package's image.
func programs(folder string) ([]string, error) {
	content, err := os.ReadFile(filepath.Join(folder, "programs"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return strings.Fields(string(content)), err
}

// built builds the image of a package, and writes its bill of materials.
func built(ctx context.Context, builder build.Interface, s settings, pkg string) (v1.Image, error) {
	result, err := builder.Build(ctx, build.StrictScheme+module+"/"+pkg)
	if err != nil {
		return nil, err
	}
	made, ok := result.(v1.Image)
	if !ok {
		return nil, fmt.Errorf("got %T, not an image", result)
	}
	bill := filepath.Join(s.out, path.Base(pkg))
	if err := os.Rename(bill+"-linux-"+s.arch+".spdx.json", bill+".spdx.json"); err != nil {
		return nil, fmt.Errorf("name the bill of materials: %w", err)
	}
	return made, nil
}

// with returns an image to which the layer with the binary of a package is added.
func with(ctx context.Context, builder build.Interface, s settings, to v1.Image, pkg string) (v1.Image, error) {
	made, err := built(ctx, builder, s, pkg)
	if err != nil {
		return nil, err
	}
	layers, err := made.Layers()
	if err != nil {
		return nil, err
	}
	return mutate.AppendLayers(to, layers[len(layers)-1]) // the builder puts the binary into the last layer
}
