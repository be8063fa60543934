package serving

import (
	"net/http"
	"runtime"
)

// Decoding a review makes deep calls. The library answers each request in a new goroutine, whose stack would have to grow each time.
// Workers are goroutines whose stack has already grown.

// workersPerProcessor is how many workers there are for each processor. Requests that find no idle worker are answered in their own
// goroutine.
const workersPerProcessor = 8

type workers struct {
	// tasks is not buffered: a send succeeds only if a worker is idle.
	tasks chan *task
}

// task is a request that waits for its answer.
type task struct {
	handler http.Handler
	writer  http.ResponseWriter
	request *http.Request
	// done receives the value of the handler's panic; nil if it did not panic.
	done chan any
}

// start starts the workers. The returned function ends each worker after its current request, and does not wait for this.
func (w *workers) start() (stop func()) {
	ended := make(chan struct{})
	for range workersPerProcessor * runtime.GOMAXPROCS(0) {
		go func() {
			for {
				select {
				case <-ended:
					return
				case t := <-w.tasks:
					t.done <- t.answer()
				}
			}
		}()
	}
	return func() { close(ended) }
}

// serve answers a request, and panics if its handler does.
func (w *workers) serve(handler http.Handler, writer http.ResponseWriter, request *http.Request) {
	t := &task{handler: handler, writer: writer, request: request, done: make(chan any, 1)}
	select {
	case w.tasks <- t:
		if panicked := <-t.done; panicked != nil {
			panic(panicked) //nolint:forbidigo // net/http, in whose goroutine this is, recovers from it
		}
	default:
		handler.ServeHTTP(writer, request)
	}
}

func (t *task) answer() (panicked any) {
	defer func() { panicked = recover() }()
	t.handler.ServeHTTP(t.writer, t.request)
	return nil
}
