"""The public functions `jit` and `spec`; everything below them is loaded when one of them is called."""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, overload

from polyfuse.options import Environment, Options, read_environment

if TYPE_CHECKING:
    from polyfuse.frontends.numpy_like.specs import ArraySpec, ScalarSpec
    from polyfuse.run.dispatch import Jitted
    from polyfuse.run.services import Services


@overload
def jit(function: Callable[..., Any], /) -> Jitted: ...
@overload
def jit(**options: Any) -> Callable[[Callable[..., Any]], Jitted]: ...
def jit(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Compile a function of arrays: ``@jit`` or ``@jit(fuse="pointwise", donate=("x",))``.

    The options are the fields of `polyfuse.options.Options`.  Nothing is traced or compiled before the first call.
    Raises OptionError for unknown options and bad environment variables.
    """
    if function is None:
        return lambda decorated: jit_with(decorated, options)
    return jit_with(function, options)


def jit_with(function: Callable[..., Any], options: dict[str, Any]) -> Jitted:
    """As `jit`, with the options as a dictionary; environment variables fill in what it does not say."""
    from polyfuse.run.dispatch import Jitted

    environment = _environment()
    mirrored = {"backend": environment.backend, "autotune": environment.tune, "verify": environment.verify}
    return Jitted(function, Options().updated(mirrored | options), _services())


def spec(text: str) -> ArraySpec | ScalarSpec:
    """A shape specification such as ``f32[N, 4096]``: for `Jitted.plan`, in place of an array.  Raises SpecError."""
    from polyfuse.frontends.numpy_like.specs import spec as parse

    return parse(text)


@functools.cache
def _environment() -> Environment:
    """The environment variables, read once; POLYFUSE_LOG takes effect here."""
    environment = read_environment()
    for name in environment.log:
        log_to_stderr(name)
    return environment


@functools.cache
def _services() -> Services:
    from polyfuse.face.joined import services

    return services(_environment())


def log_to_stderr(name: str) -> None:
    """Print what the logger ``polyfuse.<name>`` says (``fusion``, ``schedule``, ``code`` or ``tune``)."""
    logger = logging.getLogger(f"polyfuse.{name}")
    logger.setLevel(logging.INFO)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    logger.addHandler(handler)
