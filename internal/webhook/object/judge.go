package object

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/admission/patch"
	"github.com/espalier-dev/espalier/internal/admission/review"
)

// Lookup reads a fact from the cluster whose API server sends the review. Its errors are errors of that API server.
type Lookup[Question, Answer any] func(context.Context, Question) (Answer, error)

// Judge returns a handler for one kind. The function judge decodes the object itself. It is not called for requests that Expect answers.
func Judge(kind schema.GroupVersionKind, judge func(*review.Request) review.Response) review.Handler {
	return review.HandlerFunc(func(_ context.Context, request *review.Request) review.Response {
		if verdict, judged := Expect(request, kind); judged {
			return verdict
		}
		return judge(request)
	})
}

// Change returns a handler that makes the changes of plan in objects of one kind. T has the fields that plan reads.
func Change[T any](kind schema.GroupVersionKind, plan func(T) patch.Patch) review.Handler {
	return review.HandlerFunc(func(_ context.Context, request *review.Request) review.Response {
		var found T
		if verdict, judged := Read(request, kind, &found); judged {
			return verdict
		}
		return review.Patched(plan(found))
	})
}

// ChangeAfter returns a handler that needs one look-up. The function ask returns the question about an object; if it returns false, the
// object is allowed unchanged. The function plan receives the answer. A failed look-up denies the request.
func ChangeAfter[T, Question, Answer any](
	kind schema.GroupVersionKind, ask func(*review.Request, T) (Question, bool), lookup Lookup[Question, Answer],
	plan func(T, Answer) review.Response,
) review.Handler {
	return review.HandlerFunc(func(ctx context.Context, request *review.Request) review.Response {
		var found T
		if verdict, judged := Read(request, kind, &found); judged {
			return verdict
		}
		question, needed := ask(request, found)
		if !needed {
			return review.Allowed("")
		}
		answer, err := lookup(ctx, question)
		if err != nil {
			return review.Unjudged(err)
		}
		return plan(found, answer)
	})
}
