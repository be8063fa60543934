package local

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// Options define the parts of a control plane to start.
type Options struct {
	// Dir contains certificates, kubeconfigs, logs, process records and etcd's data. It is created if it does not exist. Parts that already
	// run from Dir continue to run, so a second Start restarts only parts that have died.
	Dir string
	// Assets is the folder of the binaries; see Assets.
	Assets string
	// ControllerManager, Scheduler and KWOK start these parts too. KWOK creates one fake Node, keeps it ready, and marks every Pod that is
	// bound to it as running.
	ControllerManager, Scheduler, KWOK bool
	// AuditPolicy is an audit.k8s.io/v1 Policy in YAML. If it is set, the API server writes ControlPlane.AuditLog with one JSON event per
	// line, each before the response is sent. Empty means no audit log.
	AuditPolicy []byte
	// APIServerArgs are added to the command line of the API server. They take precedence over the arguments of this package.
	APIServerArgs []string
	// Env is added to the environment of every part.
	Env []string
	// Port is the port of the API server; etcd uses the next two ports. 0 means the ports of the last run from Dir, or free ports. The
	// ports cannot change while a part runs from Dir.
	Port int
	// Detached makes the control plane continue when this process ends. Otherwise it ends with this process, even if the process is killed.
	Detached bool
	// Log receives a line for each part that is started or already runs; nil means no log.
	Log io.Writer
}

// prepare validates the options and returns them with absolute paths.
func (o Options) prepare() (Options, error) {
	if o.Dir == "" || o.Assets == "" {
		return o, errors.New("both a state folder and the folder of the binaries are needed")
	}
	if o.Port < 0 || o.Port > 65533 {
		return o, fmt.Errorf("port %d is out of range: 0 to 65533 (etcd takes the two ports after it)", o.Port)
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	var err error
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return o, fmt.Errorf("find state folder: %w", err)
	}
	if o.Assets, err = filepath.Abs(o.Assets); err != nil {
		return o, fmt.Errorf("find folder of binaries: %w", err)
	}
	for _, p := range o.parts() {
		if _, err := os.Stat(filepath.Join(o.Assets, p)); err != nil {
			return o, fmt.Errorf("find %s: %w; without KUBEBUILDER_ASSETS, it is built", p, err)
		}
	}
	return o, nil
}

const (
	etcd              = "etcd"
	apiServer         = "kube-apiserver"
	controllerManager = "kube-controller-manager"
	scheduler         = "kube-scheduler"
	kwok              = "kwok"
)

// allParts returns the parts in the order in which they are started; they are stopped in reverse order.
func allParts() []string { return []string{etcd, apiServer, controllerManager, scheduler, kwok} }

func (o Options) parts() []string {
	left := map[string]bool{controllerManager: !o.ControllerManager, scheduler: !o.Scheduler, kwok: !o.KWOK}
	return slices.DeleteFunc(allParts(), func(part string) bool { return left[part] })
}
