"""One name per lifetime in a printed kernel, for compilers that make single assignments out of names.

if inside:  x = load(a)            if inside:  x_0 = load(a)
            y = x * x                          y_0 = x_0 * x_0
else:       x = load(a, mask)  ->  else:       x_1 = load(a, mask)
            y = x * x                          y_1 = x_1 * x_1

On a CPU Numba walks the whole function once for every name that is assigned twice: a stencil with 500 such names took
36 s of compilation, and takes none of it with names of their own (Numba 0.68, `numba.core.ssa`).  For CUDA, where no
single assignments are made, a name has one type in all of a function: branches need names of their own.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

Names = frozenset[str]
_NOTHING: Names = frozenset()


def separated(source: str) -> ast.Module:
    """The module of `source`, in whose functions a body assigns names of its own wherever no other code sees them.

    Positions stay those of `source`.  A function with statements outside the printed language stays as it is.
    """
    module = ast.parse(source)
    for function in module.body:
        if isinstance(function, ast.FunctionDef) and _is_printed(function.body):
            separation = _Separation({a.arg for a in function.args.args})
            leaves = [leaf for s in function.body for leaf in separation.leaves_of(s)]
            counts = Counter(leaf.id for leaf in leaves if isinstance(leaf.ctx, ast.Store))
            separation.again = {name for name, count in counts.items() if count > 1}
            separation.taken |= {leaf.id for leaf in leaves}
            if separation.again:
                separation.block(function.body, _NOTHING)
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


def _leaves(node: ast.AST, found: list[ast.Name]) -> None:
    """Add the names in an expression, or in a statement without others inside, to `found`."""
    if isinstance(node, ast.Name):
        found.append(node)
        return
    for name in node._fields:
        child = getattr(node, name)
        for each in child if isinstance(child, list) else (child,):
            if isinstance(each, ast.AST):
                _leaves(each, found)


def _read(leaves: Iterable[ast.Name]) -> Names:
    return frozenset([leaf.id for leaf in leaves if isinstance(leaf.ctx, ast.Load)])


@dataclass(frozen=True, slots=True)
class _Effect:
    """Of statements: names they may assign, names they surely assign, and names read before they surely were."""

    some: Names
    sure: Names
    exposed: Names


@dataclass(slots=True)
class _Separation:
    """Renames in place; `again`: names assigned more than once, `taken`: names that no new one may be.  `leaves`: the
    names in what was walked, which a walk costs more than all else."""

    taken: set[str]
    again: set[str] = field(default_factory=set)
    numbers: Counter[str] = field(default_factory=Counter)
    leaves: dict[ast.AST, list[ast.Name]] = field(default_factory=dict)

    def block(self, body: Sequence[ast.stmt], after: Names) -> None:
        """`after`: names that are read once `body` is done."""
        for statement in reversed(body):
            effect = self._effect(statement)
            match statement:
                case ast.For(target=ast.Name(id=own), body=inner):
                    around = self._effects(inner).exposed - {own}
                    of_all = [*self._inside(statement.target), *self._of_all(inner)]
                    self._rename(of_all, effect.some - around - after)
                    self.block(inner, after | self._effects(inner).exposed)
                case ast.If(body=inner, orelse=orelse):
                    for branch in (inner, orelse):
                        within = self._effects(branch)
                        self._rename(self._of_all(branch), within.some - within.exposed - after)
                        self.block(branch, after)
                case _:
                    pass
            after = (after - effect.sure) | self._effect(statement).exposed

    def leaves_of(self, statement: ast.stmt) -> Iterator[ast.Name]:
        """The names in a statement and in those inside."""
        match statement:
            case ast.For():
                yield from self._inside(statement.target)
                yield from self._inside(statement.iter)
                yield from self._of_all(statement.body)
            case ast.If():
                yield from self._inside(statement.test)
                yield from self._of_all([*statement.body, *statement.orelse])
            case _:
                yield from self._inside(statement)

    def _of_all(self, body: Sequence[ast.stmt]) -> Iterator[ast.Name]:
        for statement in body:
            yield from self.leaves_of(statement)

    def _inside(self, node: ast.AST) -> list[ast.Name]:
        """The names in an expression, or in a statement without others inside."""
        if node not in self.leaves:
            self.leaves[node] = []
            _leaves(node, self.leaves[node])
        return self.leaves[node]

    def _effect(self, statement: ast.stmt) -> _Effect:
        match statement:
            case ast.For(target=ast.Name(id=own), iter=count, body=body):
                inner = self._effects(body)
                exposed = _read(self._inside(count)) | (inner.exposed - {own})
                return _Effect(inner.some | {own}, _NOTHING, exposed)
            case ast.If(test=test, body=body, orelse=orelse):
                one, other = self._effects(body), self._effects(orelse)
                exposed = _read(self._inside(test)) | one.exposed | other.exposed
                return _Effect(one.some | other.some, one.sure & other.sure, exposed)
            case _:
                leaves = self._inside(statement)
                names = frozenset([leaf.id for leaf in leaves if isinstance(leaf.ctx, ast.Store)])
                return _Effect(names, names, _read(leaves))

    def _effects(self, body: Iterable[ast.stmt]) -> _Effect:
        some, sure, exposed = _NOTHING, _NOTHING, _NOTHING
        for effect in map(self._effect, body):
            exposed |= effect.exposed - sure
            some, sure = some | effect.some, sure | effect.sure
        return _Effect(some, sure, exposed)

    def _rename(self, leaves: Iterable[ast.Name], names: Names) -> None:
        """New names for those of `names` that are also assigned elsewhere."""
        leaves = list(leaves)
        if not leaves:
            return
        new = {name: self._fresh(name) for name in sorted(names & self.again)}
        for leaf in leaves if new else ():
            leaf.id = new.get(leaf.id, leaf.id)

    def _fresh(self, name: str) -> str:
        while True:
            found = f"{name}_{self.numbers[name]}"
            self.numbers[name] += 1
            if found not in self.taken:
                self.taken.add(found)
                self.again.add(found)
                return found
