"""Failures of polyfuse as standalone scripts: the program as data, what was asked for, and the traceback.

A script needs polyfuse and nothing of the user's: no function, no arrays.  Run, it fails as the program did.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from polyfuse.cache.encoding import UnstorableError, decode, encode
from polyfuse.expr import Program
from polyfuse.run.failure import Attempt
from polyfuse.version import __version__

_NOTHING = Program("nothing", (), (), ())


def write(attempt: Attempt, error: BaseException, folder: str = "") -> str:
    """The path of a new script, readable by this user only, in `folder` or a new folder for temporary files; empty
    where it could not be written."""
    with contextlib.suppress(OSError):
        place = Path(folder or tempfile.mkdtemp(prefix="polyfuse-"))
        place.mkdir(parents=True, exist_ok=True)
        handle, path = tempfile.mkstemp(prefix=f"reproduce_{_plain(attempt.program.name)}_", suffix=".py", dir=place)
        with os.fdopen(handle, "w") as file:
            file.write(script(attempt, error))
        return path
    return ""


def script(attempt: Attempt, error: BaseException) -> str:
    """Python text that fails as `attempt` did."""
    told = "".join(traceback.format_exception(error)).rstrip()
    try:
        parts = (attempt.program, attempt.target, attempt.options, attempt.layouts, attempt.backend)
        data = json.dumps(encode(parts, _NOTHING), separators=(",", ":"))
        body = f"from polyfuse.face.reproduce import again\n\nagain({_wrapped(data)})\n"
    except (UnstorableError, RecursionError) as reason:
        body = f"raise SystemExit({f'this program cannot be written down: {reason}'!r})\n"
    comment = "\n".join(f"# {line}".rstrip() for line in told.splitlines())
    title = f"polyfuse {__version__} failed on {_plain(attempt.program.name)}; this script repeats it."
    return f'"""{title}"""\n\n{comment}\n\n{body}'


def again(data: str) -> None:
    """Plan, and compile where a back end was asked for, what `script` wrote down.  Raises what that raises."""
    from polyfuse.face.joined import backend
    from polyfuse.planning.planner import plan_program

    program, target, options, layouts, name = decode(_json(data), _NOTHING)
    plan = plan_program(program, target, options, layouts)
    for launch in plan.launches if name else ():
        backend(name).compile(launch, plan)
    print(f"{program.name}: no failure")


def _json(data: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(data)
    return found


def _wrapped(text: str) -> str:
    """A string literal in lines of bearable length."""
    lines = [text[k : k + 100] for k in range(0, len(text), 100)]
    return "\n" + "\n".join(f"    {line!r}" for line in lines) + "\n"


def _plain(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name)[:40]
