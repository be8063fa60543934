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

{{/* Labels of Pods that values ask for. Those that the chart sets itself win. */}}
{{- define "espalier.podLabels" -}}
{{- $labels := merge (dict) .values.podLabels .root.Values.podLabels -}}
{{- $labels = omit $labels "app.kubernetes.io/name" "app.kubernetes.io/part-of" "networking.gardener.cloud/to-dns" "networking.gardener.cloud/to-runtime-apiserver" -}}
{{- if .values.targetKubeconfigSecret -}}
{{- $labels = merge (dict "networking.gardener.cloud/to-public-networks" "allowed" "networking.gardener.cloud/to-private-networks" "allowed") $labels -}}
{{- end -}}
{{- with $labels }}{{ toYaml . }}{{ end -}}
{{- end -}}

{{/* A change of the configuration rolls out. */}}
{{- define "espalier.podAnnotations" -}}
{{- $checksum := printf "%s\n" (include "espalier.config" .) | sha256sum | trunc 16 -}}
{{- merge (dict "espalier.dev/config-checksum" $checksum) .values.podAnnotations .root.Values.podAnnotations | toYaml -}}
{{- end -}}

{{/* The parts of a Pod's specification that depend on the nodes. */}}
{{- define "espalier.scheduling" -}}
{{- $fields := dict -}}
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
