"""The vocabulary of the fragment language (docs/fragments.md): what a printed kernel may say."""

from __future__ import annotations

from polyfuse.dtypes import DType
from polyfuse.scalars import FUNCTIONS, MONOIDS

DTYPE_NAMES: dict[str, str] = {
    "bool": "boolean",
    **{f"i{n}": f"int{n}" for n in (8, 16, 32, 64)},
    **{f"u{n}": f"uint{n}" for n in (8, 16, 32, 64)},
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
}

INFIX: dict[str, str] = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "bitwise_and": "&",
    "bitwise_or": "|",
    "bitwise_xor": "^",
    "left_shift": "<<",
    "right_shift": ">>",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "equal": "==",
    "not_equal": "!=",
}
PREFIX: dict[str, str] = {"negative": "-", "invert": "~"}

_STRUCTURE = (
    "Tile Size thread block slots load take store atomic advance shared full constant cast bitcast contract barrier "
    "warp_barrier cluster_arrive cluster_wait exchange own_cells put_cells get_cells elect inside scalar INF NAN"
).split()
COPIES = ("copy_async", "copy_cut", "commit_copies", "wait_copies")
CUT = ("load_across", "load_cut", "load_neighbours", "store_cut", "where_cut")
KNOWN = ("at_least", "at_most")
ORDERED = ("in_turn", "leave", *(f"carry_{name}" for name, monoid in MONOIDS.items() if monoid.state == 1))
ON_DEVICES = (*COPIES, *CUT, *KNOWN, *ORDERED, "evict_last")
"""What kernels of a GPU alone have, copies that run beside its threads, vectors that masks cut, what is known of some
slots, blocks that begin in order and a policy of its cache: the runtime of CPUs has none of it."""

VOCABULARY: frozenset[str] = frozenset(
    [*_STRUCTURE, *ON_DEVICES, *DTYPE_NAMES.values(), *FUNCTIONS]
    + [f"{family}_{monoid}" for family in ("reduce", "threads", "scan") for monoid in MONOIDS]
)
"""Every name that the runtimes define; no user name may hide one."""

CALLED: frozenset[str] = VOCABULARY - set(INFIX) - set(PREFIX) | {"range", "float"}
"""Names that printed text may call: a kernel of such a name would hide the operation."""


def dtype_text(dtype: DType) -> str:
    """The spelling of `dtype` in printed kernels."""
    return DTYPE_NAMES[dtype.name]
