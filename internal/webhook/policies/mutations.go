package policies

import (
	"fmt"
	"strconv"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// mutations are in the order of the handlers' webhooks.
func mutations() []mutation {
	return []mutation{
		tokenInvalidator(),
		projectedTokenMount(),
		schedulerName(),
		seccompProfile(),
		serviceHost(),
		endpointSliceHints(),
		topologySpread(),
	}
}

// invalidToken is what an invalidated token is overwritten with, three bytes that are zero, as it stands in a Secret. It
// is a string in expressions too.
const invalidToken = "'AAAA'"

func tokenInvalidator() mutation {
	const considered = "has(object.metadata.labels) && 'token-invalidator.resources.gardener.cloud/consider' in object.metadata.labels"
	return mutation{
		handler:    "token-invalidator",
		conditions: []admissionregistrationv1.MatchCondition{condition("has-data", "has(object.data)")},
		patch: `(` + considered + `)
  ? [JSONPatch{op: 'add', path: '/data/token', value: ` + invalidToken + `}]
  : 'token' in object.data && object.data['token'] == ` + invalidToken + `
    ? [JSONPatch{op: 'remove', path: '/data/token'}]
    : []`,
	}
}

// tokenVolume holds what a Pod finds at the standard path if its ServiceAccount lets it mount a token.
const tokenVolume = `Object.spec.volumes{
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

func projectedTokenMount() mutation {
	const (
		key        = "'projected-token-mount.resources.gardener.cloud/expiration-seconds'"
		annotation = "object.metadata.annotations[" + key + "]"
		annotated  = "has(object.metadata.annotations) && " + key + " in object.metadata.annotations"
	)
	mounts := func(containers string) string {
		const mount = "{'name': dyn('kube-api-access-gardener'), 'mountPath': dyn('/var/run/secrets/kubernetes.io/serviceaccount'), 'readOnly': dyn(true)}"
		return eachOf("spec."+containers, "c", "true", appended("c", "volumeMounts", mount))
	}
	return mutation{
		handler: "projected-token-mount",
		params:  serviceAccounts(),
		conditions: []admissionregistrationv1.MatchCondition{
			condition("named-service-account", "has(object.spec.serviceAccountName) && !(object.spec.serviceAccountName in ['', 'default']) && object.spec.serviceAccountName == params.metadata.name"),
			condition("mounts-no-token", "has(params.automountServiceAccountToken) && !params.automountServiceAccountToken"),
			condition("wants-token", "!has(object.spec.automountServiceAccountToken) || object.spec.automountServiceAccountToken"),
			condition("has-no-token", "!has(object.spec.volumes) || !object.spec.volumes.exists(v, v.name.startsWith('kube-api-access-'))"),
		},
		required: requirement{ // longer numbers are more seconds than API servers grant
			expression: "!(" + annotated + ") || " + annotation + ".matches('^[+-]?0*[0-9]{1,18}$')",
			message:    `'strconv.ParseInt: parsing "' + ` + annotation + ` + '": invalid syntax'`,
		},
		variables: []admissionregistrationv1.Variable{
			{Name: "expirationSeconds", Expression: strconv.Itoa(TokenExpirationSeconds)},
			{Name: "podExpirationSeconds", Expression: annotated + "\n  ? int(" + annotation + ")\n  : variables.expirationSeconds"},
		},
		patch: `(has(object.spec.volumes) ? [] : [JSONPatch{op: 'add', path: '/spec/volumes', value: []}])
+ [JSONPatch{op: 'add', path: '/spec/volumes/-', value: ` + tokenVolume + "}]\n+ " + mounts("initContainers") + "\n+ " + mounts("containers"),
	}
}

func schedulerName() mutation {
	return mutation{
		handler: "pod-scheduler-name",
		conditions: []admissionregistrationv1.MatchCondition{
			condition("names-no-scheduler", "!has(object.spec.schedulerName) || object.spec.schedulerName in ['', 'default-scheduler']"),
		},
		variables: []admissionregistrationv1.Variable{{Name: "schedulerName", Expression: "'default-scheduler'"}},
		patch:     "[JSONPatch{op: 'add', path: '/spec/schedulerName', value: variables.schedulerName}]",
	}
}

func seccompProfile() mutation {
	const profile = "Object.spec.securityContext.seccompProfile{type: 'RuntimeDefault'}"
	return mutation{
		handler: "seccomp-profile",
		conditions: []admissionregistrationv1.MatchCondition{condition("has-no-profile",
			"!has(object.spec.securityContext) || !has(object.spec.securityContext.seccompProfile) || "+
				"!has(object.spec.securityContext.seccompProfile.type) || object.spec.securityContext.seccompProfile.type == ''")},
		patch: `has(object.spec.securityContext)
  ? [JSONPatch{op: 'add', path: '/spec/securityContext/seccompProfile', value: ` + profile + `}]
  : [JSONPatch{op: 'add', path: '/spec/securityContext', value: Object.spec.securityContext{seccompProfile: ` + profile + `}}]`,
	}
}

func serviceHost() mutation {
	variables := func(containers string) string {
		const variable = "{'name': 'KUBERNETES_SERVICE_HOST', 'value': variables.host}"
		return eachOf("spec."+containers, "c", "!has(c.env) || !c.env.exists(e, e.name == 'KUBERNETES_SERVICE_HOST')", appended("c", "env", variable))
	}
	return mutation{
		handler:   "kubernetes-service-host",
		variables: []admissionregistrationv1.Variable{{Name: "host", Expression: "''"}},
		patch:     "variables.host == '' ? [] : " + variables("initContainers") + "\n+ " + variables("containers"),
	}
}

func endpointSliceHints() mutation {
	const hints = "Object.endpoints.hints{forZones: [Object.endpoints.hints.forZones{name: e.zone}]}"
	return mutation{
		handler: "endpoint-slice-hints",
		patch: eachOf("endpoints", "e", "has(e.zone) && e.zone != ''", func(at string) string {
			return fmt.Sprintf("JSONPatch{op: 'add', path: %s/hints', value: %s}", at, hints)
		}),
	}
}

func topologySpread() mutation {
	const (
		key      = "pod-template-hash"
		label    = "{'" + key + "': object.metadata.labels['" + key + "']}"
		selector = "Object.spec.topologySpreadConstraints.labelSelector{matchLabels: " + label + "}"
		// API servers refuse the key in both; they do the same by it alone.
		keyed = "has(c.matchLabelKeys) && '" + key + "' in c.matchLabelKeys"
		named = "has(c.labelSelector) && (has(c.labelSelector.matchLabels) && '" + key + "' in c.labelSelector.matchLabels || " +
			"has(c.labelSelector.matchExpressions) && c.labelSelector.matchExpressions.exists(e, e.key == '" + key + "' && e.operator == 'In'))"
	)
	return mutation{
		handler: "pod-topology-spread-constraints",
		conditions: []admissionregistrationv1.MatchCondition{
			condition("is-of-deployment", "has(object.metadata.labels) && '"+key+"' in object.metadata.labels"),
			condition("has-constraints", "has(object.spec.topologySpreadConstraints)"),
		},
		patch: eachOf("spec.topologySpreadConstraints", "c", "!("+keyed+") && !("+named+")", func(at string) string {
			return fmt.Sprintf(`!has(c.labelSelector)
    ? JSONPatch{op: 'add', path: %[1]s/labelSelector', value: %[2]s}
    : !has(c.labelSelector.matchLabels)
      ? JSONPatch{op: 'add', path: %[1]s/labelSelector/matchLabels', value: %[3]s}
      : JSONPatch{op: 'add', path: %[1]s/labelSelector/matchLabels/%[4]s', value: object.metadata.labels['%[4]s']}`, at, selector, label, key)
		}),
	}
}
