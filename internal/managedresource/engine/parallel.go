package engine

import (
	"context"
	"fmt"
	"runtime/debug"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Parallel calls work for each number below count, at most limit of them at the same time, and returns the results in the order of the
// numbers. If a call panics, the result of failed replaces its result.
func Parallel[T any](ctx context.Context, limit, count int, work func(number int) T, failed func(number int, err error) T) []T {
	results := make([]T, count)
	// Every call is made, even after the end of the context, so that every result is set.
	workqueue.ParallelizeUntil(context.WithoutCancel(ctx), limit, count, func(number int) {
		err := Recover(ctx, func() error {
			results[number] = work(number)
			return nil
		})
		if err != nil {
			results[number] = failed(number, err)
		}
	})
	return results
}

// Recover runs work and turns a panic of work into an error. In a goroutine of the controller, a panic would end the process, and with it
// the work on all other sets. The condition of the set shows the error, and the log shows the stack.
func Recover(ctx context.Context, work func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
			log.FromContext(ctx).Error(err, "Recovered from a panic", "stack", string(debug.Stack()))
		}
	}()
	return work()
}
