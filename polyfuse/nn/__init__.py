"""``pf.nn``: functions of neural networks, each a few lines of the NumPy that a user would write.

They are ordinary functions of arrays, with no kernels of their own: inside a jitted function they are traced like the
user's code and fuse with what surrounds them; on real NumPy arrays outside of one, NumPy computes them.  Arrays are
``(samples, channels, *space)`` where it matters, and 16-bit floats are computed with in float32.
"""

from polyfuse.nn.activations import (
    celu,
    elu,
    gelu,
    gelu_tanh,
    glu,
    hard_sigmoid,
    hard_swish,
    leaky_relu,
    log_sigmoid,
    log_softmax,
    mish,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    softmax,
    softplus,
    softsign,
    tanh,
)
from polyfuse.nn.attention import attention, rotary_embedding
from polyfuse.nn.convolution import conv, conv_transpose
from polyfuse.nn.layers import dropout, embedding, linear, one_hot
from polyfuse.nn.losses import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    huber_loss,
    kl_divergence,
    l1_loss,
    mse_loss,
    nll_loss,
)
from polyfuse.nn.normalisation import batch_norm, group_norm, instance_norm, layer_norm, rms_norm
from polyfuse.nn.pooling import avg_pool, max_pool
from polyfuse.nn.resizing import resize

__all__ = [
    "attention",
    "avg_pool",
    "batch_norm",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "conv",
    "conv_transpose",
    "cross_entropy",
    "dropout",
    "elu",
    "embedding",
    "gelu",
    "gelu_tanh",
    "glu",
    "group_norm",
    "hard_sigmoid",
    "hard_swish",
    "huber_loss",
    "instance_norm",
    "kl_divergence",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "log_sigmoid",
    "log_softmax",
    "max_pool",
    "mish",
    "mse_loss",
    "nll_loss",
    "one_hot",
    "relu",
    "relu6",
    "resize",
    "rms_norm",
    "rotary_embedding",
    "selu",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "softsign",
    "tanh",
]
