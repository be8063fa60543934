package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/test/local"
)

// The environment variables of the suites, besides KUBECONFIG. The command test/e2e/run sets them; a user who runs a suite directly sets
// them.
const (
	// VersionVariable is the tag of the images to deploy.
	VersionVariable = "E2E_VERSION"
	// RepositoryVariable is the prefix of image names; empty: DefaultRepository.
	RepositoryVariable = "E2E_REPOSITORY"
	// ReportsVariable is the folder of JUnit reports; empty: no reports are written.
	ReportsVariable = "E2E_REPORTS"
	// WithoutVariable is a binary that must not be deployed in this run; empty: none.
	WithoutVariable = "E2E_WITHOUT"
	// KubectlVariable is the path of the kubectl to use. Empty: the kubectl in PATH, or else the kubectl that hack/controlplane.sh installs.
	KubectlVariable = "E2E_KUBECTL"
)

// DefaultRepository is the prefix of the image names of `make images`.
const DefaultRepository = "espalier.local"

// SystemNamespace is the namespace of the binaries.
const SystemNamespace = "espalier-system"

// Cluster is the cluster under test, to which the specs have access as administrator.
type Cluster struct {
	// Config and Kubeconfig are the administrator's, without a client-side limit.
	Config     *rest.Config
	Kubeconfig string
	// Client knows the built-in kinds, CustomResourceDefinitions and the kinds of Espalier. It has no cache.
	Client client.Client
	// Clients are for subresources such as logs and tokens, which Client cannot read.
	Clients kubernetes.Interface
	// Version is the tag of the images under test, Repository the prefix of their names.
	Version, Repository string

	root, without string
	// kubectl returns the path of kubectl, which it looks for only once.
	kubectl func() (string, error)
}

// Connect connects to the cluster of KUBECONFIG. It sends no request.
func Connect() (*Cluster, error) {
	c, err := connect()
	if err != nil {
		return nil, fmt.Errorf("connect to cluster: %w", err)
	}
	return c, nil
}

func connect() (*Cluster, error) {
	kubeconfig, version := os.Getenv(clientcmd.RecommendedConfigPathEnvVar), os.Getenv(VersionVariable)
	if kubeconfig == "" {
		return nil, errors.New("KUBECONFIG is not set; run `make e2e`, which starts a cluster and sets it, or see docs/e2e.md")
	}
	if version == "" {
		return nil, fmt.Errorf("%s is not set: say which version of the images the cluster has, or run `make e2e`", VersionVariable)
	}
	root, err := local.RepositoryRoot()
	if err != nil {
		return nil, err
	}
	if kubeconfig, err = filepath.Abs(kubeconfig); err != nil {
		return nil, err
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w; run `make e2e`", kubeconfig, err)
	}
	cfg.QPS = -1 // the API server limits requests
	c := &Cluster{
		Config: cfg, Kubeconfig: kubeconfig, Version: version, Repository: cmp.Or(os.Getenv(RepositoryVariable), DefaultRepository),
		root: root, without: os.Getenv(WithoutVariable),
		kubectl: sync.OnceValues(func() (string, error) { return FindKubectl(context.Background()) }),
	}
	scheme := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, resourcesv1alpha1.AddToScheme,
		corev1beta1.AddToScheme, operatorv1alpha1.AddToScheme)
	err = builder.AddToScheme(scheme)
	if err != nil {
		return nil, err
	}
	if c.Client, err = client.New(cfg, client.Options{Scheme: scheme}); err != nil {
		return nil, fmt.Errorf("%w; does it run? `make e2e` starts it", err)
	}
	c.Clients, err = kubernetes.NewForConfig(cfg)
	return c, err
}

// As returns a client of a user in these groups.
func (c *Cluster) As(user string, groups ...string) (client.Client, error) {
	config := rest.CopyConfig(c.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	return client.New(config, client.Options{Scheme: c.Client.Scheme(), Mapper: c.Client.RESTMapper()})
}

// Image returns the reference of a binary's image in the version under test. The image of test Pods has the name workload; see
// test/e2e/workload.
func (c *Cluster) Image(binary string) string { return c.Repository + "/" + binary + ":" + c.Version }

// Lacks reports whether the binary must not be deployed in this run.
func (c *Cluster) Lacks(binary string) bool { return c.without == binary }
