"""Random programs of several results over a matrix, a row and a column, as text, and sizes with much to do."""

from __future__ import annotations

from random import Random

SIZES = [(1_000_000, 64), (8192, 8192), (300, 400_000), (100_000, 256), (16_384, 4096), (2_000_000, 28), (5000, 3001)]
UNARY = ["{0} * 2", "np.abs({0})", "np.maximum({0}, 0)", "{0} + 1", "-{0}", "{0} * {0}", "({0} >= 1) * 1.0"]
VIEWS = [("{0}[:, -1]", "i"), ("{0}[:, 0]", "i"), ("{0}[-1]", "j"), ("{0}[:, ::-1]", "ij")]
"""Of matrices, and what the result spans."""
SPREAD = {"ij": "{0}", "j": "{0}[None, :]", "i": "{0}[:, None]", "": "{0}"}


def drawn(dice: Random) -> str:
    """A function of a matrix ``x``, a row ``g`` and a column ``h``; its values stay small whole numbers, or nearly."""
    spans, lines = {"x": "ij", "g": "j", "h": "i"}, list[str]()
    for number in range(dice.randint(4, 11)):
        name, other = dice.choice(list(spans)[-4:]), dice.choice(list(spans))
        span, both, kind = spans[name], {spans[name], spans[other]}, dice.random()
        if kind < 0.25:
            text = dice.choice(UNARY).format(name)
        elif kind < 0.55:
            left, right = SPREAD[spans[name]].format(name), SPREAD[spans[other]].format(other)
            left, right = (name, other) if len(both) == 1 or "" in both else (left, right)
            span = "ij" if "ij" in both or both >= {"i", "j"} else max(both)
            text = dice.choice(["{0} + {1}", "{0} - {1}", "np.clip({0} * {1}, -8, 8)", "np.maximum({0}, {1})"])
            text = text.format(left, right)
        elif kind < 0.85 and span:
            axis = dice.choice(["0", "1", "None"]) if span == "ij" else "0"
            span = {"0": "j", "1": "i", "None": ""}[axis] if span == "ij" else ""
            text = dice.choice(["np.clip(np.sum({0}, {1}), -9, 9)", "np.max({0}, {1})", "np.mean({0}, {1})"])
            text = text.format(name, axis)
        elif kind < 0.92 and span == "ij":
            text = f"np.clip(np.cumsum({name}, {dice.choice('01')}), -9, 9)"
        elif span == "ij":
            text, span = dice.choice(VIEWS)
            text = text.format(name)
        else:
            continue
        lines.append(f"    v{number} = {text}\n")
        spans[f"v{number}"] = span
    made = [name for name in spans if name not in "xgh"]
    results = sorted({*dice.sample(made, min(len(made), dice.randint(1, 3))), *made[-1:]})
    return f"def program(x, g, h):\n{''.join(lines)}    return ({', '.join(results)},)\n" if results else ""
