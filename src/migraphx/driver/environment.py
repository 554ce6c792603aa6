"""The environment variables that are read, in one table, and a warning about those that are not."""

from __future__ import annotations

import logging
import os
from difflib import get_close_matches

log = logging.getLogger(__name__)

VARIABLES = {
    "OPENMGX_CACHE": "folder of compiled objects; default $XDG_CACHE_HOME/openmgx or ~/.cache/openmgx",
    "CXX": "the C++ compiler; default the first of g++, clang++, the ziglang wheel",
    "OPENMGX_CXXFLAGS": "appended to every compilation",
    "OMP_NUM_THREADS": "threads of a run; default affinity and cgroup quota",
    "NO_COLOR": "no colours, whatever the terminal (driver)",
    "MIGRAPHX_TIME_PASSES": "log what each pass cost (driver)",
    "MIGRAPHX_TRACE_MATCHES": "log each rewrite rule that applied or refused (driver)",
    "TORCH_MIGRAPHX_LOGLEVEL": "level of all of torch_migraphx's messages (DEBUG, INFO, ...), which then go to stderr",
    "TORCH_MIGRAPHX_LOG_INTERPRETER": "level of what MGXInterpreter says of nodes",
    "TORCH_MIGRAPHX_LOG_FX_LOWER": "level of what lower_to_mgx says",
    "TORCH_MIGRAPHX_LOG_DYNAMO_LOWER": "level of what the backends of torch.compile say",
    "TORCH_MIGRAPHX_LOG_DYNAMO_PASSES": "level of what the passes on Dynamo's graphs say",
    "TORCH_MIGRAPHX_LOG_PARTITIONER": "level of which nodes run where, and why",
}
LOGGERS = {"MIGRAPHX_TIME_PASSES": "migraphx.passes.manager", "MIGRAPHX_TRACE_MATCHES": "migraphx.passes.rewrite"}
ON = frozenset({"1", "enable", "enabled", "yes", "true"})  # as upstream reads them


def loggers_asked_for() -> list[str]:
    """The loggers whose debug messages a variable asks for."""
    return [logger for name, logger in LOGGERS.items() if os.environ.get(name, "").lower() in ON]


def warn_of_unknown() -> None:
    """One warning a variable that begins with MIGRAPHX_ and that nothing here reads."""
    for name in sorted(os.environ):
        if name.startswith("MIGRAPHX_") and name not in VARIABLES:
            near = get_close_matches(name, VARIABLES, 1, 0.8)
            log.warning("%s has no effect in OpenMGX%s", name, f"; did you mean {near[0]}?" if near else "")
