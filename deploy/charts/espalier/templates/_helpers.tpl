{{/* Helpers of the generated templates. $binary is a dict with root, name and values of a binary. */}}

{{/* What Helm adds to the labels of all objects. They are in no selector. */}}
{{- define "espalier.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- define "espalier.image" -}}
{{- $own := .values.image -}}
{{- $all := .root.Values.image -}}
{{- $repository := $own.repository | default (printf "%s/%s" $all.repository .name) -}}
{{- if $own.digest -}}
{{ $repository }}@{{ $own.digest }}
{{- else -}}
{{ $repository }}:{{ $own.tag | default $all.tag | default .root.Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* The configuration file, without its last line break. */}}
{{- define "espalier.config" -}}
{{- $text := include (printf "espalier.%s.config" .name) . -}}
{{- if .values.configFile -}}
{{ .values.configFile | trimSuffix "\n" }}
{{- else if .values.config -}}
{{ mustMergeOverwrite (fromYaml $text) .values.config | toYaml }}
{{- else -}}
{{ $text }}
{{- end -}}
{{- end -}}

{{/* Not empty if the configuration file makes restore drills restore data. */}}
{{- define "espalier.restoresData" -}}
{{- with (fromYaml (include "espalier.config" .)).espalier }}{{ with .garden }}{{ with .backup }}{{ if .restoreData }}true{{ end }}{{ end }}{{ end }}{{ end -}}
{{- end -}}

{{/* Labels of Pods that values ask for. Those that the chart sets itself win. */}}
{{- define "espalier.podLabels" -}}
{{- $labels := merge (dict) .values.podLabels .root.Values.podLabels -}}
{{- $labels = omit $labels "app.kubernetes.io/name" "app.kubernetes.io/part-of" "networking.gardener.cloud/to-dns" "networking.gardener.cloud/to-runtime-apiserver" -}}
{{- if .values.targetKubeconfigSecret -}}
{{- $labels = merge (dict "networking.gardener.cloud/to-public-networks" "allowed" "networking.gardener.cloud/to-private-networks" "allowed") $labels -}}
{{- end -}}
{{- with $labels }}{{ toYaml . }}{{ end -}}
{{- end -}}

{{/* A change of the configuration or of a list of images rolls out. */}}
{{- define "espalier.podAnnotations" -}}
{{- $checksum := printf "%s\n%s" (include "espalier.config" .) (include "espalier.imageListFiles" .) | sha256sum | trunc 16 -}}
{{- merge (dict "espalier.dev/config-checksum" $checksum) .values.podAnnotations .root.Values.podAnnotations | toYaml -}}
{{- end -}}

{{/* The parts of a Pod's specification that depend on the nodes. */}}
{{- define "espalier.scheduling" -}}
{{- $fields := dict -}}
{{- with .values.hostAliases -}}
{{- $_ := set $fields "hostAliases" . -}}
{{- end -}}
{{- range $name := list "nodeSelector" "tolerations" "affinity" "priorityClassName" -}}
{{- with index $.values $name | default (index $.root.Values $name) -}}
{{- $_ := set $fields $name . -}}
{{- end -}}
{{- end -}}
{{- with .root.Values.image.pullSecrets -}}
{{- $secrets := list -}}
{{- range . -}}
{{- $secrets = append $secrets (dict "name" .) -}}
{{- end -}}
{{- $_ := set $fields "imagePullSecrets" $secrets -}}
{{- end -}}
{{- with $fields }}{{ toYaml . }}{{ end -}}
{{- end -}}

{{/* The files with lists of images, without a last line break; empty if there are none. */}}
{{- define "espalier.imageListFiles" -}}
{{- $files := dict -}}
{{- with .values.imageVectorOverwrite }}{{ $_ := set $files "images.yaml" . }}{{ end -}}
{{- with .values.componentImageVectorOverwrites }}{{ $_ := set $files "components.yaml" . }}{{ end -}}
{{- with $files }}{{ toYaml . }}{{ end -}}
{{- end -}}

{{- define "espalier.imageLists" -}}
{{- with include "espalier.imageListFiles" . }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: espalier-{{ $.name }}-images
  namespace: {{ $.root.Release.Namespace | quote }}
  labels:
    app.kubernetes.io/name: espalier-{{ $.name }}
    app.kubernetes.io/part-of: espalier
    {{- include "espalier.labels" $.root | nindent 4 }}
data:
  {{- . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* What is added to the lists of the container and of the Pod. */}}
{{- define "espalier.env" -}}
{{- $list := list -}}
{{- if .values.imageVectorOverwrite -}}
{{- $list = append $list (dict "name" "IMAGEVECTOR_OVERWRITE" "value" "/etc/espalier-images/images.yaml") -}}
{{- end -}}
{{- if .values.componentImageVectorOverwrites -}}
{{- $list = append $list (dict "name" "IMAGEVECTOR_OVERWRITE_COMPONENTS" "value" "/etc/espalier-images/components.yaml") -}}
{{- end -}}
{{- with concat $list .values.env }}{{ toYaml . }}{{ end -}}
{{- end -}}

{{- define "espalier.volumeMounts" -}}
{{- $list := list -}}
{{- if include "espalier.imageListFiles" . -}}
{{- $list = append $list (dict "name" "images" "mountPath" "/etc/espalier-images" "readOnly" true) -}}
{{- end -}}
{{- with concat $list .values.volumeMounts }}{{ toYaml . }}{{ end -}}
{{- end -}}

{{- define "espalier.volumes" -}}
{{- $list := list -}}
{{- if include "espalier.imageListFiles" . -}}
{{- $list = append $list (dict "name" "images" "configMap" (dict "name" (printf "espalier-%s-images" .name))) -}}
{{- end -}}
{{- with concat $list .values.volumes }}{{ toYaml . }}{{ end -}}
{{- end -}}

{{- define "espalier.serviceMonitor" -}}
{{- with .root.Values.serviceMonitor -}}
{{- if .enabled }}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  name: espalier-{{ $.name }}
  namespace: {{ $.root.Release.Namespace | quote }}
  labels:
    app.kubernetes.io/name: espalier-{{ $.name }}
    app.kubernetes.io/part-of: espalier
    {{- include "espalier.labels" $.root | nindent 4 }}
    {{- with .labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  selector:
    matchLabels:
      app.kubernetes.io/name: espalier-{{ $.name }}
  endpoints:
  - port: metrics
    interval: {{ .interval | quote }}
{{- end }}
{{- end -}}
{{- end -}}

{{/* What binds the roles of a controller that applies every set as a ServiceAccount. */}}
{{- define "espalier.impersonation" -}}
{{- if .values.impersonation.enabled }}
{{- $accounts := dig "espalier" "managedResource" "serviceAccounts" dict .values.config }}
{{- if not (or .values.configFile (dig "lockdown" false $accounts)) }}
{{- fail "managedresourceController.impersonation.enabled needs config.espalier.managedResource.serviceAccounts.lockdown: true: without it, the controller watches with its own rights, which it then does not have" }}
{{- end }}
{{- $root := .root }}
{{- if not .values.targetKubeconfigSecret }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  labels:
    {{- include "espalier.labels" $root | nindent 4 }}
  name: espalier-managedresource-controller-target-base
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: espalier-managedresource-controller-target-base
subjects:
- kind: ServiceAccount
  name: espalier-managedresource-controller
  namespace: {{ $root.Release.Namespace | quote }}
{{- end }}
{{- range .values.impersonation.namespaces }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  labels:
    {{- include "espalier.labels" $root | nindent 4 }}
  name: espalier-managedresource-controller-impersonate
  namespace: {{ . | quote }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: espalier-managedresource-controller-impersonate
subjects:
- kind: ServiceAccount
  name: espalier-managedresource-controller
  namespace: {{ $root.Release.Namespace | quote }}
{{- end }}
{{- end }}
{{- end -}}
