"""The whole text of every error of index notation, as `test_errors` for NumPy code.

``python -m tests.frontend.test_index_errors`` rewrites the goldens after a deliberate change.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import polyfuse as pf
from tests.frontend.test_errors import message, read_goldens

GOLDEN = Path(__file__).with_name("index_errors.txt")

# Name, specs, and the body of ``def f(x, y)``.
CASES: list[tuple[str, str, str]] = [
    (
        "turns over other indices",
        "f32[N, M]",
        "u = pf.zeros(x.shape[0])\nw = x.copy()\nu[i], w[i, j] = w[i - 1, 0], u[i - 1] + x[i, j]\nreturn w",
    ),
    (
        "turns on several lines",
        "f32[N]",
        "u = x * 2\nv = x * 3\na = v[i - 1]\nb = u[i - 1]\nu[i] = a\nv[i] = b\nreturn u + v",
    ),
    (
        "turns along two indices",
        "f32[N, N]",
        "u = x * 2\nv = x * 3\nu[i, j], v[i, j] = v[i - 1, j], u[i, j - 1]\nreturn u",
    ),
    ("new values of another view", "f32[N]", "u = x * 2\nrest = u[1:]\nu[i] = rest[i - 2] + x[i]\nreturn u"),
    ("free index", "f32[N, M]", "c = pf.empty()\nc[i] = x[i, k]\nreturn c"),
    ("sizes of one index differ", "f32[4, 5]", "c = pf.empty()\nc[i] = x[i, i]\nreturn c"),
    ("letters of one index differ", "f32[N] f32[M]", "c = pf.empty()\nc[i] = x[i] + y[i]\nreturn c"),
    (
        "out of bounds",
        "f32[12]",
        'q = pf.indices("q", within=x.shape[0])\nc = pf.zeros(12)\nc[q] = x[q + 1]\nreturn c',
    ),
    (
        "out of bounds for some sizes",
        "f32[N~12]",
        'q = pf.indices("q", within=x.shape[0])\nc = pf.zeros(x.shape)\nc[q] = x[q + 5]\nreturn c',
    ),
    ("target out of bounds", "f32[8]", 'q = pf.indices("q", within=9)\nc = pf.zeros(8)\nc[q] = x[0]\nreturn c'),
    ("branch on an index", "f32[N]", "return x if i > 0 else -x"),
    ("branch on an element", "f32[N]", "c = pf.empty()\nc[i] = x[i] if x[i] > 0 else 0\nreturn c"),
    ("index as a number", "f32[N]", "return x[int(i)]"),
    ("index in range()", "f32[N]", "return sum(x[k] for k in range(i))"),
    ("element of an element", "f32[N, M]", "c = pf.empty()\nc[i, j] = x[i][j]\nreturn c"),
    ("element as a result", "f32[N]", "return x[i] * 2"),
    ("element and array", "f32[N] f32[N]", "c = pf.empty()\nc[i] = x[i] + y\nreturn c"),
    ("function of arrays", "f32[N]", "c = pf.empty()\nc[i] = np.cumsum(x[i])\nreturn c"),
    ("whole array to an element", "f32[N] f32[N]", "c = pf.zeros((3, 3))\nc[i, 0] = x\nreturn c"),
    ("slice among indices", "f32[N, M]", "c = pf.empty()\nc[i] = pf.sum(j, x[i, 1:])\nreturn c"),
    ("too few subscripts", "f32[N, M]", "c = pf.empty()\nc[i] = x[i]\nreturn c"),
    ("subscript of floats", "f32[N] f32[M]", "c = pf.empty()\nc[i] = x[y[i]]\nreturn c"),
    ("reduction over a number", "f32[N, M]", "c = pf.empty()\nc[i] = pf.sum(3, x[i, j])\nreturn c"),
    ("reduction without its index", "f32[N, M]", "c = pf.empty()\nc[i] = pf.sum(k, x[i, 0])\nreturn c"),
    ("position along two indices", "f32[N, M, 4]", "c = pf.empty()\nc[i] = pf.argmax((j, k), x[i, j, k])\nreturn c"),
    ("reduced and free", "f32[N, N]", "c = pf.empty()\nc[i] = pf.sum(i, x[i, i])\nreturn c"),
    ("range that does not follow", "f32[N]", "c = pf.empty()\nc[i] = x[0] + i\nreturn c"),
    (
        "range stated by values",
        "f32[N]",
        'q = pf.indices("q", within=(0, x[0]))\nc = pf.empty()\nc[q] = x[q]\nreturn c',
    ),
    (
        "range stated by an index",
        "f32[N, N]",
        'q = pf.indices("q", within=(0, i))\nc = pf.empty()\nc[i] = pf.sum(q, x[i, q])\nreturn c',
    ),
    (
        "two ranges of one name",
        "f32[N]",
        'a = pf.indices("a", within=3)\nb = pf.indices("a", within=4)\nc = pf.zeros(9)\nc[a] = x[b]\nreturn c',
    ),
    ("names of indices", "f32[N]", 'q = pf.indices("2q")\nreturn x'),
    ("first assignment of a part", "f32[N]", "c = pf.empty()\nc[i + 1] = x[i]\nreturn c"),
    ("first assignment that starts late", "f32[N]", "c = pf.empty()\nc[i] = x[i] - x[i - 1]\nreturn c"),
    ("read before an assignment", "f32[N]", "c = pf.empty()\nreturn c + x"),
    ("one element written twice", "f32[N, M]", "c = pf.zeros(x.shape[0])\nc[i] = x[i, j]\nreturn c"),
    ("one element per pair", "f32[N, M]", "c = pf.zeros(x.shape[0] + x.shape[1])\nc[i + j] = x[i, j]\nreturn c"),
    ("a recurrence along two indices", "f32[N, M]", "s = x.copy()\ns[i, j] = s[i - 1, j] * s[i, j - 1]\nreturn s"),
    (
        "a recurrence over all states",
        "f32[N, M] f32[M, M]",
        "s = x.copy()\ns[i, j] = pf.sum(k, y[j, k] * s[i - 1, k])\nreturn s",
    ),
    ("a recurrence by a table", "i64[N] i64[M]", "s = x.copy()\ns[i] = y[s[i - 1]]\nreturn s"),
    ("a recurrence out of bounds", "f32[N]", "s = x.copy()\ns[i] = pf.where(i > 2, s[i - 1] * 2, s[i - 1])\nreturn s"),
    ("old and new values", "f32[N]", "s = x.copy()\nn = x.shape[0]\ns[i] = s[n - 1 - i] + 1\nreturn s"),
    ("order by values", "f32[N] i64[N]", "s = x.copy()\ns[i] = s[y[i]] + 1\nreturn s"),
    ("scatter that reads", "f32[N] i64[N]", "s = x.copy()\ns[y[i]] = s[i] + 1\nreturn s"),
    ("write to an argument", "f32[N]", "x[i] = 0\nreturn x"),
    ("subtracts over another index", "f32[N, M]", "c = pf.zeros(x.shape[0])\nc[i] /= x[i, j]\nreturn c"),
    ("inside of a sum", "f32[N]", "c = pf.empty()\nc[i] = pf.where(pf.inside(x[i] + 1), x[i], 0)\nreturn c"),
    ("ufunc method", "f32[N]", "c = pf.empty()\nc[i] = np.add.reduce(x[i])\nreturn c"),
    (
        "values under a guard",
        "f32[N, N] i64[N]",
        "c = pf.zeros(x.shape)\nc[i, j] = pf.where(j < i, x[y[i], i - j - 1], 0)\nreturn c",
    ),
]

NAMES = dict(zip("ijk", pf.indices("i j k"), strict=True), pf=pf)


@pytest.mark.parametrize(("name", "specs", "body"), CASES, ids=[name for name, _, _ in CASES])
def test_error(name: str, specs: str, body: str) -> None:
    assert message(name, specs, body, NAMES) == read_goldens(GOLDEN)[name]


def test_goldens_name_no_other_errors() -> None:
    assert list(read_goldens(GOLDEN)) == [name for name, _, _ in CASES]


if __name__ == "__main__":
    GOLDEN.write_text("\n".join(f"=== {name}\n{message(name, s, body, NAMES)}\n" for name, s, body in CASES))
