"""torch tensors on the host: tensors in, tensors out, and never a silently detached result."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from polyfuse.errors import ArgumentError
from polyfuse.run.dispatch import Jitted
from polyfuse.run.recognised import MISSED

torch = pytest.importorskip("torch")
forward_ad = pytest.importorskip("torch.autograd.forward_ad")

Jit = Callable[..., Jitted]


def chain(x, y):
    return np.maximum((x + y) * 2, 0) - 1


def reference(x, y):
    return torch.relu((x + y) * 2) - 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int32", "int64"])
def test_tensors_in_tensors_out(jit: Jit, dtype: str) -> None:
    x, y = (torch.randint(-9, 9, (30, 40)).to(getattr(torch, dtype)) for _ in range(2))
    result = jit(chain)(x, y)
    assert isinstance(result, torch.Tensor)
    assert result.dtype == x.dtype
    assert result.device == x.device
    assert torch.equal(result, reference(x, y))


@pytest.mark.parametrize(
    "view",
    [lambda t: t.T, lambda t: t[::2], lambda t: t[:, 3:4], lambda t: t[0].expand(30, 40), lambda t: t[:, :0]],
)
def test_every_memory_order(jit: Jit, view: Callable) -> None:
    x = view(torch.randn(30, 40))
    assert torch.equal(jit(lambda x: x * 2)(x), x * 2)


def test_a_second_call_only_launches(jit: Jit) -> None:
    f, x = jit(chain), torch.randn(8, 9)
    f(x, x)
    assert torch.equal(f(x + 1, x), reference(x + 1, x))
    assert f.cache_info().hits == 1


def test_results_of_rank_zero_are_tensors(jit: Jit) -> None:
    result = jit(lambda x: x.max())(torch.arange(10.0))
    assert isinstance(result, torch.Tensor)
    assert result.shape == ()
    assert result == 9


def test_out_and_bind(jit: Jit) -> None:
    f, x, out = jit(chain), torch.randn(6, 7), torch.zeros(6, 7)
    assert f(x, x, out=out) is out
    assert torch.equal(out, reference(x, x))
    strided = torch.zeros(7, 6).T
    f(x, x, out=strided)
    assert torch.equal(strided, reference(x, x))
    expected = reference(x, x)
    f.bind(x, x, out=x)()
    assert torch.equal(x, expected)


def test_fuse_false_uses_a_torch_workspace(jit: Jit) -> None:
    x = torch.randn(20, 30)
    result = jit(lambda x: (np.exp(x) + 1).sum(axis=0), fuse=False)(x)
    assert torch.allclose(result, (torch.exp(x) + 1).sum(0))


def test_a_tensor_that_requires_grad_is_an_error_under_grad_mode(jit: Jit) -> None:
    f, x = jit(chain), torch.randn(3)
    f(x, x)
    for leaf in (x.clone().requires_grad_(), torch.nn.Parameter(x)):
        with pytest.raises(ArgumentError, match="y requires grad"):
            f(x, leaf)
        with torch.no_grad():
            assert torch.equal(f(x, leaf), reference(x, leaf))
        assert torch.equal(f(x, leaf.detach()), reference(x, x))


def test_lazily_negated_views_are_not_read_as_they_lie(jit: Jit) -> None:
    x = torch.view_as_complex(torch.randn(4, 2)).conj().imag
    assert x.is_neg()
    with pytest.raises(ArgumentError, match="x is a lazily negated view"):
        jit(lambda x: x * 2)(x)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: torch.zeros(3, dtype=torch.complex64), "real and the imaginary"),
        (lambda: torch.zeros(3, device="meta"), "device 'meta'"),
        (lambda: torch.eye(3).to_sparse(), "to_dense"),
        (lambda: torch.zeros(3).as_subclass(type("Own", (torch.Tensor,), {})), "subclass"),
    ],
)
def test_tensors_without_plain_memory_are_refused(jit: Jit, make: Callable, words: str) -> None:
    with pytest.raises(ArgumentError, match=f"(?s)x .*{words}"):
        jit(lambda x: x)(make())


def test_a_tensor_inside_vmap_is_refused(jit: Jit) -> None:
    f = jit(lambda x: x * 2)
    with pytest.raises(ArgumentError, match="function transform"):
        torch.vmap(f)(torch.zeros(3, 4))
    f(torch.zeros(4))
    with pytest.raises(ArgumentError, match="function transform"):
        torch.vmap(f)(torch.zeros(3, 4))


def test_numpy_beside_torch_on_one_device(jit: Jit) -> None:
    x, y = torch.randn(5), np.arange(5, dtype=np.float32)
    result = jit(chain)(x, y)
    assert torch.equal(result, reference(x, torch.from_numpy(y)))
    assert isinstance(jit(chain)(y, x), np.ndarray)


def refused_tensors() -> Iterator[tuple[str, torch.Tensor]]:
    freed = torch.zeros(3, 4)
    freed.untyped_storage().resize_(0)
    yield "nested tensor", torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    yield "no memory", torch._efficientzerotensor((3, 4))
    yield "no memory", freed
    yield "dual tensor", forward_ad.make_dual(torch.ones(3, 4), torch.ones(3, 4))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors", "ignore:.*jit.script.:DeprecationWarning")
def test_tensors_that_look_like_plain_ones_are_refused_at_every_call(jit: Jit) -> None:
    f, x, y = jit(lambda x: x * 2), torch.ones(3, 4), torch.zeros(3, 4)
    with forward_ad.dual_level():
        for words, tensor in refused_tensors():
            for _ in range(3):  # cold, known, recognised
                with pytest.raises(ArgumentError, match=f"x .*{words}"):
                    f(tensor)
                with pytest.raises(ArgumentError, match=f"out .*{words}"):
                    f(x, out=tensor)
                assert torch.equal(f(x, out=y), f(x))


def test_tensors_without_elements_have_no_memory(jit: Jit) -> None:
    f, empty = jit(lambda x: x * 2), torch.zeros(0, 3)
    for _ in range(3):
        assert f(empty).shape == (0, 3)
    assert recognises(f, empty)


@pytest.mark.filterwarnings("ignore:.*jit.script.:DeprecationWarning")
def test_primals_of_dual_tensors_are_plain(jit: Jit) -> None:
    f, x = jit(lambda x: x * 2), torch.ones(3)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, x)
        assert torch.equal(f(forward_ad.unpack_dual(dual).primal), x * 2)
        assert torch.equal(f(dual.detach()), x * 2)


def recognises(f: Jitted, *args: object, **kwargs: object) -> bool:
    """Whether the latest call's own text takes such a call."""
    return f._latest(args, kwargs) is not MISSED


def test_one_tensor_in_several_places_has_a_quick_check_of_its_own(jit: Jit) -> None:
    """torch's guard refuses a tensor that is passed twice."""
    f, x, y, z = jit(lambda a, b, c: a * b - c), *(torch.randn(8, 8) for _ in range(3))
    for _ in range(3):
        for arguments in ((x, x, x), (x, y, x), (y, x, x), (x, x, y), (x, y, z)):
            for _ in range(2):
                a, b, c = arguments
                torch.testing.assert_close(f(*arguments), a * b - c)
            assert recognises(f, *arguments) or arguments == (x, x, x)
            distinct = len({id(t) for t in arguments}) == 3
            assert recognises(f, x, y, z) is distinct
    (record,) = f._records.values()
    assert len(record.recognised) == 5
    g = jit(chain)
    for _ in range(3):
        assert torch.equal(g(x, x), reference(x, x))
    assert recognises(g, x, x) and not recognises(g, x, y)
    assert not recognises(g, x.double(), x.double())


def test_nested_calls_are_recognised_by_their_nesting(jit: Jit) -> None:
    f = jit(lambda p, *rest: p["a"] * p["b"][0] + sum(rest))
    x, y, z = (torch.randn(8, 8) for _ in range(3))

    def expected(p, *rest):
        return p["a"] * p["b"][0] + sum(rest)

    calls = [({"a": x, "b": [y]}, z), ({"a": x, "b": [x]}, x), ({"a": x, "b": (y,)}, z), ({"a": x, "b": [y]}, z, z)]
    calls += [({"b": [y], "a": x}, z), ({"a": x, "b": [y]}, 2.5), ({"a": x, "b": [y]}, z.double())]
    calls += [({"a": x, "b": [torch.randn(65)[1:].view(8, 8)]}, z), ({"a": x, "b": [y.T]}, z)]
    for _ in range(2):
        for arguments in calls:
            for _ in range(2):
                torch.testing.assert_close(f(*arguments), expected(*arguments))
    f(*calls[0])
    assert recognises(f, *calls[0]) and not any(recognises(f, *other) for other in calls[1:])
    hits = f.cache_info().hits
    f(*calls[0])
    assert f.cache_info().hits == hits + 1
    with pytest.raises(ArgumentError, match="requires grad"):
        f({"a": x, "b": [y.clone().requires_grad_()]}, z)


def test_the_quick_check_of_steady_calls_lets_nothing_else_pass(jit: Jit) -> None:
    f, x, y = jit(chain), torch.randn(8, 8), torch.randn(8, 8)
    for _ in range(3):
        assert torch.equal(f(x, y), reference(x, y))
    assert recognises(f, x, y)
    for other in (y.double(), y.T, y[:, ::2][:, :1], torch.randn(65)[1:].view(8, 8), y[0], x):
        for _ in range(2):
            assert torch.equal(f(x, other), reference(x, other))
        assert torch.equal(f(x, y), reference(x, y))
    with pytest.raises(ArgumentError, match="lazily negated"):
        f(x, torch._neg_view(y))
    with pytest.raises(ArgumentError, match="requires grad"):
        f(x, y.clone().requires_grad_())
    with pytest.raises(ArgumentError, match="device 'meta'"):
        f(x, y.to("meta"))
    with torch.no_grad():
        assert torch.equal(f(x, y.clone().requires_grad_()), reference(x, y))
    assert torch.equal(f(x, torch.nn.Parameter(y, requires_grad=False)), reference(x, y))


def test_captured_numpy_arrays_reach_functions_of_torch(jit: Jit) -> None:
    weights, edges = np.random.default_rng(0).standard_normal((500, 300)), np.array([-1.0, 0.0, 2.0])
    product, search = jit(lambda x: np.sort(x @ weights)), jit(lambda x: np.searchsorted(edges, x))
    x = torch.randn(512, 500, dtype=torch.float64)
    assert torch.allclose(product(x), torch.sort(x @ torch.from_numpy(weights)).values)
    assert torch.equal(search(x[0]), torch.searchsorted(torch.from_numpy(edges), x[0]))
    weights *= 2
    assert torch.allclose(product(x), torch.sort(x @ torch.from_numpy(weights)).values)


def test_tensors_that_a_function_holds_are_read_at_each_call(jit: Jit) -> None:
    layer = torch.nn.Linear(5, 3)
    f = jit(lambda x: x @ layer.weight.T + layer.bias)
    x = torch.randn(4, 5)
    with pytest.raises(ArgumentError, match="an array that the function holds requires grad"):
        f(x)
    with torch.no_grad():
        assert torch.allclose(f(x), layer(x), atol=1e-6)
        layer.weight *= 2
        assert torch.allclose(f(x), layer(x), atol=1e-6)
    with pytest.raises(ArgumentError, match="an array that the function holds requires grad"):
        f(x)
    halves = torch.randn(5, dtype=torch.bfloat16)
    assert torch.equal(jit(lambda x: halves * x)(halves), halves * halves)


@pytest.mark.parametrize("shape", [(30, 40), (40, 30)], ids=["plain", "strided"])
def test_a_saved_tensor_that_is_overwritten_has_no_gradient(jit: Jit, shape: tuple[int, int]) -> None:
    """Kernels write behind torch's back: a backward pass through what they overwrote is an error, as with torch's own
    in-place functions, on the first, the second and every further call."""
    f, x = jit(lambda x: x * 2), torch.randn(shape)
    x = x if shape == (30, 40) else x.T
    for _ in range(4):
        weight = torch.ones(30, 40, requires_grad=True)
        kept = weight.exp() if shape == (30, 40) else weight.T.contiguous().exp().T  # exp saves its result
        f(x, out=kept.detach())
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            kept.sum().backward()


def test_launches_of_a_bound_call_and_donation_count_as_writes(jit: Jit) -> None:
    x = torch.randn(30, 40)
    y = torch.empty(30, 40)
    launch = jit(lambda x: x * 2).bind(x, out=y)
    before = y._version
    launch()
    launch()
    assert y._version == before + 2 and x._version == 0

    def scaled(x):
        x[...] = x * 2
        return x.sum()

    jit(scaled, donate="x")(x)
    assert x._version > 0


def test_inference_tensors_may_be_written(jit: Jit) -> None:
    f = jit(lambda x: x * 2)
    with torch.inference_mode():
        x = torch.randn(3, 4)
        expected = x * 2
        for _ in range(3):
            y = x.clone()
            assert torch.equal(f(y, out=y), expected)


@pytest.mark.parametrize("static", [(), "t"])
def test_shapes_are_tuples(jit: Jit, static: object) -> None:
    f, x = jit(lambda x, t: (x * t[1], t), static=static), torch.ones(3, 4)
    for _ in range(3):
        found, shape = f(x, x.shape)
        assert torch.equal(found, x * 4)
        assert shape == (3, 4)


def test_results_of_torch_with_names_are_arguments(jit: Jit) -> None:
    f, x = jit(lambda t: (t.values * 2, t)), torch.randn(3, 4)
    for _ in range(3):
        found, back = f(x.max(0))
        assert torch.equal(found, x.max(0).values * 2)
        assert type(back) is torch.return_types.max
        assert torch.equal(back.indices, x.max(0).indices)


def test_dtypes_of_torch_are_part_of_the_program(jit: Jit) -> None:
    f, x = jit(lambda x, kind: x.astype(kind) * 2), torch.ones(3)
    for kind in (torch.float64, torch.int32, torch.float64):
        assert f(x, kind).dtype == kind
