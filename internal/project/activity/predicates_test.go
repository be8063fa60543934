package activity

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/project/served"
)

func now() time.Time { return time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC) }

func object(age time.Duration, change ...func(*metav1.ObjectMeta)) *served.Object {
	o := &metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now().Add(-age)), ResourceVersion: "1", Generation: 1}
	for _, each := range change {
		each(o)
	}
	return served.Of(&metav1.PartialObjectMetadata{ObjectMeta: *o})
}

func labelled(o *metav1.ObjectMeta) {
	o.Labels = map[string]string{"reference.gardener.cloud/secretbinding": ""}
}

func version(v string) func(*metav1.ObjectMeta) {
	return func(o *metav1.ObjectMeta) { o.ResourceVersion = v }
}

func generation(g int64) func(*metav1.ObjectMeta) {
	return func(o *metav1.ObjectMeta) { o.Generation = g }
}

func uid(u types.UID) func(*metav1.ObjectMeta) { return func(o *metav1.ObjectMeta) { o.UID = u } }

// changesOf are the changes of one kind.
type changesOf served.Kind

func (k changesOf) created(object *served.Object, now time.Time) bool {
	return isActivity(served.Kind(k), nil, object, now)
}

func (k changesOf) updated(before, after *served.Object) bool {
	return isActivity(served.Kind(k), before, after, now())
}

func (k changesOf) deleted(object *served.Object) bool {
	return isActivity(served.Kind(k), object, nil, now())
}

func TestIsActivity(t *testing.T) {
	shoot, secret, quota := changesOf(served.Shoot), changesOf(served.Secret), changesOf(served.Quota)
	for name, tc := range map[string]struct{ got, want bool }{
		"a new Shoot":                            {shoot.created(object(time.Minute), now()), true},
		"a Shoot of exactly an hour":             {shoot.created(object(time.Hour), now()), true},
		"an older Shoot":                         {shoot.created(object(time.Hour+time.Second), now()), false},
		"a Shoot that is changed":                {shoot.updated(object(0), object(0, version("2"), generation(2))), true},
		"a Shoot whose status or labels changed": {shoot.updated(object(0), object(0, version("2"), labelled)), false},
		"a Shoot that is another one":            {shoot.updated(object(0), object(99*time.Hour, version("2"), uid("b"))), true},
		"a resync":                               {shoot.updated(object(0), object(0, generation(2))), false},
		"a Shoot that is deleted, however old":   {shoot.deleted(object(99 * time.Hour)), true},
		"a new Secret without label":             {secret.created(object(0), now()), false},
		"a new Secret with label":                {secret.created(object(0, labelled), now()), true},
		"an older Secret with label":             {secret.created(object(2*time.Hour, labelled), now()), false},
		"a new Secret of a CredentialsBinding": {secret.created(object(0, func(o *metav1.ObjectMeta) {
			o.Labels = map[string]string{"reference.gardener.cloud/credentialsbinding": "true"}
		}), now()), true},
		"a Secret that gets the label":           {secret.updated(object(0), object(0, version("2"), labelled)), true},
		"a Secret that loses the label":          {secret.updated(object(0, labelled), object(0, version("2"))), true},
		"a Secret that never had it":             {secret.updated(object(0), object(0, version("2"), generation(2))), false},
		"a Secret with label that is deleted":    {secret.deleted(object(0, labelled)), true},
		"a Secret without label that is deleted": {secret.deleted(object(0)), false},
		"a Quota without label":                  {quota.created(object(0), now()), false},
		"a Quota with label":                     {quota.created(object(0, labelled), now()), true},
		"a resync of a Secret with label":        {secret.updated(object(0, labelled), object(0, labelled)), false},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(tc.got).To(Equal(tc.want)) })
	}
}
