# Quantizes with a package that cannot live beside the server's:
#   docker build --file deploy/docker/quantize.Dockerfile --build-arg BACKEND=autoawq --tag headrace-quantize .
#   docker run --rm --volume "$PWD/models:/models" headrace-quantize /models/plain /models/awq
# BACKEND is autoawq, autogptq or gptqmodel. `headrace quantize` without a backend needs none of this.
ARG PYTHON=3.11-slim-bookworm

FROM python:${PYTHON} AS wheel
WORKDIR /source
RUN apt-get update && apt-get install --yes --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
COPY pyproject.toml README.md LICENSE hatch_build.py ./
COPY libs libs
COPY services services
RUN --mount=type=cache,target=/root/.cache/pip \
    pip wheel --disable-pip-version-check --no-deps --wheel-dir /wheels .

FROM python:${PYTHON}
ARG BACKEND=autoawq
# Packages without wheels are built, and their kernels when they are first used.
RUN apt-get update && apt-get install --yes --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
COPY constraints.txt /build/
COPY --from=wheel /wheels /wheels
ENV BACKEND=${BACKEND} \
    PATH=/opt/headrace/bin:${PATH} \
    XDG_DATA_HOME=/opt \
    HOME=/tmp \
    PYTHONUNBUFFERED=1
RUN --mount=type=cache,target=/root/.cache/pip \
    python -m venv /opt/headrace \
    && /opt/headrace/bin/python -m pip install --disable-pip-version-check \
        --constraint /build/constraints.txt "$(ls /wheels/headrace-*.whl)[local,torch]" \
    && HOME=/root /opt/headrace/bin/python -m headrace.quantization.backends.backend_environment "${BACKEND}"
WORKDIR /models
ENTRYPOINT ["/bin/sh", "-c", "exec headrace quantize --backend \"${BACKEND}\" \"$@\"", "headrace"]
