"""Lines that move elements: views, regions, gathers, scatters, updates; and arrays made from nothing."""

from __future__ import annotations

import numpy as np

from polyfuse.fuzz.pool import Pool, Proposal
from polyfuse.fuzz.program import Line


def slices(pool: Pool, value: int) -> str:
    """An index of random slices, integers, new axes, or an ellipsis."""
    entries: list[str] = []
    for n in pool.values[value].shape:
        dice = pool.dice.random()
        if dice < 0.3:
            entries.append(":")
        elif dice < 0.4 and n:
            entries.append(str(pool.dice.randrange(-n, n)))
        elif dice < 0.55:
            entries.append(pool.dice.choice(["::-1", "::2", "1::2", "::-2", "::3", "-2::-3"]))
        else:
            low, high = pool.dice.randint(0, min(n, 3)), pool.dice.randint(0, min(n, 3))
            entries.append(f"{low or ''}:{-high if high else ''}{pool.dice.choice(['', '', ':2', ':3'])}")
        if pool.dice.random() < 0.05:
            entries.append("None")
    if entries and pool.dice.random() < 0.15:
        entries[0] = "..."
        entries[1:] = entries[2:] if len(entries) > len(pool.values[value].shape) else entries[1:]
    return ", ".join(entries) or "..."


def sliced(pool: Pool) -> Line | None:
    value = pool.some(rank=1)
    return None if value is None else Line("slice", f"{{0}}[{slices(pool, value)}]", (value,))


def permuted(pool: Pool) -> Line | None:
    value = pool.some(rank=1)
    if value is None:
        return None
    rank = pool.values[value].ndim
    a, b = pool.axis(value), pool.axis(value)
    text = pool.dice.choice(
        [
            "{0}.T",
            f"np.swapaxes({{0}}, {a}, {b})",
            f"np.moveaxis({{0}}, {a}, {b})",
            f"np.transpose({{0}}, {tuple(pool.dice.sample(range(rank), rank))})",
            f"np.flip({{0}}, {a})",
            "np.flip({0})",
            "np.rot90({0})",
            "np.fliplr({0})",
        ]
    )
    return Line("permute", text, (value,))


def reshaped(pool: Pool) -> Line | None:
    value = pool.some(rank=1)
    if value is None:
        return None
    shape = pool.values[value].shape
    axis = pool.dice.randrange(len(shape))
    n = shape[axis]
    factors = [k for k in range(2, min(n, 9)) if n % k == 0]
    options = ["{0}.ravel()", "{0}.reshape(-1)", "np.ravel({0})[::-1]", f"np.expand_dims({{0}}, {pool.axis(value)})"]
    if factors:
        k = pool.dice.choice(factors)
        split = [*map(str, shape[:axis]), str(k), str(n // k), *map(str, shape[axis + 1 :])]
        options += [f"{{0}}.reshape({', '.join(split)})"] * 3
    if len(shape) >= 2:
        options += ["{0}.reshape({0}.shape[0], -1)", "{0}.reshape(-1, {0}.shape[-1])", "{0}.reshape(-1)[::2]"]
        options += ["{0}.reshape({0}.shape[::-1])", "{0}.T.reshape(-1)"]
    if 1 in shape:
        options += ["np.squeeze({0})"] * 2
    return Line("reshape", pool.dice.choice(options), (value,))


def widened(pool: Pool) -> Line | None:
    value = pool.some(where=lambda a: a.size <= 300)
    if value is None:
        return None
    axis = pool.axis(value) if pool.values[value].ndim else 0
    options = ["{0}[..., None]", "{0}[None]", "np.broadcast_to({0}, (3, *{0}.shape))", "np.tile({0}, 2)"]
    options += [f"np.repeat({{0}}, 2, axis={axis})"] if pool.values[value].ndim else []
    options += ["np.tile({0}, (2, 1))"] if pool.values[value].ndim == 2 else []
    return Line("widen", pool.dice.choice(options), (value,))


def diagonals(pool: Pool) -> Line | None:
    value = pool.some(rank=2, where=lambda a: a.ndim == 2)
    if value is None:
        return None
    k = pool.dice.randint(-2, 2)
    options = [f"np.tril({{0}}, {k})", f"np.triu({{0}}, {k})", "np.diagonal({0})", "np.trace({0})", "np.diag({0})"]
    text = pool.dice.choice(options)
    return Line(text.split("(")[0], text, (value,))


def joined(pool: Pool) -> Line | None:
    value = pool.some(rank=1)
    if value is None:
        return None
    shape, axis = pool.values[value].shape, pool.axis(value)
    kept = shape[: axis % len(shape)] + shape[axis % len(shape) + 1 :]

    def fits(other: object) -> bool:
        s = other.shape  # type: ignore[attr-defined]
        return len(s) == len(shape) and s[: axis % len(s)] + s[axis % len(s) + 1 :] == kept

    other = pool.some(pool.values[value].dtype.kind, 1, fits)
    if other is None:
        return None
    same = pool.values[other].shape == shape
    text = f"np.concatenate([{{0}}, {{1}}], axis={axis})"
    if same and pool.dice.random() < 0.4:
        text = f"np.stack([{{0}}, {{1}}], axis={axis})"
    if pool.dice.random() < 0.2:
        text = f"np.concatenate([{{0}}, {{1}}, {{0}}], axis={axis})"
    return Line(text.split("(")[0], text, (value, other))


def padded(pool: Pool) -> Line | None:
    value = pool.some(rank=1)
    if value is None:
        return None
    shape = pool.values[value].shape
    axis = pool.axis(value)
    if pool.dice.random() < 0.4:
        return Line("np.roll", f"np.roll({{0}}, {pool.dice.randint(-3, 3)}, axis={axis})", (value,))
    widths = tuple((pool.dice.randint(0, 2), pool.dice.randint(0, 2)) for _ in shape)
    mode = pool.dice.choice(["constant", "edge", "reflect", "wrap", "symmetric"])
    if mode == "constant":
        text = f"np.pad({{0}}, {widths}, constant_values={pool.dice.randint(0, 2)})"
    else:
        text = f"np.pad({{0}}, {widths}, mode='{mode}')"
    return Line(f"np.pad {mode}", text, (value,))


def updated(pool: Pool) -> Line | None:
    """A copy of which a part is written."""
    value = pool.some(rank=1)
    if value is None:
        return None
    kind = pool.values[value].dtype.kind
    index = slices(pool, value)
    other = pool.some(kind)
    if other is None or pool.dice.random() < 0.5:
        change = pool.dice.choice(["= {0}[%s] * 2", "= 1", "+= 1", "*= 2", "= 0"])
        change = change.replace("%s", index) if kind != "b" else "= True"
        return Line("update", f"{{v}} = {{0}}.copy()\n{{v}}[{index}] {change}", (value,))
    change = pool.dice.choice(["=", "+=", "-="]) if kind != "b" else "="
    return Line("update", f"{{v}} = {{0}}.copy()\n{{v}}[{index}] {change} {{1}}", (value, other))


def in_place(pool: Pool) -> Line | None:
    """Memory of the program, or of a donated argument, is written through whatever views it has."""
    found = [k for k in pool.private if pool.values[k].ndim and pool.values[k].size]
    if not found:
        return None
    value = pool.dice.choice(found)
    kind = pool.values[value].dtype.kind
    other = pool.like(value, kind)
    index = slices(pool, value) if pool.dice.random() < 0.6 else "..."
    if other is None or pool.dice.random() < 0.4:
        change = "= True" if kind == "b" else pool.dice.choice(["+= 1", "*= 2", "= 0", f"= {{0}}[{index}][::-1]"])
        return Line("in place", f"{{0}}[{index}] {change}\n{{v}} = {{0}} + 0", (value,))
    change = pool.dice.choice(["=", "+=", "*="]) if kind != "b" else "="
    return Line("in place", f"{{0}}[{index}] {change} {{1}}\n{{v}} = {{0}} + 0", (value, other))


def gathered(pool: Pool) -> Line | None:
    value = pool.some(rank=1)
    index = pool.some("iu", where=lambda a: a.size <= 200)
    if value is None:
        return None
    shape, axis = pool.values[value].shape, pool.axis(value)
    n = f"{{0}}.shape[{axis}]"
    if index is None or pool.dice.random() < 0.25:
        text = pool.dice.choice(
            [
                f"np.take({{0}}, [0, -1], axis={axis})",
                f"np.take({{0}}, np.arange({n}) // 2, axis={axis})",
                "{0}[np.arange({0}.shape[0])[::-1]]",
                f"np.take_along_axis({{0}}, np.argmax({{0}}, axis={axis}, keepdims=True), axis={axis})",
            ]
        )
        return Line("gather fixed", text, (value,))
    options = [f"np.take({{0}}, {{1}} % {n}, axis={axis})", f"np.take({{0}}, {{1}}, axis={axis}, mode='clip')"]
    options += ["{0}[{1} % {0}.shape[0]]"]
    if len(shape) >= 2:
        options += ["{0}[{1} % {0}.shape[0], ({1} + 1) % {0}.shape[1]]", "{0}[:, {1} % {0}.shape[1]]"]
    if pool.values[index].shape == shape:
        options += [f"np.take_along_axis({{0}}, {{1}} % {n}, axis={axis})"] * 3
    return Line("gather", pool.dice.choice(options), (value, index))


def scattered(pool: Pool) -> Line | None:
    value = pool.some("iuf", 1)
    index = pool.some("iu", where=lambda a: a.size <= 200)
    if value is None or index is None:
        return None
    kind = pool.values[value].dtype.kind
    other = pool.some(kind)
    at = "{1} % {0}.shape[0]"
    if other is None or pool.dice.random() < 0.5:
        texts = [f"{{v}} = {{0}}.copy()\n{{v}}[{at}] = 2"]
        if pool.values[value].dtype != np.uint64:  # which NumPy takes through float64 to meet the int64 of 1
            texts += [f"{{v}} = {{0}}.copy()\nnp.{name}.at({{v}}, {at}, 1)" for name in ("add", "maximum", "minimum")]
        return Line("scatter", pool.dice.choice(texts), (value, index))
    updates = f"np.broadcast_to({{2}}, {{v}}[{at}].shape)"  # for NumPy's `at` reads behind operands that it broadcasts
    text = pool.dice.choice(
        [
            f"{{v}} = {{0}}.copy()\n{{v}}[{at}] = {{2}}",
            f"{{v}} = {{0}}.copy()\nnp.add.at({{v}}, {at}, {updates})",
            f"{{v}} = {{0}} * 0\nnp.add.at({{v}}, {at}, {updates})",
        ]
    )
    return Line("scatter", text, (value, index, other))


def made(pool: Pool) -> Line | None:
    """Arrays made from the sizes of others, and random numbers."""
    value = pool.some(rank=1, where=lambda a: a.size <= 500)
    if value is None:
        return None
    seed = pool.dice.randrange(100)
    text = pool.dice.choice(
        [
            "np.arange({0}.shape[0])",
            "np.arange({0}.shape[-1], dtype=f32) * 0.5",
            "np.ones({0}.shape, f32)",
            "np.zeros({0}.shape, i32)",
            "np.full({0}.shape, 2.5, f32)",
            "np.eye({0}.shape[0], dtype=f32)",
            "np.linspace(0, 1, {0}.shape[-1])",
            "np.tri({0}.shape[0])",
            f"pf.random.uniform(pf.random.key({seed}), {{0}}.shape)",
            f"pf.random.bits(pf.random.key({seed}), {{0}}.shape)",
            f"pf.random.randint(pf.random.key({seed}), {{0}}.shape, -5, 5)",
            f"pf.random.bernoulli(pf.random.key({seed}), 0.5, {{0}}.shape)",
            f"pf.random.normal(pf.random.key({seed}), {{0}}.shape)",
            "np.indices({0}.shape)[0]",
        ]
    )
    return Line(text.split("(")[0], text, (value,))


PROPOSALS: dict[Proposal, float] = {
    sliced: 4,
    permuted: 2.5,
    reshaped: 2.5,
    widened: 1,
    diagonals: 0.7,
    joined: 2,
    padded: 1.5,
    updated: 1.5,
    in_place: 1,
    gathered: 1.5,
    scattered: 2.4,
    made: 1,
}
