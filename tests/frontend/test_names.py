"""Names of values from the user's assignments, and the lines they come from."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import polyfuse
from polyfuse.expr import Map, Node, Program, topological
from polyfuse.frontends.numpy_like import elementwise, spec, trace
from polyfuse.frontends.numpy_like.functions import names, public
from polyfuse.reference import evaluate


def program(function: Callable[..., Any], *specs: str) -> Program:
    return trace(function, [spec(s) for s in specs]).program


def named(traced: Program, name: str) -> Node:
    (found,) = [n for n in topological(traced.outputs) if traced.names.get(n.digest) == name]
    return found


def helper(z: Any) -> Any:
    inner = np.exp(z)
    return inner + 1


def test_names_are_assignment_targets() -> None:
    def softmax(x: Any) -> Any:
        m = x.max(axis=-1, keepdims=True)
        e = np.exp(x - m)
        s: Any = e.sum(axis=-1, keepdims=True)
        y = e / s
        return y

    traced = program(softmax, "f32[N, 64]")
    assert sorted(traced.names.values()) == ["e", "m", "s", "x", "y"]
    assert isinstance(named(traced, "e"), Map) and traced.output_names == ("y",)
    assert traced.name == "softmax"


def test_helpers_name_inside_and_at_the_call() -> None:
    def function(x: Any) -> Any:
        h = helper(x)
        return h * 2

    assert sorted(program(function, "f32[N]").names.values()) == ["h", "inner", "x"]


def test_unpacking_walrus_and_chains() -> None:
    def function(x: Any) -> Any:
        a, b = np.split(x, 2)
        q, r = divmod(a, b)
        p = t = q + r
        if (w := p * t) is None:
            return x
        return w

    names = set(program(function, "f32[8]").names.values())
    assert {"a", "b", "q", "r", "p", "w"} <= names


def test_loops_make_names_unique_in_program_order() -> None:
    def function(x: Any) -> Any:
        u = x * 2
        for _ in range(3):
            u = np.sin(u)
        return u

    traced = program(function, "f32[N]")
    assert sorted(traced.names.values()) == ["u", "u_1", "u_2", "u_3", "x"]
    assert traced.output_names == ("u_3",)


def test_name_by_function() -> None:
    assert named(program(lambda x: elementwise.name(np.exp(x), "h") + 1, "f32[N]"), "h")


def test_code_without_source_has_names_too() -> None:
    scope: dict[str, Any] = {"np": np}
    exec("def function(x):\n    h = np.exp(x)\n    return h + x", scope)
    traced = program(scope["function"], "f32[N]")
    assert sorted(traced.names.values()) == ["h", "x"]
    assert traced.sources[named(traced, "h").digest].line == 2


def test_sources_point_at_the_expression() -> None:
    def function(x: Any) -> Any:
        h = np.exp(x) + 1
        return h

    traced = program(function, "f32[N]")
    exponential = next(n for n in topological(traced.outputs) if getattr(n, "function", "") == "exp")
    source = traced.sources[exponential.digest]
    first = function.__code__.co_firstlineno
    assert (source.file, source.line) == (__file__, first + 1)
    assert source.text[source.column : source.end_column] == "np.exp(x)"
    outer = traced.sources[named(traced, "h").digest]
    assert outer.text[outer.column : outer.end_column] == "np.exp(x) + 1"


def test_every_node_has_a_source() -> None:
    traced = program(lambda x: (x - x.mean()) / np.std(x), "f32[N, 4]")
    plain = [n for n in topological(traced.outputs) if type(n).__name__ not in ("Input", "Constant")]
    assert all(n.digest in traced.sources for n in plain)


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass
class Layer:
    weight: Any
    bias: Any


def test_nested_arguments_and_results() -> None:
    def function(x: Any, layer: Any, *more: Any, table: Any) -> Any:
        y = x @ layer.weight + layer.bias
        return {"y": y, "pair": Pair(more[0] * 2, [table["w"], None]), "kept": 3}

    arguments = [spec("f32[N, 4]"), Layer(spec("f32[4, 8]"), spec("f32[8]")), spec("f32[M]")]
    result = trace(function, arguments, {"table": {"w": spec("f32[2]")}})
    paths = [a.path for a in result.program.arguments]
    assert paths == ["x", "layer.weight", "layer.bias", "more[0]", "table['w']"]
    assert result.program.output_names == ("y", "pair_left", "pair_right_0")
    assert result.rebuild([1, 2, 3]) == {"y": 1, "pair": Pair(2, [3, None]), "kept": 3}


def test_partials_methods_and_lambdas() -> None:
    class Model:
        scale = 2.0

        def forward(self, x: Any) -> Any:
            return x * self.scale + np.zeros(3)

    assert program(functools.partial(np.multiply, 2), "f32[N]").outputs
    assert program(Model().forward, "f32[3]").name == "forward"


class Scale:
    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, x: Any) -> Any:
        return self.shifted(x) * self.factor

    def shifted(self, x: Any) -> Any:
        offset = np.zeros(x.shape)
        offset[0] = 1
        return x + offset

    @property
    def two(self) -> Any:
        return np.full((), 2.0)


class Model:
    def __init__(self) -> None:
        self.layers = [Scale(2.0), Scale(3.0)]
        self.last = Scale(1.0)
        self.calls = 0

    def forward(self, x: Any) -> Any:
        self.calls += 1
        for layer in self.layers:
            x = layer(x)
        return self.last(x) * self.last.two


def makes_arrays(x: Any) -> Any:
    a = np.zeros(len(x))
    a[0] = x[0]
    return a


def test_helpers_methods_and_objects_make_tracers_too() -> None:
    model = Model()

    def function(x: Any, given: Any) -> Any:
        import numpy

        b = numpy.ones(3)
        b[1:] = x[1:]
        return model.forward(x) + makes_arrays(x) + given(x) + b

    x = np.array([1.0, 2, 3])
    wanted = model.forward(x) + np.array([1.0, 0, 0]) + Scale(5)(x) + np.array([1.0, 2, 3])
    traced = trace(function, [spec("f64[3]"), Scale(5)])
    assert np.allclose(evaluate(traced.program, [x])[0], wanted)
    assert model.calls == 2


TABLE = {"makes": makes_arrays, "two": [helper, makes_arrays]}


def test_functions_in_tables_and_modules_make_tracers_too() -> None:
    module = sys.modules[__name__]

    def function(x: Any) -> Any:
        return TABLE["makes"](x) + TABLE["two"][1](x) + module.makes_arrays(x)

    x = np.array([1.0, 2, 3])
    assert evaluate(program(function, "f64[N]"), [x])[0].tolist() == [3, 0, 0]


def test_public_functions_in_and_out_of_a_trace() -> None:
    x = np.array([-1.0, 0, 2])
    sigmoid, zeros = public("sigmoid"), public("zeros")
    assert np.allclose(sigmoid(x), 1 / (1 + np.exp(-x)))
    assert zeros((2, 2)).shape == (2, 2)
    traced = program(lambda x: sigmoid(x) + zeros(x.shape), "f64[N]")
    assert np.allclose(evaluate(traced, [x])[0], 1 / (1 + np.exp(-x)))
    assert {"exp", "softmax", "gelu", "zeros", "einsum", "where", "name"} <= set(names())


def test_functions_are_attributes_of_the_package() -> None:
    traced = program(lambda x: polyfuse.name(polyfuse.softmax(x), "h") * polyfuse.ones(x.shape), "f64[N, 4]")
    assert "h" in traced.names.values()
    assert not hasattr(polyfuse, "frobnicate")
