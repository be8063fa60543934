package requestor

import (
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/config"
)

func allow(scope string, systemServiceAccounts ...string) config.EspalierTokenSameCluster {
	return config.EspalierTokenSameCluster{Scope: scope, SystemServiceAccounts: systemServiceAccounts}
}

// The Secret is in namespace editors.
func TestInOneClusterASecretReachesNoOtherNamespaceThanTheConfigurationAllows(t *testing.T) {
	const protected, elsewhere = "is protected", "is not in a namespace that this process works in"
	restricted := Limits{OwnNamespace: "own", SourceNamespaces: []string{"editors", "team"}}
	secretNamespace := Limits{OwnNamespace: "own", Allowed: allow("SecretNamespace")}
	everything := Limits{OwnNamespace: "own", Allowed: allow("AllNamespaces")}
	listed := Limits{OwnNamespace: "own", Allowed: allow("AllNamespaces", "kube-system/listed", "own/listed")}
	for name, tc := range map[string]struct {
		one             Limits
		targetNamespace string
		namespaces      []string
		twoClusters     bool
		account         string // namespace of the ServiceAccount
		named           string // its name; "robot" if empty
		want            string // part of the error about the ServiceAccount; "" if it is allowed
		wantTarget      string // part of the error about a target Secret in that namespace; "" if it is allowed
	}{
		"its own namespace":                         {one: restricted, account: "editors"},
		"another namespace of the source":           {one: restricted, account: "team"},
		"a namespace that the source does not have": {one: restricted, account: "victims", want: elsewhere, wantTarget: elsewhere},
		"kube-system":                               {one: restricted, account: "kube-system", want: protected, wantTarget: protected},
		"the namespace of the process":              {one: restricted, account: "own", want: protected, wantTarget: protected},
		"another, if only its own is allowed": {
			one: secretNamespace, account: "victims", want: "scope is SecretNamespace", wantTarget: "scope is SecretNamespace",
		},
		"its own, if only that is allowed": {one: secretNamespace, account: "editors"},
		"the target namespace":             {one: Limits{OwnNamespace: "own"}, targetNamespace: "team", account: "team"},
		"kube-system as target namespace": {
			one: Limits{OwnNamespace: "own"}, targetNamespace: "kube-system", account: "kube-system", want: protected,
			wantTarget: protected,
		},
		"a target Secret beside the target namespace": {
			one: Limits{OwnNamespace: "own"}, targetNamespace: "team", account: "victims", wantTarget: elsewhere,
		},
		"a namespace of the target connection": {one: Limits{OwnNamespace: "own"}, namespaces: []string{"team"}, account: "team"},
		"kube-system of the target connection": {
			one: Limits{OwnNamespace: "own"}, namespaces: []string{"kube-system"}, account: "kube-system", want: protected,
			wantTarget: protected,
		},
		"any namespace, if all are allowed":        {one: everything, account: "victims"},
		"kube-system, if all are allowed":          {one: everything, account: "kube-system", want: protected, wantTarget: protected},
		"own namespace, if all are allowed":        {one: everything, account: "own", want: protected, wantTarget: protected},
		"a listed ServiceAccount of kube-system":   {one: listed, account: "kube-system", named: "listed", wantTarget: protected},
		"a listed ServiceAccount of own namespace": {one: listed, account: "own", named: "listed", wantTarget: protected},
		"another ServiceAccount than the listed":   {one: listed, account: "own", named: "cluster-admin", want: protected, wantTarget: protected},
		"any namespace, if no setting restricts it": {
			one: Limits{OwnNamespace: "own"}, account: "victims",
			want:       "set espalier.token.sameCluster.scope: SecretNamespace, espalier.token.targetNamespace or",
			wantTarget: "set espalier.token.sameCluster.scope: SecretNamespace, espalier.token.targetNamespace or",
		},
		"a listed one of another namespace, if only that of the Secret is allowed": {
			one:     Limits{OwnNamespace: "own", Allowed: allow("SecretNamespace", "kube-system/listed")},
			account: "kube-system", named: "listed",
			want: "scope is SecretNamespace", wantTarget: protected,
		},
		"a listed one of the namespace of the Secret": {
			one:     Limits{OwnNamespace: "editors", Allowed: allow("SecretNamespace", "editors/listed")},
			account: "editors", named: "listed", wantTarget: protected,
		},
		"anything, if the own namespace is not known": {
			one: Limits{Allowed: allow("AllNamespaces")}, account: "victims", want: protected, wantTarget: protected,
		},
		"kube-system of another cluster":              {one: restricted, twoClusters: true, account: "kube-system"},
		"the own namespace's name in another cluster": {one: restricted, twoClusters: true, account: "own"},
		"any namespace of another cluster":            {one: Limits{}, twoClusters: true, account: "victims"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			tc.one.TargetNamespace, tc.one.TargetNamespaces = tc.targetNamespace, tc.namespaces
			i := instance{Limits: tc.one, same: !tc.twoClusters}
			named := tc.named
			if named == "" {
				named = "robot"
			}
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "editors", Name: "s", Annotations: map[string]string{
				"serviceaccount.resources.gardener.cloud/name":                     named,
				"serviceaccount.resources.gardener.cloud/namespace":                tc.account,
				"token-requestor.resources.gardener.cloud/target-secret-name":      "target",
				"token-requestor.resources.gardener.cloud/target-secret-namespace": tc.account,
			}}}
			_, err := i.accountOf(secret.Annotations, secret.Namespace)
			expectRefusal(g, err, tc.want)
			_, err = i.targetOf(secret)
			expectRefusal(g, err, tc.wantTarget)

			i.same, i.unknown = false, errors.New("the API server is away")
			_, err = i.accountOf(secret.Annotations, secret.Namespace)
			if !tc.twoClusters && tc.want != "" {
				g.Expect(err).To(MatchError(ContainSubstring("the API server is away")), "until it is known, there is one cluster")
				g.Expect(isMistake(err)).To(BeFalse(), "so that it is tried again")
			}
		})
	}
}

func expectRefusal(g *WithT, err error, want string) {
	if want == "" {
		g.Expect(err).NotTo(HaveOccurred())
		return
	}
	g.Expect(err).To(MatchError(And(ContainSubstring(want), ContainSubstring("since source and target are one cluster"))))
	g.Expect(isMistake(err)).To(BeTrue())
}

func TestOneClusterMustBeRestricted(t *testing.T) {
	for name, tc := range map[string]struct {
		one             Limits
		targetNamespace string
		namespaces      []string
		want            string
	}{
		"nothing": {
			one: Limits{OwnNamespace: "own"},
			want: "source and target are one cluster, so every user who may create a Secret could get a token of every ServiceAccount: " +
				"set espalier.token.sameCluster.scope: SecretNamespace, espalier.token.targetNamespace or sourceClientConnection.namespaces, " +
				"or allow it with espalier.token.sameCluster.scope: AllNamespaces",
		},
		"only ServiceAccounts are listed": {
			one: Limits{OwnNamespace: "own", Allowed: allow("", "kube-system/a")}, want: "source and target are one cluster",
		},
		"no own namespace": {
			one: Limits{Allowed: allow("AllNamespaces")},
			want: "source and target are one cluster, and the namespace of this process, which is protected there, is not known: " +
				"set the environment variable POD_NAMESPACE",
		},
		"a target namespace":         {one: Limits{OwnNamespace: "own"}, targetNamespace: "a"},
		"namespaces of the target":   {one: Limits{OwnNamespace: "own"}, namespaces: []string{"a"}},
		"namespaces of the source":   {one: Limits{OwnNamespace: "own", SourceNamespaces: []string{"a"}}},
		"the namespaces of Secrets":  {one: Limits{OwnNamespace: "own", Allowed: allow("SecretNamespace")}},
		"all namespaces, explicitly": {one: Limits{OwnNamespace: "own", Allowed: allow("AllNamespaces")}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			tc.one.TargetNamespace, tc.one.TargetNamespaces = tc.targetNamespace, tc.namespaces
			err := tc.one.RefuseUnrestricted()
			if tc.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(HavePrefix(tc.want)))
		})
	}
}

func TestListedServiceAccountsWithoutEffectAreReportedWithTheReason(t *testing.T) {
	const system, own, other = "kube-system/a", "own/b", "team/c"
	for name, tc := range map[string]struct {
		one             Limits
		twoClusters     bool
		targetNamespace string
		namespaces      []string
		want            map[string]string
	}{
		"an account of another namespace": {want: map[string]string{other: "only namespaces kube-system and own are protected"}},
		"two clusters": {twoClusters: true, want: map[string]string{
			system: "source and target are two clusters, where no namespace is protected",
			own:    "source and target are two clusters, where no namespace is protected",
			other:  "source and target are two clusters, where no namespace is protected",
		}},
		"another target namespace": {targetNamespace: "own", want: map[string]string{
			system: "espalier.token.targetNamespace is own", other: "only namespaces kube-system and own are protected",
		}},
		"namespaces of the target connection": {namespaces: []string{"own", "team"}, want: map[string]string{
			system: "its namespace is not in targetClientConnection.namespaces", other: "only namespaces kube-system and own are protected",
		}},
		"Secrets of other namespaces": {
			one: Limits{Allowed: allow("SecretNamespace"), SourceNamespaces: []string{"kube-system"}},
			want: map[string]string{
				own:   "espalier.token.sameCluster.scope is SecretNamespace, and its namespace is not in sourceClientConnection.namespaces",
				other: "only namespaces kube-system and own are protected",
			},
		},
		"Secrets of all namespaces": {
			one: Limits{Allowed: allow("SecretNamespace")}, want: map[string]string{other: "only namespaces kube-system and own are protected"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.one.OwnNamespace, tc.one.Allowed.SystemServiceAccounts = "own", []string{system, own, other}
			tc.one.TargetNamespace, tc.one.TargetNamespaces = tc.targetNamespace, tc.namespaces
			NewWithT(t).Expect(tc.one.Unused(!tc.twoClusters)).To(Equal(tc.want))
		})
	}
}
