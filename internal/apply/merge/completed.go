package merge

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// The rules of this file keep values that controllers of Kubernetes or admission plugins complete, because a manifest has only a part of
// them or none. Gardener's resource manager does not have these rules.

// ingressClassAnnotation names the class of an Ingress instead of spec.ingressClassName.
const ingressClassAnnotation = "kubernetes.io/ingress.class"

// keepClaimRef keeps the claimRef of a live PersistentVolume if the manifest has none, or one with the namespace and name of the same
// claim. The volume controller adds the UID of the claim. If a write removed the UID, the claim would lose its volume.
func (r kindRules) keepClaimRef() error {
	live, result, err := r.specs()
	if err != nil {
		return err
	}
	reserved, _ := result["claimRef"].(map[string]any)
	bound, _ := live["claimRef"].(map[string]any)
	same := bound != nil && equalScalars(bound["namespace"], reserved["namespace"]) && equalScalars(bound["name"], reserved["name"])
	return r.keepSpecField("claimRef", same)
}

// keepInClaim keeps all fields of a claim that the manifest lacks: the API server allows to change few of them, and to remove none. An
// empty value counts as missing, except for an empty storageClassName, which means "no class".
func (r kindRules) keepInClaim() error {
	live, result, err := r.specs()
	if err != nil {
		return err
	}
	maps.DeleteFunc(result, func(field string, value any) bool { return field != "storageClassName" && isEmpty(value) })
	r.result["spec"] = overlayValue(live, result)
	return nil
}

// keepClass keeps the class of an Ingress if the manifest has none: the API server sets the default class at the creation, and no
// controller would serve the Ingress without a class. A class in ingressClassAnnotation, which is older than the field, counts too.
func (r kindRules) keepClass() error {
	annotations, err := mapAt(r.result, "metadata", "annotations")
	if err != nil || !isEmpty(annotations[ingressClassAnnotation]) {
		return err
	}
	if spec, isMap := r.result["spec"].(map[string]any); !isMap || spec == nil {
		return nil // the API server refuses such a manifest with an error
	}
	return r.keepSpecField("ingressClassName", false)
}

// overlayValue returns live with the values of desired over it. Maps are merged, and so are lists whose items have a key. Other lists are
// replaced, because their items cannot be matched.
func overlayValue(live, desired any) any {
	switch typed := desired.(type) {
	case nil:
		return live
	case map[string]any:
		liveFields, _ := live.(map[string]any)
		if len(liveFields) == 0 {
			break
		}
		result := maps.Clone(liveFields)
		for name, value := range typed {
			result[name] = overlayValue(liveFields[name], value)
		}
		return result
	case []any:
		liveItems, isList := live.([]any)
		if !isList {
			break
		}
		if key := itemKey(liveItems, typed); key != "" {
			return overlayItems(key, liveItems, typed)
		}
	}
	return desired
}

func overlayItems(key string, live, desired []any) []any {
	result := slices.Clone(live)
	for _, item := range desired {
		at := slices.IndexFunc(live, func(each any) bool { return keyValue(each, key) == keyValue(item, key) })
		if at < 0 {
			result = append(result, item)
			continue
		}
		result[at] = overlayValue(live[at], item)
	}
	return result
}

// ofAggregation returns the rule that keeps the rules of an aggregated ClusterRole, which a controller fills in.
func (r kindRules) ofAggregation() []rule {
	if r.result["aggregationRule"] == nil {
		return nil
	}
	return []rule{r.ofField("rules")}
}

// ofTokens returns the rule that keeps the data of a token Secret of a ServiceAccount, which the token controller of Kubernetes writes.
func (r kindRules) ofTokens() []rule {
	if r.result["type"] != string(corev1.SecretTypeServiceAccountToken) || r.creating {
		return nil
	}
	var paths [][]string
	for _, key := range tokenKeys() {
		paths = append(paths, []string{"data", key}, []string{"stringData", key})
	}
	return []rule{{keep: r.keepTokenData, instead: paths}}
}

func tokenKeys() []string {
	return []string{corev1.ServiceAccountTokenKey, corev1.ServiceAccountRootCAKey, corev1.ServiceAccountNamespaceKey}
}

// keepTokenData keeps the data of the live Secret. The manifest may set other keys than tokenKeys.
func (r kindRules) keepTokenData() error {
	live, err := mapAt(r.live, "data")
	if err != nil {
		return fmt.Errorf("live object: %w", err)
	}
	for _, field := range []string{"data", "stringData"} {
		desired, err := mapAt(r.result, field)
		if err != nil {
			return err
		}
		for _, key := range tokenKeys() {
			delete(desired, key)
		}
	}
	if live != nil {
		r.result["data"] = overlayValue(live, r.result["data"])
	}
	return nil
}

// keepInPod keeps the parts of a Pod that the API server does not allow to change. Without the annotation DeleteOnInvalidUpdate, the
// manifest decides only over images, an activeDeadlineSeconds that is earlier or that the Pod lacks, and additional tolerations; the rest
// of spec stays. If this annotation allows to replace the Pod, keepInPod keeps only the parts of spec that the manifest lacks. The API
// server refuses a change of the other parts, and then the Pod is replaced.
func (r kindRules) keepInPod() error {
	live, result, err := r.specs()
	if err != nil || len(live) == 0 {
		return err
	}
	annotations, err := mapAt(r.result, "metadata", "annotations")
	if err != nil {
		return err
	}
	if value, _ := annotations[resourcesv1alpha1.DeleteOnInvalidUpdate].(string); Truthy(value) {
		r.result["spec"] = overlayValue(live, result)
		return nil
	}
	for _, field := range []string{"containers", "initContainers"} {
		if err := setImages(live, result, field); err != nil {
			return err
		}
	}
	deadline, isNumber := asNumber(result["activeDeadlineSeconds"])
	former, isLimited := asNumber(live["activeDeadlineSeconds"])
	if isNumber && (!isLimited || deadline < former) {
		live["activeDeadlineSeconds"] = result["activeDeadlineSeconds"]
	}
	if err := addTolerations(live, result); err != nil {
		return err
	}
	r.result["spec"] = live
	return nil
}

// setImages copies the images of the containers from the manifest (result) to the live Pod.
func setImages(live, result map[string]any, field string) error {
	liveContainers, err := mapsAt(live, field)
	if err != nil {
		return fmt.Errorf("live object: spec.%w", err)
	}
	containers, err := mapsAt(result, field)
	if err != nil {
		return fmt.Errorf("spec.%w", err)
	}
	for _, container := range containers {
		for _, liveContainer := range liveContainers {
			if container["name"] != nil && equalScalars(container["name"], liveContainer["name"]) && !isEmpty(container["image"]) {
				liveContainer["image"] = container["image"]
			}
		}
	}
	return nil
}

// addTolerations adds to the live Pod the tolerations of the manifest (result) that it lacks.
func addTolerations(live, result map[string]any) error {
	tolerations, err := mapsAt(live, "tolerations")
	if err != nil {
		return fmt.Errorf("live object: spec.%w", err)
	}
	desired, err := mapsAt(result, "tolerations")
	if err != nil {
		return fmt.Errorf("spec.%w", err)
	}
	all, _ := live["tolerations"].([]any)
	for _, each := range desired {
		if !slices.ContainsFunc(tolerations, func(other map[string]any) bool { return sameToleration(each, other) }) {
			all = append(all, each)
		}
	}
	if len(all) > 0 {
		live["tolerations"] = all
	}
	return nil
}

// sameToleration reports whether two tolerations are equal for the API server, for which an empty field is a missing one.
func sameToleration(a, b map[string]any) bool {
	for _, field := range []string{"key", "operator", "value", "effect", "tolerationSeconds"} {
		if (!isEmpty(a[field]) || !isEmpty(b[field])) && !equalValues(a[field], b[field]) {
			return false
		}
	}
	return true
}

// keepWebhookBundles keeps the CA bundles that other programs inject into webhooks. It matches live and desired webhooks by name.
func (r kindRules) keepWebhookBundles() error {
	live, err := mapsAt(r.live, "webhooks")
	if err != nil {
		return fmt.Errorf("live object: %w", err)
	}
	webhooks, err := mapsAt(r.result, "webhooks")
	if err != nil {
		return err
	}
	for _, webhook := range webhooks {
		for _, other := range live {
			if webhook["name"] == nil || !equalScalars(webhook["name"], other["name"]) {
				continue
			}
			if err := keepBundle(other, webhook, "clientConfig"); err != nil {
				return fmt.Errorf("webhooks: %w", err)
			}
		}
	}
	return nil
}

// ofBundle returns the rule that keeps caBundle of the map at a path.
func (r kindRules) ofBundle(path ...string) rule {
	return rule{keep: func() error { return keepBundle(r.live, r.result, path...) }}
}

// keepBundle copies caBundle from the live map at a path to the map of the result, if the result has this map without a CA bundle. If
// insecureSkipTLSVerify of the map is true, keepBundle copies nothing, because the API server refuses a CA bundle together with
// insecureSkipTLSVerify.
func keepBundle(live, result map[string]any, path ...string) error {
	from, err := mapAt(live, path...)
	if err != nil {
		return fmt.Errorf("live object: %w", err)
	}
	to, err := mapAt(result, path...)
	if err != nil {
		return err
	}
	insecure, _ := to["insecureSkipTLSVerify"].(bool)
	if to != nil && isEmptyBundle(to["caBundle"]) && !isEmpty(from["caBundle"]) && !insecure {
		to["caBundle"] = from["caBundle"]
	}
	return nil
}

// isEmptyBundle reports whether a manifest leaves caBundle to another program. Old API servers required a value, so many manifests contain
// a line end in base64.
func isEmptyBundle(bundle any) bool {
	text, _ := bundle.(string)
	decoded, err := base64.StdEncoding.DecodeString(text)
	return isEmpty(bundle) || err == nil && len(bytes.TrimSpace(decoded)) == 0
}
