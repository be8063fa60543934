package throwaway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/excerpt"
)

// Contents contains the number of objects for each kind. The key is Kind.group, or Kind in the core group. For objects of
// gardener-apiserver, the key is resource.group.
type Contents map[string]int

// Objects returns the number of all objects.
func (c Contents) Objects() int {
	sum := 0
	for _, each := range c {
		sum += each
	}
	return sum
}

const (
	// pageSize is the number of objects in a request, and maxFaults the number of kinds that an error names.
	pageSize, maxFaults = 500, 5
	maxFault            = 300
)

// read counts the objects of all kinds that an API server stores itself. To list an object, the API server reads and decrypts it, although
// the response has only metadata. read fails if namespace kube-system is not older than the time in the parameter began: then etcd was
// empty, and the API server created the namespace. An error names the first object that cannot be read, for each of up to 5 kinds.
func read(ctx context.Context, config *rest.Config, began time.Time) (Contents, error) {
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create client: %w", err)
	}
	m, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create client: %w", err)
	}
	system, err := m.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read namespace %s: %w", metav1.NamespaceSystem, err)
	}
	if !system.CreationTimestamp.Time.Before(began) {
		return nil, errors.New("there is no snapshot, or it is empty")
	}
	lists, err := d.ServerPreferredResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) { // other API servers serve the groups that fail
		return nil, fmt.Errorf("list the kinds of objects: %w", err)
	}
	contents := Contents{}
	var faults []string
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("list the kinds of objects: %w", err)
		}
		for i := range list.APIResources {
			each := &list.APIResources[i]
			if !isStored(each) {
				continue
			}
			kind := version.WithKind(each.Kind).GroupKind().String()
			n, err := count(ctx, m.Resource(version.WithResource(each.Name)))
			switch {
			case ctx.Err() != nil:
				return nil, context.Cause(ctx)
			case err != nil:
				faults = append(faults, kind+": "+excerpt.Of(err.Error(), maxFault))
			case n > 0:
				contents[kind] = n
			}
		}
	}
	return contents, faultsOf(faults)
}

// isStored reports whether objects of a kind are in etcd.
func isStored(r *metav1.APIResource) bool {
	return slices.Contains(r.Verbs, "list") && !strings.Contains(r.Name, "/") && r.Name != "componentstatuses"
}

func count(ctx context.Context, r metadata.Getter) (int, error) {
	sum := 0
	for options := (metav1.ListOptions{Limit: pageSize}); ; {
		page, err := r.List(ctx, options)
		if err != nil {
			return 0, err
		}
		sum += len(page.Items)
		if options.Continue = page.Continue; options.Continue == "" {
			return sum, nil
		}
	}
}

func faultsOf(faults []string) error {
	if len(faults) == 0 {
		return nil
	}
	slices.Sort(faults)
	text := strings.Join(faults[:min(len(faults), maxFaults)], "; ")
	if more := len(faults) - maxFaults; more > 0 {
		text += fmt.Sprintf("; and %d further kinds", more)
	}
	return fmt.Errorf("objects cannot be read: %s", text)
}
