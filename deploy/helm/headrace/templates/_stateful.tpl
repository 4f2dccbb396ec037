{{/* Tokenizers, schedulers and caches: replicas with names of their own, of which clients ask the next where one does not
answer. `service`, `port`, `metricsPort`, and text of `variables`, `mounts`, `volumes`, `initContainers`, `claims`. */}}

{{- define "headrace.statefulSet" -}}
{{- $name := printf "%s-%s" (include "headrace.fullname" .root) .service -}}
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {{ $name | quote }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels: {{ include "headrace.labels" . | fromYaml | toJson }}
spec:
  replicas: {{ .own.replicas }}
  serviceName: {{ $name | quote }}
  podManagementPolicy: Parallel
  minReadySeconds: 3
  selector:
    matchLabels: {{ include "headrace.selector" . | fromYaml | toJson }}
  template:
    metadata:
{{ include "headrace.podMetadata" . | indent 6 }}
    spec:
{{ include "headrace.placement" . | indent 6 }}
      terminationGracePeriodSeconds: {{ .own.graceSeconds }}
      securityContext: {{ include "headrace.podSecurity" .root | fromYaml | toJson }}
{{- with .initContainers }}
      initContainers:
{{ . | indent 8 }}
{{- end }}
      containers:
        - name: {{ .service }}
          image: {{ include "headrace.image" . | quote }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          env:
{{ include "headrace.variables" (printf "%s\n%s" (.variables | default "") (include "headrace.environment" .)) | indent 12 }}
          ports:
            - {name: grpc, containerPort: {{ .port }}}
            - {name: metrics, containerPort: {{ .metricsPort }}}
{{ include "headrace.probes" . | indent 10 }}
{{ include "headrace.preStop" . | indent 10 }}
          securityContext: {{ include "headrace.containerSecurity" .root | fromYaml | toJson }}
          resources: {{ toJson .own.resources }}
          volumeMounts:
{{ include "headrace.mounts" . | indent 12 }}
{{- with .mounts }}
{{ . | indent 12 }}
{{- end }}
      volumes:
{{ include "headrace.volumes" . | indent 8 }}
{{- with .volumes }}
{{ . | indent 8 }}
{{- end }}
{{- with .claims }}
  volumeClaimTemplates:
{{ . | indent 4 }}
{{- end }}
{{- end -}}

{{/* Gives each replica a name of its own, before it is ready too: a client tries it again until it answers. */}}
{{- define "headrace.headlessService" -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ printf "%s-%s" (include "headrace.fullname" .root) .service | quote }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels: {{ include "headrace.labels" . | fromYaml | toJson }}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector: {{ include "headrace.selector" . | fromYaml | toJson }}
  ports:
    - {name: grpc, port: {{ .port }}, targetPort: grpc}
{{- end -}}

{{/* All objects of such a service. `callers`: the roles that call it. */}}
{{- define "headrace.statefulService" -}}
{{- include "headrace.object" (dict "text" (include "headrace.statefulSet" .) "merge" .own.merge.statefulSet) }}
{{ include "headrace.object" (dict "text" (include "headrace.headlessService" .) "merge" .own.merge.service) }}
{{ include "headrace.podDisruptionBudget" . }}
{{- $metrics := dict "ports" (list (dict "port" "metrics")) "from" .root.Values.networkPolicy.monitoring }}
{{ include "headrace.networkPolicy" (merge (dict "ports" (list (dict "port" "grpc")) "open" (concat (list $metrics) (.open | default list))) .) }}
{{- end -}}

{{/* A volume of each replica, or one that goes with its Pod. */}}
{{- define "headrace.storageClaim" -}}
- metadata: {name: {{ .name | quote }}}
  spec:
    accessModes: [ReadWriteOnce]
{{- with .storage.storageClass }}
    storageClassName: {{ . | quote }}
{{- end }}
    resources: {requests: {storage: {{ .storage.size | quote }}}}
{{- end -}}
