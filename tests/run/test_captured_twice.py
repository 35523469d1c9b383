"""One object at several places that a function reads, of which some get another: a call sees each as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.run.outside import Change, Jit, Place, X, assert_seen

ONES, FULL = np.ones(3), np.full(3, 5.0)
SPACE = "def f(x): return x + A + B\ndef given(x, b=A): return x + A + b"


class Held:
    def __init__(self, **held: Any) -> None:
        self.__dict__.update(held)


def an_array_in_the_second_dictionary() -> tuple[Callable[..., Any], Change]:
    layers = [{"b": ONES}, {"b": ONES}]
    return lambda x: x + layers[0]["b"] + layers[1]["b"], lambda: layers[1].update(b=FULL)


def an_array_in_the_first_dictionary() -> tuple[Callable[..., Any], Change]:
    layers = [{"b": ONES}, {"b": ONES}]
    return lambda x: x + layers[0]["b"] + layers[1]["b"], lambda: layers[0].update(b=FULL)


def an_array_under_two_globals() -> tuple[Callable[..., Any], Change]:
    space: dict[str, Any] = {"A": ONES, "B": ONES}
    exec(SPACE, space)
    return space["f"], lambda: space.update(A=FULL)


def an_array_that_is_a_default_as_well() -> tuple[Callable[..., Any], Change]:
    space: dict[str, Any] = {"A": ONES}
    exec(SPACE, space)
    return space["given"], lambda: space.update(A=FULL)


def an_array_of_which_one_place_gives_the_shape() -> tuple[Callable[..., Any], Change]:
    state = Held(grid=ONES, u=ONES)
    return lambda x: x * state.u * state.grid.shape[0], lambda: setattr(state, "grid", np.ones((5, 1)))


def an_array_of_which_another_place_gives_the_elements() -> tuple[Callable[..., Any], Change]:
    state = Held(grid=ONES, u=ONES)
    return lambda x: x * state.u * state.grid.shape[0], lambda: setattr(state, "u", FULL)


def an_object_twice_in_a_list() -> tuple[Callable[..., Any], Change]:
    layers = [Held(k=1.0)] * 2
    return lambda x: x + layers[0].k + layers[1].k, lambda: layers.__setitem__(1, Held(k=5.0))


def an_object_under_two_attributes() -> tuple[Callable[..., Any], Change]:
    model = Held()
    model.p = model.q = Held(k=1.0)
    return lambda x: x + model.p.k + model.q.k, lambda: setattr(model, "p", Held(k=5.0))


def an_object_under_two_globals() -> tuple[Callable[..., Any], Change]:
    space: dict[str, Any] = dict.fromkeys("AB", Held(k=1.0))
    exec("def f(x): return x + A.k + B.k", space)
    return space["f"], lambda: space.update(B=Held(k=5.0))


def an_object_that_leads_to_itself() -> tuple[Callable[..., Any], Change]:
    node = Held(k=1.0)
    node.next = node
    return lambda x: x + node.k + node.next.k, lambda: setattr(node, "next", Held(k=5.0))


def a_list_twice_in_a_dictionary() -> tuple[Callable[..., Any], Change]:
    table = dict.fromkeys("uv", [1.0])
    return lambda x: x + table["u"][0] + table["v"][0], lambda: table.update(v=[5.0])


@pytest.mark.parametrize(
    "place",
    [
        an_array_in_the_second_dictionary,
        an_array_in_the_first_dictionary,
        an_array_under_two_globals,
        an_array_that_is_a_default_as_well,
        an_array_of_which_one_place_gives_the_shape,
        an_array_of_which_another_place_gives_the_elements,
        an_object_twice_in_a_list,
        an_object_under_two_attributes,
        an_object_under_two_globals,
        an_object_that_leads_to_itself,
        a_list_twice_in_a_dictionary,
    ],
)
def test_one_of_two_places_that_changes_is_seen(jit: Jit, place: Place) -> None:
    assert_seen(jit, place)


def test_two_places_that_get_the_same_array_are_no_other_trace(jit: Jit) -> None:
    state = Held(a=ONES, b=ONES)
    f = jit(lambda x: (x + state.a) * state.b)
    f(X)
    state.a = state.b = FULL
    np.testing.assert_array_equal(f(X), (X + 5) * 5)
    assert f.cache_info().traces == 1
