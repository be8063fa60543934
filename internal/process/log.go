package process

import (
	"io"
	"sync"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// newLogger returns a logger with one of the levels debug (which includes V(1)), info and error, that writes JSON lines or text. The writer
// may be shared by goroutines.
func newLogger(out io.Writer, level, format string) logr.Logger {
	encoding := zap.NewProductionEncoderConfig()
	encoding.EncodeTime = zapcore.ISO8601TimeEncoder
	encoding.EncodeDuration = zapcore.StringDurationEncoder
	encoder := zapcore.NewJSONEncoder(encoding)
	if format == "text" {
		encoder = zapcore.NewConsoleEncoder(encoding)
	}
	enabled, _ := zapcore.ParseLevel(level) // validated; info if empty
	return zapr.NewLogger(zap.New(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(out)), enabled)))
}

// libraryLogs makes sure that the loggers of libraries are set only once: they are global to the process, and setting them again while they
// are in use is a race. Only tests, which start several binaries in one process, would do so.
var libraryLogs sync.Once

// redirectLibraryLogs makes client-go and controller-runtime use our logger.
func redirectLibraryLogs(log logr.Logger) {
	libraryLogs.Do(func() {
		klog.SetLogger(log.WithName("client-go"))
		ctrllog.SetLogger(log)
	})
}
