"""What objects that a function makes find while they are made: in ``__new__`` and ``__init__``, in what keeps them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.run.outside import Change, Jit, Place, assert_seen

Read = tuple[Any, Change]


def in_a_class_that_new_is_of() -> Read:
    class Made:
        factor = 3.0

        def __new__(cls) -> Any:
            made = super().__new__(cls)
            made.value = cls.factor  # type: ignore[attr-defined]
            return made

    return lambda x: x * Made().value, lambda: setattr(Made, "factor", 4.0)  # type: ignore[attr-defined]


def in_what_new_closes_over() -> Read:
    kept = {"factor": 3.0}

    class Made:
        value: float

        def __new__(cls) -> Any:
            made = super().__new__(cls)
            made.value = kept["factor"]
            return made

    class Derived(Made):
        pass

    return lambda x: x * Derived().value, lambda: kept.update(factor=4.0)


def in_a_number_of_the_users() -> Read:
    class Made(float):
        factor = 3.0

        def __new__(cls) -> Any:
            return super().__new__(cls, cls.factor)

    return lambda x: x * Made(), lambda: setattr(Made, "factor", 4.0)


def in_the_only_object_of_a_class() -> Read:
    class Only:
        one: Any = None
        value: float

        def __new__(cls) -> Any:
            if cls.one is None:
                cls.one = super().__new__(cls)
                cls.one.value = 3.0
            return cls.one

    return lambda x: x * Only().value, lambda: setattr(Only(), "value", 4.0)


def in_what_the_class_of_an_object_closes_over() -> Read:
    kept = {"factor": 3.0}

    class Made:
        def __init__(self) -> None:
            self.value = kept["factor"]

    held = Made()
    return lambda x: x * type(held)().value, lambda: kept.update(factor=4.0)


def which_init_there_is() -> Read:
    class Made:
        def __init__(self) -> None:
            self.value = 3.0

    def other(made: Any) -> None:
        made.value = 4.0

    return lambda x: x * Made().value, lambda: setattr(Made, "__init__", other)


def which_new_there_is() -> Read:
    class Made:
        value: float

        def __new__(cls) -> Any:
            return made_with(cls, 3.0)

    def made_with(cls: Any, value: float) -> Any:
        made = object.__new__(cls)
        made.value = value
        return made

    other = staticmethod(lambda cls: made_with(cls, 4.0))
    return lambda x: x * Made().value, lambda: setattr(Made, "__new__", other)


PLACES = (
    *(in_a_class_that_new_is_of, in_what_new_closes_over, in_a_number_of_the_users, in_the_only_object_of_a_class),
    *(in_what_the_class_of_an_object_closes_over, which_init_there_is, which_new_there_is),
)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_a_value_that_changes_is_seen(jit: Jit, place: Place) -> None:
    assert_seen(jit, place)
