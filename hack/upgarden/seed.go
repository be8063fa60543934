package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	list "github.com/espalier-dev/espalier/internal/garden/images"
	"github.com/espalier-dev/espalier/test/local"
	"github.com/espalier-dev/espalier/test/local/child"
	"github.com/espalier-dev/espalier/test/local/node"
)

const (
	// seedName is the name of the Seed in seed/config.yaml.
	seedName = "orchards"
	// seedGroup is the group of programs that only a Seed needs.
	seedGroup = "seed"
	// succeeded is the state of an operation that has ended without an error.
	succeeded = "Succeeded"
	// gardenletImage, providerImage and resourceManagerImage are names of images.
	gardenletImage       = "gardenlet"
	providerImage        = "provider-local"
	resourceManagerImage = "gardener-resource-manager"
)

// makeSeed makes the runtime cluster a Seed, waits until the Seed is healthy, and prints a summary.
func (u up) makeSeed(ctx context.Context, images list.List) error {
	u.report.Step("starting the DNS server of the Seed")
	if err := u.startNames(ctx); err != nil {
		return err
	}
	if !u.observability {
		if err := u.startBackground(monitoring); err != nil {
			return err
		}
	}
	u.report.Step("registering the extension provider-local")
	provider, err := images.Find(providerImage, list.Cluster{})
	if err != nil {
		return err
	}
	// Shoots can have each version of which the node has images.
	versions := slices.Compact([]string{u.kubernetes, defaultKubernetes})
	err = u.script(ctx, append([]string{"seed", provider, filepath.Join(u.node, "backups", "seed")}, versions...)...)
	if err != nil {
		return err
	}
	u.report.Step("deploying gardenlet")
	if err := u.deployGardenlet(ctx, images); err != nil {
		return err
	}
	if err := u.awaitSeed(ctx); err != nil {
		return fmt.Errorf("%w; see: kubectl -n garden logs deployment/gardenlet", err)
	}
	return u.seedSummary(ctx)
}

// startNames starts a DNS server in the network of the node, as a process that belongs to the node.
func (u up) startNames(ctx context.Context) error {
	folder := filepath.Join(u.state, "names")
	program, err := u.command(ctx, "", "hack/upgarden/names.sh", folder)
	if err != nil {
		return err
	}
	return node.Launch(u.node, child.Spec{
		Name: "named", Path: "ip",
		Args: []string{"netns", "exec", node.Name, strings.TrimSpace(program), "-g", "-c", filepath.Join(folder, "named.conf")},
	}, io.Discard)
}

// deployGardenlet deploys gardenlet with the lists of the images of this node.
func (u up) deployGardenlet(ctx context.Context, images list.List) error {
	gardenlet, err := images.Find(gardenletImage, list.Cluster{})
	if err != nil {
		return err
	}
	own := ""
	if u.resourceManager == espalier {
		if own, err = u.loadResourceManager(ctx); err != nil {
			return err
		}
	}
	folder := filepath.Join(u.state, gardenletImage)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("write lists of images: %w", err)
	}
	for file, each := range gardenletLists(images, own) {
		text, err := imageList(each)
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600)
		}
		if err != nil {
			return fmt.Errorf("write lists of images: %w", err)
		}
	}
	return u.script(ctx, "gardenlet", folder, gardenlet[strings.LastIndexByte(gardenlet, ':')+1:])
}

// gardenletLists returns the lists of images for gardenlet, by their file names. gardenlet uses images.yaml, in which own, unless it is
// empty, is the resource manager of Shoots. A test makes gardenlet use gardener.yaml, with Gardener's resource manager.
func gardenletLists(images list.List, own string) map[string]list.List {
	used := images
	if own != "" {
		used = images.Overwritten(list.List{{Name: resourceManagerImage, Ref: own}})
	}
	return map[string]list.List{"images.yaml": used, "gardener.yaml": images}
}

// loadResourceManager builds and imports the image of test/gardener-resource-manager, and returns its name.
func (u up) loadResourceManager(ctx context.Context) (string, error) {
	u.report.Step("building and importing Espalier's resource manager for Shoots")
	folder := filepath.Join(u.root, ".local", "images")
	_, err := u.command(ctx, "", "go", "run", "-C", "hack/images", ".", "-root", u.root, "-out", folder, "-version", u.version,
		resourceManagerImage)
	if err == nil {
		err = node.Load(ctx, u.out, filepath.Join(folder, resourceManagerImage+".tar"))
	}
	return "espalier.local/" + resourceManagerImage + ":" + u.version, err
}

// seedStatus is a part of the status of a Seed.
type seedStatus struct {
	ObservedGeneration int64
	Conditions         []corev1beta1.Condition
	LastOperation      *struct {
		State, Description string
		Progress           int
	}
}

// awaitSeed waits until the Seed is reconciled and healthy. Meanwhile it prints each change.
func (u up) awaitSeed(ctx context.Context) error {
	shown := ""
	return local.AwaitEvery(ctx, time.Second, patience, "Seed "+seedName, func(ctx context.Context) error {
		seed, err := u.readSeed(ctx)
		if err == nil {
			err = unready(seed)
		}
		if err != nil && err.Error() != shown {
			shown = err.Error()
			u.report.Step("%s", shown)
		}
		return err
	})
}

// readSeed returns the Seed. Its client is made anew each time, because the token in the kubeconfig changes.
func (u up) readSeed(ctx context.Context) (*corev1beta1.Seed, error) {
	config, err := clientcmd.BuildConfigFromFlags("", virtualKubeconfig(u.node))
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	err = corev1beta1.AddToScheme(scheme.Scheme)
	if err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{Scheme: scheme.Scheme})
	if err != nil {
		return nil, err
	}
	seed := &corev1beta1.Seed{}
	return seed, c.Get(ctx, client.ObjectKey{Name: seedName}, seed)
}

// seedConditions returns the conditions of a Seed with backups that must be true.
func seedConditions() []corev1beta1.ConditionType {
	return []corev1beta1.ConditionType{"GardenletReady", "ExtensionsReady", "BackupBucketsReady", "SeedSystemComponentsHealthy"}
}

// unready returns the reason why a Seed is not reconciled or not healthy, or nil.
func unready(seed *corev1beta1.Seed) error {
	status := seedStatus{}
	if seed.Status != nil {
		if err := json.Unmarshal(seed.Status.Raw, &status); err != nil {
			return fmt.Errorf("decode status: %w", err)
		}
	}
	operation := status.LastOperation
	switch {
	case operation == nil:
		return errors.New("gardenlet has not begun")
	case operation.State != succeeded || status.ObservedGeneration != seed.Generation:
		return fmt.Errorf("%s (%d%%): %s", operation.State, operation.Progress, operation.Description)
	}
	for _, each := range seedConditions() {
		at := slices.IndexFunc(status.Conditions, func(c corev1beta1.Condition) bool { return c.Type == each })
		if at < 0 {
			return fmt.Errorf("%s is not known yet", each)
		}
		if found := status.Conditions[at]; found.Status != corev1beta1.ConditionTrue {
			return fmt.Errorf("%s is %s: %s", each, found.Status, found.Message)
		}
	}
	return nil
}

// seedSummary prints the Seed and the extension that is installed in it.
func (u up) seedSummary(ctx context.Context) error {
	all, err := u.kubectl(ctx, "--kubeconfig", virtualKubeconfig(u.node), "get", "seeds,controllerinstallations,backupbuckets", "-o", "wide")
	if err != nil {
		return err
	}
	used, err := node.Memory()
	if err != nil {
		return err
	}
	u.report.Say(fmt.Sprintf("\n%s\nSeed %s is ready after %.0f s; the node and everything in it use %d MB of memory.", all, seedName,
		time.Since(u.begin).Seconds(), used/1e6))
	return nil
}
