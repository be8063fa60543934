package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	list "github.com/espalier-dev/espalier/internal/garden/images"
	"github.com/espalier-dev/espalier/test/local/node"
)

// image is an image that is made from programs of hack/garden.sh and test/local/garden.
type image struct {
	// name is the name of the image in lists of images. target is the constraint for versions of the virtual cluster; empty: any version.
	name, target string
	// group is the group of programs that hack/garden.sh builds only on request; empty for other programs.
	group string
	// programs are the names of the programs, by their paths in the image. The first argument of the entrypoint is one of the paths.
	programs   map[string]string
	entrypoint []string
}

func only(name, program string, arguments ...string) image {
	return at("/"+program, name, program, arguments...)
}

// at returns an image with a program at a path.
func at(path, name, program string, arguments ...string) image {
	return image{name: name, programs: map[string]string{path: program}, entrypoint: append([]string{path}, arguments...)}
}

// observabilityGroup is the group of programs that only monitoring and logs need.
const observabilityGroup = "observability"

// used returns the images that a call needs. Programs of observability replace stand-ins for a Seed.
func (o options) used() []image {
	all := slices.DeleteFunc(images(), func(i image) bool { return i.group != "" && !slices.Contains(o.requested(), i.group) })
	return slices.DeleteFunc(all, func(i image) bool {
		return i.group == seedGroup && slices.ContainsFunc(all, func(other image) bool {
			return other.group == observabilityGroup && other.name == i.name
		})
	})
}

// images returns all images. A program that cannot be built from a Go module is replaced by standin, with the ports of its probes and
// Services.
func images() []image {
	return slices.Concat([]image{
		only("coredns", "coredns"),
		only("etcd-druid", "etcd-druid"),
		only("etcd-backup-restore", "etcdbrctl"),
		{
			name: "etcd-wrapper", programs: map[string]string{"/etcdwrapper": "etcdwrapper", "/etcd": "etcd"},
			entrypoint: []string{"/etcdwrapper"},
		},
		{name: "alpine", programs: map[string]string{"/bin/chown": "chown"}, entrypoint: []string{"/bin/chown"}},
		only("vpa-admission-controller", "vpa-admission-controller"),
		only("vpa-recommender", "vpa-recommender"),
		only("vpa-updater", "vpa-updater"),
		only("istio-istiod", "pilot-discovery"),
		only("istio-proxy", "sniproxy"),
		only("nginx-ingress-controller", "standin", "80", "443", "10254", "--"),
		only("ingress-default-backend", "standin", "8080", "--"),
		only("gardener-apiserver", "gardener-apiserver"),
		only("gardener-admission-controller", "gardener-admission-controller"),
		only("gardener-controller-manager", "gardener-controller-manager"),
		only("gardener-scheduler", "gardener-scheduler"),
	}, kubernetes("1.36"), kubernetes("1.35"), seedImages(), observabilityImages())
}

// seedImages returns the images that only a Seed needs.
func seedImages() []image {
	all := []image{
		{
			name: gardenletImage, programs: map[string]string{"/gardenlet": "gardenlet", "/versionproxy": "versionproxy"},
			entrypoint: []string{"/gardenlet"},
		},
		only(providerImage, "gardener-extension-provider-local"),
		only("gardener-resource-manager", "gardener-resource-manager"),
		only("kube-state-metrics", "standin", "8080", "8081", "--"),
		only("prometheus-operator", "standin", "8080", "--"),
		only("prometheus-config-reloader", "standin", "--"),
	}
	for i := range all {
		all[i].group = seedGroup
	}
	return all
}

// observabilityImages returns the images of monitoring and logs. Some have the name of a stand-in for a Seed, which they replace. Operators
// put some paths into Pods, and mount volumes at /prometheus, /alertmanager and /fluent-operator.
func observabilityImages() []image {
	all := []image{
		only("prometheus-operator", "prometheus-operator"),
		at("/bin/prometheus-config-reloader", "prometheus-config-reloader", "prometheus-config-reloader"),
		at("/bin/prometheus", "prometheus", "prometheus"),
		at("/bin/alertmanager", "alertmanager", "alertmanager"),
		only("cortex", "cortex"),
		only("blackbox-exporter", "blackbox_exporter"),
		only("kube-state-metrics", "kube-state-metrics"),
		only("victoria-operator", "victoria-operator"),
		only("victoria-logs", "victoria-logs"),
		at("/bin/fluent-operator", "fluent-operator", "fluent-operator"),
		at("/fluent-bit/bin/fluent-bit-watcher", "fluent-bit", "fluentbit"),
		at("/bin/cp", "fluent-bit-plugin", "fluentbit"),
		only("opentelemetry-operator", "opentelemetry-operator"),
		only("opentelemetry-collector", "collector"),
		only("perses-operator", "perses-operator"),
		only("lines", "lines"),
	}
	for i := range all {
		all[i].group = observabilityGroup
	}
	return all
}

// kubernetes returns the images for virtual clusters of a minor version. The Pods use these paths of the programs.
func kubernetes(minor string) []image {
	names := []string{"kube-apiserver", "kube-controller-manager"}
	all := make([]image, 0, len(names))
	for _, name := range names {
		path := "/usr/local/bin/" + name
		all = append(all, image{
			name: name, target: minor + ".x", group: "kubernetes-" + minor, programs: map[string]string{path: name + "-" + minor},
			entrypoint: []string{path},
		})
	}
	return all
}

// packed is an image in the input of `images pack`.
type packed struct {
	Image      string            `json:"image"`
	Archive    string            `json:"archive"`
	Programs   map[string]string `json:"programs"`
	Entrypoint []string          `json:"entrypoint"`
}

// images builds missing programs, and imports images that the node does not have. It returns the list of images.
func (u up) images(ctx context.Context) (list.List, error) {
	u.report.Step("building the programs of others that are not in the cache")
	programs, err := u.programs(ctx)
	if err != nil {
		return nil, err
	}
	var known list.List
	var missing []packed
	for _, each := range u.used() {
		p, problem := each.pack(programs, u.state)
		if problem != nil {
			return nil, problem
		}
		known = append(known, list.Image{Name: each.name, TargetVersion: each.target, Ref: p.Image})
		if info, absent := os.Stat(p.Archive); absent != nil || info.Size() > 0 {
			missing = append(missing, p)
		}
	}
	if len(missing) == 0 {
		return known, nil
	}
	u.report.Step("importing %d images", len(missing))
	toPack, err := json.Marshal(missing)
	if err != nil {
		return nil, err
	}
	if _, err := u.command(ctx, string(toPack), "go", "run", "-C", "hack/images", ".", "pack"); err != nil {
		return nil, err
	}
	archives := make([]string, 0, len(missing))
	for _, each := range missing {
		archives = append(archives, each.Archive)
	}
	if err := node.Load(ctx, u.out, archives...); err != nil {
		return nil, err
	}
	for _, each := range archives {
		// An empty archive means that the node has the image.
		if err := os.Truncate(each, 0); err != nil {
			return nil, fmt.Errorf("remember that an image is imported: %w", err)
		}
	}
	return known, nil
}

// programs builds programs, and returns their files by the names of the programs.
func (u up) programs(ctx context.Context) (map[string]string, error) {
	files := map[string]string{}
	built, err := u.command(ctx, "", "bash", append([]string{"hack/garden.sh"}, u.requested()...)...)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(built) {
		fields := strings.SplitN(strings.TrimSpace(line), " ", 3)
		files[fields[0]] = fields[2]
	}
	return files, nil
}

// pack returns the input of `images pack` for an image. Its tag is a digest of the content, so that Pods with earlier programs are
// replaced.
func (i image) pack(files map[string]string, folder string) (packed, error) {
	sum := sha256.New()
	p := packed{Programs: map[string]string{}, Entrypoint: i.entrypoint}
	for _, path := range slices.Sorted(maps.Keys(i.programs)) {
		file, found := files[i.programs[path]]
		if !found {
			return p, fmt.Errorf("pack image %s: there is no program %s", i.name, i.programs[path])
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return p, err
		}
		sum.Write(content)
		p.Programs[path] = file
	}
	fmt.Fprint(sum, i.entrypoint)
	tag := hex.EncodeToString(sum.Sum(nil))[:12]
	p.Image = "espalier.local/" + i.name + ":" + tag
	p.Archive = filepath.Join(folder, i.name+"-"+tag+".tar")
	return p, nil
}
