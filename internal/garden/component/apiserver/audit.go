package apiserver

import (
	"cmp"
	"fmt"

	"k8s.io/utils/ptr"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
)

const (
	auditFolder        = "/etc/kubernetes/audit"
	auditWebhookFolder = "/etc/kubernetes/webhook/audit"
	auditPolicyFile    = "audit-policy.yaml"

	// noAudit is the policy of a Garden that refers to none.
	noAudit = `apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- level: None
`
	auditBatchSize = 30
	auditVersion   = "audit.k8s.io/v1"
)

// AuditParts returns the configuration of the audit policy, and of the webhook that gets the events. Policy is the beginning of the name
// of the ConfigMap with the policy. If the user has no policy, there are no events, so the configuration contains no webhook.
func (s Server) AuditParts(policy string, webhook *operatorv1alpha1.AuditWebhook, refs References) []Part {
	data := map[string]string{auditPolicyFile: cmp.Or(refs.AuditPolicy, noAudit)}
	own := Part{
		Volume: "audit-policy-config", Folder: auditFolder, Object: object.Owner{Namespace: s.Namespace}.UniqueConfigMap(policy, data),
		Args: []string{"--audit-policy-file=" + auditFolder + "/" + auditPolicyFile},
	}
	if webhook == nil || refs.AuditPolicy == "" {
		return []Part{own}
	}
	return []Part{own, {
		Volume: "audit-webhook-kubeconfig", Folder: auditWebhookFolder, Private: true,
		Object: object.UniqueSecret(s.Namespace, s.Name+"-audit-webhook-kubeconfig", nil, map[string][]byte{KubeconfigFile: refs.AuditWebhook}),
		Args: []string{
			"--audit-webhook-config-file=" + auditWebhookFolder + "/" + KubeconfigFile,
			fmt.Sprintf("--audit-webhook-batch-max-size=%d", ptr.Deref(webhook.BatchMaxSize, auditBatchSize)),
			"--audit-webhook-version=" + ptr.Deref(webhook.Version, auditVersion),
		},
	}}
}
