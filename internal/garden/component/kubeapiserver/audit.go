package kubeapiserver

import (
	"cmp"
	"fmt"

	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/garden/values"
)

const (
	auditFolder        = "/etc/kubernetes/audit"
	auditWebhookFolder = "/etc/kubernetes/webhook/audit"
	auditPolicyFile    = "audit-policy.yaml"
	kubeconfigFile     = "kubeconfig.yaml"

	// noAudit is the policy of a Garden that refers to none.
	noAudit = `apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- level: None
`
	auditBatchSize = 30
	auditVersion   = "audit.k8s.io/v1"
)

// auditParts configures what is audited, and the webhook that gets the events. Without a policy there are no events, so that the webhook is
// left out.
func auditParts(v values.Values, refs References) []part {
	policy := part{
		volume: "audit-policy-config", folder: auditFolder,
		object: configMap(v, "audit-policy-config", map[string]string{auditPolicyFile: cmp.Or(refs.AuditPolicy, noAudit)}),
		args:   []string{"--audit-policy-file=" + auditFolder + "/" + auditPolicyFile},
	}
	webhook := v.KubeAPIServer.AuditWebhook
	if webhook == nil || refs.AuditPolicy == "" {
		return []part{policy}
	}
	return []part{policy, {
		volume: "audit-webhook-kubeconfig", folder: auditWebhookFolder, private: true,
		object: secret(v, "kube-apiserver-audit-webhook-kubeconfig", nil, map[string][]byte{kubeconfigFile: refs.AuditWebhook}),
		args: []string{
			"--audit-webhook-config-file=" + auditWebhookFolder + "/" + kubeconfigFile,
			fmt.Sprintf("--audit-webhook-batch-max-size=%d", ptr.Deref(webhook.BatchMaxSize, auditBatchSize)),
			"--audit-webhook-version=" + ptr.Deref(webhook.Version, auditVersion),
		},
	}}
}
