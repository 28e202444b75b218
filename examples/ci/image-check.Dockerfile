# Audits the sglang that an image holds, against the release it was made from: a build that ends
# where the audit ends. Nothing of the image is run.
#
#   docker build -f image-check.Dockerfile \
#       --build-arg IMAGE=registry.example.org/sglang:deployed \
#       --build-arg UPSTREAM=pypi:0.5.17 .
#
# PACKAGES is the folder in the image that holds sglang/; of one that is installed in place, as in
# upstream's own images, that is /sgl-workspace/sglang/python.
ARG IMAGE=registry.example.org/sglang:deployed
FROM ${IMAGE} AS deployed

FROM python:3.11-slim
ARG AUDIT_SOURCE=git+https://git.example.org/sglang-fork-audit
RUN apt-get update && apt-get install --yes --no-install-recommends git
RUN python -m pip install --no-cache-dir "$AUDIT_SOURCE"

ARG PACKAGES=/usr/local/lib/python3.11/site-packages
COPY --from=deployed ${PACKAGES}/sglang /deployed/sglang

ARG UPSTREAM=pypi:0.5.17
RUN audit -C /deployed --upstream "$UPSTREAM" --origin introduced,regressed,unknown \
    --isolated --strict -o table -o json=/audit.json
