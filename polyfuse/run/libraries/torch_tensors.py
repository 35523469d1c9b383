"""torch tensors, on the host and on CUDA devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.autograd import forward_ad

from polyfuse import dtypes
from polyfuse.dtypes import DType
from polyfuse.errors import ArgumentError
from polyfuse.library_calls.contraction import Contraction
from polyfuse.run.arrays import VECTOR_ALIGNMENT, ArrayFacts, Device, Guard, c_strides, unsupported_dtype
from polyfuse.run.products import Primitives, Product, matrix_product

_TO_TORCH = {
    dtypes.bool_: torch.bool,
    dtypes.i8: torch.int8,
    dtypes.i16: torch.int16,
    dtypes.i32: torch.int32,
    dtypes.i64: torch.int64,
    dtypes.u8: torch.uint8,
    dtypes.u16: torch.uint16,
    dtypes.u32: torch.uint32,
    dtypes.u64: torch.uint64,
    dtypes.f16: torch.float16,
    dtypes.bf16: torch.bfloat16,
    dtypes.f32: torch.float32,
    dtypes.f64: torch.float64,
}
_FROM_TORCH = {theirs: ours for ours, theirs in _TO_TORCH.items()}

_is_grad_enabled = torch.is_grad_enabled
_MATERIALISE = "If it is lazily zero (autograd makes such tensors), pass x + 0; if its storage was freed, refill it."


def _current_level() -> int:
    """The innermost `dual_level`, below 0 outside of all; where torch does not tell, it could be any."""
    level: int = getattr(forward_ad, "_current_level", 0)
    return level


def _view(array: Any, starts: tuple[int, ...], offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    del starts
    return torch.as_strided(array, shape, strides, array.storage_offset() + offset)


def _written(arrays: Sequence[Any]) -> None:
    """What torch's own in-place functions do behind each write."""
    for array in arrays:
        if isinstance(array, torch.Tensor) and not array.is_inference():  # such tensors have no versions
            torch.autograd.graph.increment_version(array)


PRIMITIVES = Primitives(  # nothing here can need a gradient: tensors that do are refused under grad mode
    strides=torch.Tensor.stride,
    view=_view,
    flat=lambda array: array.contiguous().view(-1),
    matmul=lambda a, b, out: torch.mm(a, b, out=out),
    stacked=lambda a, b, out: torch.bmm(a, b, out=out),
    transpose=torch.Tensor.permute,
    empty_like=lambda array: torch.empty(array.shape, dtype=array.dtype, device=array.device),
    copy=lambda target, source: target.copy_(source),
)


@dataclass(frozen=True, slots=True)
class TorchLibrary:
    """`raw_stream`: torch's reader of the current stream's handle, 0.08 us where ``current_stream()`` costs 4."""

    raw_stream: Callable[[int], int] | None
    pointer: Callable[[Any], int] = torch.Tensor.data_ptr
    name: str = "torch"
    written: Callable[[Sequence[Any]], None] | None = _written

    def facts(self, array: Any) -> ArrayFacts:
        device = Device(array.device.type, array.device.index or 0)
        _check(array, device)
        key, pointer = self.read(array)
        return ArrayFacts(pointer, tuple(array.shape), array.stride(), _FROM_TORCH[array.dtype], device, key)

    def read(self, array: Any) -> tuple[tuple[Any, ...], int]:
        if array.requires_grad and _is_grad_enabled():
            raise _needs_grad()
        if array.is_neg():
            raise _lazy_negation()
        device = array.device
        try:
            pointer = array.data_ptr()
            key = (array.dtype, array.shape, array.stride(), pointer % VECTOR_ALIGNMENT, device)
        except RuntimeError:
            _check(array, Device(device.type))
            raise ArgumentError(" is a tensor without memory", advice="Pass a plain tensor.") from None
        if not pointer and array.numel():
            _check(array, Device(device.type))
            raise ArgumentError(" has elements but no memory", advice=_MATERIALISE)
        if _current_level() >= 0 and forward_ad.unpack_dual(array).tangent is not None:
            raise _has_tangent()
        return key, pointer

    def guard(self, arrays: Sequence[Any]) -> Guard | None:
        """torch.compile's own test, in C++: type, dtype, device, sizes, strides, requires_grad under grad mode, and the
        dispatch keys, which tell lazy views and function transforms.  0.2 us for two tensors where `read` takes 2.  A
        nested tensor, which has no strides, would end the process there; it does not see tangents, which there are
        within a `dual_level` only."""
        try:
            guards = torch._C._dynamo.guards.TensorGuards(*arrays, dynamic_dims_sizes=None, dynamic_dims_strides=None)
            check: Callable[..., bool] = guards.check
            is_strict = _is_strict(check, arrays)
        except (AttributeError, TypeError, RuntimeError, SystemError):  # another torch: it is no public interface
            return None
        return Guard(check, "is_nested", forward_ad, "_current_level", can_be_freed=True) if is_strict else None

    def allocator(self, shape: tuple[int, ...], dtype: DType, device: Device) -> Callable[[], Any]:
        empty, element = torch.empty, _TO_TORCH[dtype]
        strides: tuple[int, ...] = empty(shape, device="meta").stride()
        if device.kind == "cpu" or (device.ordinal == 0 and torch.cuda.device_count() == 1):
            strided = getattr(getattr(torch._C, "_dynamo", None), "guards", None)
            direct = getattr(strided, f"_empty_strided_{device.kind}", None)
            if direct is not None:
                return partial(direct, shape, strides, element)  # torch.compile's: 0.7 to 1.2 us less than torch.empty
        return partial(empty, shape, dtype=element, device=torch.device(device.kind, device.ordinal))

    def stream(self, device: Device) -> Callable[[], int]:
        if self.raw_stream is not None and device.kind == "cuda":
            return partial(self.raw_stream, device.ordinal)
        return lambda: 0

    def is_capturing(self, device: Device) -> bool:
        return device.kind == "cuda" and torch.cuda.is_current_stream_capturing()

    def contiguous(self, array: Any) -> Any:
        return torch.empty(array.shape, dtype=array.dtype, device=array.device).copy_(array.detach())

    def upload(self, array: np.ndarray[Any, Any], device: Device) -> Any:
        shares = device.kind == "cpu" and array.flags.writeable and array.flags.c_contiguous
        fresh = array if shares else np.array(array, order="C")  # torch warns about memory that it may not write
        where = torch.device(device.kind, device.ordinal)
        if fresh.dtype == dtypes.bf16.numpy:
            return torch.from_numpy(fresh.view(np.int16)).view(torch.bfloat16).to(where)
        return torch.from_numpy(fresh).to(where)

    def copy(self, target: Any, source: Any) -> None:
        target.detach().copy_(source)

    def zero(self, array: Any) -> None:
        array.zero_()

    def view(self, memory: Any, offset: int, shape: tuple[int, ...], dtype: DType) -> Any:
        whole = memory.view(_TO_TORCH[dtype])  # workspaces are multiples of every element size
        return torch.as_strided(whole, shape, c_strides(shape), offset // dtype.itemsize)

    def call(self, name: str, operands: Sequence[Any], settings: dict[str, Any]) -> Any:
        from polyfuse.run.libraries.torch_functions import call

        with torch.no_grad():
            return call(name, operands, settings)

    def product(self, spec: Contraction, sizes: Mapping[str, int]) -> Product:
        return matrix_product(spec, sizes, PRIMITIVES)

    def result(self, array: Any) -> Any:
        return array


TORCH = TorchLibrary(getattr(torch._C, "_cuda_getCurrentRawStream", None))


def library_of(kind: type) -> TorchLibrary | None:
    """Tensors and parameters; None for torch's other types.  Raises ArgumentError for tensor subclasses."""
    if kind is torch.Tensor or kind is torch.nn.Parameter:
        return TORCH
    if issubclass(kind, torch.Tensor):
        raise ArgumentError(
            f" is a {kind.__name__}, a tensor subclass with a meaning of its own",
            advice="Pass the plain tensor that it holds, for example x.as_subclass(torch.Tensor).",
        )
    return None


def _is_strict(check: Callable[..., bool], arrays: Sequence[Any]) -> bool:
    """Whether a guard accepts these tensors and refuses what it must, as this version of torch implements it."""
    first, *rest = arrays
    others = [first.new_empty((*first.shape, 1)), first.unsqueeze(-1)]
    others += [first.to(torch.float64 if first.dtype != torch.float64 else torch.float32), torch._neg_view(first)]
    if first.dim() and first.shape[0] > 1:
        others.append(torch.empty_strided(first.shape, [3 * s + 1 for s in first.stride()], dtype=first.dtype))
    return check(*arrays) and not any(check(other, *rest) for other in others)


def _needs_grad() -> ArgumentError:
    return ArgumentError(
        " requires grad, and polyfuse does not differentiate",
        advice="Call under torch.no_grad(), or pass x.detach().",
    )


def _lazy_negation() -> ArgumentError:
    return ArgumentError(" is a lazily negated view", advice="Pass x.resolve_neg().")


def _has_tangent() -> ArgumentError:
    return ArgumentError(
        " is a dual tensor, and polyfuse computes no tangents",
        advice="Pass forward_ad.unpack_dual(x).primal, or x.detach().",
    )


def _check(array: Any, device: Device) -> None:
    """Raise ArgumentError for a tensor that has no plain memory of a known dtype."""
    if array.is_nested:
        raise ArgumentError(
            " is a nested tensor, whose rows have lengths of their own",
            advice="Pass x.to_padded_tensor(0.0), or one of x.unbind() at a time.",
        )
    if array.layout is not torch.strided:
        raise ArgumentError(f" has layout {array.layout}", advice="Pass x.to_dense().")
    if device.kind not in ("cpu", "cuda"):
        raise ArgumentError(f" is on device {device.kind!r}", advice="Move it to the CPU or to a CUDA device.")
    if array.dtype not in _FROM_TORCH:
        kind = "c" if array.dtype.is_complex else ""
        raise unsupported_dtype(str(array.dtype).removeprefix("torch."), kind)
    if getattr(array, "is_quantized", False) or torch._C._functorch.is_functorch_wrapped_tensor(array):
        raise ArgumentError(" is inside a torch function transform and has no memory", advice="Call outside of vmap.")
