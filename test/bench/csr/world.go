package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	certificatesclient "k8s.io/client-go/kubernetes/typed/certificates/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/bench/gauge"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

const namespace = "espalier-system"

// world is a cluster with nodes, each with its Machine and its own client, and a running approver.
type world struct {
	dir      string
	plane    *local.ControlPlane
	admin    certificatesclient.CertificatesV1Interface
	nodes    []node
	approver *process
}

type node struct {
	name   string
	client certificatesclient.CertificatesV1Interface
	pem    []byte
}

func newWorld(ctx context.Context, nodes int) (_ *world, err error) {
	dir, err := os.MkdirTemp("", "espalier-bench-csr-")
	if err != nil {
		return nil, err
	}
	w := &world{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	assets, err := local.Assets(ctx, os.Stderr)
	if err != nil {
		return nil, err
	}
	if w.plane, err = local.Start(ctx, local.Options{Dir: dir + "/plane", Assets: assets}); err != nil {
		return nil, err
	}
	cfg := w.plane.AdminConfig()
	if w.admin, err = certificatesclient.NewForConfig(cfg); err != nil {
		return nil, err
	}
	err = w.populate(ctx, cfg, nodes)
	if err != nil {
		return nil, err
	}
	w.approver, err = startApprover(ctx, w)
	return w, err
}

// populate creates the nodes and their objects.
func (w *world) populate(ctx context.Context, cfg *rest.Config, nodes int) error {
	c, err := client.New(cfg, client.Options{})
	if err != nil {
		return err
	}
	err = c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	if err != nil {
		return err
	}
	if _, err = binary.Install(ctx, c, "internal/csr/approver/testdata/machines.yaml"); err != nil {
		return err
	}
	key, err := newKey()
	if err != nil {
		return err
	}
	for i := range nodes {
		n := node{name: fmt.Sprintf("node-%04d", i)}
		object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name}}
		object.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: n.name}, {Type: corev1.NodeInternalIP, Address: address(i).String()}}
		err = c.Create(ctx, object)
		if err != nil {
			return err
		}
		err = createMachine(ctx, c, n.name)
		if err != nil {
			return err
		}
		as := rest.CopyConfig(cfg)
		as.Impersonate = rest.ImpersonationConfig{UserName: "system:node:" + n.name, Groups: []string{"system:nodes"}}
		if n.client, err = certificatesclient.NewForConfig(as); err != nil {
			return err
		}
		if n.pem, err = key.request(n.name, address(i)); err != nil {
			return err
		}
		w.nodes = append(w.nodes, n)
	}
	return nil
}

// createMachine waits until the kind is served.
func createMachine(ctx context.Context, c client.Client, name string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		machine := &unstructured.Unstructured{}
		machine.SetAPIVersion("machine.sapcloud.io/v1alpha1")
		machine.SetKind("Machine")
		machine.SetNamespace(namespace)
		machine.SetName(name)
		machine.SetLabels(map[string]string{"node": name})
		err := c.Create(ctx, machine)
		if !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
			return err
		}
		if err := gauge.Pause(ctx, look); err != nil {
			return fmt.Errorf("wait for the kind Machine: %w", err)
		}
	}
}

func (w *world) close() error {
	var failures []error
	if w.approver != nil {
		failures = append(failures, w.approver.stop())
	}
	if w.plane != nil {
		failures = append(failures, w.plane.Stop())
	}
	return errors.Join(append(failures, os.RemoveAll(w.dir))...)
}
