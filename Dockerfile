# OpenMGX for CPUs: ./build_image.sh. The first stage builds the wheel, the second one holds it, torch and a compiler.
ARG PYTHON=3.12

FROM python:${PYTHON}-slim-bookworm AS build
WORKDIR /build
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:${PYTHON}-slim-bookworm
# Target cpu compiles C++ when a program is compiled.
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++=4:12.* \
    && rm -rf /var/lib/apt/lists/*
# TORCH=0 leaves torch out: the engine, the driver and ONNX need none.
ARG TORCH=1
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
COPY requirements/constraints.txt /tmp/constraints.txt
COPY --from=build /wheels /wheels
RUN if [ "$TORCH" = 1 ]; then \
        pip install --no-cache-dir -c /tmp/constraints.txt --extra-index-url "$TORCH_INDEX" torch; \
    fi \
    && pip install --no-cache-dir -c /tmp/constraints.txt /wheels/*.whl \
    && rm -r /wheels /tmp/constraints.txt
RUN useradd --uid 1000 --create-home --home-dir /app openmgx
USER 1000
WORKDIR /app
CMD ["migraphx-driver", "doctor"]
