package main

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/espalier-dev/espalier/internal/admission/registration"
	"github.com/espalier-dev/espalier/internal/config"
	gardenwebhook "github.com/espalier-dev/espalier/internal/garden/webhook"
	projectwebhook "github.com/espalier-dev/espalier/internal/project/webhook"
	"github.com/espalier-dev/espalier/internal/webhook/handlers"
)

// webhooks returns the table of the handlers of a family, with the requests that API servers send, and the outcome without the server.
func (*writer) webhooks(arguments []string) (string, error) {
	var rows [][]string
	add := func(handler, webhook, setting, does string, webhooks ...registration.Webhook) {
		rows = append(rows, []string{code(handler), code(webhook), code(setting), calledFor(webhooks), does, unavailable(webhooks)})
	}
	switch family := arguments[0]; family {
	case "garden":
		for _, each := range gardenwebhook.Handlers() {
			add(each.Name, each.Webhook.Name, "", each.Does, each.Webhook)
		}
	case "project":
		for _, each := range projectwebhook.Handlers() {
			add(each.Name, each.Webhook.Name, "", each.Does, each.Webhook)
		}
	case "webhook":
		for _, each := range handlers.All() {
			declared := each.Declared(handlers.Cluster{})
			if len(declared) == 0 {
				declared = each.Declared(handlers.Cluster{Flavor: config.FlavorGardenerShoot})
			}
			add(each.Name, "", each.Section, "", declared...)
		}
	default:
		return "", fmt.Errorf("family %s has no webhooks", family)
	}
	return table([]string{"handler", "webhook", "setting", "called for", "does", "without the server"}, rows), nil
}

// calledFor returns the requests for which API servers call webhooks. Labels and expressions may restrict them further.
func calledFor(webhooks []registration.Webhook) string {
	var requests []string
	for _, each := range webhooks {
		for _, rule := range each.Rules {
			operations := make([]string, len(rule.Operations))
			for i, operation := range rule.Operations {
				operations[i] = strings.ToLower(string(operation))
			}
			resources := strings.Join(rule.Resources, ", ")
			if group := rule.APIGroups[0]; group != "" {
				resources += "." + group
			}
			requests = append(requests, code(strings.Join(operations, ", ")+" "+resources))
		}
	}
	return strings.Join(requests, "; ")
}

// unavailable returns the outcome of a request if an API server cannot reach the webhooks.
func unavailable(webhooks []registration.Webhook) string {
	ignored := func(w registration.Webhook) bool { return w.FailurePolicy == admissionregistrationv1.Ignore }
	if slices.ContainsFunc(webhooks, ignored) {
		return "written unchanged"
	}
	return "**refused**"
}
