// Package resourcemanager returns the objects of the resource managers of the runtime cluster and of the virtual cluster.
//
// The resource manager of the runtime cluster consists of four of Espalier's binaries, each in a Deployment of its own:
// managedresource-controller as gardener-resource-manager, with the class seed, and beside it webhook-server, netpol-controller and
// token-controllers. The Deployment of managedresource-controller has the name, the lease, the Service and the selector of Gardener's own
// resource manager, so that an existing landscape hands over by a rolling update. webhook-server issues its own certificate and maintains
// its own webhook configurations, which have the names of the webhook configurations of Gardener's resource manager. netpol-controller
// makes the NetworkPolicies for Services and the general NetworkPolicies; package networkpolicies returns the other ones.
//
// The resource manager of the virtual cluster is in virtual.go.
package resourcemanager

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/deployable"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/pods"
	"github.com/espalier-dev/espalier/internal/garden/component/system"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// Name is the name of the first Deployment, and the beginning of the names of the others.
const Name = "gardener-resource-manager"

const (
	app = "app"
	// partLabel distinguishes the Deployments. All their Pods have the label app=gardener-resource-manager, and webhooks do not change Pods
	// with this label.
	partLabel = "app.kubernetes.io/component"

	skipHighAvailability = "high-availability-config.resources.gardener.cloud/skip"
	skipTokenMount       = "projected-token-mount.resources.gardener.cloud/skip"
	scrapeTargets        = "networking.resources.gardener.cloud/from-all-scrape-targets-allowed-ports"
	gardenScrapeTargets  = "networking.resources.gardener.cloud/from-all-garden-scrape-targets-allowed-ports"
)

// Binaries that both resource managers have.
const (
	managedResourceController = "managedresource-controller"
	tokenControllers          = "token-controllers"
)

// networkPolicyPart is the part with netpol-controller.
const networkPolicyPart = "networkpolicies"

// NetworkPolicyController returns the labels of the Pods of netpol-controller.
func NetworkPolicyController() map[string]string {
	return map[string]string{app: Name, partLabel: networkPolicyPart}
}

// part is a Deployment of a resource manager, with one of Espalier's binaries.
type part struct {
	binary, name string
	// lease is the name of the lease of managedresource-controller. Every other binary appends its own name to this name, and uses the result
	// as the name of its own lease.
	lease    string
	selector map[string]string
	config   section
	// roles returns the roles that replace a role of the binary. Nil: the role of the binary stays as it is.
	roles func(deployable.Role) []deployable.Role
	// complete changes the Deployment.
	complete   func(*appsv1.Deployment)
	autoscaler client.Object
}

func parts(v values.Values) []part {
	of := func(binary, suffix string, config section) part {
		name := Name + "-" + suffix
		return part{binary: binary, name: name, selector: map[string]string{app: Name, partLabel: suffix}, config: config}
	}
	all := []part{
		{binary: managedResourceController, name: Name, selector: map[string]string{app: Name, object.Role: "seed"}, config: managedResources(v)},
		of("webhook-server", "webhooks", webhooks(v)),
		of("netpol-controller", networkPolicyPart, networkPolicies(v)),
		of(tokenControllers, "tokens", tokens()),
	}
	for i := range all {
		all[i].lease, all[i].autoscaler = Name, object.Autoscaler{
			Name: all[i].name + "-vpa", Target: all[i].name,
			MinAllowed: pods.Memory("64Mi"), MaxAllowed: pods.Amounts("4", "10G"),
		}.Object(v, v.Namespace)
		all[i].complete = func(d *appsv1.Deployment) { adapt(d, v) }
	}
	all[len(all)-1].roles = func(r deployable.Role) []deployable.Role {
		if deployable.OnlyForRequestor(r.Name) {
			return nil
		}
		return []deployable.Role{r}
	}
	return all
}

// Objects returns the objects of all binaries, in the order in which they are deployed, without the CRD of ManagedResources.
func Objects(v values.Values) ([]client.Object, error) {
	return objects(v, parts(v))
}

func objects(v values.Values, parts []part) ([]client.Object, error) {
	var all []client.Object
	for _, each := range parts {
		own, err := each.objects(v)
		if err != nil {
			return nil, fmt.Errorf("render %s: %w", each.name, err)
		}
		all = append(all, own...)
	}
	return all, nil
}

func (p part) objects(v values.Values) ([]client.Object, error) {
	binary, found := deployable.Named(p.binary)
	if !found {
		return nil, fmt.Errorf("there is no binary %s", p.binary)
	}
	config, err := file(p.config, v, p.lease)
	if err != nil {
		return nil, err
	}
	if p.roles != nil {
		roles := make([]deployable.Role, 0, len(binary.Roles))
		for _, each := range binary.Roles {
			roles = append(roles, p.roles(each)...)
		}
		binary.Roles = roles
	}
	place := deployable.Place{Namespace: v.Namespace, Name: p.name, Selector: p.selector, Config: config}
	objects, err := p.generatedRoles(binary, place)
	if err != nil {
		return nil, err
	}
	for _, each := range binary.At(place).Objects(v.Image(p.binary)) {
		switch o := each.(type) {
		case *appsv1.Deployment:
			p.complete(o)
		case *corev1.Service:
			o.Annotations[gardenScrapeTargets] = o.Annotations[scrapeTargets]
			delete(o.Annotations, scrapeTargets)
		}
		objects = append(objects, each)
	}
	return append(objects, p.autoscaler), nil
}

// adapt changes a Deployment as the namespace of the Garden requires. It sets the fields of Pods that webhooks set elsewhere, because the
// webhooks in this namespace do not change the Pods of the resource manager.
func adapt(d *appsv1.Deployment, v values.Values) {
	d.Labels[skipHighAvailability] = "true"
	template := &d.Spec.Template
	template.Labels[skipTokenMount] = "true"
	template.Spec.PriorityClassName = system.Critical
	template.Spec.Tolerations = tolerations(v)
	if len(v.Zones) > 1 {
		zones := *template.Spec.TopologySpreadConstraints[0].DeepCopy()
		zones.TopologyKey, zones.WhenUnsatisfiable = corev1.LabelTopologyZone, corev1.DoNotSchedule
		// Old Pods must not keep new ones from being scheduled during a rolling update.
		zones.MatchLabelKeys = []string{appsv1.DefaultDeploymentUniqueLabelKey}
		template.Spec.TopologySpreadConstraints = append(template.Spec.TopologySpreadConstraints, zones)
	}
}

func tolerations(v values.Values) []corev1.Toleration {
	var all []corev1.Toleration
	for _, each := range []struct {
		taint   string
		seconds *int64
	}{{corev1.TaintNodeNotReady, v.NotReadySeconds}, {corev1.TaintNodeUnreachable, v.UnreachableSeconds}} {
		if each.seconds != nil {
			all = append(all, corev1.Toleration{
				Key: each.taint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: each.seconds,
			})
		}
	}
	return all
}
