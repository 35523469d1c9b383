"""The rules of kernels that run several others in ranges of their blocks."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from polyfuse.bindings import FAULT
from polyfuse.errors import KernelError
from polyfuse.kernel import ArrayParameter, Kernel, Member, SizeParameter


def verify_members(kernel: Kernel) -> None:
    """Checks how the members of `kernel` fit together; each of them is checked as a kernel elsewhere.

    Raises:
        KernelError: operations of its own, blocks of another form, buffers that are not those of the members, a
            parameter that is given where another kind is taken, a range that does not begin at a known block, or two
            members that store the same array or touch what the other stores.
    """
    if kernel.turns or any(member.kernel.turns for member in kernel.members):
        _refuse(kernel, "blocks that begin in order are a launch of their own")
    if kernel.body or kernel.digits or kernel.slots or kernel.cluster > 1:
        _refuse(kernel, "a kernel of members has operations, digits, slots or clusters of its own")
    if kernel.shared != tuple(b for member in kernel.members for b in member.kernel.shared):
        _refuse(kernel, "the shared buffers are not those of the members, in order")
    sizes = {p.name for p in kernel.parameters if isinstance(p, SizeParameter)}
    for member in kernel.members:
        _check_frame(kernel, member)
        if not member.first.names() <= sizes:
            _refuse(kernel, f"{member.kernel.name} begins at {member.first}, which is no parameter")
    firsts = [m.first.constant for m in kernel.members if m.first.is_constant]
    if not kernel.members[0].first.is_constant or firsts[0] != 0 or firsts != sorted(firsts):
        _refuse(kernel, "the ranges of the members do not follow each other from block 0 on")
    _check_stores(kernel)


def _check_frame(kernel: Kernel, member: Member) -> None:
    own = member.kernel
    if (own.threads, own.index_bits, own.cluster) != (kernel.threads, kernel.index_bits, 1) or own.members:
        _refuse(kernel, f"{own.name} has blocks of another form")
    if len(member.arguments) != len(own.parameters):
        _refuse(kernel, f"{own.name} takes {len(own.parameters)} arguments, not {len(member.arguments)}")
    for parameter, position in zip(own.parameters, member.arguments, strict=True):
        given = kernel.parameters[position]
        plain = replace(given, name=parameter.name)
        if isinstance(plain, ArrayParameter) and isinstance(parameter, ArrayParameter):
            plain = replace(plain, shape=parameter.shape, strides=parameter.strides)
        if plain != parameter:
            _refuse(kernel, f"{own.name} takes {parameter.name}, and is given {given.name}")


def _check_stores(kernel: Kernel) -> None:
    """No array is stored by one member and given to another but the flag of faults, of which any will do."""
    owner: dict[int, int] = {}
    for number, member in enumerate(kernel.members):
        for position in member.arguments:
            given = kernel.parameters[position]
            if not isinstance(given, ArrayParameter) or given.readonly or given.name == FAULT:
                continue
            if owner.setdefault(position, number) != number:
                _refuse(kernel, f"{given.name} is stored by one member and touched by another")


def _refuse(kernel: Kernel, sentence: str) -> NoReturn:
    raise KernelError(f"kernel {kernel.name}: {sentence}")
