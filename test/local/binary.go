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
	// Name is the name of the binary in messages. Path is the built program.
	Name, Path string
	// Dir is the folder with the configuration, config.yaml, and the log.
	Dir string
	// RecordFile receives the record of the process; empty means record.json in Dir.
	RecordFile string
	// ProbePort is the port of the health probes on 127.0.0.1, as in the configuration.
	ProbePort int
	// Env is added to the environment; deployable.Environment returns the variables of its Deployment.
	Env []string
	// Detached makes the process continue when this process ends.
	Detached bool
}

// LogFile is the log of all processes that were started from the folder.
func (b Binary) LogFile() string { return filepath.Join(b.Dir, "log") }

// Start starts the process, and does not wait until it is ready.
func (b Binary) Start() (*child.Process, error) {
	return child.Start(child.Spec{
		Name: b.Name, Path: b.Path, Args: []string{"--config=" + filepath.Join(b.Dir, "config.yaml")},
		Env: b.Env, Dir: b.Dir, LogFile: b.LogFile(), RecordFile: cmp.Or(b.RecordFile, filepath.Join(b.Dir, "record.json")), Detached: b.Detached,
	})
}

// Ready waits until the process is ready. It returns an error if the process ends.
func (b Binary) Ready(ctx context.Context, p *child.Process, limit time.Duration) error {
	return Await(ctx, limit, b.Name+" to be ready", func(ctx context.Context) error {
		_, err := Get(ctx, http.DefaultClient, fmt.Sprintf("http://127.0.0.1:%d/readyz", b.ProbePort))
		if failure := p.Failure(); failure != nil {
			return GiveUp(failure)
		}
		return err
	})
}

// Get returns the body of a response with status 200. It disables compression, which would cost processor time of a measured process.
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
