"""Arguments under the names that NumPy gives them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.ops import assert_same, run

X = np.arange(12.0) * 1.5 - 3
M, K = X.reshape(3, 4), np.array([1, 2, 2, 0])

CALLS = """
np.roll(a=x, shift=1); np.pad(array=x, pad_width=1); np.expand_dims(a=x, axis=0); np.argsort(a=x); np.sort(a=m, axis=0)
np.median(a=m, axis=0); np.take(a=x, indices=k); np.histogram(a=x, bins=4)[0]; np.isin(element=x, test_elements=[0, 3])
np.split(ary=x, indices_or_sections=3); np.array_split(x, indices_or_sections=5); np.vstack(tup=(x, x)); np.copy(a=x)
np.select(condlist=[x > 0], choicelist=[x], default=0); np.piecewise(x, condlist=[x < 0], funclist=[1, 2])
np.moveaxis(a=m, source=0, destination=1); np.array(object=x); np.array(object=[x[0], x[1]], dtype=np.float32)
np.asarray(a=x, dtype=np.float32); np.full(shape=(3,), fill_value=x[0]); np.repeat(a=x, repeats=2); np.tile(A=x, reps=2)
np.identity(n=3) + x[0]; np.zeros_like(a=x); np.full_like(a=x, fill_value=2); np.clip(a=x, a_min=0, a_max=1)
np.zeros(shape=3) + x[0]; np.linspace(start=0, stop=1, num=5) + x[0]; np.arange(start=0, stop=5) + x[0]
np.diff(a=x, n=2); np.swapaxes(a=m, axis1=0, axis2=1); np.transpose(a=m, axes=(1, 0)); np.ravel(a=m); np.flip(m=m)
np.squeeze(a=m[None], axis=0)
np.rot90(m=m, k=1); np.tril(m=m, k=1); np.diagonal(a=m, offset=1); np.delete(arr=x, obj=1)
np.insert(arr=x, obj=1, values=2); np.append(arr=x, values=[1]); np.broadcast_to(array=x, shape=(2, 12)); np.real(val=x)
np.linalg.inv(a=m[:, :3] + 9 * np.eye(3)); np.array_equal(a1=x, a2=x); np.round(a=x, decimals=1); np.ediff1d(ary=x)
np.take_along_axis(arr=m, indices=np.argsort(m, axis=1), axis=1); np.choose(a=k % 2, choices=[k, k * 2]); np.angle(z=x)
np.compress(condition=[True, False, True], a=m, axis=0); np.block(arrays=[[m, m]]); np.column_stack(tup=(x, x))
np.apply_over_axes(func=np.sum, a=m, axes=[0]); np.fromfunction(function=lambda i, j: i + j, shape=(2, 3)) + x[0]
np.resize(a=x, new_shape=(2, 3)); np.require(a=x, dtype=np.float32)
np.ascontiguousarray(a=m.T); np.permute_dims(a=m, axes=None)
np.nanmin(m, where=m > 0, initial=3); np.nanmax(m, axis=0, where=m < 0, initial=-9); np.nanmean(m, where=m > 0)
np.fmax.reduce(m, where=m < 3, initial=-5); np.nanstd(m, where=m > 0); np.nanvar(m, axis=0, correction=1)
np.matmul(m, m.T, dtype=np.float32, casting="same_kind"); np.matmul(m, m.T, dtype="f2", casting="same_kind")
np.nanvar(m, 1, mean=m.mean(1, keepdims=True)); np.logspace([0, 1], [1, 2], 3, axis=1) + x[0]
np.logspace(x[:2], 4, 3, base=[2, 3], axis=1); np.logspace(0, 4, 3, base=k[:2] + 1.5)
x.take(indices=k); x.repeat(repeats=2); x.clip(min=0, max=1); np.mean(a=x[x > 0]); np.sum(a=m, axis=0, keepdims=True)
"""


@pytest.mark.parametrize("call", [part.strip() for line in CALLS.strip().splitlines() for part in line.split("; ")])
def test_as_numpy(call: str) -> None:
    scope: dict[str, Any] = {"np": np}
    exec(f"def function(x, m, k):\n    return {call}", scope)
    assert_same(run(scope["function"], X, M, K), scope["function"](X, M, K))
