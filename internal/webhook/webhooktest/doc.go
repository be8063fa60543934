// Package webhooktest runs webhook-server for tests: under its own rights, with webhook configurations by which a real API
// server calls it over TLS about the objects of one namespace.
//
//	e := webhooktest.New(t, webhooktest.Options{Webhooks: "seccompProfile: {enabled: true}"})
//	pod, err := e.Create(`{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i}]}}`)
//
// New returns when the API server calls the server. What no API server sends is posted by Post or Review instead.
//
// Namespaces are the caller's to label and annotate: e.AnnotateNamespace, e.LabelNamespace. Caches of the server follow a
// moment later; e.Eventually is for that.
package webhooktest
