package plan

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/components"
	"github.com/espalier-dev/espalier/internal/garden/extension/rules"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/garden/versions"
)

// Preflight checks the needs of the first reconciliation of a Garden, and reports everything that is missing at once.
type Preflight struct {
	// Reader reads the runtime cluster.
	Reader client.Reader
	// Namespace is the garden namespace, and Namespaces are all namespaces that must exist before the operator runs.
	Namespace  string
	Namespaces []string
	// Operator are the settings of the operator that decide which components it deploys.
	Operator values.Operator
	// Version is the version of the runtime cluster.
	Version *version.Version
	// Allowed reports whether the operator has a right.
	Allowed func(ctx context.Context, right authorizationv1.ResourceAttributes) (bool, error)
	// Resolve returns the addresses of a host.
	Resolve func(ctx context.Context, host string) ([]string, error)
	// HasImage reports whether a registry has an image; nil: images are not checked.
	HasImage func(ctx context.Context, image string) (bool, error)
}

// oldestRuntime is the oldest version of Kubernetes that runtime clusters may have. Only from this version on, validating admission
// policies are generally available. Sidecar containers are on by default since Kubernetes 1.29.
var oldestRuntime = version.MustParseGeneric("1.30")

// Run returns the findings, in a fixed order. A check that cannot be made is a finding that does not block. Images are the images that
// workloads are about to get.
func (p Preflight) Run(ctx context.Context, garden *operatorv1alpha1.Garden, images []string) []Finding {
	f := &findings{}
	for _, check := range []func(context.Context, *findings, *operatorv1alpha1.Garden) error{
		p.checkVersions, p.checkNamespaces, p.checkRights, p.checkStorage, p.checkLoadBalancer, p.checkZones, p.checkSecrets,
		p.checkExtensions, p.checkQuotas, p.checkNames,
	} {
		if err := check(ctx, f, garden); err != nil {
			f.note("preflight", "a check could not be made: %s", err)
		}
	}
	p.checkImages(ctx, f, images)
	return f.all
}

// findings collects the findings of all checks.
type findings struct{ all []Finding }

func (f *findings) block(check, format string, args ...any) {
	f.all = append(f.all, Finding{check, true, fmt.Sprintf(format, args...)})
}

func (f *findings) note(check, format string, args ...any) {
	f.all = append(f.all, Finding{check, false, fmt.Sprintf(format, args...)})
}

func (p Preflight) checkVersions(_ context.Context, f *findings, garden *operatorv1alpha1.Garden) error {
	if p.Version != nil && p.Version.LessThan(oldestRuntime) {
		f.block("versions", "the runtime cluster has Kubernetes %s; it needs at least %s", p.Version, oldestRuntime)
	}
	wanted, err := versions.ParseKubernetes(garden.Spec.VirtualCluster.Kubernetes.Version)
	if err == nil && !wanted.Supported() {
		f.block("versions", "spec.virtualCluster.kubernetes.version is %s; supported are %s", wanted,
			strings.Join(versions.SupportedKubernetes(), ", "))
	}
	return nil
}

func (p Preflight) checkNamespaces(ctx context.Context, f *findings, _ *operatorv1alpha1.Garden) error {
	for _, name := range p.Namespaces {
		err := p.Reader.Get(ctx, client.ObjectKey{Name: name}, &corev1.Namespace{})
		if apierrors.IsNotFound(err) {
			f.block("namespaces", "namespace %s does not exist: create it, or apply deploy/garden-operator/namespace", name)
		} else if err != nil {
			return fmt.Errorf("read namespace %s: %w", name, err)
		}
	}
	return nil
}

// operatorRights are rights without which no reconciliation succeeds, one for each role of the operator and each kind of work.
func (p Preflight) operatorRights() []authorizationv1.ResourceAttributes {
	in := p.Namespace
	return []authorizationv1.ResourceAttributes{
		{Group: "operator.gardener.cloud", Resource: "gardens", Verb: "patch"},
		{Group: "operator.gardener.cloud", Resource: "gardens", Subresource: "status", Verb: "patch"},
		{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Name: "managedresources.resources.gardener.cloud", Verb: "create"},
		{Namespace: in, Resource: "secrets", Verb: "create"},
		{Namespace: in, Group: "apps", Resource: "deployments", Verb: "create"},
		{Namespace: in, Group: "resources.gardener.cloud", Resource: "managedresources", Verb: "create"},
		{Namespace: in, Group: "druid.gardener.cloud", Resource: "etcds", Verb: "create"},
		{Namespace: in, Group: "rbac.authorization.k8s.io", Resource: "roles", Verb: "create"},
	}
}

func (p Preflight) checkRights(ctx context.Context, f *findings, _ *operatorv1alpha1.Garden) error {
	var missing []string
	for _, each := range p.operatorRights() {
		allowed, err := p.Allowed(ctx, each)
		if err != nil {
			return fmt.Errorf("ask for the rights of the operator: %w", err)
		}
		if !allowed {
			missing = append(missing, strings.TrimSuffix(fmt.Sprintf("%s %s/%s", each.Verb, each.Resource+"."+each.Group, each.Subresource), "/"))
		}
	}
	if len(missing) > 0 {
		f.block("rights", "the operator may not %s: apply deploy/garden-operator, or name its ServiceAccount with --service-account",
			strings.Join(missing, ", "))
	}
	return nil
}

func (p Preflight) checkStorage(ctx context.Context, f *findings, garden *operatorv1alpha1.Garden) error {
	classes := &storagev1.StorageClassList{}
	if err := p.Reader.List(ctx, classes); err != nil {
		return fmt.Errorf("list StorageClasses: %w", err)
	}
	exists := func(name string) bool {
		return slices.ContainsFunc(classes.Items, func(c storagev1.StorageClass) bool { return c.Name == name })
	}
	byDefault := slices.ContainsFunc(classes.Items, func(c storagev1.StorageClass) bool {
		return c.Annotations[defaultClass] == "true"
	})
	etcd := ptr.Deref(garden.Spec.VirtualCluster.ETCD, operatorv1alpha1.ETCD{})
	main, events := ptr.Deref(etcd.Main, operatorv1alpha1.ETCDMain{}), ptr.Deref(etcd.Events, operatorv1alpha1.ETCDEvents{})
	for _, each := range []struct {
		etcd    string
		storage *operatorv1alpha1.Storage
	}{{"main", main.Storage}, {"events", events.Storage}} {
		path := "spec.virtualCluster.etcd." + each.etcd + ".storage.className"
		switch name := ptr.Deref(ptr.Deref(each.storage, operatorv1alpha1.Storage{}).ClassName, ""); {
		case name != "" && !exists(name):
			f.block("storage", "%s names StorageClass %q, which does not exist", path, name)
		case name == "" && !byDefault:
			f.block("storage", "the runtime cluster has no default StorageClass, and %s is not set", path)
		}
	}
	if names := components.WithVolumes(values.OfAny(garden, p.Operator)); !byDefault && len(names) > 0 {
		f.block("storage", "the runtime cluster has no default StorageClass, so the volumes of these components would stay pending: %s; mark a "+
			"StorageClass with the annotation %s=true, or skip the components in espalier.garden.skipComponents of the operator",
			strings.Join(names, ", "), defaultClass)
	}
	return nil
}

// defaultClass is the annotation of the StorageClass of claims that name none.
const defaultClass = "storageclass.kubernetes.io/is-default-class"

func (p Preflight) checkLoadBalancer(ctx context.Context, f *findings, _ *operatorv1alpha1.Garden) error {
	services := &corev1.ServiceList{}
	if err := p.Reader.List(ctx, services); err != nil {
		return fmt.Errorf("list Services: %w", err)
	}
	var pending []string
	for i := range services.Items {
		service := &services.Items[i]
		if service.Spec.Type != corev1.ServiceTypeLoadBalancer {
			continue
		}
		if len(service.Status.LoadBalancer.Ingress) > 0 {
			return nil
		}
		pending = append(pending, service.Namespace+"/"+service.Name)
	}
	if len(pending) > 0 {
		f.block("load-balancer", "no Service of type LoadBalancer has an address (%s): the runtime cluster needs a controller for them",
			strings.Join(pending, ", "))
		return nil
	}
	f.note("load-balancer", "the runtime cluster has no Service of type LoadBalancer, so it is not known whether such Services get addresses")
	return nil
}

func (p Preflight) checkZones(ctx context.Context, f *findings, garden *operatorv1alpha1.Garden) error {
	nodes := &corev1.NodeList{}
	if err := p.Reader.List(ctx, nodes); err != nil {
		return fmt.Errorf("list Nodes: %w", err)
	}
	if len(nodes.Items) == 0 {
		f.block("nodes", "the runtime cluster has no Nodes")
		return nil
	}
	for _, zone := range garden.Spec.RuntimeCluster.Provider.Zones {
		if !slices.ContainsFunc(nodes.Items, func(n corev1.Node) bool { return n.Labels[corev1.LabelTopologyZone] == zone }) {
			f.block("nodes", "spec.runtimeCluster.provider.zones has zone %q, in which there is no Node", zone)
		}
	}
	return nil
}

// checkSecrets checks the Secrets for backups and DNS. A task checks the other objects that the Garden refers to, and the result of this
// task is a part of the plan.
func (p Preflight) checkSecrets(ctx context.Context, f *findings, garden *operatorv1alpha1.Garden) error {
	names := map[string]string{}
	if backup := backupOf(garden); backup != nil {
		names["spec.virtualCluster.etcd.main.backup.secretRef.name"] = backup.SecretRef.Name
	}
	if garden.Spec.DNS != nil {
		for i, each := range garden.Spec.DNS.Providers {
			names[fmt.Sprintf("spec.dns.providers[%d].secretRef.name", i)] = each.SecretRef.Name
		}
	}
	paths := make([]string, 0, len(names))
	for path := range names {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for _, path := range paths {
		if names[path] == "" {
			continue
		}
		secret := &corev1.Secret{}
		err := p.Reader.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: names[path]}, secret)
		switch {
		case apierrors.IsNotFound(err):
			f.block("secrets", "%s names Secret %s/%s, which does not exist", path, p.Namespace, names[path])
		case err != nil:
			return fmt.Errorf("read Secret %s/%s: %w", p.Namespace, names[path], err)
		case len(secret.Data) == 0:
			f.block("secrets", "Secret %s/%s (%s) has no data", p.Namespace, names[path], path)
		}
	}
	return nil
}

func backupOf(garden *operatorv1alpha1.Garden) *operatorv1alpha1.Backup {
	etcd := ptr.Deref(garden.Spec.VirtualCluster.ETCD, operatorv1alpha1.ETCD{})
	return ptr.Deref(etcd.Main, operatorv1alpha1.ETCDMain{}).Backup
}

func (p Preflight) checkExtensions(ctx context.Context, f *findings, garden *operatorv1alpha1.Garden) error {
	available := &operatorv1alpha1.ExtensionList{}
	if err := p.Reader.List(ctx, available); err != nil {
		return fmt.Errorf("list Extensions: %w", err)
	}
	require := func(kind, typ, path string) {
		if !rules.Offers(available.Items, kind, typ) {
			f.block("extensions", "%s needs an Extension that offers %s of type %q for the Garden: register one", path, kind, typ)
		}
	}
	if backup := backupOf(garden); backup != nil && ptr.Deref(backup.BucketName, "") == "" {
		require("BackupBucket", backup.Provider, "spec.virtualCluster.etcd.main.backup")
	}
	if garden.Spec.DNS != nil {
		for i, each := range garden.Spec.DNS.Providers {
			require("DNSRecord", each.Type, fmt.Sprintf("spec.dns.providers[%d]", i))
		}
	}
	for i, each := range garden.Spec.Extensions {
		require(operatorv1alpha1.KindExtension, each.Type, fmt.Sprintf("spec.extensions[%d]", i))
	}
	return nil
}

// checkQuotas reports each ResourceQuota as a finding. The finding blocks if the quota is used up. Any other quota does not block, because
// the operator knows the need only when the objects exist.
func (p Preflight) checkQuotas(ctx context.Context, f *findings, _ *operatorv1alpha1.Garden) error {
	var failures []error
	for _, namespace := range p.Namespaces {
		quotas := &corev1.ResourceQuotaList{}
		if err := p.Reader.List(ctx, quotas, client.InNamespace(namespace)); err != nil {
			failures = append(failures, fmt.Errorf("list ResourceQuotas of namespace %s: %w", namespace, err))
			continue
		}
		for i := range quotas.Items {
			quota := &quotas.Items[i]
			var full []string
			for name, hard := range quota.Status.Hard {
				if used, counted := quota.Status.Used[name]; counted && used.Cmp(hard) >= 0 {
					full = append(full, string(name))
				}
			}
			slices.Sort(full)
			if len(full) > 0 {
				f.block("quotas", "ResourceQuota %s/%s has nothing left of %s: raise or remove it", namespace, quota.Name, strings.Join(full, ", "))
				continue
			}
			f.note("quotas", "ResourceQuota %s/%s limits the components of the Garden", namespace, quota.Name)
		}
	}
	return errors.Join(failures...)
}

func (p Preflight) checkNames(ctx context.Context, f *findings, garden *operatorv1alpha1.Garden) error {
	for _, each := range garden.Spec.VirtualCluster.DNS.Domains {
		for _, host := range []string{"api." + each.Name, "gardener." + each.Name} {
			p.checkName(ctx, f, host, garden.Spec.DNS != nil)
		}
	}
	for _, each := range garden.Spec.RuntimeCluster.Ingress.AllDomains() {
		p.checkName(ctx, f, "any."+each.Name, garden.Spec.DNS != nil)
	}
	return nil
}

func (p Preflight) checkName(ctx context.Context, f *findings, host string, created bool) {
	addresses, err := p.Resolve(ctx, host)
	switch {
	case err == nil && len(addresses) > 0:
		slices.Sort(addresses)
		f.note("dns", "%s resolves to %s; it must become the address of Service virtual-garden-istio-ingress/istio-ingressgateway",
			host, strings.Join(addresses, ", "))
	case created:
		f.note("dns", "%s does not resolve yet; the operator creates DNSRecords", host)
	default:
		f.note("dns", "%s does not resolve: create a record for the address of Service virtual-garden-istio-ingress/istio-ingressgateway "+
			"when it has one, or set spec.dns", host)
	}
}

const (
	// imageTimeout bounds the request for an image, and imageRequests the requests at the same time.
	imageTimeout  = 10 * time.Second
	imageRequests = 8
)

// checkImages asks the registries for images. An image that a registry does not have blocks. If a registry does not answer, its images do
// not block: the Nodes may reach registries that this machine does not reach, have credentials for them, or have the images already.
func (p Preflight) checkImages(ctx context.Context, f *findings, images []string) {
	if p.HasImage == nil {
		return
	}
	exists, problems := make([]bool, len(images)), make([]error, len(images))
	requests := errgroup.Group{}
	requests.SetLimit(imageRequests)
	for i, image := range images {
		requests.Go(func() error {
			limited, cancel := context.WithTimeout(ctx, imageTimeout)
			defer cancel()
			exists[i], problems[i] = p.HasImage(limited, image)
			return nil
		})
	}
	_ = requests.Wait() // problems has the errors
	unanswered := map[string][]error{}
	for i, image := range images {
		registry, _, _ := strings.Cut(image, "/")
		switch {
		case problems[i] != nil:
			unanswered[registry] = append(unanswered[registry], problems[i])
		case !exists[i]:
			f.block("images", "registry %s has no image %s: push it, or configure another one", registry, image)
		}
	}
	for _, registry := range slices.Sorted(maps.Keys(unanswered)) {
		f.note("images", "%d images of registry %s cannot be found from here (%s): check that the Nodes can pull them; --skip-images leaves "+
			"this check out", len(unanswered[registry]), registry, unanswered[registry][0])
	}
}
