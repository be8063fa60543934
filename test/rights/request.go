package main

import (
	"net/url"
	"slices"
	"strings"
)

// request is what an authorizer is asked.
type request struct {
	verb, group, resource, subresource, namespace, name, url string
	// anyName is set where the log does not say which object was meant.
	anyName bool
}

// String is what requests are reported as.
func (q request) String() string {
	resource := q.resource
	if q.subresource != "" {
		resource += "/" + q.subresource
	}
	return right{verb: q.verb, group: q.group, resource: resource, name: q.name, namespace: q.namespace, url: q.url}.String()
}

// event is what we need of an audit.k8s.io/v1 Event at level Metadata.
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

// impersonated is who a request was to be made as.
type impersonated struct {
	Username string   `json:"username"`
	Groups   []string `json:"groups"`
}

// outcome is what became of a request.
type outcome string

const (
	// allowed requests passed authorization; what else they met does not matter.
	allowed outcome = "allowed"
	// denied requests had no right.
	denied outcome = "denied"
	// refused requests had their right, and were forbidden by admission, or by the rules for roles and bindings.
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

// allowedBy is the role that the API server has found first, as "ClusterRole x"; empty if it does not say.
func (e event) allowedBy() string {
	_, rest, found := strings.Cut(e.Annotations["authorization.k8s.io/reason"], " of ")
	if !found {
		return ""
	}
	ref, _, _ := strings.Cut(rest, " to ")
	return strings.ReplaceAll(ref, `"`, "")
}

// requests lists what the authorizer was asked about the user for the sake of this event: the request itself; what the
// API server asks besides, which no event tells of; and for a request as somebody else, the right to be that.
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

// request is what the event itself is about. The log has the name of an object that is created, which was no part of the
// question: it is in the body, not in the URL.
func (e event) request() request {
	if e.ObjectRef == nil {
		path := e.RequestURI
		if parsed, err := url.Parse(e.RequestURI); err == nil {
			path = parsed.Path
		}
		return request{verb: e.Verb, url: path}
	}
	ref := e.ObjectRef
	q := request{verb: e.Verb, group: ref.APIGroup, resource: ref.Resource, subresource: ref.Subresource, namespace: ref.Namespace, name: ref.Name}
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

// implied lists the rights that must have been there for the request to succeed, besides that for itself. Whoever holds
// all the rights that a role has needs no "escalate" and no "bind" for it; nobody who writes roles for others does.
func (e event) implied(q request) []request {
	if !slices.Contains([]string{"create", "update", "patch"}, q.verb) {
		return nil
	}
	var all []request
	if q.verb != "create" && e.ResponseStatus.Code == 201 { // there was nothing to change
		made := q
		made.verb = "create"
		all = append(all, made)
	}
	switch on := (request{group: q.group, resource: q.resource, subresource: q.subresource}); on {
	case request{group: rbacGroup, resource: "clusterroles"}, request{group: rbacGroup, resource: "roles"}:
		all = append(all, request{verb: "escalate", group: rbacGroup, resource: q.resource, namespace: q.namespace, name: q.name, anyName: q.name == ""})
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

// serviceAccount takes the name of a user apart.
func serviceAccount(user string) (namespace, name string, ok bool) {
	rest, ok := strings.CutPrefix(user, "system:serviceaccount:")
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, ":")
}
