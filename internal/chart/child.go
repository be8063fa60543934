package chart

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"

	helmarchive "helm.sh/helm/v4/pkg/chart/loader/archive"
	"k8s.io/apimachinery/pkg/util/json"
)

// ChildArgument is the first argument of the processes that a Sandbox starts. It is no part of the command line that users see.
const ChildArgument = "render-chart-in-sandbox"

// maxUnpacked is the limit of the files of a chart, in bytes.
const maxUnpacked = 32 << 20

// Child renders the chart on standard input and writes the result to out. Before it renders, it forbids its own process to open files and
// connections, and limits its memory. The process must therefore end afterwards. A main function calls Child if the first argument is
// ChildArgument.
func Child(ctx context.Context, _ []string, out io.Writer) error {
	// Libraries log values.
	log.SetOutput(io.Discard)
	slog.SetDefault(slog.New(slog.DiscardHandler))
	helmarchive.MaxDecompressedChartSize = maxUnpacked

	input, err := io.ReadAll(os.Stdin)
	if err != nil {
		return fmt.Errorf("read chart: %w", err)
	}
	var asked request
	if json.Unmarshal(input, &asked) != nil {
		return errors.New("read chart: not a request")
	}
	unprotected, err := confine(asked.Memory)
	if err != nil {
		return fmt.Errorf("limit process: %w", err)
	}
	result, err := render(ctx, asked.Archive, asked.Values, asked.Release)
	result.Unprotected = unprotected
	return answer(out, asked, result, err)
}

func answer(out io.Writer, asked request, result Result, err error) error {
	reply := response{Result: &result}
	if err != nil {
		failed, isFailure := errors.AsType[*RenderError](err)
		if !isFailure {
			failed = failure("", "failed for a reason that may contain values")
		}
		reply = response{Failure: failed.bounded()}
	}
	encoded, err := json.Marshal(reply)
	if err != nil {
		return errors.New("encode result")
	}
	if reply.Failure == nil && len(encoded) > asked.Output {
		return answer(out, asked, Result{}, failure("", fmt.Sprintf("output is larger than %d bytes", asked.Output)))
	}
	_, err = out.Write(encoded)
	return err
}
