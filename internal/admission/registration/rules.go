package registration

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Rule matches resources of one group. It names no subresources: no webhook is called when status or scale is written.
func Rule(
	on []admissionregistrationv1.OperationType, group string, versions []string, resources ...string,
) admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: on,
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: versions, Resources: resources},
	}
}

// Rules returns its arguments as a slice, which makes declarations of webhooks shorter.
func Rules(all ...admissionregistrationv1.RuleWithOperations) []admissionregistrationv1.RuleWithOperations {
	return all
}

// Versions returns its arguments as a slice.
func Versions(all ...string) []string { return all }

// OnCreate is for webhooks that are called when an object is created.
func OnCreate() []admissionregistrationv1.OperationType {
	return []admissionregistrationv1.OperationType{admissionregistrationv1.Create}
}

// OnWrite is for webhooks that are called when an object is created or updated.
func OnWrite() []admissionregistrationv1.OperationType {
	return []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update}
}

// OnDelete is for webhooks that are called when an object is deleted.
func OnDelete() []admissionregistrationv1.OperationType {
	return []admissionregistrationv1.OperationType{admissionregistrationv1.Delete}
}

// In requires a label with one of the values.
func In(key string, values ...string) metav1.LabelSelectorRequirement {
	return metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: values}
}

// NotIn requires that a label has none of the values, or is absent.
func NotIn(key string, values ...string) metav1.LabelSelectorRequirement {
	return metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpNotIn, Values: values}
}

// Exists requires a label with any value.
func Exists(key string) metav1.LabelSelectorRequirement {
	return metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpExists}
}

// Absent requires that there is no such label.
func Absent(key string) metav1.LabelSelectorRequirement {
	return metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpDoesNotExist}
}

// Expressions returns the selector of objects that meet all requirements.
func Expressions(all ...metav1.LabelSelectorRequirement) metav1.LabelSelector {
	return metav1.LabelSelector{MatchExpressions: all}
}

// Labelled returns the selector of objects whose label has this value.
func Labelled(key, value string) metav1.LabelSelector {
	return metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}
