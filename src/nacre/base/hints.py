"""What names of PyTorch, NumPy, JAX and TensorFlow are called here, or why they are missing.

One table for each place where a name is looked for.  A value is code to write, or a sentence where no code replaces
the name; sentences begin with a capital letter.  A name that another place has, and a name that is spelt almost right,
need no entry.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any, Final, NoReturn, cast

from nacre.base.errors import KindError, MissingAttribute

CPU: Final = "Every tensor is in the memory of the CPU; leave this out"
DEVICES: Final = ("cpu", "cuda", "mps", "xpu", "gpu", "tpu", "meta")
_UNIQUE: Final = "The shape of the result would depend on numbers; use NumPy on x.numpy()"
_LINALG: Final = "Decompositions and solvers are missing; use NumPy on x.numpy()"
_ADD: Final = "x + nacre.nn.functional.one_hot(i, n).astype(x.dtype).mT @ v"
_SPARSE: Final = "Sparse tensors are missing; nacre.take and nacre.nn.EmbeddingBag read a few rows of a large table"
_KERNELS: Final = "Custom kernels and callbacks are missing; write the function with nacre's functions"
_COMPLEX: Final = "Complex numbers are missing; keep the real and the imaginary part as two tensors"


def _by_name(table: Mapping[str, str]) -> dict[str, str]:
    """A table with one name to a key, from one with several names to a key, separated by blanks."""
    return {name: advice for names, advice in table.items() for name in names.split()}


NACRE: Final = _by_name(
    {
        # making tensors
        "array from_numpy as_tensor constant convert_to_tensor scalar_tensor": "nacre.tensor(data)",
        "ndarray": "nacre.Tensor, or nacre.tensor(data) to make one",
        "FloatTensor HalfTensor DoubleTensor": "nacre.tensor(data, dtype=nacre.float32)",
        "LongTensor IntTensor BoolTensor ByteTensor": "nacre.tensor(data, dtype=nacre.int64)",
        "empty": "nacre.zeros(shape)",
        "empty_like": "nacre.zeros_like(x)",
        "identity": "nacre.eye(n)",
        "randn": "nacre.random.normal(shape)",
        "rand": "nacre.random.uniform(shape)",
        "randint": "nacre.random.randint(low, high, shape)",
        "normal": "nacre.random.normal(shape, mean, std)",
        "bernoulli": "nacre.random.bernoulli(p, shape)",
        "randn_like": "nacre.random.normal(x.shape)",
        "rand_like": "nacre.random.uniform(x.shape)",
        "randperm": "nacre.argsort(nacre.random.uniform((n,)))",
        "multinomial": "nacre.argmax(nacre.log(p) - nacre.log(-nacre.log(nacre.random.uniform(p.shape))), axis=-1) "
        "for one draw",
        "manual_seed set_seed initial_seed": "nacre.random.seed(0)",
        "Generator": "nacre.random.Generator(seed)",
        "is_tensor": "isinstance(x, nacre.Tensor)",
        "numel": "x.size",
        # shapes
        "cat concatenate": "nacre.concat(xs, axis=0)",
        "hstack": "nacre.concat(xs, axis=1), or axis=0 for vectors",
        "column_stack": "nacre.concat(xs, axis=1), or nacre.stack(xs, axis=1) for vectors",
        "vstack row_stack": "nacre.concat(xs, axis=0), or nacre.stack(xs) for vectors",
        "dstack": "nacre.concat(xs, axis=2), or nacre.stack(xs, axis=2) for matrices",
        "unsqueeze": "nacre.expand_dims(x, axis=0)",
        "expand": "nacre.broadcast_to(x, shape)",
        "view": "nacre.reshape(x, shape)",
        "ravel": "nacre.flatten(x)",
        "unflatten": "nacre.reshape(x, shape)",
        "unbind": "nacre.unstack(x, axis=0)",
        "chunk array_split vsplit tensor_split": "nacre.split(x, sections=2, axis=0) for equal parts",
        "hsplit": "nacre.split(x, sections=2, axis=1)",
        "permute": "nacre.permute_dims(x, (1, 0))",
        "transpose": "nacre.permute_dims(x, axes) for the order of all axes, or nacre.swapaxes(x, 0, 1) "
        "for two of them",
        "t": "x.T",
        "swapdims": "nacre.swapaxes(x, 0, 1)",
        "movedim": "nacre.moveaxis(x, 0, 1)",
        "repeat_interleave": "nacre.repeat(x, 2, axis=0)",
        "fliplr": "nacre.flip(x, axis=1)",
        "flipud": "nacre.flip(x, axis=0)",
        "narrow": "x[start:start + length] along the first axis",
        "atleast_1d": "x[None] for a scalar; others stay as they are",
        # picking
        "gather": "nacre.take_along_axis(x, indices, axis=1)",
        "index_select": "nacre.take(x, indices, axis=0)",
        "masked_fill": "nacre.where(mask, value, x)",
        "scatter put_along_axis": "nacre.index_update(x, (nacre.arange(n)[:, None], i), value), with i along the last "
        "of two axes",
        "index_add": f"{_ADD}, which adds the rows of v at i; n is x.shape[0]",
        "scatter_add": f"{_ADD} for whole rows; n is x.shape[0]",
        "masked_select nonzero argwhere flatnonzero unique": _UNIQUE,
        "bincount": "nacre.sum(nacre.nn.functional.one_hot(x, n), axis=0)",
        "histc histogram": "NumPy on x.numpy(); the function is missing",
        "diag diagonal": "x[nacre.arange(n), nacre.arange(n)] for the diagonal, or "
        "nacre.where(nacre.eye(n, dtype=nacre.bool), v, 0) for a matrix",
        "trace": "nacre.sum(x[nacre.arange(n), nacre.arange(n)])",
        "searchsorted bucketize": "nacre.sum(x[..., None] > edges, axis=-1)",
        "digitize": "nacre.sum(x[..., None] >= edges, axis=-1)",
        "select": "x[i]",
        "tril_indices triu_indices": "nacre.tril(x) or nacre.triu(x)",
        # arithmetic
        "clamp": "nacre.clip(x, min, max)",
        "clamp_min clip_min": "nacre.maximum(x, low)",
        "clamp_max clip_max": "nacre.minimum(x, high)",
        "mul": "nacre.multiply(x, y)",
        "sub": "nacre.subtract(x, y)",
        "div true_divide": "nacre.divide(x, y)",
        "neg": "nacre.negative(x)",
        "absolute fabs": "nacre.abs(x)",
        "power": "nacre.pow(x, y)",
        "float_power": "nacre.pow(x.astype(nacre.float64), y)",
        "mod": "nacre.remainder(x, y)",
        "fmod": "nacre.copysign(nacre.remainder(nacre.abs(x), nacre.abs(y)), x) for floats",
        "sgn": "nacre.sign(x)",
        "fix": "nacre.trunc(x)",
        "rint": "nacre.round(x)",
        "arccos": "nacre.acos(x)",
        "arcsin": "nacre.asin(x)",
        "arctan": "nacre.atan(x)",
        "arctan2": "nacre.atan2(y, x)",
        "arccosh": "nacre.acosh(x)",
        "arcsinh": "nacre.asinh(x)",
        "arctanh": "nacre.atanh(x)",
        "erfinv": "The inverse of erf is missing; use SciPy on x.numpy()",
        "lerp": "x + weight * (y - x)",
        "addcmul": "x + value * a * b",
        "addcdiv": "x + value * a / b",
        "fmax": "nacre.where(nacre.isnan(x), y, nacre.where(nacre.isnan(y), x, nacre.maximum(x, y)))",
        "fmin": "nacre.where(nacre.isnan(x), y, nacre.where(nacre.isnan(y), x, nacre.minimum(x, y)))",
        "invert bitwise_not": "nacre.bitwise_invert(x)",
        "eq": "nacre.equal(x, y)",
        "ne": "nacre.not_equal(x, y)",
        "lt": "nacre.less(x, y)",
        "le": "nacre.less_equal(x, y)",
        "gt": "nacre.greater(x, y)",
        "ge": "nacre.greater_equal(x, y)",
        "allclose": "bool(nacre.all(nacre.abs(x - y) <= 1e-8 + 1e-5 * nacre.abs(y))) for finite numbers",
        "isclose": "nacre.abs(x - y) <= 1e-8 + 1e-5 * nacre.abs(y) for finite numbers",
        "array_equal": "x.shape == y.shape and bool(nacre.all(x == y))",
        "nan_to_zero": "nacre.nan_to_num(x)",
        # sums and products
        "amax reduce_max": "nacre.max(x, axis=0)",
        "amin reduce_min": "nacre.min(x, axis=0)",
        "nanmax": "nacre.max(nacre.where(nacre.isnan(x), -nacre.inf, x), axis=0)",
        "nanmin": "nacre.min(nacre.where(nacre.isnan(x), nacre.inf, x), axis=0)",
        "aminmax": "nacre.min(x) and nacre.max(x)",
        "reduce_sum": "nacre.sum(x, axis=0)",
        "nansum": "nacre.sum(nacre.where(nacre.isnan(x), 0.0, x), axis=0)",
        "reduce_mean average": "nacre.mean(x, axis=0)",
        "nanmean": "nacre.sum(nacre.where(nacre.isnan(x), 0.0, x), axis=0) / nacre.sum((x == "
        "x).astype(x.dtype), axis=0)",
        "reduce_prod": "nacre.prod(x, axis=0)",
        "cumsum": "nacre.cumulative_sum(x, axis=0)",
        "cumprod cumulative_prod": "nacre.exp(nacre.cumulative_sum(nacre.log(x), axis=0)) for positive numbers, nearly",
        "median quantile percentile": "nacre.sort(x, axis=0), and an index into it",
        "diff": "x[..., 1:] - x[..., :-1]",
        "norm": "nacre.sqrt(nacre.sum(nacre.square(x)))",
        "std_mean var_mean": "nacre.var(x, axis=0, correction=1) and nacre.mean(x, axis=0)",
        "ptp": "nacre.max(x) - nacre.min(x)",
        "mm bmm mv dot": "nacre.matmul(x, y), or x @ y",
        "inner": "x @ y for vectors, x @ y.mT for matrices",
        "addmm baddbmm": "x @ y + bias",
        "vdot": "nacre.vecdot(x, y)",
        "kron": 'nacre.reshape(nacre.einsum("ij,kl->ikjl", x, y), shape), with the product of the shapes',
        "cross": 'nacre.einsum("ijk,j,k", epsilon, x, y), or the three products',
        "linalg": f"{_LINALG}; products are nacre.matmul, nacre.vecdot and nacre.einsum",
        "solve inverse svd qr cholesky det eig": _LINALG,
        "fft stft istft": "Fourier transforms are missing; use NumPy or SciPy on x.numpy()",
        "sparse sparse_coo_tensor sparse_csr_tensor sparse_tensor SparseTensor": _SPARSE,
        "pure_callback io_callback custom_kernel py_function numpy_function": _KERNELS,
        "from_dlpack to_dlpack": "DLPack is missing; write nacre.tensor(numpy.asarray(x)) for a tensor of "
        "another library",
        "complex complex64 complex128 cfloat real imag conj": _COMPLEX,
        # dtypes
        "float": "nacre.float32",
        "double": "nacre.float64",
        "half": "nacre.float16",
        "long": "nacre.int64",
        "int": "nacre.int32 or nacre.int64",
        "short": "nacre.int16",
        "bool_": "nacre.bool",
        "dtype": "nacre.DType",
        "cast": "nacre.astype(x, dtype)",
        "set_default_dtype get_default_dtype": "Python floats become float32; write dtype=nacre.float64, "
        "or model.double()",
        "qint8 quint8 quantization ao quantize_per_tensor quantize_per_channel": "Quantisation is missing; "
        "integer products keep their sums in 32 bits",
        # devices and settings
        "cuda device backends mps xpu devices device_put device_get default_backend": CPU,
        "set_num_threads": "nacre.set_threads(n)",
        "get_num_threads": "nacre.get_threads()",
        "use_deterministic_algorithms": "Results are deterministic; leave this out",
        "set_float32_matmul_precision autocast amp": "Nothing rounds to fewer bits by itself; write model.bfloat16()",
        "config": "Settings are functions: nacre.set_threads, nacre.numerics, nacre.set_printoptions",
        # gradients and transforms
        "autograd GradientTape": "nacre.grad(f)(x), or loss.backward(); for autograd.Function write "
        "f(x).detach() + (g(x) - g(x).detach()), with g's gradient",
        "inference_mode": "nacre.no_grad()",
        "set_grad_enabled": "nacre.no_grad() or nacre.enable_grad()",
        "stop_gradient": "x.detach()",
        "func functorch": "nacre.grad, nacre.vmap, nacre.jvp, nacre.vjp",
        "jacobian": "nacre.jacrev(f)(x)",
        "linearize": "nacre.jvp(f, (x,), (t,))",
        "custom_vjp custom_jvp custom_gradient": "f(x).detach() + (g(x) - g(x).detach()), which has f's "
        "value where g is "
        "finite, and g's gradient",
        "remat": "nacre.checkpoint(f)",
        "compile function": "nacre.jit(f)",
        "pmap": "One machine computes; nacre.vmap(f) batches, and kernels use all threads",
        "lax": "nacre.cond, nacre.while_loop, nacre.fori_loop and nacre.scan",
        "map": "nacre.vmap(f)(x)",
        "switch": "nacre.cond, nested",
        "associative_scan": "nacre.scan, or nacre.cumulative_sum for sums",
        "block_until_ready synchronize": "Calls return when their numbers are there; leave this out",
        "make_jaxpr": "`nacre explain FILE.py:FUNCTION TYPE`, which prints the graph",
        "tree_map": "nacre.tree.map(f, tree)",
        "tree_util tree_leaves": "nacre.tree.leaves(tree) and nacre.tree.map(f, tree)",
        "numpy jnp np": "The functions are in nacre itself, as nacre.sum",
        # packages
        "Module": "nacre.nn.Module",
        "utils": "nacre.data for loaders, nacre.nn.utils for parameters, nacre.checkpoint for checkpoints",
        "keras": "nacre.nn, nacre.optim and nacre.train.Trainer",
        "distributed": "One machine computes; nacre.data.DistributedSampler shares a data set among processes",
        "onnx": "ONNX is missing; nacre.save_program saves a program, and `nacre compile` makes an executable",
        "export": "nacre.save_program, or nacre.deploy",
        "hub": "There are no published models; nacre.load reads safetensors files",
        "profiler": "`nacre explain` and `nacre bench`",
        "library": "nacre.deploy, or a function of nacre's own functions",
        "isin in1d": "nacre.any(x[..., None] == values, axis=-1)",
        "softplus": "nacre.nn.functional.softplus(x)",
        # further names
        "clone copy": "copy.copy(x) for a tensor to write to; operations never change a tensor",
        "detach": "x.detach(), which is not recorded",
        "range shape rank": "nacre.arange(n) for numbers, or x.shape and x.ndim of a tensor",
        "size": "x.shape for the sizes, or x.size for the number of elements",
        "ndim": "x.ndim",
        "Size": "a tuple of integers",
        "fill": "nacre.full(shape, value)",
        "logspace": "10 ** nacre.linspace(start, stop, num)",
        "geomspace": "nacre.exp(nacre.linspace(a, b, num)), with the logarithms of the ends",
        "tri": "nacre.tril(nacre.ones((n, n)))",
        "atleast_2d": "nacre.reshape(x, (1, -1)) for a scalar or a vector; others stay as they are",
        "atleast_3d": "x[None, :, None] for a vector, x[..., None] for a matrix",
        "dsplit": "nacre.split(x, sections=2, axis=2)",
        "rollaxis": "nacre.moveaxis(x, axis, 0)",
        "rot90": "nacre.flip(nacre.swapaxes(x, 0, 1), axis=0)",
        "block_diag": "nacre.concat of the blocks, with nacre.zeros beside them",
        "block": "nacre.concat([nacre.concat(row, axis=1) for row in rows], axis=0)",
        "append": "nacre.concat([x, y], axis=0)",
        "insert": "nacre.concat([x[:i], y, x[i:]], axis=0)",
        "delete trim_zeros": "x[start:stop], and nacre.concat of what stays",
        "diag_embed diagflat": "nacre.where(nacre.eye(n, dtype=nacre.bool), x[..., None], 0)",
        "resize": "nacre.reshape(x, shape), or nacre.tile to repeat the elements",
        "take_along_dim": "nacre.take_along_axis(x, indices, axis=1)",
        "gather_nd": "x[i, j], with one integer tensor for each axis",
        "unravel_index": "i // columns and i % columns",
        "index_copy index_fill index_put place putmask masked_scatter select_scatter slice_scatter "
        "diagonal_scatter": "nacre.index_update(x, key, value), or x[key] = value",
        "put": "nacre.index_update(x.flatten(), i, value).reshape(x.shape)",
        "scatter_reduce": "NumPy on x.numpy(); of repeated places, nacre.index_update keeps one value",
        "scatter_nd": "nacre.index_update(nacre.zeros(shape), (i, j), value), which does not add at repeated places",
        "boolean_mask extract compress unique_consecutive intersect1d union1d setdiff1d setxor1d": _UNIQUE,
        "choose select_n piecewise": "nacre.where(mask, x, y), nested",
        "mode": "SciPy on x.numpy(); the function is missing",
        "lexsort": "nacre.argsort, which is stable, by each key, beginning with the least important one",
        "kthvalue partition argpartition msort": "nacre.sort(x, axis=0) or nacre.argsort(x, axis=0)",
        "cummax cummin": "nacre.scan with nacre.maximum or nacre.minimum",
        "logcumsumexp": "m + nacre.log(nacre.cumulative_sum(nacre.exp(x - m), axis=0)), with m = nacre.max(x)",
        "cumulative_trapezoid": "nacre.cumulative_sum((x[..., 1:] + x[..., :-1]) / 2 * step, axis=-1)",
        "trapz trapezoid": "nacre.sum((x[..., 1:] + x[..., :-1]) / 2 * step, axis=-1)",
        "gradient": "(x[2:] - x[:-2]) / 2 between the ends, or nacre.grad(f)(x) for the derivative of a function",
        "ediff1d": "x[1:] - x[:-1], of x.flatten()",
        "interp": "NumPy on x.numpy(); the function is missing",
        "frac": "x - nacre.trunc(x)",
        "modf": "x - nacre.trunc(x) and nacre.trunc(x)",
        "divmod": "nacre.floor_divide(x, y) and nacre.remainder(x, y)",
        "ldexp": "x * nacre.exp2(y)",
        "frexp nextafter spacing": "NumPy on x.numpy(); the function is missing",
        "logaddexp2": "nacre.logaddexp(x * c, y * c) / c, with c = math.log(2)",
        "xlogy": "nacre.where(x == 0, 0.0, x * nacre.log(y))",
        "logit": "nacre.log(x / (1 - x))",
        "sinc": "nacre.where(x == 0, 1.0, nacre.sin(nacre.pi * x) / (nacre.pi * x))",
        "heaviside": "nacre.where(x == 0, value, (x > 0).astype(x.dtype))",
        "deg2rad radians": "x * (nacre.pi / 180)",
        "rad2deg degrees": "x * (180 / nacre.pi)",
        "isposinf": "x == nacre.inf",
        "isneginf": "x == -nacre.inf",
        "is_floating_point": "x.dtype.is_float",
        "left_shift": "nacre.bitwise_left_shift(x, y)",
        "right_shift": "nacre.bitwise_right_shift(x, y)",
        "around": "nacre.round(x)",
        "lgamma digamma polygamma mvlgamma igamma i0 gcd lcm renorm unwrap": "SciPy or NumPy on "
        "x.numpy(); the function is "
        "missing",
        "dist": "nacre.sqrt(nacre.sum((x - y) ** 2))",
        "cdist": "nacre.sqrt(nacre.sum((x[:, None] - y[None]) ** 2, axis=-1))",
        "cov": "(x - m) @ (x - m).mT / (n - 1), with m = nacre.mean(x, axis=1, keepdims=True)",
        "corrcoef": "z @ z.mT / n, with z = (x - m) / s of the means and the standard deviations of the rows",
        "cosine_similarity": "nacre.nn.functional.cosine_similarity(x, y)",
        "convolve": "nacre.nn.functional.conv1d(x[None, None], nacre.flip(w)[None, None], padding=w.size - 1)[0, 0]",
        "correlate": "nacre.nn.functional.conv1d(x[None, None], w[None, None])[0, 0]",
        "matrix_exp": _LINALG,
        "matrix_power chain_matmul": "nacre.matmul(x, y), repeated",
        "addbmm": "nacre.sum(x @ y, axis=0) + bias",
        "addmv": "matrix @ x + bias",
        "addr": "nacre.outer(x, y) + bias",
        "nanprod": "nacre.prod(nacre.where(nacre.isnan(x), 1.0, x), axis=0)",
        "nanstd nanvar nanmedian": "NumPy on x.numpy(); the function is missing",
        "nancumsum": "nacre.cumulative_sum(nacre.where(nacre.isnan(x), 0.0, x), axis=0)",
        "nanargmax": "nacre.argmax(nacre.where(nacre.isnan(x), -nacre.inf, x))",
        "nanargmin": "nacre.argmin(nacre.where(nacre.isnan(x), nacre.inf, x))",
        "logdet slogdet pinverse lu triangular_solve": _LINALG,
        "angle polar view_as_real view_as_complex is_complex iscomplex isreal adjoint resolve_conj": _COMPLEX,
        "broadcast_tensors": "nacre.broadcast_arrays(x, y)",
        "broadcast_shapes": "numpy.broadcast_shapes(a, b)",
        "cartesian_prod": 'nacre.stack([g.flatten() for g in nacre.meshgrid(x, y, indexing="ij")], axis=1)',
        "vectorize map_fn apply_along_axis": "nacre.vmap(f)(x)",
        "promote_types can_cast": "nacre.result_type(x, y)",
        "ascontiguousarray asfortranarray as_strided": "Functions read every layout; leave this out",
        "contiguous_format channels_last preserve_format strided memory_format layout": "Functions read every layout; "
        "leave this out",
        "cpu set_default_device get_default_device default_device": CPU,
        "randint_like": "nacre.random.randint(low, high, x.shape)",
        "get_rng_state set_rng_state": "nacre.random.Generator(seed), whose state a checkpoint keeps",
        "hann_window hamming_window hanning hamming blackman kaiser bartlett blackman_window": ""
        "nacre.tensor(array), with "
        "the window from SciPy",
        "clip_by_value": "nacre.clip(x, min, max)",
        "nested masked": "nacre.nn.pad_sequence(xs), or a mask as another tensor",
        "eval_shape ShapeDtypeStruct": "nacre.jit(f).trace(x).output_types",
        "disable_jit": "the function without nacre.jit",
        "loadtxt genfromtxt fromfile savetxt savez frombuffer fromstring": "NumPy, and nacre.tensor(array)",
        "distributions special": "nacre.random for numbers; densities and special functions are missing",
        "c_ r_ s_ ix_ mgrid ogrid indices": "nacre.meshgrid, nacre.concat, or an index",
        "one_hot": "nacre.nn.functional.one_hot(x, n)",
    }
)

NN: Final = _by_name(
    {
        "Conv2D": "nacre.nn.Conv2d, with channels before height and width",
        "Conv1D": "nacre.nn.Conv1d, with channels before length",
        "MaxPool2D MaxPooling2D": "nacre.nn.MaxPool2d(kernel_size)",
        "Dense": "nacre.nn.Linear(in_features, out_features)",
        "BatchNorm BatchNormalization SyncBatchNorm": "nacre.nn.BatchNorm1d or nacre.nn.BatchNorm2d",
        "LayerNormalization": "nacre.nn.LayerNorm(normalized_shape)",
        "Embed": "nacre.nn.Embedding(num_embeddings, embedding_dim)",
        "DataParallel": "One process computes with all threads; leave this out",
        "LazyLinear LazyConv2d": "Layers have their sizes from the start; write "
        "nacre.nn.Linear(in_features, out_features)",
        "ReLu Relu": "nacre.nn.ReLU()",
        "Swish": "nacre.nn.SiLU()",
        "F": "nacre.nn.functional",
        "compact": "a class with __init__ and forward, derived from nacre.nn.Module",
        "clip_grad_norm": "nacre.nn.utils.clip_grad_norm_(parameters, max_norm)",
        "swish": "nacre.nn.SiLU()",
        "initializers": "nacre.nn.init",
        "parallel": "One process computes with all threads; leave this out",
        "LazyConv1d LazyBatchNorm1d LazyBatchNorm2d": "Layers have their sizes from the start; leave out Lazy",
        "NLLLoss2d": "nacre.nn.NLLLoss()",
    }
)

UTILS: Final = _by_name(
    {
        "rnn": "nacre.nn.pack_padded_sequence, nacre.nn.pad_packed_sequence or nacre.nn.pad_sequence",
        "clip_grad_norm": "nacre.nn.utils.clip_grad_norm_(parameters, max_norm)",
        "clip_grads_with_norm_ get_total_norm": "nacre.nn.utils.clip_grad_norm_(parameters, max_norm) gives the norm",
        "parametrizations parametrize": "nacre.nn.utils.weight_norm or nacre.nn.utils.spectral_norm",
        "prune": "p.data = p * mask; pruning is missing",
        "skip_init": "the layer itself",
        "stateless": "nacre.grad(f)(model); a module is a tree of its parameters",
    }
)

FUNCTIONAL: Final = _by_name(
    {
        "swish": "nacre.nn.functional.silu(x)",
        "dense": "nacre.nn.functional.linear(x, weight, bias)",
        "upsample upsample_nearest": "nacre.nn.functional.interpolate(x, scale_factor=2)",
        "upsample_bilinear": 'nacre.nn.functional.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)',
        "multi_head_attention_forward": "nacre.nn.MultiheadAttention, or "
        "nacre.nn.functional.scaled_dot_product_attention",
        "pdist": "nacre.sqrt(nacre.sum((x[:, None] - x[None]) ** 2, axis=-1)), above its diagonal",
        "relu_ elu_ leaky_relu_ threshold_": "the name without the underscore, as nacre.nn.functional.relu(x)",
    }
)

INIT: Final = _by_name(
    {
        "glorot_uniform xavier_uniform": "nacre.nn.init.xavier_uniform_(parameter)",
        "he_normal kaiming_normal": "nacre.nn.init.kaiming_normal_(parameter)",
        "lecun_normal variance_scaling": "nacre.nn.init.normal_(parameter, std=std)",
        "truncated_normal": "nacre.nn.init.trunc_normal_(parameter)",
    }
)

DATA: Final = _by_name(
    {
        "ChainDataset": "nacre.data.ConcatDataset(datasets)",
        "StackDataset from_tensor_slices": "nacre.data.TensorDataset(x, y)",
        "SubsetRandomSampler": "nacre.data.DataLoader(nacre.data.Subset(dataset, indices), shuffle=True)",
        "default_convert": "nacre.data.to_tensors(batch)",
        "get_worker_info worker_init_fn": "nacre.data.rng(), which does not depend on the workers",
        "transforms v2": "nacre.data.Compose and the augmentations of nacre.data",
        "ToTensor": "nacre.data.ToFloat()",
        "Lambda": "dataset.map(f)",
        "Resize ColorJitter ToPILImage": "a function of your own in dataset.map(f)",
        "MNIST CIFAR10 ImageFolder datasets": "nacre.data.TensorDataset(x, y); there are no downloads",
    }
)

OPTIM: Final = _by_name(
    {
        "lr_scheduler": "the name in nacre.optim itself, as nacre.optim.CosineAnnealingLR",
        "swa_utils": "Averages of weights are missing; keep a copy of the parameters and average it under "
        "nacre.no_grad()",
        "SparseAdam ASGD Rprop Adafactor": "nacre.optim.AdamW, or a class derived from nacre.optim.Optimizer",
        "apply_updates": "optimizer.step()",
        "chain": "nacre.optim.clip_grad_norm_(parameters, max_norm) before optimizer.step()",
        "clip_by_global_norm": "nacre.optim.clip_grad_norm_(parameters, max_norm)",
    }
)

RANDOM: Final = _by_name(
    {
        "randn standard_normal": "nacre.random.normal(shape)",
        "rand random random_sample": "nacre.random.uniform(shape)",
        "PRNGKey": "nacre.random.key(seed)",
        "fold_in": "nacre.random.split(key, count)[i]",
        "manual_seed set_seed": "nacre.random.seed(0)",
        "default_rng": "nacre.random.Generator(seed), or keys: nacre.random.key(seed)",
        "integers": "nacre.random.randint(low, high, shape)",
        "permutation shuffle randperm": "nacre.argsort(nacre.random.uniform((n,))), and x[order]",
        "categorical": "nacre.argmax(logits - nacre.log(-nacre.log(nacre.random.uniform(logits.shape))), axis=-1)",
        "gumbel": "-nacre.log(-nacre.log(nacre.random.uniform(shape)))",
        "choice": "x[nacre.random.randint(0, n, shape)], which may repeat elements",
        "truncated_normal": "nacre.nn.init.trunc_normal_(parameter)",
        "exponential": "-nacre.log1p(-nacre.random.uniform(shape))",
        "binomial": "nacre.sum(nacre.random.bernoulli(p, (n, *shape)), axis=0)",
        "ranf sample": "nacre.random.uniform(shape)",
        "random_integers": "nacre.random.randint(low, high + 1, shape)",
        "multinomial": "nacre.argmax(nacre.log(p) - nacre.log(-nacre.log(nacre.random.uniform(p.shape))), axis=-1) "
        "for one draw",
        "lognormal": "nacre.exp(nacre.random.normal(shape, mean, std))",
        "laplace logistic cauchy beta gamma poisson dirichlet geometric chisquare weibull triangular rademacher "
        "multivariate_normal": "NumPy for the numbers, and nacre.tensor(array)",
        "get_state set_state get_rng_state set_rng_state fork_rng initial_seed": "nacre.random.Generator(seed), whose "
        "state a checkpoint keeps",
        "key_data wrap_key_data": "the key itself, a tensor of uint32",
    }
)

TENSOR: Final = _by_name(
    {
        "cuda cpu to_device pin_memory is_cuda get_device": CPU,
        "to": "x.astype(dtype) for a dtype; there is no GPU, so leave a device out",
        "float": "x.astype(nacre.float32)",
        "double": "x.astype(nacre.float64)",
        "half": "x.astype(nacre.float16)",
        "long": "x.astype(nacre.int64)",
        "int": "x.astype(nacre.int32)",
        "bool": "x.astype(nacre.bool)",
        "bfloat16": "x.astype(nacre.bfloat16)",
        "type_as": "x.astype(y.dtype)",
        "unsqueeze": "nacre.expand_dims(x, axis=0), or x[None]",
        "expand": "nacre.broadcast_to(x, shape)",
        "expand_as": "nacre.broadcast_to(x, y.shape)",
        "view_as reshape_as": "x.reshape(y.shape)",
        "ravel": "x.flatten()",
        "t": "x.T",
        "H": "x.mT",
        "dim ndimension rank": "x.ndim",
        "numel nelement": "x.size",
        "clone copy": "copy.copy(x) for a tensor to write to; operations never change a tensor",
        "contiguous is_contiguous": "Functions read every layout; leave this out",
        "new_zeros": "nacre.zeros(shape, dtype=x.dtype)",
        "new_ones": "nacre.ones(shape, dtype=x.dtype)",
        "new_full": "nacre.full(shape, value, dtype=x.dtype)",
        "new_tensor": "nacre.tensor(data, dtype=x.dtype)",
        "at": f"nacre.index_update(x, key, value) for at[key].set(value), and {_ADD} for at[i].add(v); n is x.shape[0]",
        "index_add_ scatter_add_": f"x = {_ADD}, which adds the rows of v at i; n is x.shape[0]",
        "split_with_sizes": "nacre.split(x, sections, axis=0)",
        "block_until_ready": "Calls return when their numbers are there; leave this out",
        "register_hook": "x.retain_grad(), and x.grad after loss.backward()",
        "grad_fn": "x.is_leaf; `nacre explain` prints the graph of a function",
        "itemsize element_size": "x.nbytes // x.size",
        "strides stride": "The layout is an internal matter; x.numpy().strides has it",
        "where": "nacre.where(condition, x, y)",
        "softmax": "nacre.nn.functional.softmax(x, dim=-1)",
        "log_softmax": "nacre.nn.functional.log_softmax(x, dim=-1)",
        "relu": "nacre.nn.functional.relu(x)",
        "prelu hardshrink": "the function of nacre.nn.functional",
        "short": "x.astype(nacre.int16)",
        "byte": "x.astype(nacre.uint8)",
        "char": "x.astype(nacre.int8)",
        "mH": "x.mT",
        "mode bernoulli multinomial": "the function of nacre or of nacre.random",
        "new_empty new": "nacre.zeros(shape, dtype=x.dtype)",
        "data_ptr storage storage_offset untyped_storage flat base flags ctypes getfield resize unfold": ""
        "x.numpy() for "
        "an array, which has it",
        "apply_ map_": "x = f(x), with functions of nacre",
        "tobytes tofile dump dumps": "x.numpy().tobytes()",
        "itemset": "x[key] = value",
        "fill": "x[...] = value",
        "is_pinned is_shared is_meta is_sparse is_quantized device_ids xpu copy_to_host_async devices sharding "
        "addressable_shards": CPU,
        "to_dense to_sparse indices dense_dim": "Sparse tensors are missing; leave this out",
        "names names_": "Axes have no names; write their numbers",
        "retains_grad": "x.requires_grad",
        "register_post_accumulate_grad_hook": "x.grad after loss.backward()",
        "sum_to_size": "x.sum(axis=0)",
        "eval realize ref": "x.numpy(); results are computed at once",
        "get_shape set_shape": "x.shape",
        "masked_fill": "nacre.where(mask, value, x)",
    }
)

MODULE: Final = _by_name(
    {
        "cuda cpu to_empty share_memory": CPU,
        "type": "model.to(dtype)",
        "compile": "nacre.jit(model)",
        "fit": "nacre.train.Trainer(model, optimizer, loss).fit(loader)",
        "predict": "model(x) after model.eval()",
        "summary": "print(model)",
        "get_weights trainable_variables": "model.state_dict() and model.parameters()",
        "set_weights": "model.load_state_dict(state)",
        "init": "model.parameters(); a module makes its parameters when it is made",
        "register_backward_hook": "model.register_full_backward_hook(hook)",
        "weights": "model.parameters()",
        "save": "nacre.save(model.state_dict(), path)",
        "load load_weights": "model.load_state_dict(nacre.load(path))",
        "save_weights": "nacre.save(model.state_dict(), path)",
        "evaluate": "nacre.train.Trainer(model, optimizer, loss).validate(loader)",
        "trainable_weights": "model.parameters()",
        "count_params num_parameters": "sum(p.size for p in model.parameters())",
        "layers": "model.children()",
        "freeze": "model.requires_grad_(False)",
        "unfreeze": "model.requires_grad_(True)",
        "xpu ipu mtia": CPU,
    }
)

OPTIMIZER: Final = _by_name(
    {
        "minimize": "loss.backward() and optimizer.step()",
        "apply_gradients apply": "optimizer.step()",
        "init": "optimizer.state",
        "lr learning_rate get_lr set_lr": 'optimizer.param_groups[0]["lr"]',
        "params": 'optimizer.param_groups[0]["params"]',
    }
)

PLACES: Final = {
    "nacre": NACRE,
    "nacre.nn": NN,
    "nacre.nn.utils": UTILS,
    "nacre.nn.functional": FUNCTIONAL,
    "nacre.nn.init": INIT,
    "nacre.data": DATA,
    "nacre.optim": OPTIM,
    "nacre.random": RANDOM,
    "Tensor": TENSOR,
    "Module": MODULE,
    "Optimizer": OPTIMIZER,
}
ELSEWHERE: Final = (  # where a name is looked for that a module lacks
    "nacre", "nacre.nn", "nacre.nn.functional", "nacre.optim", "nacre.random", "nacre.data", "nacre.nn.utils",
)  # fmt: skip

KEYWORDS: Final = {  # keywords that functions lack, and what to write
    "device": CPU,
    "requires_grad": "nacre.tensor(data).requires_grad_(), or nacre.nn.Parameter(data)",
    "out": "Functions make new tensors; write y[...] = f(x)",
    "pin_memory": CPU,
    "non_blocking": CPU,
    "memory_format": "Functions read every layout; leave this out",
    "layout": "Functions read every layout; leave this out",
    "inplace": "Leave it out; a compiled function reuses memory by itself",
    "unbiased": "correction=1 or correction=0",
    "ddof": "correction=1",
    "size": "shape=(2, 3)",
    "generator": "key=nacre.random.key(0), or seed=0 where the function has it",
    "map_location": CPU,
    "weights_only": "Files hold tensors only; leave this out",
    "fused": "Leave it out; a compiled step is one program",
    "foreach": "Leave it out; a compiled step is one program",
    "static_argnums": "Leave it out; arguments that are no tensors are static",
    "input": "Pass the first tensor by position; leave the name out",
    "a": "Pass the first tensor by position; leave the name out",
    "arr": "Pass the first tensor by position; leave the name out",
    "other": "Pass the second tensor by position; leave the name out",
    "exponent": "Pass the exponent by position; leave the name out",
    "source": "Pass the axes by position; leave the names out",
    "order": "Elements are in the order of rows; leave it out",
    "copy": "Leave it out; copy.copy(x) makes a tensor to write to",
    "sparse": "Gradients are whole tensors; leave it out",
    "max_norm": "Rows are not renormalised; use nacre.nn.functional.normalize",
    "size_average": 'reduction="mean" or reduction="sum"',
    "reduce": 'reduction="none" or reduction="mean"',
    "learning_rate": "lr=0.001",
    "verbose": "Leave it out; read the rate from optimizer.param_groups",
    "persistent_workers": "Leave it out; workers end with the epoch",
    "fullgraph": "Leave it out; a function is always one program",
    "mode": "Leave it out; NACRE_TUNE chooses faster variants",
    "dynamic": "dynamic_shapes",
    "backend": "Leave it out; there is one compiler",
    "donate_argnums": 'donate=("x",), with the names of parameters',
    "donate_argnames": 'donate=("x",), with the names of parameters',
    "in_dims": "in_axes=0",
    "out_dims": "out_axes=0",
    "use_reentrant": "Leave it out",
    "assign": "Leave it out; parameters take the numbers",
    "split_size_or_sections": "sections=2",
    "decimals": "nacre.round(x * 10 ** decimals) / 10 ** decimals",
    "where": "nacre.where(mask, x, 0) as the argument of a sum",
    "initial": "Leave it out; add it to the result of a sum",
    "dtype": "x.astype(dtype) before or after the call",
    "alpha": "x + alpha * y",
    "antialias": "Leave it out; interpolation has no filter",
    "_stacklevel": "Leave it out",
    "m": "n_cols=4",
    "N": "n_rows=3",
    "static_argnames": "Leave it out; arguments that are no tensors are static",
}


def advice(place: str, name: str) -> str:
    """What an error says after the name that a place lacks, or nothing where nothing is known.

    >>> advice("nacre", "cat")
    '; write nacre.concat(xs, axis=0)'
    """
    return worded(PLACES.get(place, {}).get(name, ""))


def worded(found: str) -> str:
    """An entry of a table as the end of an error: a sentence of its own, or what to write."""
    return f". {found}" if found[:1].isupper() else found and f"; write {found}"


def closest(name: str, names: Iterable[str], place: str = "", cutoff: float = 0.75) -> str:
    """What an error says after a name that is spelt almost as one of those that are there, or nothing.

    `cutoff` is how alike two names must be, from 0 to 1.

    >>> closest("AdmaW", ["Adam", "AdamW", "SGD"], "nacre.optim.")
    '; did you mean nacre.optim.AdamW?'
    """
    from difflib import get_close_matches  # noqa: PLC0415 - where a name is wrong, not at every start

    lower = {other.lower(): other for other in names if not other.startswith("_")}
    found = get_close_matches(name.lower(), lower, n=1, cutoff=cutoff)
    return f"; did you mean {place}{lower[found[0]]}?" if found else ""


def public_names(place: str) -> list[str]:
    """The public names of a module, as users call it."""
    first, *rest = place.split(".")
    module = import_module(first)
    for word in rest:
        module = cast("ModuleType", getattr(module, word))
    held = vars(module)
    if "__dir__" in held:
        return [name for name in dir(module) if not name.startswith("_")]
    here = module.__name__
    return [name for name in held if name[0] != "_" and getattr(held[name], "__module__", "").startswith(here)]


class MissingName(MissingAttribute):
    """A module lacks a name; what to write is looked up when the message is shown, as `hasattr` shows none."""

    def __init__(self, place: str, name: str) -> None:
        super().__init__(place, name, name=name)
        self.place, self.wanted = place, name

    def __str__(self) -> str:
        place, name = self.place, self.wanted
        known = advice(place, name)
        if not known and not name.startswith("_"):
            own = public_names(place)
            homes = [home for home in ELSEWHERE if home != place and name in public_names(home)]
            known = f"; write {homes[0]}.{name}" if homes and f"{name}_" not in own else closest(name, own, f"{place}.")
        return f"module {place!r} has no attribute {name!r}{known}"


def refusal(place: str) -> Callable[[str], NoReturn]:
    """A `__getattr__` that raises MissingName, for the module that users know as `place`."""

    def __getattr__(name: str) -> NoReturn:
        raise MissingName(place, name)

    return __getattr__


class Absent:
    """The place of a method that a class lacks; a `__getattr__` would make every attribute slower."""

    def __init__(self, name: str, known: str) -> None:
        self.name = name
        self.known = known

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise MissingAttribute(f"{owner.__name__!r} object has no attribute {self.name!r}{self.known}", name=self.name)


def mark_absent(cls: type, table: Mapping[str, str]) -> None:
    """Have a class say what to write for those names of a table that it lacks."""
    for name, found in table.items():
        if not any(name in vars(base) for base in cls.__mro__):
            type.__setattr__(cls, name, Absent(name, worded(found)))


def listed(instance: object) -> list[str]:
    """`dir` without the names that are absent."""
    held = {name: found for base in reversed(type(instance).__mro__) for name, found in vars(base).items()}
    return [name for name in object.__dir__(instance) if not isinstance(held.get(name), Absent)]


class _NotCalled(ModuleType):
    """A package of Nacre's that has the name of another library's function."""

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        name = self.__name__.rpartition(".")[2]
        raise KindError(f"{name}: a function is required; got the package {self.__name__}{advice('nacre', name)}")


def refuse_calls(package: str) -> None:
    """Have a package say what to write where it is called."""
    sys.modules[package].__class__ = _NotCalled
