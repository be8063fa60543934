package process

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// newLogger returns a logger with the level debug (which includes V(1)), info or error, that writes JSON lines or text. Goroutines may
// share the writer. When the process is ending, errors that say only that work was interrupted have level info.
func newLogger(out io.Writer, level, format string, end *end) logr.Logger {
	encoding := zap.NewProductionEncoderConfig()
	encoding.EncodeTime = zapcore.ISO8601TimeEncoder
	encoding.EncodeDuration = zapcore.StringDurationEncoder
	encoder := zapcore.NewJSONEncoder(encoding)
	if format == "text" {
		encoder = zapcore.NewConsoleEncoder(encoding)
	}
	enabled, _ := zapcore.ParseLevel(level) // validated; info if empty
	core := zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(out)), enabled)
	return zapr.NewLogger(zap.New(&endingCore{Core: core, end: end}))
}

// end records whether the process is ending. The zero value means that the process is not ending.
type end struct{ ctxErr atomic.Pointer[func() error] }

// beginsWith sets the context whose end begins the end of the process.
func (e *end) beginsWith(ctx context.Context) {
	ctxErr := ctx.Err
	e.ctxErr.Store(&ctxErr)
}

func (e *end) begun() bool {
	ctxErr := e.ctxErr.Load()
	return ctxErr != nil && (*ctxErr)() != nil
}

// endingCore passes log entries to another core. When a process ends normally, libraries and controllers log an error for each interrupted
// operation. endingCore gives these entries the level info, because users search logs for errors to find faults.
type endingCore struct {
	zapcore.Core
	end *end
}

func (c *endingCore) With(fields []zapcore.Field) zapcore.Core {
	return &endingCore{Core: c.Core.With(fields), end: c.end}
}

func (c *endingCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !c.Enabled(entry.Level) {
		return checked
	}
	return checked.AddCore(entry, c)
}

func (c *endingCore) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	if entry.Level == zapcore.ErrorLevel && c.end.begun() && slices.ContainsFunc(fields, reportsInterruption) {
		if entry.Level = zapcore.InfoLevel; !c.Enabled(entry.Level) {
			return nil
		}
	}
	return c.Core.Write(entry, fields)
}

func reportsInterruption(field zapcore.Field) bool {
	err, isError := field.Interface.(error)
	return isError && field.Type == zapcore.ErrorType && interrupted(err)
}

// interrupted reports whether an error says only that the context of the process has ended. It compares the texts of controller-runtime's
// errors about leases and caches, because these errors have no types.
func interrupted(err error) bool {
	if errors.Is(err, context.Canceled) {
		return true
	}
	return slices.ContainsFunc([]string{
		"leader election lost", "Informer to sync", "cache did not sync", "handler did not sync",
	}, func(end string) bool { return strings.HasSuffix(err.Error(), end) })
}

// libraryLogs makes sure that the loggers of libraries are set only once: they are global, and setting them while they are in use is a
// race. Only tests, which start several binaries in one process, would set them again.
var libraryLogs sync.Once

// redirectLibraryLogs makes client-go and controller-runtime use our logger.
func redirectLibraryLogs(log logr.Logger) {
	libraryLogs.Do(func() {
		klog.SetLogger(log.WithName("client-go"))
		ctrllog.SetLogger(log)
	})
}
