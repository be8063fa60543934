package harness

import (
	"context"
	"fmt"
	"net/url"
	"testing"

	. "github.com/onsi/gomega"
)

func TestOnlyRequestsThatTimeOutShowAnAPIServerThatIsStarting(t *testing.T) {
	g := NewWithT(t)
	request := &url.Error{Op: "Get", URL: "https://127.0.0.1:1/api", Err: context.DeadlineExceeded}
	g.Expect(starting(fmt.Errorf("connect: %w", request))).To(BeTrue())
	g.Expect(starting(fmt.Errorf("wait for the cache: %w", context.DeadlineExceeded))).To(BeFalse())
	request.Err = context.Canceled
	g.Expect(starting(request)).To(BeFalse())
}
