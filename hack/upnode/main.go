// Command upnode implements `make up-node`: it starts a cluster with one real node on this machine, imports the images of this work tree if
// they are built, and can stop and restart parts of the cluster:
//
//	upnode                 start everything that does not run, and import the images of .local/images
//	upnode down            stop and remove everything
//	upnode stop PART…      stop parts: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, containerd, kubelet, kube-proxy
//	upnode start           starts everything that does not run, without importing images
//	upnode load FILE…      import archives of images
//	upnode check           fail if this machine cannot run a node; start nothing
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/espalier-dev/espalier/test/local"
	"github.com/espalier-dev/espalier/test/local/node"
)

func main() { os.Exit(local.Main(run)) }

func run(ctx context.Context, arguments []string, out io.Writer) error {
	command := ""
	if len(arguments) > 0 {
		command = arguments[0]
		arguments = arguments[1:]
	}
	switch {
	case command == "forward":
		return node.Forward(ctx)
	case command == "inside" && len(arguments) == 3:
		return node.Start(ctx, arguments[0], arguments[1], arguments[2], out)
	}
	root, err := local.RepositoryRoot()
	if err != nil {
		return err
	}
	dir := filepath.Join(root, ".local", "node")
	switch {
	case command == "":
		return up(ctx, root, dir, out)
	case command == "start":
		return node.Up(ctx, dir, out)
	case command == "down":
		return node.Down(ctx, dir)
	case command == "stop" && len(arguments) > 0:
		return stop(dir, arguments)
	case command == "load" && len(arguments) > 0:
		return node.Load(ctx, out, arguments...)
	case command == "check":
		return node.Check()
	default:
		return errors.New("usage: upnode [down | stop PART… | start | load FILE… | check]")
	}
}

func stop(dir string, parts []string) error {
	known := []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "containerd", "kubelet", "kube-proxy"}
	for _, part := range parts {
		if !slices.Contains(known, part) {
			return fmt.Errorf("there is no part %q; there are %v", part, known)
		}
	}
	return node.Stop(dir, parts...)
}

func up(ctx context.Context, root, dir string, out io.Writer) error {
	begin := time.Now()
	if err := node.Up(ctx, dir, out); err != nil {
		return err
	}
	archives, err := filepath.Glob(filepath.Join(root, ".local", "images", "*.tar"))
	if err != nil {
		return fmt.Errorf("find images: %w", err)
	}
	if err := node.Load(ctx, out, archives...); err != nil {
		return err
	}
	fmt.Fprintf(out, "Node %s is ready after %.1f s; %d images are imported.\n\n  export KUBECONFIG=%s\n  make down removes all of it\n",
		node.Name, time.Since(begin).Seconds(), len(archives), filepath.Join(dir, "kubeconfig"))
	return nil
}
