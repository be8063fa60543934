package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/test/local"
)

// readAudit calls visit for each event of an audit log whose line contains the user name of a ServiceAccount. The user of the request can
// be another one, who impersonates the ServiceAccount.
func readAudit(file string, visit func(event)) error {
	number := 0
	for line, err := range local.AuditLines(file, 0) {
		if err != nil {
			return err
		}
		number++
		if !bytes.Contains(line, []byte(`"system:serviceaccount:`)) {
			continue // a request of another user, like most events in a log
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("read audit log, line %d: %s: %w", number, file, err)
		}
		visit(e)
	}
	return nil
}

// event is an entry of an audit log at level Metadata.
type event struct{ auditv1.Event }

type outcome string

const (
	// allowed means that the request passed authorization; later errors do not matter.
	allowed outcome = "allowed"
	// denied means that the user had no right to the request.
	denied outcome = "denied"
	// refused means that the user had the right, but admission, or the rules for writing roles and bindings, refused the request.
	refused outcome = "refused after authorization"
	// outsideRoles means that the request was allowed although no role of the binary allows it. All users have some rights, and some tests
	// grant more rights.
	outsideRoles outcome = "allowed by no role of the binary"
)

func (e event) code() int32 { return ptr.Deref(e.ResponseStatus, metav1.Status{}).Code }

// outcome returns allowed, denied or refused. It never returns outsideRoles, because the event does not contain the roles of the binary.
func (e event) outcome() outcome {
	switch decision := e.Annotations["authorization.k8s.io/decision"]; {
	case decision == "forbid", decision == "" && e.code() == 403, e.code() == 401:
		return denied
	case e.code() == 403:
		return refused
	}
	return allowed
}

// allowedBy returns the role that allowed the request according to the API server, as "ClusterRole x"; empty if it does not say.
func (e event) allowedBy() string {
	_, rest, _ := strings.Cut(e.Annotations["authorization.k8s.io/reason"], " of ")
	ref, _, _ := strings.Cut(rest, " to ")
	return strings.ReplaceAll(ref, `"`, "")
}

// requests returns all requests to the authorizer that the event implies: for the request itself; for further checks of the API server, for
// which there is no event; and for the right to impersonate, if the request is impersonated.
func (e event) requests() []right {
	if e.ImpersonatedUser != nil {
		return impersonation(*e.ImpersonatedUser)
	}
	all := []right{e.request()}
	if e.outcome() == allowed && e.code() >= 200 && e.code() < 300 {
		all = append(all, e.implied(all[0])...)
	}
	return all
}

// request returns the right that the request itself needs. The log of a creation contains the name of the object, but the authorizer does
// not get it: the name is in the body, not in the URL.
func (e event) request() right {
	ref := e.ObjectRef
	if ref == nil {
		at := e.RequestURI
		if parsed, err := url.Parse(at); err == nil {
			at = parsed.Path
		}
		return right{verb: e.Verb, url: at}
	}
	q := right{
		verb: e.Verb, group: ref.APIGroup, resource: path.Join(ref.Resource, ref.Subresource), namespace: ref.Namespace, name: ref.Name,
	}
	if q.verb == "create" && ref.Subresource == "" || q.verb == "deletecollection" {
		q.name = ""
	}
	if ref.Resource == "namespaces" {
		q.namespace = "" // the log repeats the name of the namespace here
	}
	return q
}

// implied returns further rights that the request needed to succeed. A user who has all rights of a role may write it without the rights
// "escalate" and "bind"; programs that write roles for others need these.
func (e event) implied(q right) []right {
	if !slices.Contains([]string{"create", "update", "patch"}, q.verb) {
		return nil
	}
	var all []right
	if q.verb != "create" && e.code() == 201 { // the object did not exist, so the API server created it
		made := q
		made.verb = "create"
		all = append(all, made)
	}
	add := func(verb, resource, name string) {
		all = append(all, right{verb: verb, group: q.group, resource: resource, namespace: q.namespace, name: cmp.Or(name, anything)})
	}
	switch q.resource + "." + q.group {
	case "clusterroles.rbac.authorization.k8s.io", "roles.rbac.authorization.k8s.io":
		add("escalate", q.resource, q.name)
	case "clusterrolebindings.rbac.authorization.k8s.io":
		add("bind", "clusterroles", "")
	case "rolebindings.rbac.authorization.k8s.io":
		add("bind", "clusterroles", "")
		add("bind", "roles", "")
	case "certificatesigningrequests/approval.certificates.k8s.io":
		add("approve", "signers", "")
	case "certificatesigningrequests/status.certificates.k8s.io":
		add("sign", "signers", "")
	}
	return all
}

func impersonation(user authenticationv1.UserInfo) []right {
	as := right{verb: "impersonate", resource: "users", name: user.Username}
	if namespace, name, err := serviceaccount.SplitUsername(user.Username); err == nil {
		as = right{verb: "impersonate", resource: "serviceaccounts", namespace: namespace, name: name}
	}
	all := append(make([]right, 0, 1+len(user.Groups)), as)
	for _, group := range user.Groups {
		all = append(all, right{verb: "impersonate", resource: "groups", name: group})
	}
	return all
}
