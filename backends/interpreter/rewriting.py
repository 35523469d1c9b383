"""Printed kernels as lock-step generators: the rewriting that lets plain Python text run for many threads at once.

Before::

    if last:
        total = total + load(...)
    barrier()

After::

    _condition = last
    for _ in _branch(_condition):
        total, = _assign(("total",), locals(), (total + load(...),))
    yield barrier()
"""

from __future__ import annotations

import ast
from types import CodeType


def lock_step(source: str, name: str) -> CodeType:
    """The module `source` with its function `name` rewritten to a generator function.

    It calls ``_branch(condition)`` (which runs a body once, with fewer threads active, or not at all) and
    ``_assign(names, variables, value)`` (which keeps the old value of threads that are not active).
    """
    module = ast.parse(source)
    for statement in module.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == name:
            statement.body = [*_parse("if False: yield"), *_Rewriter().body(statement.body)]
            return compile(ast.fix_missing_locations(module), f"<{name}>", "exec")
    raise ValueError(f"the source defines no function {name}")


def _parse(text: str) -> list[ast.stmt]:
    return ast.parse(text).body


class _Rewriter:
    """Rewrites statements; counts conditions so that nested ones keep apart."""

    def __init__(self) -> None:
        self._conditions = 0

    def body(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        return [new for old in statements for new in self.statement(old)]

    def statement(self, statement: ast.stmt) -> list[ast.stmt]:
        match statement:
            case ast.If(test, body, orelse):
                return self._branches(test, body, orelse)
            case ast.For():
                statement.body = self.body(statement.body)
                return [statement]
            case ast.Assign([target], value):
                return self._assignment(target, value)
            case ast.Expr(ast.Call(ast.Name("barrier" | "warp_barrier")) as call):
                return [ast.Expr(ast.Yield(call))]
            case _:
                return [statement]

    def _branches(self, test: ast.expr, body: list[ast.stmt], orelse: list[ast.stmt]) -> list[ast.stmt]:
        self._conditions += 1
        name = f"_condition{self._conditions}"
        result = [*_parse(f"{name} = 0")]
        assert isinstance(result[0], ast.Assign)
        result[0].value = test
        for condition, branch in ((name, body), (f"~{name}", orelse)):
            if branch:
                loop = _parse(f"for _ in _branch({condition}): pass")[0]
                assert isinstance(loop, ast.For)
                loop.body = self.body(branch)
                result.append(loop)
        return result

    def _assignment(self, target: ast.expr, value: ast.expr) -> list[ast.stmt]:
        names = [t.id for t in (target.elts if isinstance(target, ast.Tuple) else [target]) if isinstance(t, ast.Name)]
        several = isinstance(target, ast.Tuple)
        called = value.func.id if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) else ""
        value = ast.YieldFrom(value) if called.startswith("carry_") else value  # pauses while others have to go on
        new = _parse(f"{', '.join(names)}{'' if several else ','} = _assign({tuple(names)!r}, locals(), 0)")[0]
        assert isinstance(new, ast.Assign) and isinstance(new.value, ast.Call)
        operand: ast.expr = value if several else ast.Tuple([value], ast.Load())
        new.value.args[2] = operand
        return [*(_parse("yield") if called == "elect" else []), new]
