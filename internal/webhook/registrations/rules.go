package registrations

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// suffix ends the names of all webhooks.
const suffix = ".resources.gardener.cloud"

func operations(all ...admissionregistrationv1.OperationType) []admissionregistrationv1.OperationType {
	return all
}

func onCreate() []admissionregistrationv1.OperationType {
	return operations(admissionregistrationv1.Create)
}

func onWrite() []admissionregistrationv1.OperationType {
	return operations(admissionregistrationv1.Create, admissionregistrationv1.Update)
}

func onDelete() []admissionregistrationv1.OperationType {
	return operations(admissionregistrationv1.Delete)
}

// rule names resources, never their subresources: writes of status and scale pass by every webhook.
func rule(on []admissionregistrationv1.OperationType, group string, versions []string, resources ...string) admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: on,
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: versions, Resources: resources},
	}
}

func rules(all ...admissionregistrationv1.RuleWithOperations) []admissionregistrationv1.RuleWithOperations {
	return all
}

func version(all ...string) []string { return all }

func createdPods() []admissionregistrationv1.RuleWithOperations {
	return rules(rule(onCreate(), "", version("v1"), "pods"))
}
