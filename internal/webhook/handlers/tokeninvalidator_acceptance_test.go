package handlers_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/webhook/webhooktest"
)

func invalidatorServed(t *testing.T) *webhooktest.Env {
	t.Helper()
	return webhooktest.New(t, webhooktest.Options{
		Webhooks:    "tokenInvalidator: {enabled: true}",
		Controllers: "tokenInvalidator: {enabled: true}",
	})
}

// invalidatorCreate creates a Secret with the label of the token invalidator, and further labels and members.
func invalidatorCreate(e *webhooktest.Env, labels, members string) *unstructured.Unstructured {
	e.T.Helper()
	object, err := e.Create(`{apiVersion: v1, kind: Secret, metadata: {generateName: robot-token-, labels: ` +
		`{resources.gardener.cloud/purpose: token-invalidator` + labels + `}}` + members + `}`)
	e.Expect(err).NotTo(HaveOccurred())
	return object
}

const invalidatorConsider = `, token-invalidator.resources.gardener.cloud/consider: "true"`

func TestSecretWithoutDataStays(t *testing.T) {
	t.Parallel()
	e := invalidatorServed(t)
	for _, labels := range []string{"", invalidatorConsider} {
		e.Expect(invalidatorCreate(e, labels, ``).Object).NotTo(HaveKey("data"))
	}
}

func TestTokenWithTheLabelIsInvalidated(t *testing.T) {
	t.Parallel()
	e := invalidatorServed(t)
	e.Expect(invalidatorCreate(e, invalidatorConsider, `, data: {token: c2VjcmV0, ca.crt: Y2VydA==}`).Object).
		To(HaveKeyWithValue("data", map[string]any{"token": "AAAA", "ca.crt": "Y2VydA=="}))
	e.Expect(invalidatorCreate(e, invalidatorConsider, `, data: {ca.crt: Y2VydA==}`).Object).
		To(HaveKeyWithValue("data", map[string]any{"token": "AAAA", "ca.crt": "Y2VydA=="}))
	e.Expect(invalidatorCreate(e, invalidatorConsider, `, stringData: {token: secret}`).Object).
		To(HaveKeyWithValue("data", map[string]any{"token": "AAAA"}))
	e.Expect(invalidatorCreate(e, `, token-invalidator.resources.gardener.cloud/consider: ""`, `, data: {token: c2VjcmV0}`).Object).
		To(HaveKeyWithValue("data", map[string]any{"token": "AAAA"}))

	object := invalidatorCreate(e, "", `, data: {token: c2VjcmV0}`)
	object, err := e.Update(object, `{"metadata": {"labels": {"token-invalidator.resources.gardener.cloud/consider": "true"}}}`)
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(object.Object).To(HaveKeyWithValue("data", map[string]any{"token": "AAAA"}), "as the controller does it")
}

func TestInvalidTokenWithoutTheLabelIsRemoved(t *testing.T) {
	t.Parallel()
	e := invalidatorServed(t)
	object := invalidatorCreate(e, invalidatorConsider, `, data: {token: c2VjcmV0, ca.crt: Y2VydA==}`)
	e.Expect(object.Object).To(HaveKeyWithValue("data", map[string]any{"token": "AAAA", "ca.crt": "Y2VydA=="}))
	object, err := e.Update(object, `{"metadata": {"labels": {"token-invalidator.resources.gardener.cloud/consider": null}}}`)
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(object.Object).To(HaveKeyWithValue("data", map[string]any{"ca.crt": "Y2VydA=="}))
}

func TestOtherTokenWithoutTheLabelStays(t *testing.T) {
	t.Parallel()
	e := invalidatorServed(t)
	e.Expect(invalidatorCreate(e, "", `, data: {token: c2VjcmV0}`).Object).To(HaveKeyWithValue("data", map[string]any{"token": "c2VjcmV0"}))
}
