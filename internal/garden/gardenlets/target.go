package gardenlets

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/chart"
	"github.com/espalier-dev/espalier/internal/garden/charts"
	"github.com/espalier-dev/espalier/internal/rollout"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// target is the cluster into which a gardenlet is deployed.
type target struct {
	rollout.Cluster
	isRemote bool
	release  chart.Release
}

// target returns the runtime cluster, or the cluster of the kubeconfig that the Gardenlet names.
func (r *Reconciler) target(ctx context.Context, o object) (target, error) {
	t := target{Cluster: r.Cluster}
	served := r.Runtime
	if ref := o.g.Spec.KubeconfigSecretRef; ref != nil {
		config, err := r.remote(ctx, o, ref.Name)
		if err != nil {
			return target{}, fmt.Errorf("spec.kubeconfigSecretRef: %w", err)
		}
		remote, err := client.NewWithWatch(config, client.Options{Scheme: r.Cluster.Client.Scheme()})
		if err != nil {
			return target{}, fmt.Errorf("spec.kubeconfigSecretRef: connect to cluster: %w", err)
		}
		server, err := discovery.NewDiscoveryClientForConfig(config)
		if err != nil {
			return target{}, fmt.Errorf("spec.kubeconfigSecretRef: connect to cluster: %w", err)
		}
		t.isRemote, t.Client, t.LimitedKinds = true, remote, nil
		served = func(context.Context) (string, []string, error) { return charts.Served(server) }
	}
	version, apis, err := served(ctx)
	if err != nil {
		return target{}, fmt.Errorf("ask cluster of the gardenlet: %w", err)
	}
	t.release = chart.Release{Name: release, Namespace: r.Namespace, KubernetesVersion: version, APIVersions: apis}
	return t, nil
}

func (r *Reconciler) remote(ctx context.Context, o object, name string) (*rest.Config, error) {
	secret := &corev1.Secret{}
	if err := o.virtual.Get(ctx, client.ObjectKey{Namespace: o.g.Namespace, Name: name}, secret); err != nil {
		return nil, fmt.Errorf("read Secret %s/%s: %w", o.g.Namespace, name, err)
	}
	config, err := clientConfig(secret.Data[secretconfig.DataKeyKubeconfig])
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig of Secret %s/%s: %w", o.g.Namespace, name, err)
	}
	return config, nil
}

// clientConfig returns the configuration of clients with the server, its TLS server name, the certificates and the token of the current
// context of a kubeconfig. Other fields have no effect, because they could make the operator read its own files, run a program, or
// impersonate users.
func clientConfig(kubeconfig []byte) (*rest.Config, error) {
	loaded, err := clientcmd.Load(kubeconfig)
	if err != nil { // the message may quote the file
		return nil, fmt.Errorf("key %s is not a kubeconfig", secretconfig.DataKeyKubeconfig)
	}
	current := loaded.Contexts[loaded.CurrentContext]
	if current == nil || loaded.Clusters[current.Cluster] == nil || loaded.AuthInfos[current.AuthInfo] == nil {
		return nil, errors.New("the kubeconfig has no current context with a cluster and a user")
	}
	cluster, user := loaded.Clusters[current.Cluster], loaded.AuthInfos[current.AuthInfo]
	switch {
	case !strings.HasPrefix(cluster.Server, "https://"):
		return nil, errors.New("the server of the kubeconfig is no https URL")
	case user.Token == "" && len(user.ClientCertificateData) == 0:
		return nil, errors.New("the user of the kubeconfig has neither token nor client-certificate-data; nothing else is supported")
	}
	return &rest.Config{
		Host: cluster.Server, BearerToken: user.Token, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{
			CAData: cluster.CertificateAuthorityData, ServerName: cluster.TLSServerName,
			CertData: user.ClientCertificateData, KeyData: user.ClientKeyData,
		},
	}, nil
}

// ensureNamespace creates the namespace of gardenlet in a remote cluster.
func (t target) ensureNamespace(ctx context.Context, name string) error {
	if !t.isRemote {
		return nil
	}
	live, err := rollout.Find(ctx, t.Client, "", name, &corev1.Namespace{})
	if err != nil || live != nil {
		return err
	}
	return t.DeployTyped(ctx, &corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{operatorv1alpha1.LabelRole: "garden"}},
	})
}

// ensureSame fails if the cluster has a gardenlet for another Seed. It finds the configuration as Gardener's operator does.
func (t target) ensureSame(ctx context.Context, namespace, seed string) error {
	deployment, err := rollout.Find(ctx, t.Client, namespace, release, &appsv1.Deployment{})
	if err != nil || deployment == nil {
		return err
	}
	volumes := deployment.Spec.Template.Spec.Volumes
	at := slices.IndexFunc(volumes, func(v corev1.Volume) bool { return v.Name == "gardenlet-config" && v.ConfigMap != nil })
	if at < 0 {
		return nil
	}
	configuration, err := rollout.Find(ctx, t.Client, namespace, volumes[at].ConfigMap.Name, &corev1.ConfigMap{})
	if err != nil || configuration == nil {
		return err
	}
	if is := seedIn(configuration.Data["config.yaml"]); is != "" && is != seed {
		return fmt.Errorf("the cluster has Deployment %s/%s, which is the gardenlet of Seed %q; correct spec.kubeconfigSecretRef, or delete "+
			"the Deployment", namespace, release, is)
	}
	return nil
}

// ensureFree fails if an object of the chart exists already, and is not part of gardenlet: another program would lose it.
func (t target) ensureFree(ctx context.Context, objects []*unstructured.Unstructured) error {
	for _, each := range objects {
		live := rollout.MetadataOf(each)
		err := t.Client.Get(ctx, client.ObjectKeyFromObject(each), live)
		switch {
		case rollout.IsGone(err):
		case err != nil:
			return fmt.Errorf("read %s %s: %w", live.Kind, each.GetName(), err)
		case !isOfGardenlet(live):
			return fmt.Errorf("%s %s exists already and is not part of gardenlet; delete it, or change its name in the chart",
				live.Kind, each.GetName())
		}
	}
	return nil
}
