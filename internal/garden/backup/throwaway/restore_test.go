package throwaway_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/backup/throwaway"
	"github.com/espalier-dev/espalier/internal/garden/gardentest"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
	"github.com/espalier-dev/espalier/test/local/child"
)

func TestMain(m *testing.M) { os.Exit(binary.WithOwnServer(m)) }

// scene is a runtime cluster without nodes, and a control plane whose etcd stands for the etcd of restorations.
type scene struct {
	*gardentest.Place

	restorer *throwaway.Restorer
	plane    *local.ControlPlane
	dir      string
	port     int
	// snapshot is the file that the next restoration restores.
	snapshot atomic.Pointer[string]
}

// key returns an encryption key of 32 bytes.
func key(name, letter string) secretconfig.UsableEncryptionKey {
	return secretconfig.UsableEncryptionKey{
		Provider: secretconfig.AESCBC, Name: name, Secret: base64.StdEncoding.EncodeToString([]byte(strings.Repeat(letter, 32))),
	}
}

func encryption(g Gomega, keys ...secretconfig.UsableEncryptionKey) []byte {
	content, err := secretconfig.Encryption{Resources: []string{"secrets"}, Keys: keys}.YAML()
	g.Expect(err).NotTo(HaveOccurred())
	return content
}

func newScene(t *testing.T) *scene {
	t.Helper()
	server := binary.Servers(t).Source.Config
	s := &scene{Place: gardentest.New(t, server, "restore-", "deploy/garden-operator/namespace/*.yaml"), dir: t.TempDir()}
	etcd, apiserver := workloads(s.Namespace, nil)
	bucket := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "bucket"}, Data: map[string][]byte{"region": []byte("eu")},
	}
	for _, each := range []client.Object{etcd, apiserver, bucket} {
		s.Expect(s.Admin.Create(t.Context(), each)).To(Succeed())
	}
	s.Eventually(func() error { // without it, the API server refuses Pods
		return s.Admin.Get(t.Context(), client.ObjectKey{Namespace: throwaway.Namespace, Name: "default"}, &corev1.ServiceAccount{})
	}, binary.Patience).Should(Succeed())
	var release func()
	var err error
	s.port, release, err = local.FreePort()
	s.Expect(err).NotTo(HaveOccurred())
	release()
	s.restorer = &throwaway.Restorer{
		Client: s.Operator, Clock: clock.RealClock{}, Garden: s.Namespace, Connect: func(config *rest.Config) *rest.Config {
			if strings.HasPrefix(config.Host, "https://etcd.") {
				return s.etcd()
			}
			config.Host = fmt.Sprintf("https://127.0.0.1:%d", s.port)
			return config
		},
	}
	return s
}

// startPlane starts the control plane with an encrypted Secret and a kind of another API server, and takes a snapshot.
func (s *scene) startPlane() {
	s.T.Helper()
	assets, err := local.Assets(s.Ctx, io.Discard)
	s.Expect(err).NotTo(HaveOccurred())
	config := filepath.Join(s.dir, "encryption.yaml")
	s.Expect(os.WriteFile(config, encryption(s, key("key1", "a")), 0o600)).To(Succeed())
	s.plane, err = local.Start(s.Ctx, local.Options{
		Dir: filepath.Join(s.dir, "plane"), Assets: assets, APIServerArgs: []string{"--encryption-provider-config=" + config},
	})
	s.Expect(err).NotTo(HaveOccurred())
	s.T.Cleanup(func() { s.Expect(s.plane.Stop()).To(Succeed()) })
	for _, name := range []string{"first", "second"} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"a": []byte("b")}}
		_, err = s.plane.Clients.CoreV1().Secrets("default").Create(s.Ctx, secret, metav1.CreateOptions{})
		s.Expect(err).NotTo(HaveOccurred())
	}
	clients, err := dynamic.NewForConfig(s.plane.Config)
	s.Expect(err).NotTo(HaveOccurred())
	foreign := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": "v1beta1.core.example.com"},
		"spec": map[string]any{
			"group": "core.example.com", "version": "v1beta1", "groupPriorityMinimum": int64(10), "versionPriority": int64(10),
			"insecureSkipTLSVerify": true, "service": map[string]any{"namespace": "default", "name": "absent"},
		},
	}}
	apiServices := schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	_, err = clients.Resource(apiServices).Create(s.Ctx, foreign, metav1.CreateOptions{})
	s.Expect(err).NotTo(HaveOccurred())
	storage, err := s.plane.Storage(func(string) bool { return false })
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(storage.Restore(s.Ctx, local.Stored{
		"/registry-gardener/core.gardener.cloud/shoots/garden-a/one":             []byte("a"),
		"/registry-gardener/core.gardener.cloud/shoots/garden-b/one":             nil,
		"/registry-gardener/seedmanagement.gardener.cloud/gardenlets/garden/one": nil,
	})).To(Succeed())
	snapshot := filepath.Join(s.dir, "snapshot")
	s.Expect(s.plane.Backup(s.Ctx, snapshot)).To(Succeed())
	s.snapshot.Store(&snapshot)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.kubelet(s.Ctx)
	}()
	s.T.Cleanup(func() { <-done }) // before the control plane stops
}

// kubelet runs the Pods of restorations: the Pod of etcd restores the snapshot into the etcd of the control plane, and the Pod of
// kube-apiserver is a process, which ends with its Pod.
func (s *scene) kubelet(ctx context.Context) {
	processes := map[types.UID]*child.Process{} // nil for etcd
	for local.Pause(ctx, 100*time.Millisecond) == nil {
		all := &corev1.PodList{}
		if s.Admin.List(ctx, all, client.InNamespace(throwaway.Namespace)) != nil {
			continue
		}
		present := map[types.UID]bool{}
		for i := range all.Items {
			pod := &all.Items[i]
			present[pod.UID] = true
			if _, runs := processes[pod.UID]; runs {
				continue
			}
			var err error
			if pod.Name == "etcd" {
				err = s.restoreSnapshot(ctx, pod)
				processes[pod.UID] = nil
			} else {
				processes[pod.UID], err = s.startServer(ctx, pod)
			}
			if err != nil && ctx.Err() == nil {
				s.T.Errorf("run Pod %s: %v", pod.Name, err)
			}
		}
		s.stop(processes, func(uid types.UID) bool { return !present[uid] })
	}
	s.stop(processes, func(types.UID) bool { return true })
}

func (s *scene) stop(processes map[types.UID]*child.Process, match func(types.UID) bool) {
	for uid, each := range processes {
		if each != nil && match(uid) {
			if err := each.Stop(0); err != nil {
				s.T.Errorf("stop kube-apiserver: %v", err)
			}
			delete(processes, uid)
		}
	}
}

// etcd returns the configuration of a client of the etcd of the control plane.
func (s *scene) etcd() *rest.Config {
	of := func(elements ...string) string {
		return filepath.Join(append([]string{s.dir, "plane"}, elements...)...)
	}
	content, err := os.ReadFile(of("ports.json"))
	s.Expect(err).NotTo(HaveOccurred())
	var ports local.Ports
	s.Expect(json.Unmarshal(content, &ports)).To(Succeed())
	return &rest.Config{Host: fmt.Sprintf("https://127.0.0.1:%d", ports.Etcd), TLSClientConfig: rest.TLSClientConfig{
		CAFile: of("pki", "etcd-ca.crt"), CertFile: of("pki", "etcd.crt"), KeyFile: of("pki", "etcd.key"),
	}}
}

func (s *scene) restoreSnapshot(ctx context.Context, pod *corev1.Pod) error {
	before := pod.DeepCopy()
	if err := s.plane.Restore(ctx, *s.snapshot.Load()); err != nil {
		ended := corev1.ContainerStateTerminated{ExitCode: 1, Message: err.Error()}
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "restore", State: corev1.ContainerState{Terminated: &ended}}}
	} else {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	return s.Admin.Status().Patch(ctx, pod, client.MergeFrom(before))
}

// startServer starts kube-apiserver with the arguments and files of its Pod, but with the etcd of the control plane.
func (s *scene) startServer(ctx context.Context, pod *corev1.Pod) (*child.Process, error) {
	root := filepath.Join(s.dir, string(pod.UID))
	for i, volume := range pod.Spec.Volumes {
		if volume.Secret == nil {
			continue
		}
		secret := &corev1.Secret{}
		if err := s.Admin.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: volume.Secret.SecretName}, secret); err != nil {
			return nil, err
		}
		folder := filepath.Join(root, pod.Spec.Containers[0].VolumeMounts[i].MountPath)
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return nil, err
		}
		for name, content := range secret.Data {
			if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
				return nil, err
			}
		}
	}
	args := make([]string, 0, len(pod.Spec.Containers[0].Args))
	for _, each := range pod.Spec.Containers[0].Args {
		args = append(args, strings.ReplaceAll(each, "/srv/kubernetes/", root+"/srv/kubernetes/"))
	}
	etcd := s.etcd()
	assets, err := local.Assets(ctx, io.Discard)
	if err != nil {
		return nil, err
	}
	return child.Start(child.Spec{
		Name: "kube-apiserver", Path: filepath.Join(assets, "kube-apiserver"), Dir: root,
		Args: append(args, "--etcd-servers="+etcd.Host, "--etcd-cafile="+etcd.CAFile, "--etcd-certfile="+etcd.CertFile,
			"--etcd-keyfile="+etcd.KeyFile, "--cert-dir="+root,
			fmt.Sprintf("--secure-port=%d", s.port), "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
			"--endpoint-reconciler-type=none"),
		LogFile: filepath.Join(root, "log"), RecordFile: filepath.Join(root, "record.json"),
	})
}

// left returns the names of the objects in the namespace of restorations that have their label.
func (s *scene) left() []string {
	s.T.Helper()
	var names []string
	for _, list := range []client.ObjectList{
		&corev1.PodList{}, &corev1.ServiceList{}, &corev1.SecretList{}, &corev1.ConfigMapList{}, &networkingv1.NetworkPolicyList{},
	} {
		s.Expect(s.Admin.List(s.Ctx, list, client.InNamespace(throwaway.Namespace), client.HasLabels{throwaway.Label})).To(Succeed())
		s.Expect(meta.EachListItem(list, func(o runtime.Object) error {
			each, err := meta.Accessor(o)
			names = append(names, each.GetName())
			return err
		})).To(Succeed())
	}
	return names
}

// The operator has its own rights only.
func TestRestorationReadsEveryObjectAndFindsDamage(t *testing.T) {
	s := newScene(t)
	s.startPlane()
	contents, err := s.restorer.Restore(t.Context(), encryption(s, key("key1", "a")))
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(contents).To(And(
		HaveKeyWithValue("Secret", 2), HaveKeyWithValue("APIService.apiregistration.k8s.io", BeNumerically(">", 1)),
		HaveKeyWithValue("Namespace", BeNumerically(">", 1)),
		HaveKeyWithValue("shoots.core.gardener.cloud", 2), HaveKeyWithValue("gardenlets.seedmanagement.gardener.cloud", 1),
	))
	s.Expect(contents.Objects()).To(BeNumerically(">", 10))
	s.Expect(s.left()).To(BeEmpty())

	// After a rotation, the file also has the former key.
	contents, err = s.restorer.Restore(t.Context(), encryption(s, key("key2", "b"), key("key1", "a")))
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(contents).To(HaveKeyWithValue("Secret", 2))

	const unreadable = "objects cannot be read: Secret: "
	_, err = s.restorer.Restore(t.Context(), encryption(s, key("key2", "b")))
	s.Expect(err).To(MatchError(And(HavePrefix(unreadable), ContainSubstring("/registry/secrets/default/first"))), "a key is missing")
	_, err = s.restorer.Restore(t.Context(), encryption(s, key("key1", "b")))
	s.Expect(err).To(MatchError(And(HavePrefix(unreadable), ContainSubstring("/registry/secrets/default/first"))), "a key is another one")
	s.Expect(s.left()).To(BeEmpty())

	// An API server creates its namespaces in an empty etcd.
	early := *s.restorer
	early.Clock = clocktesting.NewFakePassiveClock(s.restorer.Clock.Now().Add(-24 * time.Hour))
	_, err = early.Restore(t.Context(), encryption(s, key("key1", "a")))
	s.Expect(err).To(MatchError("there is no snapshot, or it is empty"))

	content, err := os.ReadFile(*s.snapshot.Load())
	s.Expect(err).NotTo(HaveOccurred())
	truncated := filepath.Join(s.dir, "truncated")
	s.Expect(os.WriteFile(truncated, content[:len(content)/2], 0o600)).To(Succeed())
	s.snapshot.Store(&truncated)
	_, err = s.restorer.Restore(t.Context(), encryption(s, key("key1", "a")))
	s.Expect(err).To(MatchError(HavePrefix("restore of etcd has ended with code 1: run etcdutl: ")), "the snapshot is truncated")
	s.Expect(s.left()).To(BeEmpty())
}

func TestNextProcessRemovesARestorationAndNothingElse(t *testing.T) {
	s := newScene(t)
	own := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: throwaway.Namespace, Name: "of-a-user"}}
	s.Expect(s.Admin.Create(t.Context(), own)).To(Succeed())
	programs, err := throwaway.ProgramsOf(workloads(s.Namespace, nil))
	s.Expect(err).NotTo(HaveOccurred())
	begun, err := throwaway.ETCDObjects(programs, throwaway.Credentials{}, nil, false)
	s.Expect(err).NotTo(HaveOccurred())
	for _, each := range begun {
		s.Expect(s.Admin.Create(t.Context(), each)).To(Succeed())
	}
	s.Expect(s.left()).To(ContainElements("etcd", "etcd-client", "deny-all"))
	s.Expect(s.restorer.Clean(t.Context())).To(Succeed())
	s.Expect(s.left()).To(BeEmpty())
	s.Expect(s.Admin.Get(t.Context(), client.ObjectKeyFromObject(own), own)).To(Succeed())
	s.DeleteAtEnd(own)
}
