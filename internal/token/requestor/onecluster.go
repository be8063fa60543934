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

// OneCluster defines what Secrets may ask for if source and target are one cluster. In that case, a user who may write Secrets of one
// namespace must not get the rights of ServiceAccounts of other namespaces.
type OneCluster struct {
	// OwnNamespace is the namespace in which this process runs.
	OwnNamespace string
	// SourceNamespaces are the namespaces of the source to work in; empty: all.
	SourceNamespaces []string
	// Scope defines from which namespaces a Secret may name ServiceAccounts and target Secrets: config.TokenScopeSecretNamespace or
	// config.TokenScopeAllNamespaces. It never includes the system namespaces, which are kube-system and OwnNamespace. If it is empty, the
	// namespaces of the instance and of the source apply.
	Scope string
	// SystemServiceAccounts are the ServiceAccounts of the system namespaces that are allowed, as namespace/name. With
	// config.TokenScopeSecretNamespace, only Secrets of the same namespace may name them.
	SystemServiceAccounts []string
}

// Names of settings, for messages.
const (
	scopeSetting          = "espalier.token.sameCluster.scope"
	systemAccountsSetting = "espalier.token.sameCluster.systemServiceAccounts"
)

// The problem if nothing restricts what Secrets may ask for, and its remedy.
const (
	unrestricted       = "every user who may create a Secret could get a token of every ServiceAccount"
	unrestrictedRemedy = "set " + scopeSetting + ": SecretNamespace, espalier.token.targetNamespace or sourceClientConnection.namespaces, " +
		"or allow it with " + scopeSetting + ": AllNamespaces"
)

// RefuseUnrestricted returns an error with the remedy if source and target are one cluster and the configuration neither restricts what
// Secrets may ask for nor explicitly allows everything.
func (o OneCluster) RefuseUnrestricted(targetNamespace string, targetNamespaces []string) error {
	switch {
	case o.OwnNamespace == "":
		return errors.New("source and target are one cluster, and the namespace of this process, which is protected there, is not known: " +
			"set the environment variable POD_NAMESPACE")
	case o.isRestricted(targetNamespace, targetNamespaces):
		return nil
	}
	return errors.New("source and target are one cluster, so " + unrestricted + ": " + unrestrictedRemedy)
}

func (o OneCluster) isRestricted(targetNamespace string, targetNamespaces []string) bool {
	return o.Scope != "" || targetNamespace != "" || len(targetNamespaces) > 0 || len(o.SourceNamespaces) > 0
}

// Unused returns the SystemServiceAccounts that are listed without effect, and why. Same is false if source and target are known
// to be two clusters.
func (o OneCluster) Unused(same bool, targetNamespace string, targetNamespaces []string) map[string]string {
	unused := map[string]string{}
	for _, each := range o.SystemServiceAccounts {
		namespace, _, _ := strings.Cut(each, "/")
		switch isOutside := func(namespaces []string) bool { return len(namespaces) > 0 && !slices.Contains(namespaces, namespace) }; {
		case !same:
			unused[each] = "source and target are two clusters, where no namespace is protected"
		case !(oneCluster{OneCluster: o}).isSystem(namespace):
			unused[each] = "only namespaces kube-system and " + o.OwnNamespace + " are protected"
		case targetNamespace != "" && targetNamespace != namespace:
			unused[each] = "espalier.token.targetNamespace is " + targetNamespace
		case isOutside(targetNamespaces):
			unused[each] = "its namespace is not in targetClientConnection.namespaces"
		case o.Scope == config.TokenScopeSecretNamespace && isOutside(o.SourceNamespaces):
			unused[each] = scopeSetting + " is " + o.Scope + ", and its namespace is not in sourceClientConnection.namespaces"
		}
	}
	return unused
}

// oneCluster is OneCluster and whether it applies.
type oneCluster struct {
	OneCluster
	// same is true if source and target are one cluster. If this is not known, unknown says why.
	same    bool
	unknown error
}

func (o oneCluster) isKnown() bool { return o.same && o.unknown == nil }

func (o oneCluster) applies() bool { return o.same || o.unknown != nil }

// allowsAccount returns an error if a Secret of namespace from may not ask for a token of a ServiceAccount.
func (o oneCluster) allowsAccount(i instance, account types.NamespacedName, from string) error {
	if !o.applies() {
		return nil
	}
	if o.isSystem(account.Namespace) {
		if slices.Contains(o.SystemServiceAccounts, account.String()) {
			return o.inScope(i, kindAccount, account, from, true)
		}
		return o.refuse(kindAccount, account, "namespace "+account.Namespace+" is protected",
			"name another one, or list it in "+systemAccountsSetting)
	}
	return o.inScope(i, kindAccount, account, from, i.targetNamespace != "" || len(i.namespaces) > 0)
}

// allowsTarget returns an error if the token of a Secret of namespace from may not be written into another Secret.
func (o oneCluster) allowsTarget(i instance, target types.NamespacedName, from string) error {
	switch {
	case !o.applies():
		return nil
	case o.isSystem(target.Namespace):
		return o.refuse(kindTargetSecret, target, "namespace "+target.Namespace+" is protected", "name another one")
	}
	return o.inScope(i, kindTargetSecret, target, from, len(i.namespaces) > 0 || target.Namespace == i.targetNamespace)
}

// inScope returns an error if an object outside of the system namespaces may not be named. Restricted is true if the settings of the
// instance include its namespace. The namespaces of the source restrict the target, too.
func (o oneCluster) inScope(i instance, kind string, object types.NamespacedName, from string, restricted bool) error {
	switch {
	case object.Namespace == from, o.Scope == config.TokenScopeAllNamespaces:
		return nil
	case o.Scope == config.TokenScopeSecretNamespace:
		return o.refuse(kind, object, scopeSetting+" is "+o.Scope, "name one of namespace "+from+", or change that setting")
	case restricted, slices.Contains(o.SourceNamespaces, object.Namespace):
		return nil
	case !o.isRestricted(i.targetNamespace, i.namespaces): // refused at start, if it was known then that there is one cluster
		return o.refuse(kind, object, unrestricted, unrestrictedRemedy)
	}
	return o.refuse(kind, object, "it is not in a namespace that this process works in ("+strings.Join(o.SourceNamespaces, ", ")+")",
		"choose one of these, add it to sourceClientConnection.namespaces, or set "+scopeSetting)
}

func (o oneCluster) isSystem(namespace string) bool {
	return namespace == metav1.NamespaceSystem || namespace == o.OwnNamespace || o.OwnNamespace == ""
}

// refuse returns an error that an edit can correct. If it is not known yet whether there is one cluster, the error is retried.
func (o oneCluster) refuse(kind string, object types.NamespacedName, reason, remedy string) error {
	if o.unknown != nil {
		return fmt.Errorf("%s %s is refused as long as source and target may be one cluster, since %s: %w", kind, object, reason, o.unknown)
	}
	return &mistake{fmt.Errorf("%s %s is refused, since source and target are one cluster and %s: %s", kind, object, reason, remedy)}
}
