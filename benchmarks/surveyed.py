"""Programs that surveys of other people's kinds of code found slow, or priced wrong, and what came of each.

Definitions are as in `benchmarks.programs`, in words that NumPy and torch share.
"""

from __future__ import annotations

from benchmarks.programs import Array, Input, Namespace, Program, matrix, vector

SHORT, LOOSE = 2e-2, 1e-3
"""Relative errors of results of 16 bits, and of sums of very many float32."""


# ---------------------------------------------------------------------------------------------- rows of a vocabulary


def softmax(xp: Namespace, x: Array) -> Array:
    e = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
    return e / xp.sum(e, axis=-1, keepdims=True)


def log_softmax(xp: Namespace, x: Array) -> Array:
    z = x - xp.max(x, axis=-1, keepdims=True)
    return z - xp.log(xp.sum(xp.exp(z), axis=-1, keepdims=True))


def cross_entropy(xp: Namespace, x: Array, labels: Array) -> Array:
    z = x - xp.max(x, axis=-1, keepdims=True)
    picked = xp.take_along_axis(z, labels[:, None], 1)[:, 0]
    return xp.mean(xp.log(xp.sum(xp.exp(z), axis=-1)) - picked)


def entropy(xp: Namespace, x: Array) -> Array:
    z = x - xp.max(x, axis=-1, keepdims=True)
    e = xp.exp(z)
    s = xp.sum(e, axis=-1, keepdims=True)
    return xp.log(s)[:, 0] - xp.sum(e / s * z, axis=-1)


# ---------------------------------------------------------------------------------------------- attention


def masked_by_batch(xp: Namespace, x: Array, mask: Array) -> Array:
    return softmax(xp, x * 0.125 + mask[:, None, None, :])


def with_bias(xp: Namespace, x: Array, bias: Array) -> Array:
    return softmax(xp, x + bias)


def of_columns(xp: Namespace, x: Array) -> Array:
    return softmax(xp, xp.swapaxes(x, 1, 2))


# ---------------------------------------------------------------------------------------------- images, layers


def luma_and_chroma(xp: Namespace, x: Array) -> Array:
    r, g, b = x[0], x[1], x[2]
    return xp.stack([0.299 * r + 0.587 * g + 0.114 * b, 0.5 * (b - r), 0.5 * (r - g)])


def scaled_copies(xp: Namespace, x: Array, w: Array) -> Array:
    return x[None] * w[:, None, None]


def batch_norm(xp: Namespace, x: Array, gain: Array, shift: Array) -> Array:
    d = x - xp.mean(x, axis=(0, 2, 3), keepdims=True)
    n = d / xp.sqrt(xp.mean(d * d, axis=(0, 2, 3), keepdims=True) + 1e-5)
    return n * gain[:, None, None] + shift[:, None, None]


def affine_of_channels(xp: Namespace, x: Array, gain: Array, shift: Array) -> Array:
    return xp.maximum(x * gain[:, None, None] + shift[:, None, None], 0)


def depthwise(xp: Namespace, x: Array, w: Array) -> Array:
    h, k = x.shape[2] - 2, x.shape[3] - 2
    return sum(x[:, :, i : i + h, j : j + k] * w[:, i, j][:, None, None] for i in range(3) for j in range(3))


def five_rows(xp: Namespace, x: Array) -> Array:
    return x[:-4] + 4 * x[1:-3] + 6 * x[2:-2] + 4 * x[3:-1] + x[4:]


def life(xp: Namespace, x: Array) -> Array:
    m, k = x.shape[0] - 2, x.shape[1] - 2
    n = sum(x[i : i + m, j : j + k] for i in range(3) for j in range(3) if (i, j) != (1, 1))
    return xp.where((n == 3) | ((n == 2) & (x[1:-1, 1:-1] == 1)), 1, 0 * n)


# ---------------------------------------------------------------------------------------------- tables and columns


def products_of_rows(xp: Namespace, table: Array, first: Array, second: Array) -> Array:
    return xp.sum(table[first] * table[second], axis=-1)


def bag(xp: Namespace, table: Array, positions: Array) -> Array:
    return xp.sum(table[positions], axis=1)


def weighted_bag(xp: Namespace, table: Array, positions: Array, weights: Array) -> Array:
    return xp.sum(table[positions] * weights[:, :, None], axis=1)


def shares(xp: Namespace, x: Array) -> Array:
    c = xp.cumsum(x, 1)
    return c / c[:, -1:]


def prefixes(xp: Namespace, x: Array) -> Array:
    return xp.cumsum(x, 1)


def column_sums(xp: Namespace, x: Array) -> Array:
    return xp.sum(x, axis=0)


def _halves(*shape: int) -> Input:
    return Input(shape, "bf16")


def _below(most: int, *shape: int) -> Input:
    return Input(shape, "i64", below=most)


SURVEYED: tuple[Program, ...] = (
    Program("softmax of 50257", softmax, (matrix(2048, 50257),)),
    Program("softmax of 50257 bf16", softmax, (_halves(4096, 50257),), SHORT),
    Program("log softmax of 50257 bf16", log_softmax, (_halves(4096, 50257),), SHORT),
    Program("softmax of 50304 bf16", softmax, (_halves(4096, 50304),), SHORT),
    Program("softmax of 100001 bf16", softmax, (_halves(1000, 100001),), SHORT),
    Program("cross-entropy of 32000 bf16", cross_entropy, (_halves(8192, 32000), _below(32000, 8192)), SHORT),
    Program("cross-entropy of 50257 bf16", cross_entropy, (_halves(4096, 50257), _below(50257, 4096)), SHORT),
    Program("cross-entropy of 50304 bf16", cross_entropy, (_halves(4096, 50304), _below(50304, 4096)), SHORT),
    Program("cross-entropy of 128256 bf16", cross_entropy, (_halves(2048, 128256), _below(128256, 2048)), SHORT),
    Program("entropy of 4099 bf16", entropy, (_halves(32768, 4099),), 3e-2),
    Program("softmax of 513 masked by batch", masked_by_batch, (Input((16, 12, 513, 513)), matrix(16, 513)), LOOSE),
    Program(
        "softmax of 49 with bias f16",
        with_bias,
        (Input((4096, 12, 49, 49), "f16"), Input((12, 49, 49), "f16")),
        SHORT,
    ),
    Program("softmax of columns of 256 x 512 x 511", of_columns, (Input((256, 512, 511)),), LOOSE),
    Program("luma and chroma of 6001 x 8001", luma_and_chroma, (Input((3, 6001, 8001)),)),
    Program("eleven scaled copies of 8191 x 2047", scaled_copies, (matrix(8191, 2047), vector(11))),
    Program("batch norm of 112 x 112", batch_norm, (Input((32, 128, 112, 112)), vector(128), vector(128)), LOOSE),
    Program(
        "scaled channels of 7 x 7 bf16", affine_of_channels, (_halves(2048, 1024, 7, 7), *(_halves(1024),) * 2), SHORT
    ),
    Program("depthwise 3 x 3 of 112 x 112", depthwise, (Input((32, 96, 112, 112)), Input((96, 3, 3)))),
    Program("five rows of 8191 bf16", five_rows, (_halves(16388, 8191),), 3e-2),
    Program("game of life u8", life, (Input((16001, 16002), "u8", below=2),)),
    Program(
        "products of rows of 64",
        products_of_rows,
        (matrix(100_000, 64), *(_below(100_000, 1_000_001),) * 2),
        LOOSE,
    ),
    Program("sums of 8 rows of 128", bag, (matrix(100_000, 128), _below(100_000, 100_001, 8)), LOOSE),
    Program(
        "sums of 16 weighted rows of 64",
        weighted_bag,
        (matrix(100_000, 64), _below(100_000, 60_001, 16), matrix(60_001, 16)),
        LOOSE,
    ),
    Program("prefixes of 2001 over their last", shares, (Input((32769, 2001), positive=True),), LOOSE),
    Program("prefixes of 777 bf16", prefixes, (_halves(100_001, 777),), 5e-2),
    Program("prefixes of 1501 i64", prefixes, (_below(2, 20_001, 1501),)),
    Program("sums of 2000 columns u8", column_sums, (Input((100_003, 2000), "u8", below=256),)),
)
