{{/* Names, labels and settings. */}}

{{- define "picker.fullname" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}-picker
{{- end -}}

{{- define "picker.selector" -}}
app.kubernetes.io/name: headrace-picker
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "picker.labels" -}}
{{ include "picker.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
{{- end -}}

{{- define "picker.metadata" -}}
name: {{ .name | quote }}
namespace: {{ .root.Release.Namespace | quote }}
labels: {{ include "picker.labels" .root | fromYaml | toJson }}
{{- end -}}

{{- define "picker.image" -}}
{{- $name := "headrace-scheduler" -}}
{{- with .Values.image.registry -}}{{- $name = printf "%s/%s" (trimSuffix "/" .) $name -}}{{- end -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $name .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $name (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* A setting as text of a variable: lists by commas, maps as NAME=VALUE by commas. */}}
{{- define "picker.settingText" -}}
{{- if kindIs "string" . -}}
{{- quote . -}}
{{- else if kindIs "slice" . -}}
{{- join "," . | quote -}}
{{- else if kindIs "map" . -}}
{{- $pairs := list -}}
{{- range $name, $value := . -}}{{- $pairs = append $pairs (printf "%s=%v" $name $value) -}}{{- end -}}
{{- join "," $pairs | quote -}}
{{- else -}}
{{- toJson . | quote -}}
{{- end -}}
{{- end -}}
