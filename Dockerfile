# Anchorscope with CUDA. torch brings the CUDA libraries; the driver is the host's.
#
#   docker build --tag anchorscope .
#   docker run --rm --gpus all --volume "$PWD:/project" anchorscope
FROM nvidia/cuda:13.0.1-base-ubuntu24.04

# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git python3 python3-venv \
    && rm -rf /var/lib/apt/lists/* \
    && python3 -m venv /opt/venv
ENV PATH=/opt/venv/bin:$PATH

WORKDIR /opt/anchorscope
COPY requirements.lock ./
RUN pip install --no-cache-dir --requirement requirements.lock
COPY pyproject.toml README.md LICENSE Snakefile config.yaml ./
COPY anchorscope anchorscope
COPY envs envs
COPY resources resources
COPY rules rules
COPY scripts scripts
COPY validation validation
RUN pip install --no-cache-dir --no-deps --no-build-isolation --editable .

# Results, and your own config.yaml, lie in the folder that is mounted here.
WORKDIR /project
ENV HF_HOME=/project/hub
CMD ["snakemake", "--snakefile", "/opt/anchorscope/Snakefile", "--cores", "all", "--quiet", "host", "reason"]
