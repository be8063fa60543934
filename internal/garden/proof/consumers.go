package proof

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/espalier-dev/espalier/internal/garden/component/gardener"
	"github.com/espalier-dev/espalier/internal/garden/component/gardeneraccess"
	"github.com/espalier-dev/espalier/internal/garden/component/gardeneradmission"
	"github.com/espalier-dev/espalier/internal/garden/component/gardenerapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/rollout"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// registrations are the kinds of objects of the virtual cluster with authorities of servers of Gardener.
var registrations = []struct {
	kind schema.GroupVersionKind
	// webhooks is true if an object has a list of webhooks. Otherwise it is an APIService.
	webhooks bool
}{
	{schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}, false},
	{schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingWebhookConfiguration"}, true},
	{schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"}, true},
}

// consumerProblems returns a sentence for each client of a server that does not have exactly the authorities of the bundle of that server.
// The clients are kubeconfigs of the operator, and APIServices and webhooks of Gardener in the virtual cluster. It also returns a sentence
// for each such APIService that is not available. An object that does not exist is no problem, because another task creates it.
func (p *Prover) consumerProblems(ctx context.Context) ([]string, error) {
	if !p.changes(rotation.CertificateAuthorities) {
		return nil, nil
	}
	bundle, err := p.Secrets.Bundle(kubeapiserver.Authority)
	if err != nil {
		return nil, err
	}
	var problems []string
	for _, name := range []string{gardeneraccess.External, gardeneraccess.Internal} {
		secret, failure := rollout.Find(ctx, p.Cluster.Client, p.Values.Namespace, name, &corev1.Secret{})
		if failure != nil {
			return nil, fmt.Errorf("read Secret %s: %w", name, failure)
		}
		if secret != nil {
			problems = append(problems, kubeconfigProblems(name, secret.Data[secretconfig.DataKeyKubeconfig],
				bundle.Data[secretconfig.DataKeyCertificateBundle])...)
		}
	}
	more, err := p.registrationProblems(ctx)
	return append(problems, more...), err
}

// registrationProblems returns a sentence for each APIService and webhook of Gardener in the virtual cluster that does not have exactly the
// authorities of the bundle, and for each such APIService that is not available.
func (p *Prover) registrationProblems(ctx context.Context) ([]string, error) {
	bundle, err := p.Secrets.Bundle(gardener.Authority)
	if err != nil {
		return nil, err
	}
	virtual, err := p.Virtual(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var problems []string
	for _, each := range registrations {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(each.kind)
		if err := virtual.List(ctx, list); err != nil {
			return nil, fmt.Errorf("list %ss of the virtual cluster: %w", each.kind.Kind, err)
		}
		for i := range list.Items {
			o := list.Items[i].Object
			if each.webhooks {
				problems = append(problems, webhookProblems(o, p.Values.Namespace, bundle.Data[secretconfig.DataKeyCertificateBundle])...)
			} else {
				problems = append(problems, apiServiceProblems(o, bundle.Data[secretconfig.DataKeyCertificateBundle])...)
			}
		}
	}
	return problems, nil
}

// kubeconfigProblems returns why a kubeconfig does not have exactly the authorities of a bundle.
func kubeconfigProblems(name string, kubeconfig, bundle []byte) []string {
	config, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return []string{fmt.Sprintf("the kubeconfig in Secret %s cannot be read", name)} // the error could contain a part of it
	}
	for _, cluster := range config.Clusters {
		if !hasBundle(cluster.CertificateAuthorityData, bundle) {
			return []string{fmt.Sprintf("the kubeconfig in Secret %s does not have the present authorities", name)}
		}
	}
	return nil
}

// apiServiceProblems returns why an APIService of gardener-apiserver does not have exactly the authorities of a bundle, or is not
// available.
func apiServiceProblems(o map[string]any, bundle []byte) (problems []string) {
	if service, _, _ := unstructured.NestedString(o, "spec", "service", "name"); service != gardenerapiserver.Name {
		return nil
	}
	name, _, _ := unstructured.NestedString(o, "metadata", "name")
	if !hasBundle(decoded(o, "spec", "caBundle"), bundle) {
		problems = append(problems, fmt.Sprintf("APIService %s does not have the present authorities", name))
	}
	conditions, _, _ := unstructured.NestedSlice(o, "status", "conditions")
	if !slices.ContainsFunc(conditions, func(each any) bool {
		condition, _ := each.(map[string]any)
		return condition["type"] == "Available" && condition["status"] == "True"
	}) {
		problems = append(problems, fmt.Sprintf("APIService %s is not available", name))
	}
	return problems
}

// webhookProblems returns why webhooks of gardener-admission-controller do not have exactly the authorities of a bundle. The parameter
// namespace is the namespace of gardener-admission-controller in the runtime cluster.
func webhookProblems(o map[string]any, namespace string, bundle []byte) (problems []string) {
	webhooks, _, _ := unstructured.NestedSlice(o, "webhooks")
	for _, each := range webhooks {
		webhook, _ := each.(map[string]any)
		url, _, _ := unstructured.NestedString(webhook, "clientConfig", "url")
		if !strings.HasPrefix(url, "https://"+gardeneradmission.Name+"."+namespace+"/") {
			continue
		}
		if !hasBundle(decoded(webhook, "clientConfig", "caBundle"), bundle) {
			problems = append(problems, fmt.Sprintf("webhook %v does not have the present authorities", webhook["name"]))
		}
	}
	return problems
}

func decoded(o map[string]any, fields ...string) []byte {
	text, _, _ := unstructured.NestedString(o, fields...)
	content, _ := base64.StdEncoding.DecodeString(text) // a text that is not encoded has no certificate
	return content
}

// hasBundle reports whether a text in PEM has exactly the certificates of a bundle, in any order.
func hasBundle(text, bundle []byte) bool {
	is, wanted := blocksIn(text), blocksIn(bundle)
	return len(is) > 0 && is.Equal(wanted)
}

func blocksIn(text []byte) sets.Set[string] {
	blocks := sets.New[string]()
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		blocks.Insert(string(block.Bytes))
	}
	return blocks
}
