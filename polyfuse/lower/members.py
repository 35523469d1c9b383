"""Several kernels as one launch: each keeps its body and has a range of blocks of its own.

w: grid 16   b: grid ceil(n/512)   ->   grid 16 + ceil(n/512):   blocks 0 .. 15 run w, those from 16 on run b
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from polyfuse.affine import Affine
from polyfuse.bindings import Binding, FromBlocks, FromProduct
from polyfuse.kernel import ArrayParameter, Kernel, Member, Parameter, SizeParameter

Part = tuple[Kernel, tuple[Binding, ...]]


def side_by_side(name: str, parts: Sequence[Part]) -> Part:
    """One kernel that runs `parts`, which have the same threads per block and no clusters, in ranges of its blocks.

    A parameter that several of them are given alike is one parameter; where a range begins is a number, or one more
    parameter.  The bindings are those of the result's parameters.
    """
    table = _Parameters()
    members: list[Member] = []
    for number, (kernel, bindings) in enumerate(parts):
        first = table.blocks(f"first_{number}", parts[:number])
        members.append(Member(kernel, table.taken(kernel, bindings), first))
    blocks = table.blocks("blocks", parts)
    kernels = [kernel for kernel, _ in parts]
    whole = Kernel(
        name=name,
        parameters=tuple(table.parameters),
        grid=(blocks,),
        threads=kernels[0].threads,
        digits=(),
        slots=(),
        shared=tuple(b for kernel in kernels for b in kernel.shared),
        body=(),
        index_bits=kernels[0].index_bits,
        minimum_blocks=max(kernel.minimum_blocks for kernel in kernels),
        members=tuple(members),
    )
    return whole, tuple(table.bindings)


@dataclass(slots=True)
class _Parameters:
    """Parameters of the whole with what they are bound to; names are given once."""

    parameters: list[Parameter] = field(default_factory=list)
    bindings: list[Binding] = field(default_factory=list)
    known: dict[tuple[Parameter, Binding], int] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)

    def taken(self, kernel: Kernel, bindings: Sequence[Binding]) -> tuple[int, ...]:
        """The positions of a member's parameters; sizes first, for shapes and strides speak of them."""
        pairs = list(zip(kernel.parameters, bindings, strict=True))
        at = {p.name: self._position(p, b) for p, b in pairs if isinstance(p, SizeParameter)}
        sizes = {name: self.parameters[k].name for name, k in at.items()}
        at |= {p.name: self._position(_renamed(p, sizes), b) for p, b in pairs if not isinstance(p, SizeParameter)}
        return tuple(at[p.name] for p in kernel.parameters)

    def blocks(self, name: str, parts: Sequence[Part]) -> Affine:
        """The blocks of `parts` together: a number, or a parameter."""
        grids = tuple(k.grid for k, _ in parts)
        if all(extent.is_constant for grid in grids for extent in grid):
            return Affine.of(FromBlocks(grids, ((),) * len(grids)).value({}))
        binding = FromBlocks(grids, tuple(_products(*part) for part in parts))
        return Affine.symbol(self.parameters[self._position(SizeParameter(name), binding)].name)

    def _position(self, parameter: Parameter, binding: Binding) -> int:
        key = (parameter, binding)
        if key not in self.known:
            wanted = (f"{parameter.name}_{k}" if k else parameter.name for k in count())
            name = next(n for n in wanted if n not in self.names)
            self.names.add(name)
            self.known[key] = len(self.parameters)
            self.parameters.append(replace(parameter, name=name))
            self.bindings.append(binding)
        return self.known[key]


def _renamed(parameter: Parameter, sizes: Mapping[str, str]) -> Parameter:
    """With the whole's names of sizes."""
    if not isinstance(parameter, ArrayParameter):
        return parameter
    values = {old: Affine.symbol(new) for old, new in sizes.items() if old != new}
    strides = parameter.strides
    if strides is not None:
        strides = tuple(sizes[s] if isinstance(s, str) else s for s in strides)
    return replace(parameter, shape=tuple(e.substitute(values) for e in parameter.shape), strides=strides)


def _products(kernel: Kernel, bindings: Sequence[Binding]) -> tuple[tuple[str, tuple[Affine, ...]], ...]:
    """The symbols of a kernel's grid that stand for products of sizes: the launch is told of all of them."""
    pairs = zip(kernel.parameters, bindings, strict=True)
    return tuple((p.name, b.factors) for p, b in pairs if isinstance(b, FromProduct))
