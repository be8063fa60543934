package served

import (
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func TestJudge(t *testing.T) {
	local := service{name: "v1beta1.core.gardener.cloud", version: "v1beta1", uid: "local", available: true}
	aggregated := service{name: "v1beta1.core.gardener.cloud", version: "v1beta1", uid: "remote", backed: true, available: true}
	down := service{name: "v1beta1.core.gardener.cloud", version: "v1beta1", uid: "remote", backed: true, message: "no endpoints"}
	defined := map[string]types.UID{"shoots.core.gardener.cloud": "crd"}
	for name, tc := range map[string]struct {
		facts facts
		want  Finding
		by    types.UID
	}{
		"a CRD": {
			facts: facts{services: []service{local}, definitions: defined, listed: map[Kind]bool{Shoot: true}}, want: Finding{State: "served"},
			by: "crd",
		},
		"no CRD":         {facts: facts{services: []service{local}, complete: true}, want: Finding{State: "absent"}},
		"nothing at all": {want: Finding{State: "absent"}},
		"a CRD that is not served yet": {
			facts: facts{services: []service{local}, definitions: defined},
			want: Finding{
				"unknown", "CustomResourceDefinition shoots.core.gardener.cloud is there, but core.gardener.cloud/v1beta1 does not list its kind",
			},
		},
		"a CRD that was just deleted": {
			facts: facts{services: []service{local}, listed: map[Kind]bool{Shoot: true}},
			want:  Finding{"unknown", "shoots are listed, but have no CustomResourceDefinition"},
		},
		"an aggregated API": {
			facts: facts{services: []service{aggregated}, listed: map[Kind]bool{Shoot: true}, complete: true}, want: Finding{State: "served"},
			by: "remote",
		},
		"an aggregated API without it": {
			facts: facts{services: []service{aggregated}, complete: true}, want: Finding{State: "absent"}, by: "remote",
		},
		"an aggregated API with nothing": {
			facts: facts{services: []service{aggregated}},
			want:  Finding{"unknown", "the server of core.gardener.cloud/v1beta1 lists no projects"}, by: "remote",
		},
		"an aggregated API that is down": {
			facts: facts{services: []service{down}, definitions: defined, listed: map[Kind]bool{Shoot: true}, complete: true},
			want:  Finding{"unknown", "APIService v1beta1.core.gardener.cloud is not available: no endpoints"},
		},
		"another version that is down": {
			facts: facts{
				services: []service{local, {name: "v1.core.gardener.cloud", version: "v1", backed: true, message: "gone"}}, definitions: defined,
				listed: map[Kind]bool{Shoot: true},
			},
			want: Finding{"unknown", "APIService v1.core.gardener.cloud is not available: gone"},
		},
		"another version of another group": {
			facts: facts{services: []service{local, {name: "v1.core.gardener.cloud", version: "v1", backed: true, available: true}}},
			want:  Finding{"unknown", "another version of core.gardener.cloud may serve the kind"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			finding, by := judge(tc.facts, Shoot)
			g.Expect(finding).To(Equal(tc.want))
			g.Expect(by).To(Equal(tc.by))
		})
	}
}

func TestNeedsRetry(t *testing.T) {
	down, finding, absent := Finding{"unknown", "down"}, Finding{State: "unknown"}, Finding{State: "absent"}
	for name, tc := range map[string]struct {
		plants Finding
		by     types.UID
		failed bool
		pause  time.Duration
		want   bool
	}{
		"everything is clear":                       {plants: absent},
		"it is finding out":                         {plants: finding, failed: true},
		"no server answers":                         {plants: down, failed: true, pause: time.Second, want: true},
		"no server answers for long":                {plants: down, failed: true, pause: 5 * time.Minute, want: true},
		"it does not fit together":                  {plants: down, pause: 4 * time.Minute, want: true},
		"it does not fit together for long":         {plants: down, pause: 5 * time.Minute},
		"another server answers strangely":          {plants: down, by: "remote", pause: 5 * time.Minute, want: true},
		"another server says that there is no such": {plants: absent, by: "remote", pause: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			a := everything()
			a.judged[Plant], a.servedBy[Plant], a.failed = tc.plants, tc.by, tc.failed
			NewWithT(t).Expect(a.needsRetry(tc.pause)).To(Equal(tc.want))
		})
	}
}

func TestWithoutAnswerOnlySecretsAreServed(t *testing.T) {
	g := NewWithT(t)
	down := Finding{"unknown", "down"}
	problem := facts{problem: errors.New("down")}
	g.Expect(judgeAll(map[schema.GroupVersion]facts{
		{Group: "core.gardener.cloud", Version: "v1beta1"}: problem, {Group: "security.gardener.cloud", Version: "v1alpha1"}: problem,
	}).judged).To(Equal(map[Kind]Finding{
		"Shoot": down, "Plant": down, "BackupEntry": down, "SecretBinding": down, "CredentialsBinding": down, "Quota": down,
		"Secret": {State: "served"},
	}))
	absent := Finding{State: "absent"}
	g.Expect(judgeAll(nil).judged).To(Equal(map[Kind]Finding{
		"Shoot": absent, "Plant": absent, "BackupEntry": absent, "SecretBinding": absent, "CredentialsBinding": absent, "Quota": absent,
		"Secret": {State: "served"},
	}))
}

func TestJudgeCredentialsBinding(t *testing.T) {
	of := func(each service) []service { return []service{each} }
	aggregated := service{name: "v1alpha1.security.gardener.cloud", version: "v1alpha1", uid: "remote", backed: true, available: true}
	down := service{name: "v1alpha1.security.gardener.cloud", version: "v1alpha1", uid: "remote", backed: true, message: "no endpoints"}
	defined := map[string]types.UID{"credentialsbindings.security.gardener.cloud": "crd"}
	listed := map[Kind]bool{CredentialsBinding: true}
	for name, tc := range map[string]struct {
		facts facts
		want  Finding
		by    types.UID
	}{
		"no group": {want: Finding{State: "absent"}},
		"a CRD":    {facts: facts{definitions: defined, listed: listed}, want: Finding{State: "served"}, by: "crd"},
		"an aggregated API": {
			facts: facts{services: of(aggregated), listed: listed, complete: true}, want: Finding{State: "served"}, by: "remote",
		},
		"an older API": {facts: facts{services: of(aggregated), complete: true}, want: Finding{State: "absent"}, by: "remote"},
		"an API that is down": {
			facts: facts{services: of(down)},
			want:  Finding{"unknown", "APIService v1alpha1.security.gardener.cloud is not available: no endpoints"},
		},
		"an API with no kinds": {
			facts: facts{services: of(aggregated)},
			want:  Finding{"unknown", "the server of security.gardener.cloud/v1alpha1 lists no workloadidentities"}, by: "remote",
		},
		"a CRD that is no kind": {
			facts: facts{definitions: defined},
			want: Finding{
				"unknown",
				"CustomResourceDefinition credentialsbindings.security.gardener.cloud is there, but security.gardener.cloud/v1alpha1 does not " +
					"list its kind",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			finding, by := judge(tc.facts, CredentialsBinding)
			g.Expect(finding).To(Equal(tc.want))
			g.Expect(by).To(Equal(tc.by))
		})
	}
}

func TestProblemOfOneGroupLeavesTheOtherAlone(t *testing.T) {
	g := NewWithT(t)
	security := schema.GroupVersion{Group: "security.gardener.cloud", Version: "v1alpha1"}
	a := judgeAll(map[schema.GroupVersion]facts{security: {problem: errors.New("refused")}})
	absent := Finding{State: "absent"}
	g.Expect(a.judged).To(Equal(map[Kind]Finding{
		"Shoot": absent, "Plant": absent, "BackupEntry": absent, "SecretBinding": absent, "CredentialsBinding": {"unknown", "refused"},
		"Quota":  absent,
		"Secret": {State: "served"},
	}))
	g.Expect(a.needsRetry(longestPause)).To(BeTrue())
}
