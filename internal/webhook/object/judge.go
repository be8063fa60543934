package object

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/admission/patch"
	"github.com/espalier-dev/espalier/internal/admission/review"
)

// Lookup answers a question about the cluster whose API server sends the review. Its errors are errors of that API server.
type Lookup[Question, Answer any] func(context.Context, Question) (Answer, error)

// Judge returns a handler of one kind of object that decodes the object itself. Requests that Expect answers do not reach it.
func Judge(kind schema.GroupVersionKind, judge func(*review.Request) review.Response) review.Handler {
	return review.HandlerFunc(func(_ context.Context, request *review.Request) review.Response {
		if verdict, judged := Expect(request, kind); judged {
			return verdict
		}
		return judge(request)
	})
}

// Change returns a handler that changes objects of one kind as plan says. T has the fields that plan reads.
func Change[T any](kind schema.GroupVersionKind, plan func(T) patch.Patch) review.Handler {
	return review.HandlerFunc(func(_ context.Context, request *review.Request) review.Response {
		var found T
		if verdict, judged := Read(request, kind, &found); judged {
			return verdict
		}
		return review.Patched(plan(found))
	})
}

// ChangeAfter returns a handler that needs one look-up. Ask returns the question for an object; if it returns false, the object is
// allowed as it is. Plan gets the answer of the look-up. A look-up that fails denies the request.
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
