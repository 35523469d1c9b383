"""A convolution, its batch norm and its relu from ``pf.nn``: ordinary NumPy functions, one kernel without a library."""

import inspect

import numpy as np

import polyfuse as pf
from polyfuse import nn


@pf.jit
def block(x, weights, mean, var, gain, bias):
    features = nn.conv(x, weights, padding=1)
    return nn.relu(nn.batch_norm(features, mean, var, gain, bias))


rng = np.random.default_rng(0)
x, weights, mean, gain, bias = (
    rng.standard_normal(shape, dtype=np.float32) for shape in ((2, 8, 12, 10), (16, 8, 3, 3), 16, 16, 16)
)
var = rng.uniform(0.5, 2, 16).astype(np.float32)
y = block(x, weights, mean, var, gain, bias)

images, filters, channels = pf.spec("f32[B~64, 64, H~56, W~56]"), pf.spec("f32[64, 64, 3, 3]"), pf.spec("f32[64]")
plan = block.plan(images, filters, *[channels] * 4, target="h200")
print(plan)
assert len(plan.kernels) == 1

print(f"\nThe convolution is written in NumPy:\n\n{inspect.getsource(nn.convolution._correlate)}")
error = np.abs(y - inspect.unwrap(block)(x, weights, mean, var, gain, bias)).max()  # undecorated: NumPy computes it
print(f"largest difference from NumPy: {error:.1e}")
assert error < 1e-4
