#!/usr/bin/env bash
# A gate before deployment: ends with 0 where the fork added and lost nothing.
#
#   pre-deploy.sh FORK UPSTREAM [REPORT-FOLDER]
#   pre-deploy.sh /srv/sglang v0.5.17
#   pre-deploy.sh /opt/venv/lib/python3.11/site-packages pypi:0.5.17
#
# Needs `audit` on the PATH. Exit status: 0 go, 1 findings, 2 wrong usage, 3 could not decide.
set -euo pipefail

fork=${1:?the folder of the fork}
upstream=${2:?the release it came from: a tag, pypi:VERSION or a folder}
reports=${3:-.}
mkdir -p "$reports"

# What upstream has as well is for the weekly look, not for this gate. --isolated: the tree under
# audit has no say in how it is audited. --strict: what could not be read stops the deployment.
status=0
audit -C "$fork" --upstream "$upstream" \
    --origin introduced,regressed,unknown \
    --isolated --strict \
    -o table -o "json=$reports/audit.json" || status=$?

case $status in
    0) echo "audit: go" ;;
    1) echo "audit: stop, read the findings above" ;;
    *) echo "audit: stop, it could not be decided (status $status)" ;;
esac >&2
exit "$status"
