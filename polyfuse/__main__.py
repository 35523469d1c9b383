"""`python -m polyfuse info`: versions, devices and the cache, for a bug report."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from polyfuse.info import gather
from polyfuse.version import __version__


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse `arguments` (those of the process by default) and print what they ask for."""
    parser = argparse.ArgumentParser(prog="python -m polyfuse", description="A polyhedral loop-fusion compiler.")
    parser.add_argument("--version", action="version", version=f"polyfuse {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("info", help="versions, devices, cache directory and size")
    parser.parse_args(arguments)
    print(gather())


if __name__ == "__main__":
    main()
