package tokeninvalidator

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/admission/review"
)

func TestPlan(t *testing.T) {
	const (
		consider   = `{"token-invalidator.resources.gardener.cloud/consider":"true"}`
		invalidate = `[{"op":"add","path":"/data/token","value":"AAAA"}]`
		drop       = `[{"op":"remove","path":"/data/token"}]`
		notBase64  = "data.token: must be a string in base64"
	)
	for name, tc := range map[string]struct{ labels, data, want, wantErr string }{
		"labelled, no data":                        {labels: consider},
		"labelled, empty data":                     {labels: consider, data: `{}`, want: invalidate},
		"labelled, other data":                     {labels: consider, data: `{"ca.crt":"Y2VydA=="}`, want: invalidate},
		"labelled, a token":                        {labels: consider, data: `{"token":"c2VjcmV0"}`, want: invalidate},
		"labelled, an empty token":                 {labels: consider, data: `{"token":""}`, want: invalidate},
		"labelled, a token that is null":           {labels: consider, data: `{"token":null}`, want: invalidate},
		"labelled, the invalid token":              {labels: consider, data: `{"token":"AAAA"}`},
		"labelled, the invalid token, escaped":     {labels: consider, data: `{"token":"\u0041AAA"}`},
		"labelled, too few zero bytes":             {labels: consider, data: `{"token":"AAA="}`, want: invalidate},
		"labelled, too many zero bytes":            {labels: consider, data: `{"token":"AAAAAA=="}`, want: invalidate},
		"labelled with any value":                  {labels: `{"token-invalidator.resources.gardener.cloud/consider":"false"}`, data: `{}`, want: invalidate},
		"labelled with no value":                   {labels: `{"token-invalidator.resources.gardener.cloud/consider":""}`, data: `{}`, want: invalidate},
		"labelled, no base64":                      {labels: consider, data: `{"token":"secret!"}`, wantErr: notBase64},
		"labelled, no string":                      {labels: consider, data: `{"token":12345}`, wantErr: notBase64},
		"not labelled, no data":                    {},
		"not labelled, empty data":                 {data: `{}`},
		"not labelled, a token":                    {data: `{"token":"c2VjcmV0"}`},
		"not labelled, an empty token":             {data: `{"token":""}`},
		"not labelled, a token that is null":       {data: `{"token":null}`},
		"not labelled, the invalid token":          {data: `{"token":"AAAA"}`, want: drop},
		"not labelled, the invalid token, escaped": {data: `{"token":"\u0041AAA"}`, want: drop},
		"not labelled, too few zero bytes":         {data: `{"token":"AAA="}`},
		"not labelled, too many zero bytes":        {data: `{"token":"AAAAAA=="}`},
		"not labelled, no base64":                  {data: `{"token":"secret!"}`, wantErr: notBase64},
		"not labelled, no string":                  {data: `{"token":{"secret":"secret"}}`, wantErr: notBase64},
		"labelled for another purpose only":        {labels: `{"resources.gardener.cloud/purpose":"token-invalidator"}`, data: `{"token":"c2VjcmV0"}`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			labels, data := tc.labels, tc.data
			if labels == "" {
				labels = "null"
			}
			if data == "" {
				data = "null"
			}
			found := secret{}
			g.Expect(review.Decode([]byte(`{"metadata":{"labels":`+labels+`},"data":`+data+`}`), &found)).To(Succeed())
			changes, err := plan(found)
			if tc.wantErr != "" {
				g.Expect(err).To(MatchError(tc.wantErr))
				g.Expect(changes).To(BeNil())
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			document, err := changes.Encode()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(document)).To(Equal(tc.want))
		})
	}
}
