package requestor

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/config"
)

// Limits define the tokens that Secrets may ask for. If source and target are one cluster, a user who may write Secrets of one namespace
// must not get the rights of ServiceAccounts of other namespaces. All fields except TargetNamespace and TargetNamespaces apply only if
// source and target are one cluster, or may be one cluster.
type Limits struct {
	// TargetNamespace is the namespace of all ServiceAccounts; empty: the Secrets name it.
	TargetNamespace string
	// TargetNamespaces are the namespaces of the target to work in; empty: all.
	TargetNamespaces []string
	// OwnNamespace is the namespace in which this process runs.
	OwnNamespace string
	// SourceNamespaces are the namespaces of the source to work in; empty: all.
	SourceNamespaces []string
	// Allowed extends the limits. The scope in it never includes the system namespaces, which are kube-system and OwnNamespace: there, only
	// the listed SystemServiceAccounts are allowed. If the scope is empty, the namespaces in the other fields apply.
	Allowed config.EspalierTokenSameCluster
}

// Names of settings, for messages.
const (
	scopeSetting          = "espalier.token.sameCluster.scope"
	systemAccountsSetting = "espalier.token.sameCluster.systemServiceAccounts"
)

// The error if the configuration does not restrict the tokens that Secrets may ask for, and its remedy.
const (
	unrestricted       = "every user who may create a Secret could get a token of every ServiceAccount"
	unrestrictedRemedy = "set " + scopeSetting + ": SecretNamespace, espalier.token.targetNamespace or sourceClientConnection.namespaces, " +
		"or allow it with " + scopeSetting + ": AllNamespaces"
)

// RefuseUnrestricted returns an error with the remedy in two cases: the namespace of this process is not known, or the configuration
// neither restricts the tokens that Secrets may ask for nor explicitly allows all tokens. Call it if source and target are one cluster.
func (l Limits) RefuseUnrestricted() error {
	switch {
	case l.OwnNamespace == "":
		return errors.New("source and target are one cluster, and the namespace of this process, which is protected there, is not known: " +
			"set the environment variable POD_NAMESPACE")
	case l.isRestricted():
		return nil
	}
	return errors.New("source and target are one cluster, so " + unrestricted + ": " + unrestrictedRemedy)
}

func (l Limits) isRestricted() bool {
	return l.Allowed.Scope != "" || l.TargetNamespace != "" || len(l.TargetNamespaces) > 0 || len(l.SourceNamespaces) > 0
}

// Unused returns the allowed SystemServiceAccounts that have no effect, each with the reason. The argument same is false if source and
// target are known to be two clusters.
func (l Limits) Unused(same bool) map[string]string {
	unused := map[string]string{}
	for _, each := range l.Allowed.SystemServiceAccounts {
		namespace, _, _ := strings.Cut(each, "/")
		switch isOutside := func(namespaces []string) bool { return len(namespaces) > 0 && !slices.Contains(namespaces, namespace) }; {
		case !same:
			unused[each] = "source and target are two clusters, where no namespace is protected"
		case !l.isSystem(namespace):
			unused[each] = "only namespaces kube-system and " + l.OwnNamespace + " are protected"
		case l.TargetNamespace != "" && l.TargetNamespace != namespace:
			unused[each] = "espalier.token.targetNamespace is " + l.TargetNamespace
		case isOutside(l.TargetNamespaces):
			unused[each] = "its namespace is not in targetClientConnection.namespaces"
		case l.Allowed.Scope == config.TokenScopeSecretNamespace && isOutside(l.SourceNamespaces):
			unused[each] = scopeSetting + " is " + l.Allowed.Scope + ", and its namespace is not in sourceClientConnection.namespaces"
		}
	}
	return unused
}

// allowsAccount returns an error if a Secret of the namespace from may not ask for a token of a ServiceAccount.
func (i instance) allowsAccount(account types.NamespacedName, from string) error {
	if i.areTwoClusters() {
		return nil
	}
	if i.isSystem(account.Namespace) {
		if slices.Contains(i.Allowed.SystemServiceAccounts, account.String()) {
			return i.inScope(kindAccount, account, from, true)
		}
		return i.refuse(kindAccount, account, "namespace "+account.Namespace+" is protected",
			"name another one, or list it in "+systemAccountsSetting)
	}
	return i.inScope(kindAccount, account, from, i.TargetNamespace != "" || len(i.TargetNamespaces) > 0)
}

// allowsTarget returns an error if the token of a Secret of the namespace from may not be written into this target Secret.
func (i instance) allowsTarget(target types.NamespacedName, from string) error {
	switch {
	case i.areTwoClusters():
		return nil
	case i.isSystem(target.Namespace):
		return i.refuse(kindTargetSecret, target, "namespace "+target.Namespace+" is protected", "name another one")
	}
	return i.inScope(kindTargetSecret, target, from, len(i.TargetNamespaces) > 0 || target.Namespace == i.TargetNamespace)
}

// inScope returns an error if a Secret of the namespace from may not name this object. The object is in a namespace that is not protected,
// or is a listed SystemServiceAccount. The argument restricted is true if settings about the target name the namespace of the object, or
// limit the namespaces of the target. If they do not, the namespaces of the source limit the target, too.
func (i instance) inScope(kind string, object types.NamespacedName, from string, restricted bool) error {
	switch {
	case object.Namespace == from, i.Allowed.Scope == config.TokenScopeAllNamespaces:
		return nil
	case i.Allowed.Scope == config.TokenScopeSecretNamespace:
		return i.refuse(kind, object, scopeSetting+" is "+i.Allowed.Scope, "name one of namespace "+from+", or change that setting")
	case restricted, slices.Contains(i.SourceNamespaces, object.Namespace):
		return nil
	case !i.isRestricted(): // refused at start, if the process then knew that there is one cluster
		return i.refuse(kind, object, unrestricted, unrestrictedRemedy)
	}
	return i.refuse(kind, object, "it is not in a namespace that this process works in ("+strings.Join(i.SourceNamespaces, ", ")+")",
		"choose one of these, add it to sourceClientConnection.namespaces, or set "+scopeSetting)
}

func (l Limits) isSystem(namespace string) bool {
	return namespace == metav1.NamespaceSystem || namespace == l.OwnNamespace || l.OwnNamespace == ""
}

// refuse returns the error, which an edit can correct. If it is not known yet whether there is one cluster, the error causes a retry.
func (i instance) refuse(kind string, object types.NamespacedName, reason, remedy string) error {
	if i.unknown != nil {
		return fmt.Errorf("%s %s is refused as long as source and target may be one cluster, since %s: %w", kind, object, reason, i.unknown)
	}
	return &mistake{fmt.Errorf("%s %s is refused, since source and target are one cluster and %s: %s", kind, object, reason, remedy)}
}
