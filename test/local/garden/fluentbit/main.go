// Command fluentbit replaces fluent-bit on the node of a local garden. It reads the configuration that fluent-operator writes, and fails if
// a part that garden-operator promises is not in it. It follows the files of containers, applies the parsers and the filters, with their
// Lua scripts, and sends records by OTLP over HTTP until the collector has accepted them. It does not read the journal, which the node does
// not have. If its name is cp, it does nothing: the image of plugins is started with that command.
//
//	fluent-bit-watcher -e PLUGIN -c FILE
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// batch is the largest number of records in a request.
const batch = 2000

func main() {
	if filepath.Base(os.Args[0]) == "cp" {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	_ = flag.String("e", "", "a plugin, which is not used")
	file := flag.String("c", "", "the configuration")
	flag.Parse()
	err := run(ctx, *file)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, file string) error {
	c, err := load(file)
	if err != nil {
		return err
	}
	pipeline, err := newPipeline(c)
	if err != nil {
		return err
	}
	sent := &atomic.Int64{}
	server := &http.Server{Addr: ":" + c.service.keys["http_port"], Handler: handler(sent), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	defer server.Close()
	reader, err := openPositions(c.tail.keys["db"] + ".positions")
	if err != nil {
		return err
	}
	ticks := time.NewTicker(time.Duration(c.seconds()) * time.Second)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return fmt.Errorf("serve: %w", err)
		case <-ticks.C:
		}
		// fluent-bit's watcher starts fluent-bit anew when the configuration changes.
		if changed, err := load(file); err != nil {
			return err
		} else if fmt.Sprint(changed) != fmt.Sprint(c) {
			return errors.New("the configuration has changed")
		}
		if err := reader.forward(ctx, pipeline, sent); err != nil {
			fmt.Fprintln(os.Stderr, "will try again:", err)
		}
	}
}

func handler(sent *atomic.Int64) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /api/v1/metrics/prometheus", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		fmt.Fprintf(w, "# TYPE fluentbit_output_proc_records_total counter\nfluentbit_output_proc_records_total{name=\"opentelemetry.0\"} %d\n",
			sent.Load())
	})
	return mux
}

// positions are the places up to which files have been sent, by their paths. They are written to a file after each request.
type positions struct {
	file string
	of   map[string]int64
}

func openPositions(file string) (*positions, error) {
	p := &positions{file: file, of: map[string]int64{}}
	content, err := os.ReadFile(file) //nolint:gosec // a file that the configuration names
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err == nil {
		err = json.Unmarshal(content, &p.of)
	}
	if err != nil {
		return nil, fmt.Errorf("read positions: %w", err)
	}
	return p, nil
}

func (p *positions) save() error {
	content, err := json.Marshal(p.of)
	if err == nil {
		err = os.WriteFile(p.file+".new", content, 0o600)
	}
	if err == nil {
		err = os.Rename(p.file+".new", p.file)
	}
	return err
}

// forward sends the new lines of all files.
func (p *positions) forward(ctx context.Context, by *pipeline, sent *atomic.Int64) error {
	files, err := filepath.Glob(by.tail.keys["path"])
	if err != nil {
		return err
	}
	var errs []error
	for _, file := range files {
		if !by.excludes(file) {
			errs = append(errs, p.forwardFile(ctx, by, file, sent))
		}
	}
	return errors.Join(errs...)
}

func (c configuration) excludes(file string) bool {
	for pattern := range strings.SplitSeq(c.tail.keys["exclude_path"], ",") {
		if matches(pattern, filepath.Base(file)) || matches(pattern, file) {
			return true
		}
	}
	return false
}

func (p *positions) forwardFile(ctx context.Context, by *pipeline, file string, sent *atomic.Int64) error {
	open, err := os.Open(file) //nolint:gosec // a file that the configuration names
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the Pod is gone
	}
	if err != nil {
		return err
	}
	defer open.Close()
	info, err := open.Stat()
	if err != nil {
		return err
	}
	if info.Size() < p.of[file] {
		p.of[file] = 0 // the kubelet has begun a new file
	}
	for p.of[file] < info.Size() {
		content, err := io.ReadAll(io.NewSectionReader(open, p.of[file], 1<<20))
		if err != nil {
			return err
		}
		records, read, err := by.records(file, content)
		if err != nil || read == 0 {
			return err
		}
		if err := by.send(ctx, "kubernetes."+tagOf(file), records); err != nil {
			return err
		}
		sent.Add(int64(len(records)))
		p.of[file] += int64(read)
		if err := p.save(); err != nil {
			return fmt.Errorf("save positions: %w", err)
		}
	}
	return nil
}

// tagOf returns the part of a tag that fluent-bit makes of a path.
func tagOf(file string) string { return strings.ReplaceAll(strings.TrimPrefix(file, "/"), "/", ".") }

// records returns at most batch records of complete lines at the beginning of a content, and the length of these lines. Filters can drop
// records.
func (p *pipeline) records(file string, content []byte) ([]record, int, error) {
	var all []record
	read := 0
	for len(all) < batch {
		line, _, complete := bytes.Cut(content[read:], []byte("\n"))
		if !complete {
			break
		}
		read += len(line) + 1
		fields := p.parse(p.tail.keys["parser"], string(line))
		if fields == nil {
			fields = record{"log": string(line)}
		}
		r, err := p.apply("kubernetes."+tagOf(file), fields)
		if err != nil {
			return nil, 0, err
		}
		if r != nil {
			all = append(all, r)
		}
	}
	return all, read, nil
}

// send sends records to each output that matches the tag.
func (p *pipeline) send(ctx context.Context, tag string, records []record) error {
	content, err := json.Marshal(request(records))
	if err != nil {
		return err
	}
	for _, each := range p.outputs {
		if !matches(each.keys["match"], tag) {
			continue
		}
		url := "http://" + each.keys["host"] + ":" + each.keys["port"] + each.keys["logs_uri"]
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(content))
		if err != nil {
			return err
		}
		r.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			return fmt.Errorf("send records: %w", err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("send records to %s: %s", url, response.Status)
		}
	}
	return nil
}

// request returns a request of OTLP. The line is the body, and the other fields are attributes.
func request(records []record) any {
	text := func(value any) any { return map[string]any{"stringValue": fmt.Sprint(value)} }
	all := make([]any, 0, len(records))
	for _, each := range records {
		var attributes []any
		for key, value := range each {
			if key != "log" {
				attributes = append(attributes, map[string]any{"key": key, "value": text(value)})
			}
		}
		at := time.Now()
		if written, err := time.Parse(time.RFC3339Nano, fmt.Sprint(each["time"])); err == nil {
			at = written
		}
		all = append(all, map[string]any{
			"timeUnixNano": strconv.FormatInt(at.UnixNano(), 10), "body": text(each["log"]), "attributes": attributes,
		})
	}
	return map[string]any{"resourceLogs": []any{map[string]any{"scopeLogs": []any{map[string]any{"logRecords": all}}}}}
}
