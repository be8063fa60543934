package takeover

import (
	"encoding/base64"
	"path"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/etcd"
	"github.com/espalier-dev/espalier/internal/garden/component/gardenerapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	"github.com/espalier-dev/espalier/internal/secrets"
	"github.com/espalier-dev/espalier/internal/secrets/config"
)

// FormerOperator is the name of the Deployment and of the webhook configurations of Gardener's own operator.
const FormerOperator = "gardener-operator"

// Lease is the name of the Lease that keeps Gardener's operator and garden-operator from acting at the same time.
const Lease = "gardener-operator-leader-election"

// list is a list of a report.
type list int

const (
	unmanaged list = iota
	remove
	lost
	restart
)

func (l list) add(r *Report, f Finding) {
	to := map[list]*[]Finding{unmanaged: &r.Unmanaged, remove: &r.Remove, lost: &r.Lost, restart: &r.Restarts}[l]
	*to = append(*to, f)
}

// rule puts some objects into a list of the report.
type rule struct {
	list   list
	blocks bool
	// kinds are the kinds of the objects, and names are patterns of path.Match for their names. Empty: all.
	kinds, names []string
	// when reports whether the rule applies to an object of these kinds and names. Nil: it does.
	when func(in Inventory, o object) bool
	// message is the message of the finding. NAME and NAMESPACE stand for the object.
	message string
}

func (r rule) applies(in Inventory, o object) bool {
	named := len(r.names) == 0 || slices.ContainsFunc(r.names, func(pattern string) bool {
		matches, err := path.Match(pattern, o.GetName())
		return err == nil && matches
	})
	return named && (len(r.kinds) == 0 || slices.Contains(r.kinds, o.GetKind())) && (r.when == nil || r.when(in, o))
}

const (
	notOurs = "garden-operator does not deploy it: its objects stay as they are, with their credentials, and no program updates or " +
		"rotates them; " +
		"delete the ManagedResource to remove them"
	credentialsEnd = "which the rotation of `ca` and `service-account-key` ends"
)

// rules are all rules for observed objects. The first one that applies counts; the leftovers have none.
var rules = []rule{
	{
		list: remove, blocks: true, kinds: []string{"Deployment"}, names: []string{FormerOperator}, when: hasReplicas,
		message: "Gardener's operator still runs, and would undo every write: kubectl -n NAMESPACE scale deployment NAME --replicas=0. Keep it " +
			"until the take-over is complete, for the way back",
	},
	{
		list: remove, blocks: true, kinds: []string{"Lease"}, names: []string{Lease}, when: isHeld,
		message: "another operator holds the lease: stop it, and make the plan again when the lease has ended",
	},
	{
		list: remove, blocks: true, kinds: []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"},
		names: []string{FormerOperator}, when: callsFormerOperator,
		message: "the API server asks Gardener's operator before each write of a Garden, and refuses the write if that does not run: apply " +
			"deploy/garden-operator, or delete it",
	},
	{
		list: remove, blocks: true, kinds: []string{"StatefulSet"}, when: usesEtcdVolume,
		message: "its etcd uses a volume of the etcds of garden-operator, and two etcds on one volume destroy the data: stop the API servers, " +
			"and delete it, kubectl -n NAMESPACE delete statefulset NAME; the volume stays",
	},
	{
		list: remove, blocks: true, kinds: []string{"Deployment", "StatefulSet", "DaemonSet"},
		when: func(in Inventory, o object) bool { return o.cluster == Runtime && in.IsReplaced(o.Unstructured) },
		message: "it has the name of a workload of garden-operator and another selector, which cannot change: delete it right before the " +
			"take-over; its Pods end with it",
	},
	{
		list: restart, kinds: []string{"Deployment", "StatefulSet", "DaemonSet"},
		when: func(in Inventory, o object) bool {
			return o.cluster == Runtime && in.IsInSet(o.Unstructured) && !belongsToSet(o)
		},
		message: "a ManagedResource of garden-operator takes it over, and its Pods restart",
	},
	{
		list: lost, blocks: true, kinds: []string{"Secret"}, when: isUnreadableKey,
		message: "it cannot be used as a key for encryption: data that were written with it could not be read any more. It needs the data key " +
			"`key` with the name in the EncryptionConfiguration and `secret` with the text there, and no `encoding`",
	},
	{
		list: remove, kinds: []string{"Secret"}, when: isDonor,
		message: "when the operator has copied its data, before the first rotation: kubectl -n NAMESPACE label secret NAME " +
			secrets.LabelUseDataFor + "-. With the label, a rotation is refused",
	},
	{
		list: unmanaged, kinds: []string{"ManagedResource"}, names: []string{"gardener-dashboard-*", "terminal-*"}, when: staysUnmanaged,
		message: notOurs,
	},
	{
		list: unmanaged, kinds: []string{"ManagedResource"}, names: []string{"gardener-discovery-server-*"}, when: staysUnmanaged,
		message: notOurs + ". Clouds read the keys of workload identities from it, so keep it while workload identities are in use",
	},
	{
		list: unmanaged, kinds: []string{"Service"},
		when: func(in Inventory, o object) bool { return isLoadBalancer(o) && staysUnmanaged(in, o) },
		message: "clients use its address until the DNS names in the preflight have the address of Service " +
			"virtual-garden-istio-ingress/istio-ingressgateway; delete it afterwards",
	},
	{
		list: unmanaged, kinds: []string{"Deployment", "StatefulSet", "DaemonSet", "CronJob"}, when: staysUnmanaged,
		message: "garden-operator does not deploy it; if it is a part of the former garden, it keeps running with its former credentials, " +
			credentialsEnd,
	},
	{
		list: unmanaged, kinds: []string{"PersistentVolumeClaim"}, when: isSingleVolume,
		message: "no workload of garden-operator uses it: delete it when you do not need its data any more",
	},
	{
		list: unmanaged, kinds: []string{"Etcd"}, when: staysUnmanaged,
		message: "etcd-druid keeps it running; no component of the Garden uses it",
	},
	{
		list: unmanaged, kinds: []string{"ManagedResource"}, when: staysUnmanaged,
		message: "garden-operator does not deploy it; gardener-resource-manager keeps its objects as they are",
	},
	{
		list: unmanaged, kinds: []string{"Service", "Ingress", "Gateway", "VirtualService", "DestinationRule", "EnvoyFilter"},
		when: staysUnmanaged, message: "garden-operator does not deploy it",
	},
}

// staysUnmanaged reports whether nothing that the reconciliation writes, and no other object, is responsible for an object.
func staysUnmanaged(in Inventory, o object) bool {
	isFormerOperator := o.GetKind() == "Deployment" && o.GetName() == FormerOperator // scaled down, for the way back
	return o.cluster == Runtime && !isFormerOperator && !in.IsKnown(o.Unstructured) && !in.IsInSet(o.Unstructured) &&
		!belongsToSet(o) && metav1.GetControllerOf(o) == nil
}

// belongsToSet reports whether an object belongs to a ManagedResource.
func belongsToSet(o client.Object) bool {
	return o.GetAnnotations()[resourcesv1alpha1.OriginAnnotation] != ""
}

func hasReplicas(_ Inventory, o object) bool {
	replicas, isSet, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
	return !isSet || replicas > 0
}

// isHeld reports whether a process other than garden-operator holds a Lease.
func isHeld(in Inventory, o object) bool {
	holder, _, _ := unstructured.NestedString(o.Object, "spec", "holderIdentity")
	renewed, _, _ := unstructured.NestedString(o.Object, "spec", "renewTime")
	seconds, _, _ := unstructured.NestedInt64(o.Object, "spec", "leaseDurationSeconds")
	at, err := time.Parse(time.RFC3339Nano, renewed)
	isOurs := strings.HasPrefix(holder, "espalier-garden-operator-")
	return holder != "" && !isOurs && err == nil && in.Now.Before(at.Add(time.Duration(seconds)*time.Second))
}

// callsFormerOperator reports whether a webhook configuration calls the Service of Gardener's operator in the garden namespace.
func callsFormerOperator(in Inventory, o object) bool {
	webhooks, _, _ := unstructured.NestedSlice(o.Object, "webhooks")
	return slices.ContainsFunc(webhooks, func(each any) bool {
		webhook, _ := each.(map[string]any)
		name, _, _ := unstructured.NestedString(webhook, "clientConfig", "service", "name")
		namespace, _, _ := unstructured.NestedString(webhook, "clientConfig", "service", "namespace")
		return namespace == in.Namespace && name == FormerOperator
	})
}

// usesEtcdVolume reports whether a StatefulSet that etcd-druid does not own has claims of the etcds.
func usesEtcdVolume(_ Inventory, o object) bool {
	if owner := metav1.GetControllerOf(o); owner != nil && owner.Kind == "Etcd" {
		return false
	}
	claims, _, _ := unstructured.NestedSlice(o.Object, "spec", "volumeClaimTemplates")
	volumes, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "volumes")
	return slices.ContainsFunc(claims, func(each any) bool {
		claim, _ := each.(map[string]any)
		name, _, _ := unstructured.NestedString(claim, "metadata", "name")
		return etcd.HasVolume(name + "-" + o.GetName() + "-0")
	}) || slices.ContainsFunc(volumes, func(each any) bool {
		volume, _ := each.(map[string]any)
		name, _, _ := unstructured.NestedString(volume, "persistentVolumeClaim", "claimName")
		return etcd.HasVolume(name)
	})
}

// isUnreadableKey reports whether a Secret is a key for encryption in a form that the operator cannot use.
func isUnreadableKey(in Inventory, o object) bool {
	name := o.GetLabels()[secrets.LabelUseDataFor]
	if in.manages(o) {
		name = o.GetLabels()[secrets.LabelName]
	}
	if name != kubeapiserver.EncryptionKeyName && name != gardenerapiserver.EncryptionKeyName {
		return false
	}
	stored, _, _ := unstructured.NestedStringMap(o.Object, "data")
	data := map[string][]byte{}
	for key, value := range stored {
		decoded, err := base64.StdEncoding.DecodeString(value)
		if err != nil {
			return true
		}
		data[key] = decoded
	}
	if encoding := string(data[config.DataKeyEncryptionEncoding]); encoding != "" && encoding != "none" {
		return true
	}
	key, err := config.ParseEncryptionKey(data)
	if err != nil {
		return true
	}
	secret, err := base64.StdEncoding.DecodeString(key.Secret)
	lengths := map[config.EncryptionProvider][]int{config.AESCBC: {16, 24, 32}, config.AESGCM: {16, 24, 32}, config.SecretBox: {32}}
	return err != nil || !slices.Contains(lengths[key.Provider], len(secret))
}

func isDonor(_ Inventory, o object) bool { return o.GetLabels()[secrets.LabelUseDataFor] != "" }

func isLoadBalancer(o object) bool {
	kind, _, _ := unstructured.NestedString(o.Object, "spec", "type")
	return kind == "LoadBalancer"
}

// isSingleVolume reports whether a claim is neither of an etcd nor of a StatefulSet.
func isSingleVolume(in Inventory, o object) bool {
	return o.cluster == Runtime && !etcd.HasVolume(o.GetName()) && !slices.ContainsFunc(in.Runtime, func(set *unstructured.Unstructured) bool {
		return set.GetKind() == "StatefulSet" && set.GetNamespace() == o.GetNamespace() &&
			strings.Contains(o.GetName(), "-"+set.GetName()+"-")
	})
}

// manages reports whether a Secret is one of the manager of secrets of the Garden.
func (in Inventory) manages(o client.Object) bool {
	labels := o.GetLabels()
	return labels[secrets.LabelManagedBy] == secrets.ManagedBy && labels[secrets.LabelManagerIdentity] == in.Identity
}

// knownFinalizers are the finalizers of a Garden that the operator removes.
var knownFinalizers = []string{operatorv1alpha1.FinalizerOperator, operatorv1alpha1.FinalizerReferenceProtection}
