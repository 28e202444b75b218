#!/usr/bin/env bash
# The weekly drift report: what moved goes to standard output, which cron mails or a chat takes.
#
#   drift-weekly.sh FORK UPSTREAM [FOLDER]
#   17 6 * * 1  /srv/audit/drift-weekly.sh /srv/sglang v0.5.17 /srv/audit/drift
#
# FOLDER keeps drift.jsonl, a line a run, which the charts are drawn from: back it up. Beside it lie
# the latest drift.html and drift.json. Needs `audit` with its charts on the PATH:
#   pip install 'sglang-fork-audit[html] @ git+https://git.example.org/sglang-fork-audit'
set -euo pipefail

fork=${1:?the checkout of the fork}
upstream=${2:?the release it came from, a tag}
folder=${3:-.}
mkdir -p "$folder"

# The report is against the newest release tag that the repository has. A tag that upstream moved, or
# that the fork gave to something else, is not overwritten: it stops the script, which says which.
git -C "$fork" fetch --quiet --no-tags \
    "${UPSTREAM_URL:-https://github.com/sgl-project/sglang}" 'refs/tags/v*:refs/tags/v*'

audit drift -C "$fork" --upstream "$upstream" --isolated --fail-on never \
    --history "$folder/drift.jsonl" \
    -o markdown -o "html=$folder/drift.html" -o "json=$folder/drift.json"
