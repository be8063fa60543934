package handlers

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/admission/patch"
	"github.com/espalier-dev/espalier/internal/admission/registration"
	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/excerpt"
	"github.com/espalier-dev/espalier/internal/webhook/object"
)

const skipTokenMount = "projected-token-mount.resources.gardener.cloud/skip"

// policyTokenSeconds is the lifetime of tokens that the policy mounts. An annotation of the Pod can set another lifetime, and a user can
// change the variable expirationSeconds of the policy.
const policyTokenSeconds = 43200

// projectedTokenMount mounts expiring tokens into Pods whose ServiceAccount disables automounting, unless the Pod disables it too. It
// changes only the volumes of the Pod and the mounts of its init containers and containers; ephemeral containers get no mount.
func projectedTokenMount() Handler {
	return Handler{
		Name: "projected-token-mount", Path: "/webhooks/mount-projected-service-account-token", Mutating: true,
		Section: "projectedTokenMount", Switch: func(w *config.Webhooks) *bool { return &w.ProjectedTokenMount.Enabled }, Registered: true,
		Webhooks: func(in Cluster) []registration.Webhook {
			return []registration.Webhook{{
				Rules:      createdPods(),
				Namespaces: registration.Selection{Standard: true},
				Objects:    registration.Selection{Labels: in.Pods(registration.Absent(skipTokenMount), in.NotOwn())},
			}}
		},
		Policy: tokenMountPolicy(),
		Review: func(s Settings) review.Handler {
			expirationSeconds := ptr.Deref(s.Webhooks.ProjectedTokenMount.ExpirationSeconds, 0)
			pod := corev1.SchemeGroupVersion.WithKind("Pod")
			return object.ChangeAfter(pod, askForAccount, s.Automount, func(found tokenPod, automount *bool) review.Response {
				changes, err := planTokenMount(found, automount, expirationSeconds)
				if err != nil {
					return review.Denied(err.Error())
				}
				return review.Patched(changes)
			})
		},
	}
}

// askForAccount returns the ServiceAccount on which the change depends. The result needed is false if the handler does not change the Pod,
// whatever the ServiceAccount contains.
func askForAccount(request *review.Request, found tokenPod) (account types.NamespacedName, needed bool) {
	name := found.Spec.ServiceAccountName
	return types.NamespacedName{Namespace: request.Namespace, Name: name}, name != "" && name != "default"
}

// policyTokenVolume is the volume of a token in CEL: the same that the admission plugin ServiceAccount of the API server mounts.
const policyTokenVolume = `Object.spec.volumes{
  name: 'kube-api-access-gardener',
  projected: Object.spec.volumes.projected{
    defaultMode: 420,
    sources: [
      Object.spec.volumes.projected.sources{serviceAccountToken: Object.spec.volumes.projected.sources.serviceAccountToken{
        path: 'token', expirationSeconds: variables.podExpirationSeconds}},
      Object.spec.volumes.projected.sources{configMap: Object.spec.volumes.projected.sources.configMap{
        name: 'kube-root-ca.crt',
        items: [Object.spec.volumes.projected.sources.configMap.items{key: 'ca.crt', path: 'ca.crt'}]}},
      Object.spec.volumes.projected.sources{downwardAPI: Object.spec.volumes.projected.sources.downwardAPI{
        items: [Object.spec.volumes.projected.sources.downwardAPI.items{
          path: 'namespace',
          fieldRef: Object.spec.volumes.projected.sources.downwardAPI.items.fieldRef{apiVersion: 'v1', fieldPath: 'metadata.namespace'}}]}}
    ]
  }
}`

func tokenMountPolicy() *Policy {
	const (
		key        = "'projected-token-mount.resources.gardener.cloud/expiration-seconds'"
		annotation = "object.metadata.annotations[" + key + "]"
		annotated  = "has(object.metadata.annotations) && " + key + " in object.metadata.annotations"
		named      = "has(object.spec.serviceAccountName) && !(object.spec.serviceAccountName in ['', 'default']) && " +
			"object.spec.serviceAccountName == params.metadata.name"
		ownMount = "has(c.volumeMounts) && c.volumeMounts.exists(m, m.mountPath.matches('^" + tokenMountPath + "/*$'))"
		all      = "((has(object.spec.initContainers) ? object.spec.initContainers : []) + " +
			"(has(object.spec.containers) ? object.spec.containers : []))"
	)
	mounts := func(containers string) string {
		const mount = "{'name': dyn('" + tokenVolumeName + "'), 'mountPath': dyn('" + tokenMountPath + "'), 'readOnly': dyn(true)}"
		return eachOf("spec."+containers, "c", "!("+ownMount+")", appended("c", "volumeMounts", mount))
	}
	return &Policy{
		Parameters: serviceAccounts(),
		Conditions: []admissionregistrationv1.MatchCondition{
			condition("named-service-account", named),
			condition("mounts-no-token", "has(params.automountServiceAccountToken) && !params.automountServiceAccountToken"),
			condition("wants-token", "!has(object.spec.automountServiceAccountToken) || object.spec.automountServiceAccountToken"),
			condition("has-no-token", "!has(object.spec.volumes) || !object.spec.volumes.exists(v, v.name.startsWith('kube-api-access-'))"),
			condition("needs-mount", all+".size() == 0 || "+all+".exists(c, !("+ownMount+"))"),
		},
		Required: Requirement{ // a longer number is more seconds than API servers allow
			Expression: "!(" + annotated + ") || " + annotation + ".matches('^[+-]?0*[0-9]{1,18}$')",
			Message:    `'strconv.ParseInt: parsing "' + ` + annotation + ` + '": invalid syntax'`,
		},
		Variables: []admissionregistrationv1.Variable{
			{Name: "expirationSeconds", Expression: strconv.Itoa(policyTokenSeconds)},
			{Name: "podExpirationSeconds", Expression: annotated + "\n  ? int(" + annotation + ")\n  : variables.expirationSeconds"},
		},
		Patch: `(has(object.spec.volumes) ? [] : [JSONPatch{op: 'add', path: '/spec/volumes', value: []}])
+ [JSONPatch{op: 'add', path: '/spec/volumes/-', value: ` + policyTokenVolume + "}]\n+ " + mounts("initContainers") + "\n+ " +
			mounts("containers"),
	}
}

// serviceAccounts selects the ServiceAccounts in the namespace of the object; the API server evaluates the policy for each of these
// ServiceAccounts. The parameters are ServiceAccounts, because API servers always watch ServiceAccounts. API servers stop watching other
// kinds, such as ConfigMaps, when the last policy that reads them is removed, and (seen in 1.36.3) do not start to watch them again: a
// policy that is installed later would read outdated objects.
func serviceAccounts() *Parameters {
	return &Parameters{
		Kind: admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: "ServiceAccount"},
		Ref: admissionregistrationv1.ParamRef{
			Selector: &metav1.LabelSelector{}, ParameterNotFoundAction: ptr.To(admissionregistrationv1.AllowAction),
		},
	}
}

const (
	// tokenVolumePrefix begins the names of volumes that already contain a token: those of the API server and ours.
	tokenVolumePrefix = "kube-api-access-"
	tokenVolumeName   = tokenVolumePrefix + "gardener"
	tokenMountPath    = "/var/run/secrets/kubernetes.io/serviceaccount"
	// tokenFileMode is the mode of the files in the volume; it is also the default of the API.
	tokenFileMode = 0o644
)

// tokenPod is the part of a Pod that the handler reads. A container that is null in JSON is a nil pointer.
type tokenPod struct {
	Metadata struct {
		Annotations struct {
			ExpirationSeconds *string `json:"projected-token-mount.resources.gardener.cloud/expiration-seconds"`
		} `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		ServiceAccountName string `json:"serviceAccountName"`
		Automount          *bool  `json:"automountServiceAccountToken"`
		Volumes            []struct {
			Name string `json:"name"`
		} `json:"volumes"`
		InitContainers []*tokenContainer `json:"initContainers"`
		Containers     []*tokenContainer `json:"containers"`
	} `json:"spec"`
}

type tokenContainer struct {
	VolumeMounts []struct {
		MountPath string `json:"mountPath"`
	} `json:"volumeMounts"`
}

// hasOwnMount reports whether the container mounts any volume at the path of tokens.
func (c *tokenContainer) hasOwnMount() bool {
	for i := range c.VolumeMounts {
		if strings.TrimRight(c.VolumeMounts[i].MountPath, "/") == tokenMountPath {
			return true
		}
	}
	return false
}

// planTokenMount mounts a token into a Pod whose ServiceAccount disables automounting. It changes nothing if the Pod disables automounting
// too, if the Pod already has a token volume, or if each container already mounts a volume at the path of tokens. The token is valid for
// expirationSeconds, unless an annotation of the Pod sets another lifetime. The argument automount is the field
// automountServiceAccountToken of the ServiceAccount; nil counts as true. planTokenMount returns an error if the annotation is invalid.
func planTokenMount(found tokenPod, automount *bool, expirationSeconds int64) (patch.Patch, error) {
	if ptr.Deref(automount, true) || !ptr.Deref(found.Spec.Automount, true) {
		return nil, nil
	}
	for _, volume := range found.Spec.Volumes {
		if strings.HasPrefix(volume.Name, tokenVolumePrefix) {
			return nil, nil
		}
	}
	all := slices.Concat(found.Spec.InitContainers, found.Spec.Containers)
	if len(all) > 0 && !slices.ContainsFunc(all, func(c *tokenContainer) bool { return c == nil || !c.hasOwnMount() }) {
		return nil, nil
	}
	if given := found.Metadata.Annotations.ExpirationSeconds; given != nil {
		var err error
		if expirationSeconds, err = parseSeconds(*given); err != nil {
			return nil, err
		}
	}
	changes := patch.Patch{}
	patch.Append(&changes, "/spec/volumes", len(found.Spec.Volumes), tokenVolume(expirationSeconds))
	mountAll(&changes, "initContainers", found.Spec.InitContainers)
	mountAll(&changes, "containers", found.Spec.Containers)
	return changes, nil
}

// parseSeconds accepts any integer: the API server validates negative and small ones.
func parseSeconds(text string) (int64, error) {
	seconds, err := strconv.ParseInt(text, 10, 64)
	if wrong, ok := errors.AsType[*strconv.NumError](err); ok {
		wrong.Num = excerpt.Quoted(wrong.Num)
	}
	return seconds, err // the response contains this text
}

func mountAll(changes *patch.Patch, list string, containers []*tokenContainer) {
	for i, each := range containers {
		if len(*changes) > patch.MaxOperations { // then Encode refuses the patch
			return
		}
		if each != nil && !each.hasOwnMount() {
			patch.Append(changes, patch.Pointer("spec", list, i, "volumeMounts"), len(each.VolumeMounts),
				corev1.VolumeMount{Name: tokenVolumeName, MountPath: tokenMountPath, ReadOnly: true})
		}
	}
}

// tokenVolume returns a volume with the same sources as the token volume that the API server adds to Pods.
func tokenVolume(expirationSeconds int64) corev1.Volume {
	authority := corev1.ConfigMapProjection{
		LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
		Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
	}
	namespace := corev1.DownwardAPIVolumeFile{
		Path:     "namespace",
		FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"},
	}
	return corev1.Volume{Name: tokenVolumeName, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: ptr.To[int32](tokenFileMode),
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &expirationSeconds}},
			{ConfigMap: &authority},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{namespace}}},
		},
	}}}
}
