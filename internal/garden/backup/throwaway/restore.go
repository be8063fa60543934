// Package throwaway restores the last snapshot of the main etcd into an etcd and a kube-apiserver, counts the objects in this etcd, and
// removes both programs.
//
// Both programs run in namespace garden-restore-drill, which is for nothing else. The operator owns all objects in this namespace that
// have the label of a restoration. There is at most one restoration. If the operator ends during a restoration, the next process removes
// these objects, and begins from the start: it continues nothing.
//
// Two Pods separate the rights. The Pod of etcd may connect to the snapshots, and has no key of the Garden. The Pod of kube-apiserver has
// the encryption keys of a backup file, and may connect only to that etcd. The operator connects to both Pods. The certificates of both
// programs are generated for each restoration. NetworkPolicies deny all other connections. Snapshots are only read, before etcd starts:
// the sidecar beside etcd has no access to them.
package throwaway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/deployable"
	"github.com/espalier-dev/espalier/internal/excerpt"
	"github.com/espalier-dev/espalier/internal/garden/component/etcd"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// Programs and Secrets are read in the namespace of the Garden; everything else is in the namespace of restorations.
// +kubebuilder:rbac:groups=apps,resources=deployments;statefulsets,verbs=get,namespace=garden,roleName=espalier-garden-operator-garden
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get,namespace=garden,roleName=espalier-garden-operator-garden
// +kubebuilder:rbac:groups="",resources=namespaces,resourceNames=garden-restore-drill,verbs=get;patch,roleName=espalier-garden-operator-source
// +kubebuilder:rbac:groups="",resources=configmaps;pods;secrets;services,verbs=list;create;delete,namespace=garden-restore-drill,roleName=espalier-garden-operator-restore-drill
// +kubebuilder:rbac:groups="",resources=pods,verbs=get,namespace=garden-restore-drill,roleName=espalier-garden-operator-restore-drill
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=list;create;delete,namespace=garden-restore-drill,roleName=espalier-garden-operator-restore-drill

const (
	// Namespace is the namespace of restorations.
	Namespace = deployable.RestoreDrillNamespace
	// Label is on all objects of a restoration.
	Label = "espalier.dev/restore-drill"

	fieldManager = "garden-operator"
	// patience is how long a restoration may take, and cleanPatience how long the removal of its objects may take.
	patience, cleanPatience = time.Hour, 2 * time.Minute
	pollPeriod              = time.Second
	// enforceLabel is the label by which a namespace enforces a Pod security standard.
	enforceLabel = "pod-security.kubernetes.io/enforce"
	maxMessage   = 500
)

// Restorer restores the last snapshot of the main etcd in namespace Namespace.
type Restorer struct {
	// Client reads and writes live.
	Client client.Client
	Clock  clock.PassiveClock
	// Garden is the namespace of the Garden.
	Garden string
	// MetadataService allows connections to the metadata service of the cloud, which backups may need.
	MetadataService bool
	// Connect changes the configurations with which the operator connects to the Services of the API server and of etcd; nil: it does not.
	Connect func(*rest.Config) *rest.Config
}

// Restore restores the last snapshot, and returns the number of objects in it. An API server with the encryption configuration reads all
// objects except the objects of gardener-apiserver, which are only counted. Restore fails if any object cannot be read. After Restore,
// also if it fails, no object of the restoration is left in the cluster, unless the operator ended meanwhile or the removal failed.
func (r *Restorer) Restore(ctx context.Context, encryption []byte) (contents Contents, err error) {
	err = r.Clean(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanPatience)
		defer cancel()
		err = errors.Join(err, r.Clean(cleaning))
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("it took longer than %s", patience))
	defer cancel()
	programs, err := r.programs(ctx)
	if err != nil {
		return nil, err
	}
	began, source := r.Clock.Now(), secretconfig.RandomSource(r.Clock.Now())
	etcdCredentials, err := newCredentials(etcdName, source)
	if err != nil {
		return nil, err
	}
	serverCredentials, err := newCredentials(serverName, source)
	if err != nil {
		return nil, err
	}
	address, err := r.startETCD(ctx, programs, etcdCredentials)
	if err != nil {
		return nil, err
	}
	config := r.config(serverName, serverPort, serverCredentials)
	err = r.startServer(ctx, config, serverObjects(programs, etcdCredentials, serverCredentials, encryption, address))
	if err != nil {
		return nil, err
	}
	contents, err = read(ctx, config, began)
	if err != nil {
		return nil, err
	}
	ofGardener, err := countOfGardener(ctx, r.config(etcdName, etcdPort, etcdCredentials))
	if err != nil {
		return nil, err
	}
	return contents.with(ofGardener), nil
}

// programs reads the programs that the Garden runs.
func (r *Restorer) programs(ctx context.Context) (Programs, error) {
	main, server := &appsv1.StatefulSet{}, &appsv1.Deployment{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: r.Garden, Name: etcd.Main.Name()}, main); err != nil {
		return Programs{}, fmt.Errorf("read the main etcd: %w", err)
	}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: r.Garden, Name: kubeapiserver.Name}, server); err != nil {
		return Programs{}, fmt.Errorf("read kube-apiserver: %w", err)
	}
	return ProgramsOf(main, server)
}

// startETCD restores the snapshot and starts etcd. It returns the address of its Service.
func (r *Restorer) startETCD(ctx context.Context, p Programs, c Credentials) (address string, err error) {
	err = r.label(ctx, p)
	if err != nil {
		return "", err
	}
	var copied []corev1.Secret
	for _, name := range p.secrets() {
		secret := corev1.Secret{}
		if err = r.Client.Get(ctx, client.ObjectKey{Namespace: r.Garden, Name: name}, &secret); err != nil {
			return "", fmt.Errorf("read credentials for snapshots: %w", err)
		}
		copied = append(copied, secret)
	}
	objects, err := etcdObjects(p, c, copied, r.MetadataService)
	if err != nil {
		return "", err
	}
	if err := r.create(ctx, objects); err != nil {
		return "", err
	}
	for _, each := range objects {
		if service, is := each.(*corev1.Service); is {
			address = service.Spec.ClusterIP
		}
	}
	return address, r.await(ctx, etcdName, func(p *corev1.Pod) bool {
		return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
	})
}

// startServer starts kube-apiserver, and waits until it serves all kinds. It does not wait for its informers, because objects that cannot
// be decrypted block them.
func (r *Restorer) startServer(ctx context.Context, config *rest.Config, objects []client.Object) error {
	if err := r.create(ctx, objects); err != nil {
		return err
	}
	requests, err := rest.HTTPClientFor(config)
	if err != nil {
		return fmt.Errorf("create client: %w", err)
	}
	return r.await(ctx, serverName, func(*corev1.Pod) bool {
		limited, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		request, err := http.NewRequestWithContext(limited, http.MethodGet, config.Host+"/readyz?exclude=informer-sync", http.NoBody)
		if err != nil {
			return false
		}
		response, err := requests.Do(request)
		if err != nil {
			return false
		}
		return response.Body.Close() == nil && response.StatusCode == http.StatusOK
	})
}

// config returns the configuration of the client of a server.
func (r *Restorer) config(server string, port int, c Credentials) *rest.Config {
	config := &rest.Config{
		Host: fmt.Sprintf("https://%s.%s.svc:%d", server, Namespace, port), QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{
			CAData: c.Authority, CertData: c.Client[secretconfig.DataKeyCertificate], KeyData: c.Client[secretconfig.DataKeyPrivateKey],
		},
	}
	if r.Connect != nil {
		return r.Connect(config)
	}
	return config
}

// label makes the namespace enforce a Pod security standard: privileged if snapshots are in a folder of the node, as in a garden for
// development, otherwise restricted.
func (r *Restorer) label(ctx context.Context, p Programs) error {
	standard := "restricted"
	if p.readsFolder() {
		standard = "privileged"
	}
	namespace := &corev1.Namespace{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: Namespace}, namespace); err != nil {
		return fmt.Errorf("read the namespace of restore drills, which must exist: %w", err)
	}
	if namespace.Labels[enforceLabel] == standard {
		return nil
	}
	before := namespace.DeepCopy()
	metav1.SetMetaDataLabel(&namespace.ObjectMeta, enforceLabel, standard)
	if err := r.Client.Patch(ctx, namespace, client.MergeFrom(before), client.FieldOwner(fieldManager)); err != nil {
		return fmt.Errorf("label namespace %s: %w", Namespace, err)
	}
	return nil
}

func (r *Restorer) create(ctx context.Context, objects []client.Object) error {
	for _, each := range objects {
		if err := r.Client.Create(ctx, each, client.FieldOwner(fieldManager)); err != nil {
			return fmt.Errorf("create %s %s/%s: %w", each.GetObjectKind().GroupVersionKind().Kind, Namespace, each.GetName(), err)
		}
	}
	return nil
}

// await waits until a Pod satisfies a condition. It fails at once if a program of the Pod has ended.
func (r *Restorer) await(ctx context.Context, name string, done func(*corev1.Pod) bool) error {
	var last *corev1.Pod
	err := wait.PollUntilContextCancel(ctx, pollPeriod, true, func(ctx context.Context) (bool, error) {
		pod := &corev1.Pod{}
		if err := r.Client.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: name}, pod); err != nil {
			return false, fmt.Errorf("read Pod %s/%s: %w", Namespace, name, err)
		}
		last = pod
		if failure := failureOf(pod); failure != nil {
			return false, failure
		}
		return done(pod), nil
	})
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("wait for %s: %w; %s", name, context.Cause(ctx), progressOf(last))
	}
	return err
}

// failureOf returns why a Pod has failed, with the end of the log of its program, or nil.
func failureOf(p *corev1.Pod) error {
	for _, each := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		isInit := slices.ContainsFunc(p.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == each.Name })
		ended := each.State.Terminated
		if ended == nil || isInit && ended.ExitCode == 0 {
			continue
		}
		return fmt.Errorf("%s of %s has ended with code %d: %s", each.Name, p.Name, ended.ExitCode, excerpt.Ends(ended.Message, maxMessage))
	}
	if p.Status.Phase == corev1.PodFailed {
		return fmt.Errorf("the Pod %s has failed: %s", p.Name, p.Status.Message)
	}
	return nil
}

// progressOf returns the reason why a Pod is not ready.
func progressOf(p *corev1.Pod) string {
	if p == nil {
		return "its Pod could not be read"
	}
	for _, each := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if each.State.Waiting != nil {
			return fmt.Sprintf("%s is not running: %s %s", each.Name, each.State.Waiting.Reason, each.State.Waiting.Message)
		}
	}
	return "its Pod is in phase " + string(p.Status.Phase)
}

// Clean removes the objects of an earlier restoration, and waits until no Pod is left. It removes the NetworkPolicies last. If the
// namespace does not exist, because the cluster never restored data, Clean does nothing.
func (r *Restorer) Clean(ctx context.Context) error {
	if err := r.Client.Get(ctx, client.ObjectKey{Name: Namespace}, &corev1.Namespace{}); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("read namespace %s: %w", Namespace, err)
	}
	for _, list := range []client.ObjectList{
		&corev1.PodList{}, &corev1.ServiceList{}, &corev1.SecretList{}, &corev1.ConfigMapList{},
	} {
		if _, err := r.remove(ctx, list); err != nil {
			return err
		}
	}
	err := wait.PollUntilContextTimeout(ctx, pollPeriod, cleanPatience, true, func(ctx context.Context) (bool, error) {
		left, err := r.remove(ctx, &corev1.PodList{})
		return left == 0, err
	})
	if err != nil {
		return fmt.Errorf("remove the Pods of a restore drill in namespace %s: %w", Namespace, err)
	}
	_, err = r.remove(ctx, &networkingv1.NetworkPolicyList{})
	return err
}

// remove deletes the objects of one kind that restorations created, and returns how many exist, including objects that are being deleted.
func (r *Restorer) remove(ctx context.Context, list client.ObjectList) (found int, err error) {
	if err = r.Client.List(ctx, list, client.InNamespace(Namespace), client.HasLabels{Label}); err != nil {
		return 0, fmt.Errorf("list objects of a restore drill: %w", err)
	}
	err = meta.EachListItem(list, func(o runtime.Object) error {
		found++
		each, is := o.(client.Object)
		if !is || each.GetDeletionTimestamp() != nil {
			return nil
		}
		if failure := client.IgnoreNotFound(r.Client.Delete(ctx, each)); failure != nil {
			return fmt.Errorf("delete %T %s/%s: %w", each, Namespace, each.GetName(), failure)
		}
		return nil
	})
	return found, err
}
