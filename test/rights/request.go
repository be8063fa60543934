package main

import (
	"net/url"
	"slices"
	"strings"
)

// request contains the attributes of a request for an authorizer.
type request struct {
	verb, group, resource, subresource, namespace, name, url string
	// anyName is true if the log does not contain the name of the object.
	anyName bool
}

// String formats a request for reports.
func (q request) String() string {
	resource := q.resource
	if q.subresource != "" {
		resource += "/" + q.subresource
	}
	return right{verb: q.verb, group: q.group, resource: resource, name: q.name, namespace: q.namespace, url: q.url}.String()
}

// event contains the fields of an audit.k8s.io/v1 Event at level Metadata that are used.
type event struct {
	Verb       string `json:"verb"`
	RequestURI string `json:"requestURI"`
	User       struct {
		Username string `json:"username"`
	} `json:"user"`
	ImpersonatedUser *impersonated `json:"impersonatedUser"`
	ObjectRef        *struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
		APIGroup    string `json:"apiGroup"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	Annotations map[string]string `json:"annotations"`
}

// impersonated is the impersonated user of a request.
type impersonated struct {
	Username string   `json:"username"`
	Groups   []string `json:"groups"`
}

// outcome is the result of a request.
type outcome string

const (
	// allowed requests passed authorization; later errors do not matter.
	allowed outcome = "allowed"
	// denied requests had no right.
	denied outcome = "denied"
	// refused requests had their right, but admission, or the rules for roles and bindings, refused them.
	refused outcome = "refused"
)

func (e event) outcome() outcome {
	switch decision := e.Annotations["authorization.k8s.io/decision"]; {
	case decision == "forbid", decision == "" && e.ResponseStatus.Code == 403, e.ResponseStatus.Code == 401:
		return denied
	case e.ResponseStatus.Code == 403:
		return refused
	}
	return allowed
}

func (e event) succeeded() bool {
	return e.outcome() == allowed && e.ResponseStatus.Code >= 200 && e.ResponseStatus.Code < 300
}

// allowedBy returns the role that allowed the request according to the API server, as "ClusterRole x"; empty if it does not say.
func (e event) allowedBy() string {
	_, rest, found := strings.Cut(e.Annotations["authorization.k8s.io/reason"], " of ")
	if !found {
		return ""
	}
	ref, _, _ := strings.Cut(rest, " to ")
	return strings.ReplaceAll(ref, `"`, "")
}

// requests lists all authorization requests about the user for this event: the request itself; further checks of the API server, for which
// there is no event; and for an impersonated request, the right to impersonate.
func (e event) requests() []request {
	if e.ImpersonatedUser != nil {
		return impersonation(*e.ImpersonatedUser)
	}
	q := e.request()
	all := []request{q}
	if e.succeeded() {
		all = append(all, e.implied(q)...)
	}
	return all
}

// request returns the request of the event itself. For a creation, the log has the name of the object, but the authorizer does not get it:
// it is in the body, not in the URL.
func (e event) request() request {
	if e.ObjectRef == nil {
		path := e.RequestURI
		if parsed, err := url.Parse(e.RequestURI); err == nil {
			path = parsed.Path
		}
		return request{verb: e.Verb, url: path}
	}
	ref := e.ObjectRef
	q := request{
		verb: e.Verb, group: ref.APIGroup, resource: ref.Resource, subresource: ref.Subresource, namespace: ref.Namespace, name: ref.Name,
	}
	if q.verb == "create" && q.subresource == "" || q.verb == "deletecollection" {
		q.name = ""
	}
	if q.resource == "namespaces" {
		q.namespace = "" // the log repeats the name
	}
	return q
}

const (
	rbacGroup         = "rbac.authorization.k8s.io"
	certificatesGroup = "certificates.k8s.io"
)

// implied lists further rights that were necessary for the request to succeed. A user with all rights of a role needs no "escalate" and no
// "bind" for it; programs that write roles for others do need them.
func (e event) implied(q request) []request {
	if !slices.Contains([]string{"create", "update", "patch"}, q.verb) {
		return nil
	}
	var all []request
	if q.verb != "create" && e.ResponseStatus.Code == 201 { // the object did not exist, so the API server created it
		made := q
		made.verb = "create"
		all = append(all, made)
	}
	switch on := (request{group: q.group, resource: q.resource, subresource: q.subresource}); on {
	case request{group: rbacGroup, resource: "clusterroles"}, request{group: rbacGroup, resource: "roles"}:
		all = append(all, request{
			verb: "escalate", group: rbacGroup, resource: q.resource, namespace: q.namespace, name: q.name, anyName: q.name == "",
		})
	case request{group: rbacGroup, resource: "clusterrolebindings"}:
		all = append(all, request{verb: "bind", group: rbacGroup, resource: "clusterroles", anyName: true})
	case request{group: rbacGroup, resource: "rolebindings"}:
		all = append(all, request{verb: "bind", group: rbacGroup, resource: "clusterroles", namespace: q.namespace, anyName: true},
			request{verb: "bind", group: rbacGroup, resource: "roles", namespace: q.namespace, anyName: true})
	case request{group: certificatesGroup, resource: "certificatesigningrequests", subresource: "approval"}:
		all = append(all, request{verb: "approve", group: certificatesGroup, resource: "signers", anyName: true})
	case request{group: certificatesGroup, resource: "certificatesigningrequests", subresource: "status"}:
		all = append(all, request{verb: "sign", group: certificatesGroup, resource: "signers", anyName: true})
	}
	return all
}

func impersonation(who impersonated) []request {
	var all []request
	if namespace, name, ok := serviceAccount(who.Username); ok {
		all = append(all, request{verb: "impersonate", resource: "serviceaccounts", namespace: namespace, name: name})
	} else {
		all = append(all, request{verb: "impersonate", resource: "users", name: who.Username})
	}
	for _, group := range who.Groups {
		all = append(all, request{verb: "impersonate", resource: "groups", name: group})
	}
	return all
}

// serviceAccount parses the name of a user.
func serviceAccount(user string) (namespace, name string, ok bool) {
	rest, ok := strings.CutPrefix(user, "system:serviceaccount:")
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, ":")
}
