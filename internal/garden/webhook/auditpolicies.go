package webhook

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/deployable"
	"github.com/espalier-dev/espalier/internal/garden/auditpolicy"
)

// Audit policies are read from ConfigMaps in the namespace of the Garden.
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get,namespace=garden,roleName=espalier-garden-operator-garden

// checkAuditPolicies denies a Garden that refers to an audit policy which API servers could not use. It also denies a change of a
// ConfigMap with a policy of a Garden if API servers could not use the changed policy. An API server does not start with a policy that it
// cannot use.
func checkAuditPolicies(ctx context.Context, live client.Reader, request *review.Request) review.Response {
	switch {
	case request.Kind.Kind == "Garden" && (request.Operation == review.Create || request.Operation == review.Update):
		return checkPoliciesOfGarden(ctx, live, request)
	case request.Kind.Kind == "ConfigMap" && request.Operation == review.Update && request.Namespace == deployable.GardenNamespace:
		return checkPolicyInConfigMap(ctx, live, request)
	}
	return review.Allowed("")
}

// checkPoliciesOfGarden checks the ConfigMaps that the stored Garden does not refer to yet. The webhook has checked the other ConfigMaps
// before, and checks them again when they change. Gardens that are being deleted are not checked.
func checkPoliciesOfGarden(ctx context.Context, live client.Reader, request *review.Request) review.Response {
	garden, old := &operatorv1alpha1.Garden{}, &operatorv1alpha1.Garden{}
	if err := request.Decode(garden); err != nil {
		return review.Undecodable(err)
	}
	if request.Operation == review.Update {
		if err := review.Decode(request.OldObject, old); err != nil {
			return review.Undecodable(err)
		}
	}
	if garden.DeletionTimestamp != nil {
		return review.Allowed("")
	}
	known := auditpolicy.References(old)
	var found field.ErrorList
	for _, each := range auditpolicy.References(garden) {
		if slices.ContainsFunc(known, func(k auditpolicy.Reference) bool { return k.Name == each.Name }) {
			continue
		}
		problem, err := problemOf(ctx, live, each.Name)
		if err != nil {
			return review.Errored(http.StatusInternalServerError, err)
		}
		if problem != "" {
			found = append(found, field.Invalid(each.Path, each.Name, problem))
		}
	}
	return judged(garden, found, nil)
}

// problemOf returns the fault of the policy in a ConfigMap as text for users, or "" if the policy is valid.
func problemOf(ctx context.Context, live client.Reader, name string) (string, error) {
	configMap := &corev1.ConfigMap{}
	err := live.Get(ctx, client.ObjectKey{Namespace: deployable.GardenNamespace, Name: name}, configMap)
	if apierrors.IsNotFound(err) {
		return auditpolicy.Problem(nil), nil
	}
	if err != nil {
		return "", fmt.Errorf("read ConfigMap with audit policy: %w", err)
	}
	return auditpolicy.Problem(configMap), nil
}

// checkPolicyInConfigMap checks a policy that changes, if a Garden refers to it.
func checkPolicyInConfigMap(ctx context.Context, live client.Reader, request *review.Request) review.Response {
	var updated, old struct {
		Data map[string]string `json:"data"`
	}
	if err := request.Decode(&updated); err != nil {
		return review.Undecodable(err)
	}
	if err := review.Decode(request.OldObject, &old); err != nil {
		return review.Undecodable(err)
	}
	text, present := updated.Data[auditpolicy.Key]
	if before, was := old.Data[auditpolicy.Key]; text == before && present == was {
		return review.Allowed("")
	}
	used, err := isUsed(ctx, live, request.Name)
	if err != nil {
		return review.Errored(http.StatusInternalServerError, err)
	}
	if !used {
		return review.Allowed("")
	}
	path, wrong := field.NewPath("data").Key(auditpolicy.Key), field.ErrorList(nil)
	if !present {
		wrong = field.ErrorList{field.Required(path, "a Garden takes its audit policy from here")}
	} else if err := auditpolicy.Check(text); err != nil {
		wrong = field.ErrorList{field.Invalid(path, field.OmitValueType{}, fmt.Sprintf("a Garden takes its audit policy from here: %v", err))}
	}
	if len(wrong) == 0 {
		return review.Allowed("")
	}
	return review.Refused(apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, request.Name, wrong))
}

// isUsed reports whether a Garden takes an audit policy from a ConfigMap. Gardens that are being deleted are ignored.
func isUsed(ctx context.Context, live client.Reader, name string) (bool, error) {
	gardens := &operatorv1alpha1.GardenList{}
	if err := live.List(ctx, gardens); err != nil {
		return false, fmt.Errorf("list Gardens: %w", err)
	}
	return slices.ContainsFunc(gardens.Items, func(garden operatorv1alpha1.Garden) bool {
		return garden.DeletionTimestamp == nil &&
			slices.ContainsFunc(auditpolicy.References(&garden), func(r auditpolicy.Reference) bool { return r.Name == name })
	}), nil
}
