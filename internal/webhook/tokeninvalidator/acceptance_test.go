package tokeninvalidator_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/webhook/webhooktest"
)

func served(t *testing.T) *webhooktest.Env {
	t.Helper()
	return webhooktest.New(t, webhooktest.Options{
		Webhooks:    "tokenInvalidator: {enabled: true}",
		Controllers: "tokenInvalidator: {enabled: true}",
	})
}

// create creates a Secret as the token invalidator has labelled it, with more labels and other members.
func create(e *webhooktest.Env, labels, members string) *unstructured.Unstructured {
	e.T.Helper()
	object, err := e.Create(`{apiVersion: v1, kind: Secret, metadata: {generateName: robot-token-, labels: {resources.gardener.cloud/purpose: token-invalidator` + labels + `}}` + members + `}`)
	e.Expect(err).NotTo(HaveOccurred())
	return object
}

const consider = `, token-invalidator.resources.gardener.cloud/consider: "true"`

func TestAcceptance10_1ASecretWithoutDataStays(t *testing.T) {
	t.Parallel()
	e := served(t)
	for _, labels := range []string{"", consider} {
		e.Expect(create(e, labels, ``).Object).NotTo(HaveKey("data"))
	}
}

func TestAcceptance10_2AConsideredTokenIsInvalidated(t *testing.T) {
	t.Parallel()
	e := served(t)
	e.Expect(create(e, consider, `, data: {token: c2VjcmV0, ca.crt: Y2VydA==}`).Object).To(HaveKeyWithValue("data", map[string]any{"token": "AAAA", "ca.crt": "Y2VydA=="}))
	e.Expect(create(e, consider, `, data: {ca.crt: Y2VydA==}`).Object).To(HaveKeyWithValue("data", map[string]any{"token": "AAAA", "ca.crt": "Y2VydA=="}))
	e.Expect(create(e, consider, `, stringData: {token: secret}`).Object).To(HaveKeyWithValue("data", map[string]any{"token": "AAAA"}))
	e.Expect(create(e, `, token-invalidator.resources.gardener.cloud/consider: ""`, `, data: {token: c2VjcmV0}`).Object).To(HaveKeyWithValue("data", map[string]any{"token": "AAAA"}))

	object := create(e, "", `, data: {token: c2VjcmV0}`)
	object, err := e.Update(object, `{"metadata": {"labels": {"token-invalidator.resources.gardener.cloud/consider": "true"}}}`)
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(object.Object).To(HaveKeyWithValue("data", map[string]any{"token": "AAAA"}), "as the controller does it")
}

func TestAcceptance10_3AnInvalidTokenThatIsNotConsideredIsDropped(t *testing.T) {
	t.Parallel()
	e := served(t)
	object := create(e, consider, `, data: {token: c2VjcmV0, ca.crt: Y2VydA==}`)
	e.Expect(object.Object).To(HaveKeyWithValue("data", map[string]any{"token": "AAAA", "ca.crt": "Y2VydA=="}))
	object, err := e.Update(object, `{"metadata": {"labels": {"token-invalidator.resources.gardener.cloud/consider": null}}}`)
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(object.Object).To(HaveKeyWithValue("data", map[string]any{"ca.crt": "Y2VydA=="}))
}

func TestAcceptance10_4AnotherTokenThatIsNotConsideredStays(t *testing.T) {
	t.Parallel()
	e := served(t)
	e.Expect(create(e, "", `, data: {token: c2VjcmV0}`).Object).To(HaveKeyWithValue("data", map[string]any{"token": "c2VjcmV0"}))
}
