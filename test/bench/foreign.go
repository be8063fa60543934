package main

import (
	"context"
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
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/test/bench/gauge"
)

// foreignNamespaces is the number of namespaces of the foreign Secrets.
const foreignNamespaces = 50

// foreignSecrets measures start-up and memory in a cluster with very many Secrets that no set references.
type foreignSecrets struct {
	secrets int
	// sets are few: they show when the controller can work, and need hardly any memory.
	sets size
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
	// empty is without any object in the source, few with the sets alone, full with everything.
	empty, few, full footprint
}

// footprint is the memory of a process in bytes: peak is the highest resident one so far.
type footprint struct{ resident, peak, heap int64 }

func (s foreignSecrets) run(ctx context.Context, r runner) (rows []row, err error) {
	f := foreignFigures{foreignSecrets: s}
	r.report.say("")
	r.report.step("%d foreign Secrets: starting the cluster (load average of the machine: %s)", s.secrets, load())
	b, err := open(ctx, r, setup{profiling: r.profiles != ""}, workload{size: s.sets, calm: time.Second})
	if err != nil {
		return f.rows(), fmt.Errorf("measure foreign Secrets: %w", err)
	}
	defer func() { err = errors.Join(err, b.close()) }()
	err = b.do(ctx, func(ctx context.Context) error { return b.besideForeignSecrets(ctx, &f) })
	if err != nil {
		err = fmt.Errorf("measure foreign Secrets: %w", err)
	}
	return f.rows(), err
}

func (f foreignFigures) rows() []row {
	const readyAfter, above = 5 * time.Second, int64(60 << 20)
	startup, growth := longest(f.ready)-median(f.lists), f.full.resident-f.empty.resident
	rows := []row{
		{
			measure: "ready after the API server's list", target: "≤ " + seconds(readyAfter), verdict: judge(startup <= readyAfter),
			ours: fmt.Sprintf("%s (%s − %s)", seconds(max(0, startup)), seconds(longest(f.ready)), seconds(median(f.lists))),
			note: fmt.Sprintf("ready after the API server's list: ready after %s, lists %s", spread(f.ready), spread(f.lists)),
		},
		{measure: "start-up until all sets are in sync", target: "–", ours: seconds(longest(f.inSync))},
		{
			measure: "resident memory above an empty source", target: "≤ " + mebibytes(above), verdict: judge(growth <= above),
			ours: fmt.Sprintf("%s (%s − %s)", mebibytes(growth), mebibytes(f.full.resident), mebibytes(f.empty.resident)),
			note: fmt.Sprintf("resident memory, each %s after start-up: empty %s; with the sets alone %s; with everything %s", f.wait, f.empty, f.few, f.full),
		},
		{measure: "highest resident memory until then", target: "–", ours: mebibytes(f.full.peak)},
	}
	measured := []bool{len(f.ready) > 0 && len(f.lists) > 0, len(f.inSync) > 0, f.full.resident > 0 && f.empty.resident > 0, f.full.peak > 0}
	for i := range rows {
		rows[i].workload = fmt.Sprintf("%d foreign Secrets", f.secrets)
		if !measured[i] {
			rows[i].ours, rows[i].note, rows[i].verdict = "–", "", unmeasured
		}
	}
	return rows
}

func (f footprint) String() string {
	return fmt.Sprintf("%s, heap in use %s, at most %s", mebibytes(f.resident), mebibytes(f.heap), mebibytes(f.peak))
}

// besideForeignSecrets starts a new process for each figure: with nothing, with the sets alone, with everything.
func (b *bench) besideForeignSecrets(ctx context.Context, f *foreignFigures) (err error) {
	err = b.startController(ctx)
	if err != nil {
		return err
	}
	if f.empty, err = b.weigh(ctx, f.wait, "an empty source"); err != nil {
		return err
	}
	err = b.createFew(ctx)
	if err != nil {
		return err
	}
	if _, _, err = b.startUp(ctx); err != nil {
		return err
	}
	if f.few, err = b.weigh(ctx, f.wait, "the sets alone"); err != nil {
		return err
	}
	err = b.controller.stop()
	if err != nil {
		return err
	}
	err = b.createForeignSecrets(ctx, f.secrets)
	if err != nil {
		return err
	}
	err = b.settle(ctx)
	if err != nil {
		return err
	}
	for range f.starts {
		err = b.startBeside(ctx, f)
		if err != nil {
			return err
		}
	}
	f.full, err = b.weigh(ctx, f.wait, "everything")
	return err
}

// startBeside measures the API server's list and then a start-up.
func (b *bench) startBeside(ctx context.Context, f *foreignFigures) error {
	if err := b.controller.stop(); err != nil {
		return err
	}
	listed, err := b.listSecrets(ctx)
	if err != nil {
		return err
	}
	f.lists = append(f.lists, listed)
	begin, err := b.mark()
	if err != nil {
		return err
	}
	ready, inSync, err := b.startUp(ctx)
	if err != nil {
		return err
	}
	f.ready, f.inSync = append(f.ready, ready), append(f.inSync, inSync)
	used := b.usage()[binaryName]
	b.report.step("start-up: ready after %s, in sync after %s, with %s of CPU; the API server's list takes %s",
		seconds(ready), seconds(inSync), seconds(used), seconds(listed))
	return b.tellRequests(begin)
}

// startUp starts a process and measures the time until it is ready, and until all sets are in sync.
func (b *bench) startUp(ctx context.Context) (ready, inSync time.Duration, err error) {
	begin := b.report.clock.Now()
	if err := b.controller.start(); err != nil {
		return 0, 0, err
	}
	profiled := b.profile(ctx, "start", 10*time.Second)
	defer profiled()
	if err := b.controller.ready(ctx); err != nil {
		return 0, 0, err
	}
	ready = b.report.clock.Since(begin)
	if err := b.controller.inSync(ctx, b.total()); err != nil {
		return 0, 0, err
	}
	return ready, b.report.clock.Since(begin), nil
}

// createFew creates the sets, waits until the running controller has applied them, and stops it.
func (b *bench) createFew(ctx context.Context) error {
	if err := b.createNamespaces(ctx); err != nil {
		return err
	}
	data, err := b.secretsData(dataBefore)
	if err != nil {
		return err
	}
	if err := b.createSets(ctx, data); err != nil {
		return err
	}
	if err := b.controller.inSync(ctx, b.total()); err != nil {
		return err
	}
	return b.controller.stop()
}

// weigh waits and then measures the memory. The heap is last, because its profile needs memory.
func (b *bench) weigh(ctx context.Context, wait time.Duration, beside string) (f footprint, err error) {
	err = gauge.Pause(ctx, wait)
	if err != nil {
		return footprint{}, err
	}
	id := b.controller.process.ID
	if f.resident, err = memoryOf(id, "VmRSS"); err != nil {
		return footprint{}, err
	}
	if f.peak, err = memoryOf(id, "VmHWM"); err != nil {
		return footprint{}, err
	}
	page, err := b.controller.page(ctx)
	if err != nil {
		return footprint{}, err
	}
	heap, err := value(page, "go_memstats_heap_inuse_bytes")
	f.heap = int64(heap)
	b.report.step("memory beside %s, %s after start-up: resident %s", beside, wait, f)
	return f, err
}

// listSecrets measures the time of the API server for the first list of a metadata cache. The response is not decoded: that is the
// controller's own work.
func (b *bench) listSecrets(ctx context.Context) (took time.Duration, err error) {
	config := b.source.plane.AdminConfig()
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	config.DisableCompression = true // like caches
	config.Timeout = phaseLimit
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return 0, fmt.Errorf("create client: %w", err)
	}
	begin := b.report.clock.Now()
	body, err := clients.CoreV1().RESTClient().Get().Resource(secrets.Resource).Param("resourceVersion", "0").Stream(ctx)
	if err != nil {
		return 0, fmt.Errorf("list Secrets: %w", err)
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	bytes, err := io.Copy(io.Discard, body)
	if err != nil {
		return 0, fmt.Errorf("list Secrets: %w", err)
	}
	took = b.report.clock.Since(begin)
	b.report.detail("the metadata of all Secrets: %s in %s", mebibytes(bytes), seconds(took))
	return took, nil
}

// createForeignSecrets uses the cheapest client.
func (b *bench) createForeignSecrets(ctx context.Context, n int) error {
	clients, err := b.source.typed()
	if err != nil {
		return err
	}
	begin := b.report.clock.Now()
	b.report.step("creating %d foreign Secrets in %d namespaces", n, foreignNamespaces)
	if err := createForeignNamespaces(ctx, clients); err != nil {
		return err
	}
	const portion = 10000
	for first := 0; first < n; first += portion {
		some := min(portion, n-first)
		err := parallel(ctx, some, func(ctx context.Context, i int) error { return createForeignSecret(ctx, clients, first+i) })
		if err != nil {
			return err
		}
		b.report.detail("%d created after %s", first+some, seconds(b.report.clock.Since(begin)))
	}
	return nil
}

// typed returns a client of the administrator that uses protobuf.
func (c *cluster) typed() (kubernetes.Interface, error) {
	config := rest.CopyConfig(c.plane.AdminConfig())
	config.ContentType, config.AcceptContentTypes = "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf,application/json"
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create client: %w", err)
	}
	return clients, nil
}

func createForeignNamespaces(ctx context.Context, clients kubernetes.Interface) error {
	return parallel(ctx, foreignNamespaces, func(ctx context.Context, i int) error {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: foreignNamespace(i)}}
		if _, err := clients.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create namespace %s: %w", namespace.Name, err)
		}
		return nil
	})
}

func createForeignSecret(ctx context.Context, clients kubernetes.Interface, n int) error {
	s := foreignSecret(n)
	if _, err := clients.CoreV1().Secrets(s.Namespace).Create(ctx, s, metav1.CreateOptions{FieldManager: "secrets-operator"}); err != nil {
		return fmt.Errorf("create Secret %s/%s: %w", s.Namespace, s.Name, err)
	}
	return nil
}

func foreignNamespace(n int) string {
	return fmt.Sprintf("tenant-%02d--workspace", n%foreignNamespaces)
}

// foreignSecret returns a Secret as an operator with many tenants stores it: a key pair with more metadata than a cache needs. The same
// number gives the same Secret.
func foreignSecret(n int) *corev1.Secret {
	source := rand.New(rand.NewPCG(uint64(n), 1))
	random := func(length int) []byte {
		data := make([]byte, length)
		for i := range data {
			data[i] = byte(source.UintN(256))
		}
		return data
	}
	checksum := sha256.Sum256(random(16))
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
				"secrets.example.com/checksum": hex.EncodeToString(checksum[:]), "secrets.example.com/expires-at": issued.AddDate(1, 0, 0).Format(time.RFC3339),
				"description": "key pair of a component, renewed before it expires",
			},
			ManagedFields: []metav1.ManagedFieldsEntry{foreignManager("backup-restore", issued, `{"f:metadata":{"f:annotations":{"f:description":{}}}}`)},
		},
		Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{"tls.crt": random(600), "tls.key": random(200), "ca.crt": random(400)},
	}
}

// foreignManager returns the entry of an earlier writer; the API server adds the creator's.
func foreignManager(name string, at time.Time, fields string) metav1.ManagedFieldsEntry {
	when := metav1.NewTime(at)
	return metav1.ManagedFieldsEntry{
		Manager: name, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &when,
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
	}
}
