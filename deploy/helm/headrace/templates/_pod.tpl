{{/* Parts of every Pod. */}}

{{- define "headrace.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "headrace.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* Where Pods of a role run. `own` are the values of the role. */}}
{{- define "headrace.placement" -}}
serviceAccountName: {{ include "headrace.serviceAccount" .root | quote }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . | quote }}
{{- end }}
{{- end }}
{{- with .own.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .own.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with .own.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- with .own.affinity }}
affinity: {{ toJson . }}
{{- end }}
{{- if .own.spread }}
topologySpreadConstraints:
{{- range $key := list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - maxSkew: 1
    topologyKey: {{ $key }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{ include "headrace.selector" $ | fromYaml | toJson }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Variables that every service has. `service`, `own`, `port`, and `metricsPort` where it has one. */}}
{{- define "headrace.environment" -}}
{{- $prefix := printf "HEADRACE_%s_" (upper .service) -}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_IP
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
- {name: {{ $prefix }}SERVICE_ID, value: $(POD_NAME)}
- {name: {{ $prefix }}LISTEN_ADDRESS, value: "0.0.0.0:{{ .port }}"}
- {name: {{ $prefix }}ADVERTISE_ADDRESS, value: "$(POD_IP):{{ .port }}"}
- {name: {{ $prefix }}NATS_URL, value: {{ include "headrace.natsUrl" .root | quote }}}
- {name: {{ $prefix }}NATS_REPLICAS, value: {{ include "headrace.natsReplicas" .root | quote }}}
- {name: {{ $prefix }}DRAIN_SECONDS, value: {{ .own.drainSeconds | quote }}}
{{- if .metricsPort }}
- {name: {{ $prefix }}METRICS_PORT, value: {{ .metricsPort | quote }}}
{{- end }}
{{- if .root.Values.certificates.enabled }}
- {name: {{ $prefix }}CERTIFICATES, value: /certificates}
{{- else }}
- {name: {{ $prefix }}CREDENTIAL_FILE, value: /credential/credential}
{{- end }}
{{- with .root.Values.monitoring.otlpEndpoint }}
- {name: {{ $prefix }}OTLP_ENDPOINT, value: {{ . | quote }}}
{{- end }}
{{- range $name, $value := .own.settings }}
- {name: {{ $prefix }}{{ upper $name }}, value: {{ include "headrace.settingText" $value }}}
{{- end }}
{{- with .own.env }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* A setting as text of a variable: lists by commas, maps as NAME=VALUE by commas. */}}
{{- define "headrace.settingText" -}}
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

{{/* A list of variables in which the last of a name counts, as Kubernetes counts them, and stands alone. */}}
{{- define "headrace.variables" -}}
{{- $all := fromYamlArray . -}}
{{- $last := dict -}}
{{- range $all -}}{{- $_ := set $last .name . -}}{{- end -}}
{{- $done := dict -}}
{{- $found := list -}}
{{- range $all -}}
{{- if not (hasKey $done .name) -}}
{{- $found = append $found (index $last .name) -}}
{{- $_ := set $done .name true -}}
{{- end -}}
{{- end -}}
{{- toYaml $found -}}
{{- end -}}

{{/* The secret or certificate by which services know each other, and a place for files. */}}
{{- define "headrace.mounts" -}}
- {name: tmp, mountPath: /tmp}
{{- if .root.Values.certificates.enabled }}
- {name: certificates, mountPath: /certificates, readOnly: true}
{{- else }}
- {name: credential, mountPath: /credential, readOnly: true}
{{- end }}
{{- end -}}

{{- define "headrace.volumes" -}}
- name: tmp
  emptyDir: {}
{{- if .root.Values.certificates.enabled }}
- name: certificates
  secret: {secretName: {{ include "headrace.certificateSecret" (dict "root" .root "role" .service) | quote }}, defaultMode: 288}
{{- else }}
- name: credential
  secret:
    secretName: {{ include "headrace.credentialSecret" .root | quote }}
    defaultMode: 288
    items: [{key: credential, path: credential}]
{{- end }}
{{- end -}}

{{/* Asks the service's own gRPC health: with certificates kubelet cannot, so a program in the image does. */}}
{{- define "headrace.healthCheck" -}}
{{- if .root.Values.certificates.enabled -}}
exec: {command: {{ compact (list "python" "/opt/headrace/health.py" (.about | default "")) | toJson }}}
{{- else if .about -}}
grpc: {port: {{ .port }}, service: {{ .about }}}
{{- else -}}
grpc: {port: {{ .port }}}
{{- end -}}
{{- end -}}

{{/* Started once what it needs is loaded, ready once its callers have found it and until it stops, alive while its loop
answers. None asks another service. */}}
{{- define "headrace.probes" -}}
startupProbe:
  {{- include "headrace.healthCheck" . | nindent 2 }}
  periodSeconds: 2
  timeoutSeconds: 5
  failureThreshold: {{ div (add (int (.startupSeconds | default 120)) 1) 2 }}
readinessProbe:
  {{- include "headrace.healthCheck" (merge (dict "about" "routable") .) | nindent 2 }}
  periodSeconds: 5
  timeoutSeconds: 5
livenessProbe:
  {{- include "headrace.healthCheck" . | nindent 2 }}
  periodSeconds: 10
  timeoutSeconds: 10
  failureThreshold: 6
{{- end -}}

{{- define "headrace.preStop" -}}
lifecycle:
  preStop:
    sleep: {seconds: {{ .own.preStopSeconds }}}
{{- end -}}

{{/* A Pod is replaced when what it reads changes. */}}
{{- define "headrace.podMetadata" -}}
labels:
  {{- include "headrace.labels" . | nindent 2 }}
  {{- with .own.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
annotations:
  headrace/settings: {{ toJson (list .own.settings .root.Values.certificates .root.Values.monitoring.otlpEndpoint) | sha256sum | trunc 16 | quote }}
  {{- with .own.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* Never keeps the only Pod of a role from leaving its node. */}}
{{- define "headrace.podDisruptionBudget" -}}
{{- if gt (int .own.replicas) 1 }}
{{- $text := include "headrace.podDisruptionBudgetText" . }}
{{- include "headrace.object" (dict "text" $text "merge" .own.merge.podDisruptionBudget) }}
{{- end }}
{{- end -}}

{{- define "headrace.podDisruptionBudgetText" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name | quote }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels: {{ include "headrace.labels" . | fromYaml | toJson }}
spec:
  maxUnavailable: 1
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels: {{ include "headrace.selector" . | fromYaml | toJson }}
{{- end -}}

{{/* Lets in who has to call. `callers`: roles to ports; `open`: what everybody in `from` may call. */}}
{{- define "headrace.networkPolicy" -}}
{{- if .root.Values.networkPolicy.enabled }}
{{- $text := include "headrace.networkPolicyText" . }}
{{- include "headrace.object" (dict "text" $text "merge" .own.merge.networkPolicy) }}
{{- end }}
{{- end -}}

{{- define "headrace.networkPolicyText" -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ .name | quote }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels: {{ include "headrace.labels" . | fromYaml | toJson }}
spec:
  podSelector:
    matchLabels: {{ include "headrace.selector" . | fromYaml | toJson }}
  policyTypes: [Ingress]
  ingress:
{{- if .callers }}
    - ports: {{ .ports | toJson }}
      from:
{{- range .callers }}
        - podSelector:
            matchLabels: {{ include "headrace.selector" (dict "root" $.root "role" .) | fromYaml | toJson }}
{{- end }}
{{- end }}
{{- range .open }}
    - ports: {{ .ports | toJson }}
{{- with .from }}
      from: {{ toJson . }}
{{- end }}
{{- end }}
{{- end -}}
