"""Pages of docs/ whose code runs: a ```text block shows what the ```python block before it prints.

python -m tests.project.pages docs/PAGE.md      writes what the code prints into the page
"""

from __future__ import annotations

import io
import linecache
import re
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```\n(?:\n?^```text\n(?P<output>.*?)^```\n)?", re.DOTALL | re.MULTILINE)


def executed(page: Path) -> str:
    """The text of the page with every output block as the code prints it now; blocks share their names."""
    text = page.read_text()
    names: dict[str, Any] = {"__name__": page.stem, "__file__": str(page.resolve())}

    def block(found: re.Match[str]) -> str:
        first = text.count("\n", 0, found.start("code"))
        printed = _printed(found["code"], f"{page}:{first + 1}", "\n" * first, names)
        if found["output"] is None:
            assert not printed, f"{page.name}, line {first + 1}: prints, but no ```text block follows"
            return found[0]
        return found[0][: found.start("output") - found.start()] + printed + "```\n"

    return BLOCK.sub(block, text)


def _printed(code: str, file: str, above: str, names: dict[str, Any]) -> str:
    """What the code prints.  Its lines keep their numbers in the page, and can be read back by whoever shows them."""
    source = above + code
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    captured = io.StringIO()
    with redirect_stdout(captured):
        exec(compile(source, file, "exec"), names)
    return captured.getvalue()


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        target = Path(argument)
        target.write_text(executed(target))
