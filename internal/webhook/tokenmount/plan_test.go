package tokenmount

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/admission/review"
)

// volumeFor is the volume of a token that expires after the seconds.
func volumeFor(seconds string) string {
	return `{"name":"kube-api-access-gardener","projected":{"sources":[` +
		`{"serviceAccountToken":{"expirationSeconds":` + seconds + `,"path":"token"}},` +
		`{"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}},` +
		`{"downwardAPI":{"items":[{"path":"namespace","fieldRef":{"apiVersion":"v1","fieldPath":"metadata.namespace"}}]}}` +
		`],"defaultMode":420}}`
}

const mount = `{"name":"kube-api-access-gardener","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}`

func TestAccount(t *testing.T) {
	for name, tc := range map[string]struct{ spec, want string }{
		"none":           {spec: `{}`},
		"null":           {spec: `{"serviceAccountName":null}`},
		"empty":          {spec: `{"serviceAccountName":""}`},
		"the default":    {spec: `{"serviceAccountName":"default"}`},
		"any other":      {spec: `{"serviceAccountName":"robot"}`, want: "robot"},
		"case of a name": {spec: `{"serviceAccountName":"Default"}`, want: "Default"},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(account(decoded(t, `{"spec":`+tc.spec+`}`))).To(Equal(tc.want))
		})
	}
}

func TestPlan(t *testing.T) {
	no, yes := ptr.To(false), ptr.To(true)
	appended := func(seconds string) string {
		return `[{"op":"add","path":"/spec/volumes","value":[` + volumeFor(seconds) + `]}]`
	}
	for name, tc := range map[string]struct {
		automount         *bool
		annotations, spec string
		want, wantErr     string
	}{
		"the ServiceAccount says nothing":                {spec: `{}`},
		"the ServiceAccount allows it":                   {automount: yes, spec: `{}`},
		"the Pod forbids it":                             {automount: no, spec: `{"automountServiceAccountToken":false}`},
		"the Pod allows it, which the API server obeyed": {automount: no, spec: `{"automountServiceAccountToken":true,"volumes":[{"name":"kube-api-access-2138h"}]}`},
		"a bad annotation of a Pod that stays":           {automount: no, annotations: `{"projected-token-mount.resources.gardener.cloud/expiration-seconds":"x"}`, spec: `{"automountServiceAccountToken":false}`},
		"no volumes":                                     {automount: no, spec: `{}`, want: appended("43200")},
		"volumes are null":                               {automount: no, spec: `{"volumes":null}`, want: appended("43200")},
		"volumes are empty":                              {automount: no, spec: `{"volumes":[]}`, want: appended("43200")},
		"the Pod says yes itself":                        {automount: no, spec: `{"automountServiceAccountToken":true}`, want: appended("43200")},
		"other volumes precede":                          {automount: no, spec: `{"volumes":[{"name":"kube-api-access"}]}`, want: `[{"op":"add","path":"/spec/volumes/-","value":` + volumeFor("43200") + `}]`},
		"the annotation says how long":                   {automount: no, annotations: `{"projected-token-mount.resources.gardener.cloud/expiration-seconds":"8998"}`, spec: `{}`, want: appended("8998")},
		"the annotation may be too short":                {automount: no, annotations: `{"projected-token-mount.resources.gardener.cloud/expiration-seconds":"-1"}`, spec: `{}`, want: appended("-1")},
		"an annotation that is null":                     {automount: no, annotations: `{"projected-token-mount.resources.gardener.cloud/expiration-seconds":null}`, spec: `{}`, want: appended("43200")},
		"the annotation is no number":                    {automount: no, annotations: `{"projected-token-mount.resources.gardener.cloud/expiration-seconds":"x"}`, spec: `{}`, wantErr: `strconv.ParseInt: parsing "x": invalid syntax`},
		"the annotation is empty":                        {automount: no, annotations: `{"projected-token-mount.resources.gardener.cloud/expiration-seconds":""}`, spec: `{}`, wantErr: `strconv.ParseInt: parsing "": invalid syntax`},
		"the annotation is not decimal":                  {automount: no, annotations: `{"projected-token-mount.resources.gardener.cloud/expiration-seconds":"0x10"}`, spec: `{}`, wantErr: `strconv.ParseInt: parsing "0x10": invalid syntax`},
		"the annotation is too large":                    {automount: no, annotations: `{"projected-token-mount.resources.gardener.cloud/expiration-seconds":"9223372036854775808"}`, spec: `{}`, wantErr: `strconv.ParseInt: parsing "9223372036854775808": value out of range`},
		"the annotation is long":                         {automount: no, annotations: `{"projected-token-mount.resources.gardener.cloud/expiration-seconds":"` + strings.Repeat("é", 200) + `"}`, spec: `{}`, wantErr: `strconv.ParseInt: parsing "` + strings.Repeat("é", 126) + `…": invalid syntax`},
		"zeros precede":                                  {automount: no, annotations: `{"projected-token-mount.resources.gardener.cloud/expiration-seconds":"0000000000000000600"}`, spec: `{}`, want: appended("600")},
		"containers of both kinds, but no ephemeral ones": {automount: no, spec: `{"volumes":[{"name":"a"}],"initContainers":[{}],"containers":[null,{"volumeMounts":null},{"volumeMounts":[{"name":"a"},null]}],"ephemeralContainers":[{}]}`, want: `[` +
			`{"op":"add","path":"/spec/volumes/-","value":` + volumeFor("43200") + `},` +
			`{"op":"add","path":"/spec/initContainers/0/volumeMounts","value":[` + mount + `]},` +
			`{"op":"add","path":"/spec/containers/1/volumeMounts","value":[` + mount + `]},` +
			`{"op":"add","path":"/spec/containers/2/volumeMounts/-","value":` + mount + `}]`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			annotations := tc.annotations
			if annotations == "" {
				annotations = "null"
			}
			changes, err := plan(decoded(t, `{"metadata":{"annotations":`+annotations+`},"spec":`+tc.spec+`}`), tc.automount, 43200)
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

// TestTooManyChangesEndEarly has more than are made to one object.
func TestTooManyChangesEndEarly(t *testing.T) {
	g := NewWithT(t)
	many := `[` + strings.Repeat(`{},`, 30_000) + `{}]`
	changes, err := plan(decoded(t, `{"spec":{"initContainers":`+many+`,"containers":`+many+`}}`), ptr.To(false), 43200)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(changes).To(HaveLen(10_001))
	_, err = changes.Encode()
	g.Expect(err).To(MatchError("the object needs too many changes: 10001, at most 10000 are made"))
}

func decoded(t *testing.T, object string) pod {
	t.Helper()
	found := pod{}
	NewWithT(t).Expect(review.Decode([]byte(object), &found)).To(Succeed())
	return found
}
