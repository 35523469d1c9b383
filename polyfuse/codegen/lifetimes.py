"""One name per lifetime in a printed kernel, for compilers that make single assignments out of names.

if inside:  x = load(a)            if inside:  x_0 = load(a)
            y = x * x                          y_0 = x_0 * x_0
else:       x = load(a, mask)  ->  else:       x_1 = load(a, mask)
            y = x * x                          y_1 = x_1 * x_1

Numba walks the whole function once for every name that is assigned twice: a stencil with 500 such names took 36 s of
compilation, and takes none of it with names of their own (Numba 0.68, `numba.core.ssa`).
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

Names = frozenset[str]
_NOTHING: Names = frozenset()


def separated(source: str) -> ast.Module:
    """The module of `source`, in whose functions a body assigns names of its own wherever no other code sees them.

    Positions stay those of `source`.  A function with statements outside the printed language stays as it is.
    """
    module = ast.parse(source)
    for function in module.body:
        if isinstance(function, ast.FunctionDef):
            counts = Counter(name for node in ast.walk(function) for name in _assigned(node))
            again = frozenset(name for name, count in counts.items() if count > 1)
            if again and _is_printed(function.body):
                taken = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
                _Separation(again, taken | {a.arg for a in function.args.args}).block(function.body, _NOTHING)
    return module


def _is_printed(body: Sequence[ast.stmt]) -> bool:
    """Whether only assignments, calls, counting loops and branches occur."""
    for statement in body:
        match statement:
            case ast.For(target=ast.Name(), body=inner, orelse=[]):
                known = _is_printed(inner)
            case ast.If(body=inner, orelse=orelse):
                known = _is_printed(inner) and _is_printed(orelse)
            case ast.Assign() | ast.Expr() | ast.Pass():
                known = True
            case _:
                known = False
        if not known:
            return False
    return True


def _assigned(node: ast.AST) -> list[str]:
    """Names that this node itself assigns."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.For) else []
    return [n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)]


def _read(node: ast.AST | None) -> Names:
    if node is None:
        return _NOTHING
    return frozenset(n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))


@dataclass(frozen=True, slots=True)
class _Effect:
    """Of statements: names they may assign, names they surely assign, and names read before they surely were."""

    some: Names
    sure: Names
    exposed: Names


def _effect(statement: ast.stmt) -> _Effect:
    match statement:
        case ast.For(iter=count, body=body):
            inner, own = _effects(body), frozenset(_assigned(statement))
            return _Effect(inner.some | own, _NOTHING, _read(count) | (inner.exposed - own))
        case ast.If(test=test, body=body, orelse=orelse):
            one, other = _effects(body), _effects(orelse)
            exposed = _read(test) | one.exposed | other.exposed
            return _Effect(one.some | other.some, one.sure & other.sure, exposed)
        case _:
            names = frozenset(_assigned(statement))
            return _Effect(names, names, _read(statement))


def _effects(body: Iterable[ast.stmt]) -> _Effect:
    some, sure, exposed = _NOTHING, _NOTHING, _NOTHING
    for effect in map(_effect, body):
        exposed |= effect.exposed - sure
        some, sure = some | effect.some, sure | effect.sure
    return _Effect(some, sure, exposed)


@dataclass(slots=True)
class _Separation:
    """Renames in place; `again`: names assigned more than once, `taken`: names that no new one may be."""

    again: Names
    taken: set[str]
    numbers: Counter[str] = field(default_factory=Counter)

    def block(self, body: Sequence[ast.stmt], after: Names) -> None:
        """`after`: names that are read once `body` is done."""
        for statement in reversed(body):
            effect = _effect(statement)
            match statement:
                case ast.For(body=inner):
                    around = _effects(inner).exposed - frozenset(_assigned(statement))
                    self._rename([statement], [statement.target, *inner], effect.some - around - after)
                    self.block(inner, after | _effects(inner).exposed)
                case ast.If(body=inner, orelse=orelse):
                    for branch in (inner, orelse):
                        own = _effects(branch)
                        self._rename(branch, branch, own.some - own.exposed - after)
                        self.block(branch, after)
                case _:
                    pass
            after = (after - effect.sure) | _effect(statement).exposed

    def _rename(self, scope: Sequence[ast.stmt], nodes: Sequence[ast.AST], names: Names) -> None:
        """New names for those of `names` that are also assigned elsewhere."""
        if not scope:
            return
        new = {name: self._fresh(name) for name in sorted(names & self.again)}
        if not new:
            return
        for root in nodes:
            for node in ast.walk(root):
                if isinstance(node, ast.Name) and node.id in new:
                    node.id = new[node.id]

    def _fresh(self, name: str) -> str:
        while True:
            found = f"{name}_{self.numbers[name]}"
            self.numbers[name] += 1
            if found not in self.taken:
                self.taken.add(found)
                self.again |= {found}
                return found
