# What every rule file uses: this run's plan and what is stale in it, its paths, and the constraints on names.

import sys

sys.path.insert(0, workflow.basedir)

from scripts import workflow_steps as steps

stale = steps.begin(config, workflow)
plan = stale.plan
why = stale.reasons  # of a job, for its message
CASE = (
    "{root}/{operator}/{case}/{key}"  # root: prof, the cache, or one night's own folder
)


wildcard_constraints:
    # Not the sweep's own pages beside the operators'; `summary-2` and `index.x` are operators.
    operator=r"(?!(?:summary|index)(?:/|\.(?:md|roofline\.svg)$))[A-Za-z0-9][A-Za-z0-9_.-]*",
    case=r"[A-Za-z0-9][A-Za-z0-9_.-]*",
    environment=r"[0-9a-f]{8}",
    key=r"[0-9a-f]{12}-[a-z]+-[0-9a-f]{8}",
    root=r"prof|nights/[A-Za-z0-9][A-Za-z0-9_.-]*/(?:first|second)",
