#!/bin/sh
# Builds the images of the services with docker, podman or buildah, whichever there is:
#   deploy/docker/build_images.sh [SERVICE ...]
# BUILDER names the program, HEADRACE_TAG the tag, BUILD_OPTIONS further options of its `build`, such as
# `--build-arg TORCH=1`. GPU=1 builds the worker's image with the kernels for GPUs, as headrace-worker-gpu.
set -eu
cd "$(dirname "$0")/../.."
builder=${BUILDER:-}
for program in docker podman buildah; do
    if [ -z "$builder" ] && command -v "$program" >/dev/null && "$program" info >/dev/null 2>&1; then
        builder=$program
    fi
done
if [ -z "$builder" ]; then
    echo "no builder of images answers here: install docker, podman or buildah, or name one with BUILDER=" >&2
    exit 1
fi
# Other formats have no health check.
format=
if [ "$builder" != docker ]; then
    format="--format docker"
fi
tag=${HEADRACE_TAG:-0.1.0}
for service in ${*:-gateway tokenizer scheduler cache worker}; do
    name=headrace-$service
    if [ "$service" = worker ] && [ -n "${GPU:-}" ]; then
        name=headrace-worker-gpu
    fi
    echo "$builder builds $name:$tag"
    # Options are words.
    # shellcheck disable=SC2086
    "$builder" build $format ${BUILD_OPTIONS:-} --file deploy/docker/Dockerfile --build-arg "SERVICE=$service" \
        --build-arg "GPU=${GPU:-}" --tag "$name:$tag" .
done
