package local

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"time"

	"github.com/espalier-dev/espalier/test/local/child"
)

// Binary is a binary of this repository that runs as a process on this machine.
type Binary struct {
	// Name is its name in messages, Path the built program.
	Name, Path string
	// Dir contains its configuration, config.yaml, and its log.
	Dir string
	// RecordFile receives the record of the process; empty means record.json in Dir.
	RecordFile string
	// ProbePort is the port of its health probes on 127.0.0.1, as the configuration says.
	ProbePort int
	// Env is added to the environment; deployable.Environment returns the variables of its Deployment.
	Env []string
	// Detached lets the process outlive this one.
	Detached bool
}

// LogFile is the log of all processes that were started from the folder.
func (b Binary) LogFile() string { return filepath.Join(b.Dir, "log") }

// Start starts the process, and does not wait.
func (b Binary) Start() (*child.Process, error) {
	return child.Start(child.Spec{
		Name: b.Name, Path: b.Path, Args: []string{"--config=" + filepath.Join(b.Dir, "config.yaml")},
		Env: b.Env, Dir: b.Dir, LogFile: b.LogFile(), RecordFile: cmp.Or(b.RecordFile, filepath.Join(b.Dir, "record.json")), Detached: b.Detached,
	})
}

// Ready waits until the process is ready, and gives up when it ends.
func (b Binary) Ready(ctx context.Context, p *child.Process, limit time.Duration) error {
	return Await(ctx, limit, b.Name+" to be ready", func(ctx context.Context) error {
		_, err := Get(ctx, http.DefaultClient, fmt.Sprintf("http://127.0.0.1:%d/readyz", b.ProbePort))
		if failure := p.Failure(); failure != nil {
			return GiveUp(failure)
		}
		return err
	})
}

// Get returns the body of a response with status 200. The server does not compress it, which would cost a measured process time.
func Get(ctx context.Context, c *http.Client, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept-Encoding", "identity")
	response, err := c.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", url, response.Status)
	}
	return io.ReadAll(response.Body)
}
