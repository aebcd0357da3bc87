#!/usr/bin/env bash
# cancel.sh NAME…: delete jobs and their pods.
exec kubectl delete job --ignore-not-found --wait=false "$@"
