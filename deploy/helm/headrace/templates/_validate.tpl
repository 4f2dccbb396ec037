{{/* What no schema can say. Each message says what is wrong and what to do. */}}

{{- define "headrace.validate" -}}
{{- range $service := list "gateway" "tokenizer" "scheduler" "cache" -}}
{{- include "headrace.validateTimes" (dict "own" (index $.Values $service) "where" $service) -}}
{{- end -}}
{{- if le (int .Values.nats.graceSeconds) (int .Values.nats.preStopSeconds) -}}
{{- fail (printf "nats.graceSeconds (%v) must be more than nats.preStopSeconds (%v)" .Values.nats.graceSeconds .Values.nats.preStopSeconds) -}}
{{- end -}}
{{- $certificates := .Values.certificates -}}
{{- if and $certificates.enabled (eq $certificates.source "secrets") (not $certificates.secretPrefix) -}}
{{- fail "certificates.source is secrets: name yours PREFIX-ROLE, and set certificates.secretPrefix" -}}
{{- end -}}
{{- $gateway := .Values.gateway -}}
{{- if and $gateway.files.existingClaim $gateway.files.size -}}
{{- fail "gateway.files: set existingClaim for a volume that is there, or size for a new one, not both" -}}
{{- end -}}
{{- if and $gateway.files.size (gt (int $gateway.replicas) 1) (eq $gateway.files.accessMode "ReadWriteOnce") -}}
{{- fail "gateway.files.accessMode is ReadWriteOnce, and several gateways share the volume: take ReadWriteMany, or one gateway" -}}
{{- end -}}
{{- if and $gateway.httpRoute.enabled (not $gateway.httpRoute.parentRefs) -}}
{{- fail "gateway.httpRoute needs parentRefs: the Gateway that it belongs to" -}}
{{- end -}}
{{- if and $gateway.ingress.enabled (not $gateway.ingress.host) -}}
{{- fail "gateway.ingress needs a host" -}}
{{- end -}}
{{- $names := dict -}}
{{- $scaled := dict -}}
{{- range $set := .Values.workers -}}
{{- $whole := include "headrace.set" (dict "root" $ "set" $set) | fromYaml -}}
{{- if $whole.autoscaling.enabled -}}
{{- if hasKey $scaled $whole.model -}}
{{- fail (printf "workers %s and %s: one set of the workers of %s can be scaled, not two: set autoscaling.enabled of one to false" (get $scaled $whole.model) $set.name $whole.model) -}}
{{- end -}}
{{- $_ := set $scaled $whole.model $set.name -}}
{{- if gt (int $whole.autoscaling.min) (int $whole.autoscaling.max) -}}
{{- fail (printf "workers %s: autoscaling.min is %v, and autoscaling.max %v" $set.name $whole.autoscaling.min $whole.autoscaling.max) -}}
{{- end -}}
{{- end -}}
{{- if hasKey $names $set.name -}}
{{- fail (printf "two sets of workers are called %s: give each a name of its own" $set.name) -}}
{{- end -}}
{{- $_ := set $names $set.name true -}}
{{- include "headrace.validateSet" (include "headrace.set" (dict "root" $ "set" $set) | fromYaml) -}}
{{- end -}}
{{- end -}}

{{- define "headrace.validateTimes" -}}
{{- $needed := add (int .own.preStopSeconds) (int .own.drainSeconds) 5 -}}
{{- if lt (int .own.graceSeconds) (int $needed) -}}
{{- fail (printf "%s.graceSeconds is %v, and its Pod needs %d to stop: preStopSeconds %v, drainSeconds %v, and 5 to end" .where .own.graceSeconds $needed .own.preStopSeconds .own.drainSeconds) -}}
{{- end -}}
{{- end -}}

{{- define "headrace.validateSet" -}}
{{- include "headrace.validateTimes" (dict "own" . "where" (printf "workers %s" .name)) -}}
{{- $given := list -}}
{{- range $kind := list "claim" "hostPath" "image" "pull" -}}
{{- if index $.weights $kind -}}{{- $given = append $given $kind -}}{{- end -}}
{{- end -}}
{{- if gt (len $given) 1 -}}
{{- fail (printf "workers %s: weights come from one place, and %s are set" .name (join " and " $given)) -}}
{{- end -}}
{{- if not (or $given .folder) -}}
{{- fail (printf "workers %s: set weights, or the folder of a model that is in the image" .name) -}}
{{- end -}}
{{- if and (contains ":" .weights.pull) (not .folder) -}}
{{- fail (printf "workers %s: weights.pull takes one file of a repository, so name it in folder" .name) -}}
{{- end -}}
{{- if and (eq .device "cpu") (or (gt (int .gpus) 1) (eq .engine "vllm")) -}}
{{- fail (printf "workers %s: device is cpu, which has no GPUs and is no device of vLLM's image: set device" .name) -}}
{{- end -}}
{{- if and (eq .engine "vllm") (not .image) -}}
{{- fail (printf "workers %s: engine is vllm, so image must name an image that has vLLM and Headrace" .name) -}}
{{- end -}}
{{- if and (gt (int .nodes) 1) (gt (int .gpus) 1) -}}
{{- fail (printf "workers %s: several nodes share a model by its layers, one GPU each: set gpus to 1, or nodes to 1" .name) -}}
{{- end -}}
{{- if and (gt (int .nodes) 1) (eq .engine "vllm") -}}
{{- fail (printf "workers %s: several nodes are for Headrace's engine; vLLM takes those of one" .name) -}}
{{- end -}}
{{- end -}}
