package managedresource

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/bench/harness"
)

// foreignNamespaces is the number of namespaces in which the foreign Secrets are; no set references a foreign Secret.
const foreignNamespaces = 50

// foreignSecrets measures start-up and memory in a cluster with very many Secrets that no set references.
type foreignSecrets struct {
	secrets int
	// sets is the number of sets, each with ten objects. They are few: they show when the controller can work, and need hardly any memory.
	sets int
	// starts is how many times start-up is measured.
	starts int
	// wait is the time between sync and the measurement of memory.
	wait time.Duration
}

// foreignFigures are the results; zero values were not measured.
type foreignFigures struct {
	foreignSecrets

	// lists are the times of the API server to list the metadata of all Secrets, undecoded.
	lists []time.Duration
	// ready and inSync are measured from the start of the process.
	ready, inSync []time.Duration
	// empty is the memory without any object in the source, few with the sets alone, full with the sets and the foreign Secrets.
	empty, few, full footprint
}

// footprint is the memory of a process in bytes: peak is the highest resident memory so far.
type footprint struct{ resident, peak, heap int64 }

func (f *foreignSecrets) measure(r *harness.Run) {
	figures := foreignFigures{foreignSecrets: *f}
	defer func() { r.Add(figures.rows()) }()
	w := workload{size: size{sets: f.sets, objects: objectsPerTemplate}, calm: time.Second}
	open(r, setup{}, w).besideForeignSecrets(&figures)
}

func (f foreignFigures) rows() []harness.Row {
	const readyAfter, above = 5 * time.Second, int64(60 << 20)
	ready, list := harness.Longest(f.ready), harness.Median(f.lists)
	startup, growth := max(0, ready-list), f.full.resident-f.empty.resident
	started := fmt.Sprintf("%s (%s − %s)", harness.Seconds(startup), harness.Seconds(ready), harness.Seconds(list))
	grown := fmt.Sprintf("%s (%s − %s)", harness.Mebibytes(growth), harness.Mebibytes(f.full.resident), harness.Mebibytes(f.empty.resident))
	memory := atMost("resident memory above an empty source", grown, growth, above, harness.Mebibytes)
	memory.Note = fmt.Sprintf("resident memory, each %s after start-up: empty %s; with the sets alone %s; with everything %s",
		f.wait, f.empty, f.few, f.full)
	return harness.On(fmt.Sprintf("%d foreign Secrets", f.secrets),
		atMost("ready after the API server's list", started, startup, readyAfter, harness.Seconds).
			WithNote("ready after %s, lists %s", harness.Spread(f.ready), harness.Spread(f.lists)).If(len(f.ready) > 0 && len(f.lists) > 0),
		harness.Inform("start-up until all sets are in sync", "%s", harness.Seconds(harness.Longest(f.inSync))).If(len(f.inSync) > 0),
		memory.If(f.full.resident > 0 && f.empty.resident > 0),
		harness.Inform("highest resident memory until then", "%s", harness.Mebibytes(f.full.peak)).If(f.full.peak > 0),
	)
}

func (f footprint) String() string {
	return fmt.Sprintf("%s, heap in use %s, at most %s", harness.Mebibytes(f.resident), harness.Mebibytes(f.heap), harness.Mebibytes(f.peak))
}

// besideForeignSecrets starts a new process for each figure: with an empty source, with the sets alone, and with the foreign Secrets too.
func (b *bench) besideForeignSecrets(f *foreignFigures) {
	b.startController()
	f.empty = b.weigh(f.wait, "an empty source")
	b.createNamespaces()
	b.Parallel(b.sets, workers, func(set int) { b.createSet(set, itemsOf(oursRun, set, b.objects, dataBefore)...) })
	b.inSync()
	b.controller.Stop()
	b.startUp()
	f.few = b.weigh(f.wait, "the sets alone")
	b.controller.Stop()
	b.Step("creating %d foreign Secrets in %d namespaces", f.secrets, foreignNamespaces)
	b.createForeignSecrets(f.secrets)
	b.settle()
	for range f.starts {
		b.controller.Stop()
		listed := b.listSecrets()
		ready, inSync := b.startUp()
		f.lists, f.ready, f.inSync = append(f.lists, listed), append(f.ready, ready), append(f.inSync, inSync)
		b.Step("start-up: ready after %s, in sync after %s; the API server's list takes %s",
			harness.Seconds(ready), harness.Seconds(inSync), harness.Seconds(listed))
	}
	f.full = b.weigh(f.wait, "everything")
}

// startUp starts a process and measures the time until it is ready, and until all sets are in sync.
func (b *bench) startUp() (ready, inSync time.Duration) {
	b.controller.StartReady()
	ready = time.Since(b.controller.Started)
	b.inSync()
	return ready, time.Since(b.controller.Started)
}

// weigh waits and then measures the memory.
func (b *bench) weigh(wait time.Duration, beside string) (f footprint) {
	b.Pause(wait)
	usage := b.controller.Usage()
	f = footprint{usage.Resident, usage.Peak, int64(b.controller.Metrics().Sum("go_memstats_heap_inuse_bytes"))}
	b.Step("memory beside %s, %s after start-up: resident %s", beside, wait, f)
	return f
}

// listSecrets measures the time of the API server for the first list of a metadata cache. It does not decode the response, because decoding
// is work of the controller.
func (b *bench) listSecrets() time.Duration {
	config := b.source.AdminConfig()
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	config.DisableCompression = true // like caches
	config.Timeout = harness.Patience
	clients, err := kubernetes.NewForConfig(config)
	b.Checkf(err, "create client")
	begin := time.Now()
	body, err := clients.CoreV1().RESTClient().Get().Resource("secrets").Param("resourceVersion", "0").Stream(b.Ctx)
	b.Checkf(err, "list Secrets")
	_, err = io.Copy(io.Discard, body)
	b.Checkf(errors.Join(err, body.Close()), "list Secrets")
	return time.Since(begin)
}

// createForeignSecrets creates n foreign Secrets and their namespaces.
func (b *bench) createForeignSecrets(n int) {
	b.Parallel(foreignNamespaces, workers, func(i int) { b.source.CreateNamespace(foreignNamespace(i)) })
	b.Parallel(n, workers, b.createForeignSecret)
}

func (b *bench) createForeignSecret(n int) {
	b.Check(b.source.Client.Create(b.Ctx, foreignSecret(n), client.FieldOwner("secrets-operator")))
}

func foreignNamespace(n int) string {
	return fmt.Sprintf("tenant-%02d--workspace", n%foreignNamespaces)
}

// foreignSecret returns a Secret as an operator with many tenants stores it: a key pair with more metadata than a cache needs. The same
// number gives the same Secret.
func foreignSecret(n int) *corev1.Secret {
	checksum := sha256.Sum256(strconv.AppendInt(nil, int64(n), 10))
	source := rand.NewChaCha8(checksum)
	random := func(length int) []byte {
		data := make([]byte, length)
		_, _ = source.Read(data) // it cannot fail
		return data
	}
	issued := time.Unix(1_700_000_000+int64(n)*60, 0).UTC()
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: foreignNamespace(n), Name: fmt.Sprintf("component-%05d-%s", n, hex.EncodeToString(checksum[:4])),
			Labels: map[string]string{
				"app.kubernetes.io/name": "component", "app.kubernetes.io/instance": fmt.Sprintf("component-%05d", n),
				"app.kubernetes.io/managed-by": "secrets-operator", "secrets.example.com/rotation": "in-place",
				"secrets.example.com/issued-at": strconv.FormatInt(issued.Unix(), 10), "secrets.example.com/config": hex.EncodeToString(checksum[:8]),
			},
			Annotations: map[string]string{
				"secrets.example.com/checksum":   hex.EncodeToString(checksum[:]),
				"secrets.example.com/expires-at": issued.AddDate(1, 0, 0).Format(time.RFC3339),
				"description":                    "key pair of a component, renewed before it expires",
			},
			ManagedFields: []metav1.ManagedFieldsEntry{{ // of an earlier manager; the API server adds an entry for the creator
				Manager: "backup-restore", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: ptr.To(metav1.NewTime(issued)),
				FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:description":{}}}}`),
			}},
		},
		Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{"tls.crt": random(600), "tls.key": random(200), "ca.crt": random(400)},
	}
}
