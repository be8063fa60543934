package runtime

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/basicauth"
	"github.com/espalier-dev/espalier/internal/garden/component/observability"
	"github.com/espalier-dev/espalier/internal/garden/component/webui"
	"github.com/espalier-dev/espalier/internal/rollout"
)

// passwords returns the objects that make the gateway ask for passwords. They also protect the hosts of the existing routes, because the
// routes change only after these objects.
func (p *Platform) passwords(ctx context.Context) (component.Objects, error) {
	found, err := p.Installer.Generate(ctx, basicauth.Component)
	if err != nil {
		return component.Objects{}, err
	}
	var routes []*unstructured.Unstructured
	for _, name := range webui.RouteNames() {
		route := rollout.Identity(webui.RouteKind, p.Values.Namespace, name)
		route, err = rollout.Find(ctx, p.Cluster.Client, p.Values.Namespace, name, route)
		if err != nil {
			return component.Objects{}, err
		}
		if route != nil {
			routes = append(routes, route)
		}
	}
	objects, err := basicauth.Objects(p.Values, basicauth.CredentialsOf(found), routes)
	return component.Objects{Sets: [][]client.Object{objects}}, err
}

// webUIs returns the objects by which users reach web UIs.
func (p *Platform) webUIs(ctx context.Context) (component.Objects, error) {
	certificates, s := map[string]*corev1.Secret{}, p.Secrets.Collect()
	var wildcard *corev1.Secret
	if name := p.Values.WildcardCertificate; name != "" {
		found, err := rollout.Find(ctx, p.Cluster.Client, p.Values.Namespace, name, &corev1.Secret{})
		if err != nil {
			return component.Objects{}, err
		}
		if found == nil {
			return component.Objects{}, fmt.Errorf("the wildcard certificate, Secret %s/%s, was deleted", p.Values.Namespace, name)
		}
		wildcard = found
	} else {
		for _, ui := range observability.Exposed(p.Values) {
			certificates[ui.Certificate] = s.Generate(ctx, webui.Certificate(p.Values, ui))
		}
	}
	if err := s.Err(); err != nil {
		return component.Objects{}, err
	}
	return component.Objects{Sets: [][]client.Object{webui.Objects(p.Values, certificates, wildcard)}}, nil
}
