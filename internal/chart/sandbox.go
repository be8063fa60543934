package chart

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/json"
)

// Sandbox renders charts in child processes, each of which renders one chart and ends.
type Sandbox struct {
	// Program is the file of the binary; its main function calls Child if the first argument is ChildArgument.
	Program string
	// Memory is the limit of the data of a child, in bytes.
	Memory uint64
	// Time is the limit of the duration of a rendering; a child that needs longer is killed.
	Time time.Duration
	// Output is the limit of the encoded result, in bytes. The caller decodes it: it needs up to thirty times as much memory for a moment.
	Output int
	// Slots contains an item for each child that runs; its capacity is the limit of children. Copies of the sandbox share it.
	Slots chan struct{}
}

// NewSandbox returns a sandbox with the limits that suit all charts of Gardener's extensions: 256 MiB, 5 s, 2 MiB of output. The program
// of the sandbox is the program of this process, even if the file of this program was replaced. Two children run at once, so that an
// endless chart does not delay other charts. The memory limit of the container must leave 512 MiB to the children, because the kubelet
// ends the whole container if one of its processes exceeds the limit.
func NewSandbox() Sandbox {
	return Sandbox{Program: "/proc/self/exe", Memory: 256 << 20, Time: 5 * time.Second, Output: 2 << 20, Slots: make(chan struct{}, 2)}
}

// MaxArchive is the limit of the size of an archive, in bytes.
const MaxArchive = 8 << 20

// request is the input of a child.
type request struct {
	Archive []byte  `json:"archive"`
	Values  Values  `json:"values,omitempty"`
	Release Release `json:"release"`
	Memory  uint64  `json:"memory"`
	Output  int     `json:"output"`
}

// response is the output of a child. One of its fields is set.
type response struct {
	Result  *Result      `json:"result,omitempty"`
	Failure *RenderError `json:"failure,omitempty"`
}

// maxFailure is the limit of an encoded RenderError, in bytes.
const maxFailure = 16 << 10

// Render renders a chart, a compressed tar archive. The child has no environment and opens no files and no connections: its limit of open
// files is 0, and Landlock refuses both as far as the kernel supports this. Errors contain no values; they are RenderErrors if the chart
// or its values are the reason. Other errors, such as ErrTime and ErrThreads, may have their reason in the machine: callers retry.
func (s Sandbox) Render(ctx context.Context, archive []byte, values Values, release Release) (Result, error) {
	if len(archive) > MaxArchive {
		return Result{}, failure("", fmt.Sprintf("archive is larger than %d bytes", MaxArchive))
	}
	input, err := json.Marshal(request{Archive: archive, Values: values, Release: release, Memory: s.Memory, Output: s.Output})
	if err != nil {
		return Result{}, fmt.Errorf("encode chart for rendering: %w", err)
	}
	select {
	case s.Slots <- struct{}{}:
		defer func() { <-s.Slots }()
	case <-ctx.Done():
		return Result{}, fmt.Errorf("wait to render chart: %w", context.Cause(ctx))
	}
	limited, cancel := context.WithTimeout(ctx, s.Time)
	defer cancel()
	output, crash := &bounded{limit: s.Output + maxFailure}, &bounded{limit: maxFailure}
	command := exec.CommandContext(limited, s.Program, ChildArgument) //nolint:gosec // the program is this one
	command.Env = []string{}
	command.Dir = "/"
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(input), output, crash
	command.WaitDelay = time.Second
	err = command.Run()
	switch {
	case ctx.Err() != nil:
		return Result{}, fmt.Errorf("render chart: %w", context.Cause(ctx))
	case limited.Err() != nil:
		return Result{}, fmt.Errorf("render chart: %w than %s", ErrTime, s.Time)
	case output.full:
		return Result{}, failure("", fmt.Sprintf("output is larger than %d bytes", s.Output))
	case err != nil:
		return Result{}, crashed(err, crash.String(), s.Memory)
	}
	var answer response
	if err := json.Unmarshal(output.Bytes(), &answer); err != nil {
		return Result{}, errors.New("render chart: the answer of the child process cannot be read")
	}
	switch {
	case answer.Failure != nil:
		return Result{}, answer.Failure
	case answer.Result != nil:
		return *answer.Result, nil
	}
	return Result{}, errors.New("render chart: the child process gave no answer")
}

// Errors whose reason may be a machine that is busy, or the chart.
var (
	// ErrTime means that a child was killed at the limit of its time.
	ErrTime = errors.New("rendering takes longer")
	// ErrThreads means that the kernel refused a thread to a child.
	ErrThreads = errors.New("the machine has no thread left for rendering")
)

var (
	// lackOfMemory are texts of Go's runtime about memory that the kernel refuses.
	lackOfMemory = []string{"out of memory", "cannot allocate", "cannot map pages", "failed to commit pages"}
	// lackOfThreads are its texts about a thread that the kernel refuses.
	lackOfThreads = []string{"failed to create new OS thread", "newosproc"}
)

// crashed describes the end of a child that gave no answer. Its messages are not shown, because they may quote values.
func crashed(err error, messages string, memory uint64) error {
	contains := func(text string) bool { return strings.Contains(messages, text) }
	if slices.ContainsFunc(lackOfThreads, contains) {
		return fmt.Errorf("render chart: %w", ErrThreads)
	}
	if slices.ContainsFunc(lackOfMemory, contains) {
		return failure("", fmt.Sprintf("rendering needs more than %d bytes of memory", memory))
	}
	if strings.Contains(messages, "stack overflow") {
		return failure("", "templates or documents are nested too deeply")
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return fmt.Errorf("render chart: child process ended without an answer: %s", exit.ProcessState)
	}
	return fmt.Errorf("render chart: start child process: %w", err)
}

// bounded is a buffer with a limit. A write beyond the limit fails, which ends the command that writes.
type bounded struct {
	bytes.Buffer
	limit int
	full  bool
}

// Write implements io.Writer.
func (b *bounded) Write(data []byte) (int, error) {
	if b.Len()+len(data) > b.limit {
		b.full = true
		return 0, errors.New("output is too large")
	}
	return b.Buffer.Write(data)
}
