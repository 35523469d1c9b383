"""``POLYFUSE_DUMP=dir``: every plan with all its levels as files, and what the loggers say of it.

dir/softmax_h200_1f0c2a9b/
    program.txt  statements.txt  schedule.txt  places.txt  kernels.txt  source.py  explain.txt
    before.dot   after.dot       kernel_name.ptx
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from polyfuse.errors import OptionError
from polyfuse.plan import Launch, Plan
from polyfuse.text.kernels import kernel_text
from polyfuse.text.levels import places_text, program_text, scop_text

schedule_log = logging.getLogger("polyfuse.schedule")
code_log = logging.getLogger("polyfuse.code")

Ptx = Callable[[Launch, Plan], str]


def log_plan(plan: Plan) -> None:
    """The schedule to ``polyfuse.schedule``, the kernels to ``polyfuse.code``; no text is made unless they listen."""
    if schedule_log.isEnabledFor(logging.INFO):
        schedule_log.info("%s on %s\n%s", plan.program.name, plan.target.name, plan)
    if code_log.isEnabledFor(logging.INFO):
        code_log.info("%s on %s\n%s", plan.program.name, plan.target.name, plan.source())


def dump_plan(plan: Plan, directory: Path, ptx: Ptx | None = None) -> Path:
    """Write the plan into a folder of its own and return it.  `ptx` compiles one launch, where that is possible.

    Raises OptionError where the folder cannot be written.
    """
    folder = directory / f"{plan.program.name}_{plan.target.name}_{plan.key.hex()[:8]}"
    files = {
        "program.txt": program_text(plan.program),
        "statements.txt": scop_text(plan.scop),
        "schedule.txt": str(plan),
        "places.txt": "\n\n".join(map(places_text, plan.kernels)),
        "kernels.txt": "\n\n".join([kernel_text(launch.kernel) for launch in plan.launches]),
        "source.py": plan.source(),
        "explain.txt": plan.explain(),
        "before.dot": plan.dot(fused=False),
        "after.dot": plan.dot(),
    }
    if ptx is not None:
        files |= {f"{launch.kernel.name}.ptx": ptx(launch, plan) for launch in plan.launches}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(f"{text.rstrip()}\n")
    except OSError as error:
        message = f"POLYFUSE_DUMP={str(directory)!r}: {error.strerror}"
        raise OptionError(message, advice="name a folder that can be written") from None
    return folder
