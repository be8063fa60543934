package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

const conf = `[Service]
    Flush    1
    Http_Port    2020
    Parsers_File    parsers.conf
[Input]
    Name    tail
    Path    /var/log/containers/*.log
    Exclude_Path    *_garden_vali-*.log
    Tag    kubernetes.*
    Parser    containerd-parser
    DB    DIR/kube.db
[Input]
    Name    systemd
    Tag    systemd.kubelet
    Systemd_Filter    _SYSTEMD_UNIT=kubelet.service
[Input]
    Name    systemd
    Tag    systemd.containerd
    Systemd_Filter    _SYSTEMD_UNIT=containerd.service
[Filter]
    Name    lua
    Match    systemd.*
    script    DIR/tag.lua
    call    add
[Filter]
    Name    lua
    Match    kubernetes.*
    script    DIR/tag.lua
    call    add
[Filter]
    Name    parser
    Match    kubernetes.*etcd*
    Key_Name    log
    Parser    etcd-parser
    Reserve_Data    true
[Filter]
    Name    modify
    Match    kubernetes.*
    Rename    level severity
[Output]
    Name    opentelemetry
    Match    kubernetes.*
    Host    HOST
    Port    PORT
    Logs_uri    /v1/logs
[Output]
    Name    opentelemetry
    Match    systemd.*
    Host    HOST
    Port    PORT
    Logs_uri    /v1/logs
`

const parsers = `[PARSER]
    Name    containerd-parser
    Format    regex
    Regex    ^(?<time>[^ ]+) (stdout|stderr) ([^ ]*) (?<log>.*)$
[PARSER]
    Name    etcd-parser
    Format    json
`

const script = `function add(tag, timestamp, record)
  record["pod"] = string.match(tag, "containers%.([^_]+)_")
  return 1, timestamp, record
end
`

// write writes a configuration for a collector, and returns its file.
func write(t *testing.T, text, url string) string {
	t.Helper()
	dir := t.TempDir()
	host, port, _ := strings.Cut(strings.TrimPrefix(url, "http://"), ":")
	text = strings.NewReplacer("DIR", dir, "HOST", host, "PORT", port).Replace(text)
	for name, content := range map[string]string{"fluent-bit.conf": text, "parsers.conf": parsers, "tag.lua": script} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "fluent-bit.conf")
}

func TestMissingPartsAreNamed(t *testing.T) {
	text := strings.Replace(conf, "Match    systemd.*\n    Host", "Match    other.*\n    Host", 1)
	text = strings.Replace(text, "etcd-parser", "absent", 1)
	_, err := load(write(t, text, "http://a:1"))
	const want = "the configuration misses: an output for systemd.*; parser absent"
	if err == nil || err.Error() != want {
		t.Fatalf("got %v, want %s", err, want)
	}
}

func TestLinesAreSentOnceAndAgainAfterAnError(t *testing.T) {
	var bodies []string
	refuse := true
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refuse {
			refuse = false
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		var request any
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			t.Error(err)
		}
		bodies = append(bodies, fmt.Sprint(request))
	}))
	defer collector.Close()
	c, err := load(write(t, conf, collector.URL))
	if err != nil {
		t.Fatal(err)
	}
	by, err := newPipeline(c)
	if err != nil {
		t.Fatal(err)
	}
	p, err := openPositions(c.tail.keys["db"])
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "etcd-0_garden_etcd-abc.log")
	by.tail.keys["path"] = filepath.Join(filepath.Dir(file), "*.log")
	const lines = `2026-01-02T03:04:05Z stdout F {"level":"info","log":"pear"}` + "\n" + "2026-01-02T03:04:05Z stderr F plum\nunfinished"
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	sent := &atomic.Int64{}
	if p.forward(t.Context(), by, sent) == nil {
		t.Fatal("a refused request is an error")
	}
	for range 2 {
		if err := p.forward(t.Context(), by, sent); err != nil {
			t.Fatal(err)
		}
	}
	if len(bodies) != 1 || sent.Load() != 2 {
		t.Fatalf("got %d requests and %d records: %v", len(bodies), sent.Load(), bodies)
	}
	for _, want := range []string{"pear", "plum", "severity", "info"} {
		if !strings.Contains(bodies[0], want) {
			t.Errorf("%s is not in %s", want, bodies[0])
		}
	}
}
