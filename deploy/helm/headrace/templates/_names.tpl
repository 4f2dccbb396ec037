{{/* Names, labels and addresses. */}}

{{- define "headrace.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Prefix of every object. */}}
{{- define "headrace.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "headrace.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "headrace.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Labels by which Pods are selected. `role` is a service or nats; `set` that of workers. */}}
{{- define "headrace.selector" -}}
app.kubernetes.io/name: {{ include "headrace.name" .root | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .role | quote }}
{{- with .set }}
headrace/workers: {{ . | quote }}
{{- end }}
{{- end -}}

{{- define "headrace.labels" -}}
{{ include "headrace.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | quote }}
{{- end -}}

{{- define "headrace.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "headrace.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{/* Image of a service. */}}
{{- define "headrace.image" -}}
{{- $image := .root.Values.image -}}
{{- $name := printf "headrace-%s" .service -}}
{{- if $image.registry -}}{{- $name = printf "%s/%s" (trimSuffix "/" $image.registry) $name -}}{{- end -}}
{{- with index $image.digests .service -}}
{{- printf "%s@%s" $name . -}}
{{- else -}}
{{- printf "%s:%s" $name ($image.tag | default .root.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* host:port of every replica of a service, separated by commas: a client asks the next where one does not answer. */}}
{{- define "headrace.addresses" -}}
{{- $name := printf "%s-%s" (include "headrace.fullname" .root) .service -}}
{{- $found := list -}}
{{- range $number := until (int (index .root.Values .service).replicas) -}}
{{- $found = append $found (printf "%s-%d.%s:%d" $name $number $name (int $.port)) -}}
{{- end -}}
{{- join "," $found -}}
{{- end -}}

{{- define "headrace.natsUrl" -}}
{{- .Values.nats.external.url | default (printf "nats://%s-nats:4222" (include "headrace.fullname" .)) -}}
{{- end -}}

{{- define "headrace.natsReplicas" -}}
{{- if .Values.nats.external.url -}}{{- .Values.nats.external.replicas -}}{{- else -}}{{- .Values.nats.replicas -}}{{- end -}}
{{- end -}}

{{- define "headrace.credentialSecret" -}}
{{- .Values.credential.existingSecret | default (printf "%s-credential" (include "headrace.fullname" .)) -}}
{{- end -}}

{{/* Secret with the certificate of a role. */}}
{{- define "headrace.certificateSecret" -}}
{{- $prefix := printf "%s-tls" (include "headrace.fullname" .root) -}}
{{- if eq .root.Values.certificates.source "secrets" -}}{{- $prefix = .root.Values.certificates.secretPrefix -}}{{- end -}}
{{- printf "%s-%s" $prefix .role -}}
{{- end -}}

{{/* Prints an object with its `merge` laid over it. */}}
{{- define "headrace.object" -}}
{{- $object := fromYaml .text -}}
{{- if hasKey $object "Error" -}}{{- fail (printf "a template of the chart is no YAML: %s" $object.Error) -}}{{- end -}}
---
{{ toYaml (mergeOverwrite $object (deepCopy (.merge | default dict))) }}
{{ end -}}
