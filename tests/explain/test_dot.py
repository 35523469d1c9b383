"""DOT text of programs before and after fusion."""

from __future__ import annotations

import re

from polyfuse import expr
from polyfuse.affine import Affine, dimension
from polyfuse.dtypes import f32
from polyfuse.explain.dot import Frame, dot
from polyfuse.expr import Argument, Call, Program
from polyfuse.scop import Scop
from polyfuse.scop_builder import build_scop

M, N = Affine.symbol("M"), Affine.symbol("N")


def softmax_parts(name: str = "softmax") -> Scop:
    """Values 0 to 5: x, m, d, e, s, y."""
    x = expr.input_(0, (M, N), f32)
    m = expr.reduce_("max", [x], [1])
    d = expr.map_("subtract", [x, expr.view(m, (M, N), [dimension(0)])])
    e = expr.map_("exp", [d])
    s = expr.reduce_("sum", [e], [1])
    y = expr.map_("divide", [e, expr.view(s, (M, N), [dimension(0)])])
    names = {node.digest: name for node, name in zip((m, d, e, s, y), "mdesy", strict=True)}
    return build_scop(Program(name, (Argument("x", (M, N), f32),), (y,), ("y",), names=names))


def nodes(text: str) -> set[str]:
    return set(re.findall(r"^ +(\w+) \[label", text, re.MULTILINE))


def edges(text: str) -> set[tuple[str, str]]:
    return set(re.findall(r"^ +(\w+) -> (\w+)", text, re.MULTILINE))


def test_before_fusion_every_statement_is_a_node() -> None:
    text = dot(softmax_parts())
    assert nodes(text) == {f"v{k}" for k in range(6)}
    pairs = ["01", "02", "12", "23", "34", "35", "45"]
    assert edges(text) == {(f"v{source}", f"v{reader}") for source, reader in pairs}
    assert r'v1 [label="m = max(x, axis=1)\nf32[M]"];' in text
    assert r'v0 [label="x\nf32[M, N]", shape=ellipse];' in text
    assert "v5 " in text and text.count("peripheries=2") == 1


def test_one_kernel_reads_and_writes_memory_once() -> None:
    text = dot(softmax_parts(), [Frame("softmax", frozenset(range(1, 6)), frozenset({5}))])
    assert text.count("subgraph cluster_") == 1 and 'label="softmax";' in text
    bold = set(re.findall(r"(\w+) -> (\w+) \[style=bold", text))
    assert bold == {("v0", "k0_v1"), ("v0", "k0_v2")}


def test_recomputed_values_stand_dashed_in_each_kernel() -> None:
    """Statistics are stored, the rows recomputed."""
    first = Frame("statistics", frozenset({1, 2, 3, 4}), frozenset({1, 4}))
    text = dot(softmax_parts(), [first, Frame("rows", frozenset({2, 3, 5}), frozenset({5}))])
    dashed = set(re.findall(r"(\w+) \[.*dashed", text))
    assert dashed == {"k0_v2", "k0_v3", "k1_v2", "k1_v3"}
    assert '  k0_v4 -> k1_v5 [style=bold, label="f32[M]"];' in text
    assert nodes(text) >= {node for edge in edges(text) for node in edge}


def test_library_calls_stand_outside_the_kernels() -> None:
    x = expr.input_(0, (N,), f32)
    called = expr.opaque(Call("sort"), [expr.map_("negative", [x])], (N,), f32)
    y = expr.map_("exp", [called])
    scop = build_scop(Program("f", (Argument("x", (N,), f32),), (y,), ("y",)))
    ids = {s.name: s.id for s in scop.statements}
    negative, sort, exp = ids["negative"], next(k for n, k in ids.items() if n in ("sort", "opaque")), ids["exp"]
    singles = [Frame(str(v), frozenset({v}), frozenset({v})) for v in (negative, exp)]
    text = dot(scop, singles)
    assert edges(text) == {("v0", f"k0_v{negative}"), (f"k0_v{negative}", f"v{sort}"), (f"v{sort}", f"k1_v{exp}")}
    assert f"v{sort} [label=" in text and "shape=component" in text


def test_names_are_quoted() -> None:
    text = dot(softmax_parts('the "soft\\max"'))
    assert text.startswith(r'digraph "the \"soft\\max\"" {')
    unquoted = re.sub(r'"(\\.|[^"\\])*"', "", text)
    assert '"' not in unquoted and unquoted.count("{") == unquoted.count("}") == 1


def test_text_depends_on_the_program_alone() -> None:
    assert dot(softmax_parts()) == dot(softmax_parts())
