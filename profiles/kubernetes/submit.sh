#!/usr/bin/env bash
# submit.sh CORES MEMORY_MB JOBSCRIPT: create a job in Kubernetes from job.yaml and print its name.
set -euo pipefail
literal() { printf '%s' "$1" | sed 's/[&|\\]/\\&/g'; } # for the right side of sed's s|…|…|
name="goldenprof-$(printf '%s' "$3 $$ $(date +%s%N)" | sha256sum | cut -c1-20)"
sed -e "s|@NAME@|$name|g" -e "s|@CORES@|$1|g" -e "s|@MEMORY_MB@|$2|g" \
    -e "s|@JOBSCRIPT@|$(literal "$3")|g" -e "s|@FOLDER@|$(literal "$PWD")|g" \
    "$(dirname "$0")/job.yaml" | kubectl create -f - >&2
echo "$name"
