//go:build e2e

package faults_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/local"
	"github.com/espalier-dev/espalier/test/local/node"
)

const (
	// room is how much can be stored until etcd is full. filling is the size of each object that fills etcd. Both are in bytes.
	room, filling = 24 << 20, 900 << 10
	// etcdAddress is the address of etcd in the network namespace.
	etcdAddress = "127.0.0.1:26644"
)

// limitEtcd restarts etcd with a quota that is slightly larger than its current size.
func limitEtcd(ctx context.Context) {
	GinkgoHelper()
	info, err := os.Stat(filepath.Join(m.Dir, "etcd", "member", "snap", "db"))
	Expect(err).NotTo(HaveOccurred())
	Expect(m.Stop(ctx, "etcd")).To(Succeed())
	Expect(m.Start(ctx, fmt.Sprintf("%s=--quota-backend-bytes=%d", local.EtcdArgsVariable, info.Size()+room))).To(Succeed())
}

// unlimitEtcd restores the normal quota, frees space, and waits until everything is in sync.
func unlimitEtcd(ctx context.Context) {
	GinkgoHelper()
	Expect(m.Stop(ctx, "etcd")).To(Succeed())
	Expect(m.Start(ctx)).To(Succeed())
	makeRoom(ctx)
	Expect(work.AwaitSync(ctx, patience)).To(Succeed())
}

// full fills etcd until it refuses every write. After some time it frees space in the way that etcd's documentation describes: delete,
// compact, defragment, disarm.
func full() fault {
	return fault{name: "etcd full (alarm NOSPACE) for 30 s", inject: func(ctx context.Context) {
		GinkgoHelper()
		fill(ctx)
		pause(ctx, outage)
		Expect(alarms(ctx)).To(HaveLen(1), "etcd is still full")
		makeRoom(ctx)
	}}
}

func fill(ctx context.Context) {
	GinkgoHelper()
	for i := range 2 * room / filling {
		err := c.Client.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: fmt.Sprintf("filling-%d", i),
				Labels: map[string]string{"e2e.espalier.dev/filling": "true"},
			},
			Data: map[string]string{"filling": strings.Repeat("x", filling)},
		})
		if err != nil {
			Expect(err).To(MatchError(ContainSubstring("database space exceeded")))
			return
		}
	}
	Fail("etcd takes more than its quota")
}

// makeRoom frees space in etcd. It may also be called if there is enough space.
func makeRoom(ctx context.Context) {
	GinkgoHelper()
	Expect(c.Client.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace("default"), client.HasLabels{"e2e.espalier.dev/filling"})).
		To(Succeed())
	status := struct{ Header struct{ Revision string } }{}
	Expect(ask(ctx, "maintenance/status", map[string]any{}, &status)).To(Succeed())
	Expect(ask(ctx, "kv/compaction", map[string]any{"revision": status.Header.Revision, "physical": true}, nil)).
		To(Or(Succeed(), MatchError(ContainSubstring("has been compacted"))))
	Expect(ask(ctx, "maintenance/defragment", map[string]any{}, nil)).To(Succeed())
	for _, raised := range alarms(ctx) {
		Expect(ask(ctx, "maintenance/alarm", map[string]any{"action": "DEACTIVATE", "memberID": raised.MemberID, "alarm": raised.Alarm}, nil)).
			To(Succeed())
	}
	Expect(alarms(ctx)).To(BeEmpty())
}

type alarm struct{ MemberID, Alarm string }

func alarms(ctx context.Context) []alarm {
	GinkgoHelper()
	raised := struct{ Alarms []alarm }{}
	Expect(ask(ctx, "maintenance/alarm", map[string]any{"action": "GET"}, &raised)).To(Succeed())
	return raised.Alarms
}

// ask calls the JSON API of etcd with the API server's credentials.
func ask(ctx context.Context, method string, request, answer any) error {
	transport, err := etcdTransport()
	if err != nil {
		return err
	}
	defer transport.CloseIdleConnections()
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+etcdAddress+"/v3/"+method, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Do(r)
	if err != nil {
		return fmt.Errorf("ask etcd: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("ask etcd: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("ask etcd for %s: %s: %s", method, response.Status, text)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}

func etcdTransport() (*http.Transport, error) {
	pki := filepath.Join(m.Dir, "pki")
	pair, err := tls.LoadX509KeyPair(filepath.Join(pki, "etcd.crt"), filepath.Join(pki, "etcd.key"))
	if err != nil {
		return nil, fmt.Errorf("read certificate of etcd: %w", err)
	}
	authority, err := os.ReadFile(filepath.Join(pki, "etcd-ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("read authority of etcd: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	return &http.Transport{DialContext: node.Dial, TLSClientConfig: &tls.Config{
		Certificates: []tls.Certificate{pair}, RootCAs: roots,
		MinVersion: tls.VersionTLS12,
	}}, nil
}
