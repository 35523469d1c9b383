"""Kernels side by side in one launch, on both interpreters: each computes what it computes alone."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from polyfuse.affine import Affine
from polyfuse.backends.interpreter import run_kernel, run_source
from polyfuse.backends.interpreter.faults import KernelFault
from polyfuse.bindings import Binding, FromBlocks, FromBuffer, FromSize
from polyfuse.codegen.printer import print_kernel
from polyfuse.errors import KernelError
from polyfuse.kernel import Kernel, SizeParameter
from polyfuse.lower.members import side_by_side
from polyfuse.verify.kernel import verify_kernel
from tests.kernel import kernels

ALONE = {name: kernel for name, make in kernels.CASES.items() if not (kernel := make().kernel).turns}
PAIRS = [
    (a, b)
    for a, b in combinations(sorted(ALONE), 2)
    if ALONE[a].threads == ALONE[b].threads and ALONE[a].cluster == ALONE[b].cluster == 1
    if ALONE[a].index_bits == ALONE[b].index_bits
]


def bound(case: kernels.Case, prefix: str) -> tuple[Kernel, tuple[Binding, ...]]:
    """The kernel of a case with bindings that name its own arrays and sizes."""
    found: list[Binding] = []
    for p in case.kernel.parameters:
        if isinstance(p, SizeParameter):
            found.append(FromSize(Affine.symbol(p.name)))
        else:
            found.append(FromBuffer(f"{prefix}{p.name}"))
    return case.kernel, tuple(found)


def together(first: kernels.Case, second: kernels.Case) -> tuple[Kernel, kernels.Arrays, dict[str, int], dict]:
    """One launch of both with its arguments, by the names that it has for them.  The sizes of the second are made those
    of names of its own, as a launch has one value per symbol."""
    names = {n: f"{n}2" for n in second.sizes}
    parts = [bound(first, "a."), bound(second, "b.")]
    kernel, bindings = side_by_side("both", [parts[0], (parts[1][0], tuple(_own(b, names) for b in parts[1][1]))])
    grids = [[e.evaluate(c.sizes) for e in c.kernel.grid] for c in (first, second)]
    known = {**first.sizes, **{f"{n}2": v for n, v in second.sizes.items()}}
    arrays, sizes, scalars = {}, dict(known), {}
    for p, b in zip(kernel.parameters, bindings, strict=True):
        match b:
            case FromSize(expression):
                sizes[p.name] = expression.evaluate(known)
            case FromBlocks(some):
                sizes[p.name] = sum(int(np.prod(g)) for g in grids[: len(some)])
            case FromBuffer(name):
                case, own = (first if name[0] == "a" else second), name[2:]
                if own in case.arrays:
                    arrays[p.name] = case.arrays[own]
                else:
                    scalars[p.name] = case.scalars[own]
    for p, b in zip(kernel.parameters, bindings, strict=True):
        if isinstance(b, FromBuffer) and p.name in arrays:
            extents = getattr(p, "shape", ())
            sizes |= {e: n for x, n in zip(extents, arrays[p.name].shape, strict=True) if (e := str(x)) not in sizes}
    return kernel, arrays, sizes, scalars


def _own(binding: Binding, names: dict[str, str]) -> Binding:
    if not isinstance(binding, FromSize):
        return binding
    return FromSize(binding.expression.substitute({old: Affine.symbol(new) for old, new in names.items()}))


@pytest.mark.parametrize(("one", "other"), PAIRS, ids=map(" + ".join, PAIRS))
def test_two_kernels_in_one_launch_compute_what_they_compute_alone(one: str, other: str) -> None:
    first, second = kernels.CASES[one](), kernels.CASES[other]()
    kernel, arrays, sizes, scalars = together(first, second)
    verify_kernel(kernel)
    text = print_kernel(kernel)
    for way in ("direct", "printed"):
        given = {n: a.copy() for n, a in arrays.items()}
        if way == "direct":
            run_kernel(kernel, given, sizes, scalars, seed=1)
        else:
            run_source(text, "both", kernel, given, sizes, scalars, seed=1)
        for case, prefix, member in zip((first, second), "ab", kernel.members, strict=True):
            for name, expected in case.expected.items():
                position = [p.name for p in case.kernel.parameters].index(name)
                got = given[kernel.parameters[member.arguments[position]].name]
                np.testing.assert_allclose(
                    got.astype(np.float64), expected.astype(np.float64), atol=case.tolerance, rtol=case.tolerance,
                    err_msg=f"{way} {prefix} {name}",
                )  # fmt: skip


def pair() -> tuple[Kernel, kernels.Arrays, dict[str, int], dict]:
    return together(kernels.CASES[PAIRS[0][0]](), kernels.CASES[PAIRS[0][1]]())


def test_members_of_which_two_store_one_array_are_refused_and_race() -> None:
    case, again = kernels.CASES[PAIRS[0][0]](), kernels.CASES[PAIRS[0][0]]()
    kernel, _, sizes, scalars = together(case, again)
    first, second = kernel.members
    clash = replace(kernel, members=(first, replace(second, arguments=first.arguments)))
    arrays = {kernel.parameters[k].name: case.arrays[p.name] for p, k in zip(
        case.kernel.parameters, first.arguments, strict=True) if p.name in case.arrays}  # fmt: skip
    with pytest.raises(KernelError, match="stored by one member and touched by another"):
        verify_kernel(clash)
    unused = {p.name: np.zeros(a.shape, a.dtype) for p in kernel.parameters if p.name not in arrays
              for a in [case.arrays.get(p.name.removesuffix("_1"))] if a is not None}  # fmt: skip
    with pytest.raises(KernelFault):
        run_kernel(clash, {**unused, **arrays}, sizes, scalars)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda k: replace(k, threads=2 * k.threads), "blocks of another form"),
        (lambda k: replace(k, members=k.members[::-1]), "from block 0 on"),
        (lambda k: replace(k, members=(k.members[0], replace(k.members[1], first=Affine.symbol("Q")))), "begins at Q"),
        (lambda k: replace(k, members=(k.members[0], replace(k.members[1], arguments=()))), "arguments, not 0"),
        (lambda k: replace(k, body=k.members[0].kernel.body), "operations"),
        (lambda k: replace(k, turns="n"), "blocks that begin in order"),
    ],
)
def test_what_does_not_fit_together_is_refused(change, words: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(KernelError, match=words):
        verify_kernel(change(pair()[0]))
