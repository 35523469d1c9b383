"""The printed text: what it looks like, and that index arithmetic means what the affine expression means."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from polyfuse import dtypes
from polyfuse.affine import Affine, FloorDiv, digit
from polyfuse.codegen.indices import INTEGER, SCALAR, SLOTTED, Indices, Symbol
from polyfuse.codegen.literals import literal
from polyfuse.codegen.names import Namer, function_name
from polyfuse.codegen.printer import print_kernel, print_module
from polyfuse.codegen.statements import Assign, lines
from polyfuse.codegen.tree import Binary, Hoist, Literal, Name, Node, Unary, spliced, text
from polyfuse.dtypes import DType, f32, f64, i64
from polyfuse.kernel import Index, Kernel, Let, Load, Slot, Store
from tests.kernel import kernels
from tests.kernel.kernels import B0, K, M, N, T, V, array, sizes

POINTWISE = '''\
ROW4 = Tile((4,), (1,), vector=4)


# y = max(alpha * x + 0.1, 0)
def scale(x, y, N, alpha):
    at = 512 * block(0) + 4 * thread()
    mask = at + 3 < N
    xv = load(x, at, ROW4, mask=mask)
    scaled = xv * alpha + 0.1  # line 3
    store(y, at, ROW4, maximum(scaled, 0.0), mask=mask)
'''

SOFTMAX = '''\
INF = float("inf")
COLUMN4 = Tile((4,), (128,))


# softmax over rows
# y[M, N] = exp(x - m) / s
def softmax(x, y, M, N):
    at = block(0) * N + thread()
    c = slots((4,), 0)
    mask = thread() + 128 * c < N
    xv = load(x, at, COLUMN4, mask=mask, other=-INF)
    most = reduce_max(xv, (0,))
    m = threads_max(most, 127, 128)  # row maximum
    e = exp(xv - m)
    part = reduce_sum(e, (0,))
    s = threads_sum(part, 127, 128)  # row sum
    store(y, at, COLUMN4, e / s, mask=mask)
'''

MATMUL = '''\
COLUMN2 = Tile((1, 2, 1), (0, 8 * Size("K"), 0))
COLUMN4 = Tile((1, 1, 4), (0, 0, 8))
COLUMN2_2 = Tile((1, 2, 1), (0, 8, 0))
TILE8X2 = Tile((8, 2, 1), (16, 8, 0))
TILE8X4 = Tile((8, 1, 4), (32, 0, 8))
TILE2X4 = Tile((1, 2, 4), (0, 8 * Size("N"), 8))


def matmul(a, b, bias, c, M, N, K):
    b1 = block(0) // (N // 32)
    ty = thread() >> 3
    row = 16 * b1 + ty
    tx = thread() & 7
    b0 = block(0) % (N // 32)
    col = 32 * b0 + tx
    left = shared(float32, 128)
    right = shared(float32, 256)
    acc = full((1, 2, 4), 0.0, float32)
    for kt in range(K // 8):
        row_2 = 8 * kt + ty
        av = load(a, row * K + 8 * kt + tx, COLUMN2, (K,))
        bv = load(b, row_2 * N + col, COLUMN4)
        barrier()
        store(left, 16 * tx + ty, COLUMN2_2, av)
        store(right, tx + 32 * ty, COLUMN4, bv)
        barrier()
        x = load(left, ty, TILE8X2)
        w = load(right, tx, TILE8X4)
        acc = contract(acc, x, w, (0,))
    bias_2 = load(bias, col, COLUMN4)
    sum_ = acc + bias_2
    store(c, row * N + col, TILE2X4, maximum(sum_, 0.0), (N,))
'''

COLUMN_SUM = '''\
COLUMN8 = Tile((8,), (Size("N"),))
CELL = Tile((1,), (0,))


def column_sum(x, partial, counter, y, M, N):
    b1 = block(0) // ((N + 63) // 64)
    row = 8 * b1
    b0 = block(0) % ((N + 63) // 64)
    col = 64 * b0 + thread()
    cols = col < N
    r = slots((8,), 0)
    xv = load(x, row * N + col, COLUMN8, (N,), mask=cols & (row + r < M))
    sum_ = reduce_sum(xv, (0,))
    store(partial, b1 * N + col, CELL, sum_, mask=cols)
    last = elect(counter, b0, (M + 7) // 8)
    if last:
        total = full((1,), 0.0, float32)
        for k in range((M + 7) // 8):
            part = load(partial, k * N + col, CELL, mask=cols)
            total = total + part
        store(y, col, CELL, total, mask=cols)
'''

DIVERGENT = '''\
CELL = Tile((), ())


def divergent(load_, max_):
    at = 64 * block(0) + thread()
    lambda_ = load(load_, at, CELL)
    if thread() & 31 >= 8:
        lambda_ = -lambda_
    else:
        lambda_ = lambda_ + 1.0
    store(max_, at, CELL, lambda_)
'''


@pytest.mark.parametrize(
    ("case", "golden"),
    [
        (kernels.pointwise, POINTWISE),
        (kernels.softmax, SOFTMAX),
        (kernels.matmul, MATMUL),
        (kernels.column_sum, COLUMN_SUM),
        (kernels.divergent, DIVERGENT),
    ],
)
def test_golden(case: object, golden: str) -> None:
    assert callable(case)
    assert print_kernel(case().kernel) == golden


def test_kernels_of_one_module_share_constants() -> None:
    shown = print_module([kernels.argmax().kernel, replace(kernels.histogram().kernel, name="other")])
    assert shown.count("CELL = Tile") == 1 and shown.count("\ndef ") == 2


def test_products_of_sizes_are_computed_once() -> None:
    index = (B0, digit("r"), 4 * T + V)
    kernel = Kernel(
        "planes", (array("x", M, N, K), array("y", M, N, K, out=True), *sizes("M", "N", "K")),
        (M,), 32, (), (Slot("r", 2), Slot("v", 4)), (),
        (Load("xv", "x", index, vector=4), Store("y", index, kernels.ref("xv"), vector=4)),
    )  # fmt: skip
    assert print_kernel(kernel).splitlines()[3:] == [
        "def planes(x, y, M, N, K):",
        "    KN = K * N",
        "    at = block(0) * KN + 4 * thread()",
        "    xv = load(x, at, TILE2X4, (K,))",
        "    store(y, at, TILE2X4, xv, (K,))",
    ]


def test_wide_index_values_are_computed_wide() -> None:
    kernel = Kernel(
        "numbers", (array("y", N, dtype=i64, out=True), *sizes("N")), (N.ceildiv(32),), 32, (), (), (),
        (Let("n", Index(32 * B0 + T + N, i64)), Store("y", (32 * B0 + T,), kernels.ref("n", i64))),
    )  # fmt: skip
    assert "    n = N + 32 * cast(block(0), int64) + cast(thread(), int64)" in print_kernel(kernel)
    assert "    n = at + N" in print_kernel(replace(kernel, index_bits=64))


# ---------------------------------------------------------------------------------------------- expressions


def random_affine(rng: random.Random, names: list[str], depth: int = 0) -> Affine:
    total = Affine.of(rng.randint(-9, 9))
    for name in rng.sample(names, rng.randint(1, len(names))):
        total += Affine.symbol(name) * rng.choice([-65, -4, -1, 1, 1, 2, 8, 32])
    if depth < 2 and rng.random() < 0.5:
        inner, divisor = random_affine(rng, names, depth + 1), rng.choice([2, 3, 8, 32])
        total += rng.choice([inner // divisor, inner % divisor, (inner % divisor) * 5])
    return total


KINDS = {"N": INTEGER, "$k": INTEGER, "$b0": SCALAR, "$t": SCALAR, "$v": SLOTTED}
FUNCTIONS = {
    "floor_divide": lambda a, b: a // b,
    "remainder": lambda a, b: a % b,
    "inside": lambda *conditions: all(c >= 0 for c in conditions),
}


def random_indices(rng: random.Random) -> Indices:
    """Symbols whose nodes are sums themselves, and bases: both ask for brackets."""
    symbols: dict[str, Symbol] = {}
    for name, kind in KINDS.items():
        plain = Name(name.strip("$"))
        symbols[name] = Symbol(Binary("-", plain, Literal(0)) if rng.random() < 0.3 else plain, kind, kind)
    base = 32 * B0 + T
    hoist = Hoist(Indices(symbols).tree(base), "at")
    return Indices(symbols, ((base, hoist),))


def evaluated(node: Node, values: dict[str, int]) -> int | bool:
    """`node` after hoisting, by Python's own parser."""
    body = "\n".join(line.strip() for line in lines([Assign(("result",), node)], Namer()))
    namespace: dict[str, object] = FUNCTIONS | {n.strip("$"): v for n, v in values.items()}
    exec(body, namespace)
    result = namespace["result"]
    assert isinstance(result, int | bool)
    return result


@pytest.mark.parametrize("seed", range(300))
def test_index_text_means_what_the_expression_means(seed: int) -> None:
    rng = random.Random(seed)
    affine, indices = random_affine(rng, list(KINDS)), random_indices(rng)
    for _ in range(5):
        values = {n: rng.randint(-40, 40) for n in KINDS}
        number = affine.evaluate(values)
        assert evaluated(indices.tree(affine), values) == number
        assert evaluated(indices.condition(affine), values) == (number >= 0)


def test_remainders_are_found_again() -> None:
    indices = Indices({n: Symbol(Name(n.strip("$")), kind, 0) for n, kind in KINDS.items()})
    assert text(indices.tree(5 * ((T + V) % 8))) == "5 * (t + v & 7)"
    assert text(indices.tree((T + V) % 6 + 1)) == "remainder(t + v, 6) + 1"
    assert text(indices.tree(T // 4)) == "t >> 2"
    assert text(indices.tree(digit("k") // 4)) == "k // 4"
    assert isinstance((T // 4).terms[0][0], FloorDiv)


def random_tree(rng: random.Random, depth: int) -> Node:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice([Name("a"), Name("b"), Literal(rng.randint(-3, 3))])
    if rng.random() < 0.2:
        return Unary(rng.choice("-~"), random_tree(rng, depth - 1))
    operator = rng.choice(["+", "-", "*", "&", "|", "^", "<", "<=", "=="])
    return Binary(operator, random_tree(rng, depth - 1), random_tree(rng, depth - 1))


def meaning(node: Node, a: int, b: int) -> int:
    match node:
        case Name(name):
            return {"a": a, "b": b}[name]
        case Literal(value):
            assert isinstance(value, int)
            return value
        case Unary(operator, operand):
            value = meaning(operand, a, b)
            return -value if operator == "-" else ~value
        case Binary(operator, left, right):
            x, y = meaning(left, a, b), meaning(right, a, b)
            table = {"+": x + y, "-": x - y, "*": x * y, "&": x & y, "|": x | y, "^": x ^ y}
            return int(table[operator] if operator in table else {"<": x < y, "<=": x <= y, "==": x == y}[operator])
        case _:
            raise AssertionError


@pytest.mark.parametrize("seed", range(200))
def test_brackets_keep_the_tree(seed: int) -> None:
    rng = random.Random(seed)
    tree = random_tree(rng, 5)
    for _ in range(4):
        a, b = rng.randint(-9, 9), rng.randint(-9, 9)
        assert eval(text(tree), {"a": a, "b": b}) == meaning(tree, a, b)


def test_no_bracket_is_redundant() -> None:
    a, b = Name("a"), Name("b")
    assert text(Binary("-", Binary("-", a, b), Binary("*", a, b))) == "a - b - a * b"
    assert text(Binary("-", a, Binary("-", a, b))) == "a - (a - b)"
    assert text(spliced(a, Binary("-", a, b))) == "a + a - b"
    assert text(Unary("-", Binary("+", a, b))) == "-(a + b)"


# ---------------------------------------------------------------------------------------------- names, literals


def test_names_are_free_identifiers() -> None:
    namer = Namer()
    wanted = ["x", "x", "lambda", "sum", "reduce_sum", "float32", "h'", "2nd", "", "INF"]
    assert [namer.fresh(n) for n in wanted] == [
        "x", "x_2", "lambda_", "sum_", "reduce_sum_", "float32_", "h_", "v2nd", "value", "INF_",
    ]  # fmt: skip


def test_a_kernel_does_not_hide_an_operation() -> None:
    names = ["softmax", "exp", "sum", "add", "load", "lambda"]
    assert [function_name(n) for n in names] == ["softmax", "exp_", "sum", "add", "load_", "lambda_"]
    assert "def exp_(" in print_kernel(replace(kernels.softmax().kernel, name="exp"))


@pytest.mark.parametrize(
    ("value", "dtype", "shown"),
    [
        (0.1, f32, "0.1"),
        (float(np.float32(0.1)), f32, "0.1"),
        (float(np.float32(0.1)), f64, "0.10000000149011612"),
        (1.0, f32, "1.0"),
        (-0.0, f32, "-0.0"),
        (float("-inf"), f32, "-INF"),
        (float("nan"), f64, "NAN"),
        (3, dtypes.u8, "3"),
        (1, dtypes.bool_, "True"),
        (2, f32, "2.0"),
    ],
)
def test_literals(value: float, dtype: DType, shown: str) -> None:
    assert text(literal(value, dtype)) == shown


def test_single_precision_literals_round_to_themselves() -> None:
    bits = np.random.default_rng(0).integers(0, 2**31, 2000, dtype=np.uint32)
    for value in bits.view(np.float32):
        if np.isfinite(value):
            assert np.float32(float(text(literal(float(value), f32)))) == value
