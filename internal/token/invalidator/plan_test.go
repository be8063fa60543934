package invalidator

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
)

func TestPlanFor(t *testing.T) {
	const (
		purpose  = "resources.gardener.cloud/purpose"
		consider = "token-invalidator.resources.gardener.cloud/consider"
		skip     = "token-invalidator.resources.gardener.cloud/skip"
	)
	for name, tc := range map[string]struct {
		labels    map[string]string
		automount *bool
		skip      bool
		want      plan
	}{
		"an account that has not decided":  {want: plan{purpose: true}},
		"an account that mounts":           {automount: ptr.To(true), want: plan{purpose: true}},
		"an account that does not":         {automount: ptr.To(false), want: plan{purpose: true, invalidate: true}},
		"and is to be spared":              {automount: ptr.To(false), skip: true, want: plan{purpose: true}},
		"a purpose is there":               {labels: map[string]string{purpose: ""}, automount: ptr.To(false), want: plan{invalidate: true}},
		"the mark is there":                {labels: map[string]string{purpose: "x", consider: ""}, automount: ptr.To(false), want: plan{}},
		"the mark is there and should not": {labels: map[string]string{purpose: "x", consider: "true"}, want: plan{restore: true}},
		"the mark is there and to be spared": {
			labels: map[string]string{purpose: "x", consider: "no"}, automount: ptr.To(false), skip: true, want: plan{restore: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			account := &corev1.ServiceAccount{AutomountServiceAccountToken: tc.automount}
			if tc.skip {
				account.Labels = map[string]string{skip: "false"}
			}
			secret := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Labels: tc.labels}}
			NewWithT(t).Expect(planFor(secret, account)).To(Equal(tc.want))
		})
	}
}

func TestPatch(t *testing.T) {
	for want, p := range map[string]plan{
		`{"metadata":{"resourceVersion":"7","labels":{"resources.gardener.cloud/purpose":"token-invalidator",
			"token-invalidator.resources.gardener.cloud/consider":"true"}}}`: {
			purpose: true, invalidate: true,
		},
		`{"metadata":{"resourceVersion":"7","labels":{"token-invalidator.resources.gardener.cloud/consider":null}}}`: {
			restore: true,
		},
	} {
		g := NewWithT(t)
		before := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7", Labels: map[string]string{"x": "y"}}}
		if p.restore {
			before.Labels["token-invalidator.resources.gardener.cloud/consider"] = "true"
		}
		changed, patch := p.patch(before)
		g.Expect(patch.Type()).To(Equal(types.MergePatchType))
		g.Expect(patch.Data(changed)).To(MatchJSON(want))
	}
}

func TestMounts(t *testing.T) {
	volume := func(source corev1.VolumeSource) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "x"}, {VolumeSource: source}}}}
	}
	g := NewWithT(t)
	g.Expect(mounts(volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}), "s")).To(BeTrue())
	g.Expect(mounts(volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "t"}}), "s")).To(BeFalse())
	g.Expect(mounts(volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}},
	}}}), "s")).To(BeFalse())
}

func TestSift(t *testing.T) {
	named := &metav1.PartialObjectMetadata{
		ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "7", Annotations: map[string]string{"kubernetes.io/service-account.name": "x"}},
	}
	other := &metav1.PartialObjectMetadata{
		ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "7", Annotations: map[string]string{"k8s.io/initial-events-end": "true"}},
	}
	version := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7"}}
	status := &metav1.Status{Code: 410}
	for name, tc := range map[string]struct{ event, want watch.Event }{
		"a Secret of ours appears": {watch.Event{Type: "ADDED", Object: named}, watch.Event{Type: "ADDED", Object: named}},
		"a Secret of ours changes": {watch.Event{Type: "MODIFIED", Object: named}, watch.Event{Type: "MODIFIED", Object: named}},
		"another appears":          {watch.Event{Type: "ADDED", Object: other}, watch.Event{Type: "BOOKMARK", Object: version}},
		"another changes":          {watch.Event{Type: "MODIFIED", Object: other}, watch.Event{Type: "DELETED", Object: other}},
		"another is deleted":       {watch.Event{Type: "DELETED", Object: other}, watch.Event{Type: "DELETED", Object: other}},
		"the listing is complete":  {watch.Event{Type: "BOOKMARK", Object: other}, watch.Event{Type: "BOOKMARK", Object: other}},
		"the watch fails":          {watch.Event{Type: "ERROR", Object: status}, watch.Event{Type: "ERROR", Object: status}},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(sift(tc.event)).To(Equal(tc.want)) })
	}
}

func TestChangedItsMind(t *testing.T) {
	account := func(automount *bool, labels map[string]string) *corev1.ServiceAccount {
		return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Labels: labels}, AutomountServiceAccountToken: automount}
	}
	const skip = "token-invalidator.resources.gardener.cloud/skip"
	for name, tc := range map[string]struct {
		before, after *corev1.ServiceAccount
		want          bool
	}{
		"nothing":        {account(nil, nil), account(nil, map[string]string{"x": "y"}), false},
		"the same":       {account(ptr.To(false), nil), account(ptr.To(false), nil), false},
		"it mounts":      {account(ptr.To(false), nil), account(ptr.To(true), nil), true},
		"it has no mind": {account(ptr.To(false), nil), account(nil, nil), true},
		"it is spared":   {account(nil, nil), account(nil, map[string]string{skip: ""}), true},
		"another value":  {account(nil, map[string]string{skip: "a"}), account(nil, map[string]string{skip: "b"}), true},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(changedItsMind(tc.before, tc.after)).To(Equal(tc.want)) })
	}
}
