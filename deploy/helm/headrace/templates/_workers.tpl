{{/* One set of workers: its own values over the defaults. */}}

{{- define "headrace.set" -}}
{{- toYaml (mergeOverwrite (deepCopy .root.Values.workerDefaults) (deepCopy .set)) -}}
{{- end -}}

{{/* Folder of the model in the containers of workers and tokenizers. */}}
{{- define "headrace.modelFolder" -}}
{{- $mount := printf "/models/%s" .name -}}
{{- if hasPrefix "/" .folder -}}
{{- .folder -}}
{{- else if .folder -}}
{{- printf "%s/%s" $mount .folder -}}
{{- else if .weights.pull -}}
{{- printf "%s/%s" $mount (regexReplaceAll ":.*" .weights.pull "") -}}
{{- else -}}
{{- $mount -}}
{{- end -}}
{{- end -}}

{{- define "headrace.hasWeights" -}}
{{- if or .weights.claim .weights.hostPath .weights.image .weights.pull -}}true{{- end -}}
{{- end -}}

{{- define "headrace.weightsMount" -}}
- name: {{ printf "weights-%s" .name | quote }}
  mountPath: {{ printf "/models/%s" .name | quote }}
  readOnly: true
{{- with .weights.subPath }}
  subPath: {{ . | quote }}
{{- end }}
{{- end -}}

{{- define "headrace.weightsVolume" -}}
- name: {{ printf "weights-%s" .name | quote }}
{{- if .weights.claim }}
  persistentVolumeClaim: {claimName: {{ .weights.claim | quote }}, readOnly: true}
{{- else if .weights.hostPath }}
  hostPath: {path: {{ .weights.hostPath | quote }}, type: Directory}
{{- else if .weights.image }}
  image: {reference: {{ .weights.image | quote }}, pullPolicy: IfNotPresent}
{{- else }}
  emptyDir: {}
{{- end }}
{{- end -}}

{{/* Pulls a model before the service starts. */}}
{{- define "headrace.pullContainer" -}}
- name: {{ printf "pull-%s" .set.name | quote }}
  image: {{ .image | quote }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  command: [headrace, models, pull, {{ .set.weights.pull | quote }}]
  env:
    - {name: HEADRACE_MODELS, value: {{ printf "/models/%s" .set.name | quote }}}
{{- with .set.env }}
{{ toYaml . | indent 4 }}
{{- end }}
  securityContext: {{ include "headrace.containerSecurity" .root | fromYaml | toJson }}
  resources: {requests: {cpu: 100m, memory: 256Mi}, limits: {memory: 1Gi}}
  volumeMounts:
    - {name: tmp, mountPath: /tmp}
    - {name: {{ printf "weights-%s" .set.name | quote }}, mountPath: {{ printf "/models/%s" .set.name | quote }}}
{{- end -}}

{{/* NVIDIA's names of the cards of a profile, as GPU feature discovery labels nodes with them. */}}
{{- define "headrace.products" -}}
l4: [NVIDIA-L4]
a100-40g: [NVIDIA-A100-SXM4-40GB, NVIDIA-A100-PCIE-40GB]
a100-80g: [NVIDIA-A100-SXM4-80GB, NVIDIA-A100-80GB-PCIe]
h100: [NVIDIA-H100-80GB-HBM3, NVIDIA-H100-PCIe, NVIDIA-H100-NVL]
h200: [NVIDIA-H200, NVIDIA-H200-NVL]
{{- end -}}

{{- define "headrace.workerImage" -}}
{{- if .set.image -}}
{{- .set.image -}}
{{- else if eq .set.device "cpu" -}}
{{- include "headrace.image" (dict "root" .root "service" "worker") -}}
{{- else -}}
{{- include "headrace.image" (dict "root" .root "service" "worker") | replace "headrace-worker" "headrace-worker-gpu" -}}
{{- end -}}
{{- end -}}

{{/* Variables of a worker beside those of every service. */}}
{{- define "headrace.workerEnvironment" -}}
- {name: HEADRACE_WORKER_MODEL, value: {{ .set.model | quote }}}
- {name: HEADRACE_WORKER_FOLDER, value: {{ include "headrace.modelFolder" .set | quote }}}
- {name: HEADRACE_WORKER_ENGINE, value: {{ .set.engine | quote }}}
- {name: HEADRACE_WORKER_DEVICE_PROFILE, value: {{ printf "/etc/headrace/profiles/%s.toml" .set.device | quote }}}
- {name: HEADRACE_WORKER_PACKED_FOLDER, value: /var/lib/headrace/packed}
{{- if ne .set.device "cpu" }}
- {name: HEADRACE_WORKER_DEVICE, value: "cuda:0"}
- {name: HEADRACE_WORKER_PRECISION, value: bfloat16}
- {name: HEADRACE_WORKER_STEP_SECONDS, value: "10"}
- {name: TRITON_CACHE_DIR, value: /var/lib/headrace/triton}
- {name: NCCL_DEBUG, value: WARN}
{{- end }}
{{- if eq .set.engine "vllm" }}
- {name: HEADRACE_WORKER_VLLM_ARGUMENTS, value: {{ dict "tensor_parallel_size" (int .set.gpus) | toJson | quote }}}
{{- else }}
- {name: HEADRACE_WORKER_TENSOR_PARALLEL_COUNT, value: {{ .set.gpus | quote }}}
- {name: HEADRACE_WORKER_PIPELINE_PARALLEL_COUNT, value: {{ .set.nodes | quote }}}
{{- end }}
{{- if gt (int .set.nodes) 1 }}
- {name: HEADRACE_WORKER_RENDEZVOUS, value: "$(LWS_LEADER_ADDRESS):9304"}
{{- end }}
{{- end -}}

{{- define "headrace.workerVolumes" -}}
{{- include "headrace.volumes" (dict "root" .root "service" "worker") }}
- name: profiles
  configMap: {name: {{ printf "%s-profiles" (include "headrace.fullname" .root) | quote }}}
- name: shared-memory
  emptyDir: {medium: Memory, sizeLimit: {{ .set.sharedMemory | quote }}}
- name: packed
{{- if .set.packed.size }}
  persistentVolumeClaim: {claimName: {{ printf "%s-packed-%s" (include "headrace.fullname" .root) .set.name | quote }}}
{{- else }}
  emptyDir: {}
{{- end }}
{{- if include "headrace.hasWeights" .set }}
{{ include "headrace.weightsVolume" .set }}
{{- end }}
{{- end -}}

{{- define "headrace.workerMounts" -}}
{{- include "headrace.mounts" . }}
- {name: profiles, mountPath: /etc/headrace/profiles, readOnly: true}
- {name: shared-memory, mountPath: /dev/shm}
- {name: packed, mountPath: /var/lib/headrace}
{{- if include "headrace.hasWeights" .set }}
{{ include "headrace.weightsMount" .set }}
{{- end }}
{{- end -}}

{{/* Requests and limits of a container, with its GPUs. */}}
{{- define "headrace.workerResources" -}}
{{- $resources := deepCopy .resources -}}
{{- if ne .device "cpu" -}}
{{- $limits := mergeOverwrite (dict "nvidia.com/gpu" (int .gpus)) ($resources.limits | default dict) -}}
{{- $_ := set $resources "limits" $limits -}}
{{- end -}}
{{- toJson $resources -}}
{{- end -}}

{{/* All variables of a worker: a setting counts more than what the chart would choose. */}}
{{- define "headrace.workerVariables" -}}
{{- include "headrace.environment" (dict "root" .root "own" (dict "drainSeconds" .set.drainSeconds) "service" "worker" "port" 9104 "metricsPort" 9204) }}
{{ include "headrace.workerEnvironment" . }}
{{- range $name, $value := .set.settings }}
- {name: HEADRACE_WORKER_{{ upper $name }}, value: {{ include "headrace.settingText" $value }}}
{{- end }}
{{- with .set.env }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Spec of the Pods of a set. `command` replaces that of the image, for followers of other nodes. */}}
{{- define "headrace.workerPod" -}}
{{- $own := deepCopy .set -}}
{{- if and (ne .set.device "cpu") (not .set.nodeSelector) (not .set.affinity) -}}
{{- $products := index (include "headrace.products" . | fromYaml) .set.device -}}
{{- $term := dict "matchExpressions" (list (dict "key" "nvidia.com/gpu.product" "operator" "In" "values" $products)) -}}
{{- $required := dict "requiredDuringSchedulingIgnoredDuringExecution" (dict "nodeSelectorTerms" (list $term)) -}}
{{- $_ := set $own "affinity" (dict "nodeAffinity" $required) -}}
{{- end -}}
{{- if and (ne .set.device "cpu") (not .set.tolerations) -}}
{{- $_ := set $own "tolerations" (list (dict "key" "nvidia.com/gpu" "operator" "Exists" "effect" "NoSchedule")) -}}
{{- end -}}
{{- include "headrace.placement" (dict "root" .root "own" $own "role" "worker" "set" .set.name) }}
terminationGracePeriodSeconds: {{ .set.graceSeconds }}
securityContext: {{ include "headrace.podSecurity" .root | fromYaml | toJson }}
{{- if .set.weights.pull }}
initContainers:
{{ include "headrace.pullContainer" (dict "root" .root "set" .set "image" (include "headrace.workerImage" .)) | indent 2 }}
{{- end }}
containers:
  - name: worker
    image: {{ include "headrace.workerImage" . | quote }}
    imagePullPolicy: {{ .root.Values.image.pullPolicy }}
{{- with .command }}
    command: {{ toJson . }}
{{- end }}
    env:
{{ include "headrace.variables" (include "headrace.workerVariables" .) | indent 6 }}
    ports:
      - {name: grpc, containerPort: 9104}
      - {name: metrics, containerPort: 9204}
{{- if not .command }}
{{ include "headrace.probes" (dict "root" .root "port" 9104 "startupSeconds" .set.startupSeconds) | indent 4 }}
{{ include "headrace.preStop" (dict "own" .set) | indent 4 }}
{{- end }}
    securityContext: {{ include "headrace.containerSecurity" .root | fromYaml | toJson }}
    resources: {{ include "headrace.workerResources" .set }}
    volumeMounts:
{{ include "headrace.workerMounts" . | indent 6 }}
volumes:
{{ include "headrace.workerVolumes" . | indent 2 }}
{{- end -}}

{{/* Whether KEDA scales any set of workers. */}}
{{- define "headrace.isScaled" -}}
{{- range .Values.workers -}}
{{- $set := include "headrace.set" (dict "root" $ "set" .) | fromYaml -}}
{{- if $set.autoscaling.enabled -}}yes{{- end -}}
{{- end -}}
{{- end -}}

{{/* Whether any set of workers may have none. */}}
{{- define "headrace.mayLackWorkers" -}}
{{- range .Values.workers -}}
{{- $set := include "headrace.set" (dict "root" $ "set" .) | fromYaml -}}
{{- if and $set.autoscaling.enabled (eq (int $set.autoscaling.min) 0) -}}yes{{- end -}}
{{- end -}}
{{- end -}}
