"""Methods and attributes of other libraries: of tensors, modules and optimisers."""

from __future__ import annotations

from typing import Final

from nacre.base.porting.advice import CPU, by_name

IN_PLACE: Final = (  # methods that would change a tensor, without the underscore at their end
    "abs absolute acos acosh add addbmm addcdiv addcmul addmm addmv addr apply arccos arccosh arcsin arcsinh arctan "
    "arctan2 arctanh as_strided asin asinh atan atan2 atanh baddbmm bernoulli bitwise_and bitwise_left_shift "
    "bitwise_not bitwise_or bitwise_right_shift bitwise_xor cauchy ceil clamp clamp_max clamp_min clip "
    "conj_physical copy copysign cos cosh cumprod cumsum deg2rad detach digamma div divide eq erf erfc erfinv exp "
    "exp2 expm1 exponential fill fill_diagonal fix float_power floor floor_divide fmod frac gcd ge geometric "
    "greater greater_equal gt heaviside hypot i0 igamma igammac index_add index_copy index_fill index_put "
    "index_reduce lcm ldexp le lerp less less_equal lgamma log log10 log1p log2 log_normal logical_and logical_not "
    "logical_or logical_xor logit lt map map2 masked_fill masked_scatter mul multiply mvlgamma nan_to_num ne neg "
    "negative nextafter normal not_equal polygamma pow put rad2deg random reciprocal relu remainder renorm resize "
    "resize_as resize_as_sparse round rsqrt scatter scatter_add scatter_reduce set sgn share_memory sigmoid sign "
    "sin sinc sinh sparse_resize sparse_resize_and_clear sqrt square squeeze sub subtract swapaxes swapdims t tan "
    "tanh transpose tril triu true_divide trunc uniform unsqueeze xlogy zero "
)

TENSOR: Final = by_name(
    {
        "cuda pin_memory is_cuda get_device": CPU,
        "rank": "x.ndim",
        "equal": "nacre.array_equal(x, y) for one answer, x == y for one of each element",
        "is_contiguous": "Functions read every layout; leave this out",
        "split_with_sizes": "nacre.split(x, sections, axis=0)",
        "block_until_ready": "Calls return when their numbers are there; leave this out",
        "grad_fn": "x.is_leaf; `nacre explain` prints the graph of a function",
        "strides stride": "The layout is an internal matter; x.numpy().strides has it",
        "where": "nacre.where(condition, x, y)",
        "prelu hardshrink": "the function of nacre.nn.functional",
        "bernoulli": "nacre.random.bernoulli(x)",
        "multinomial": "nacre.random.categorical(nacre.log(x), shape)",
        "new": "nacre.zeros(shape, dtype=x.dtype)",
        "data_ptr storage storage_offset untyped_storage flat base flags ctypes getfield resize": "x.numpy() "
        "for an array, which has it",
        "apply_ map_": "x = f(x), with functions of nacre",
        "tobytes tofile dump dumps": "x.numpy().tobytes()",
        "itemset": "x[key] = value",
        "fill": "x[...] = value",
        "is_pinned is_shared is_meta is_sparse is_quantized device_ids xpu copy_to_host_async devices sharding "
        "addressable_shards": CPU,
        "to_sparse to_sparse_csr": "nacre.sparse.from_dense(x)",
        "to_dense": "x, which is dense; the matrices of nacre.sparse.csr have to_dense()",
        "indices dense_dim coalesce is_coalesced ccol_indices col_indices crow_indices row_indices values "
        "sparse_dim sparse_mask smm sspaddmm to_sparse_bsc to_sparse_bsr to_sparse_coo to_sparse_csc "
        "is_sparse_csr": "Tensors are dense; nacre.sparse has matrices that are not",
        "names names_": "Axes have no names; write their numbers",
        "is_inference": "x.requires_grad; tensors made in nacre.inference_mode are like others",
        "output_nr": "x.is_leaf; `nacre explain` prints the graph of a function",
        "_version": "Tensors do not count changes; backward raises an error if a value that it needs has changed",
        "sum_to_size": "x.sum(axis=0)",
        "eval realize ref": "x.numpy(); results are computed at once",
        "get_shape set_shape": "x.shape",
        "byteswap setfield setflags to_bytes": "x.numpy().copy(), an array that may change",
        "as_strided": "x[i:j:k], nacre.permute_dims and nacre.broadcast_to; layouts have no numbers of their own",
        "as_subclass": "x; there is one class of tensors",
        "chalf": "x.astype(nacre.complex64)",
        "cholesky_inverse": "nacre.linalg.inv(x @ x.mT)",
        "geqrf orgqr ormqr": "nacre.linalg.qr(x)",
        "is_conj is_neg resolve_neg": "Signs and conjugates are computed at once; leave this out",
        "is_cpu is_mps is_mtia is_xpu is_xla is_ipu is_maia is_vulkan is_mkldnn is_nested is_distributed record_stream "
        "ipu mtia module_load to_mkldnn storage_type to_padded_tensor dim_order volatile grad_dtype": CPU,
        "is_nonzero": "bool(x)",
        "is_same_size is_set_to": "x.shape == y.shape",
        "is_signed": "x.dtype.is_signed",
        "lstsq": "nacre.linalg.lstsq(a, b)",
        "lu_solve cholesky_solve solve": "nacre.linalg.solve(a, b)",
        "triangular_solve": "nacre.linalg.solve_triangular(a, b)",
        "symeig": "nacre.linalg.eigh(x)",
        "narrow_copy": "x.narrow(dim, start, length)",
        "name": "nacre.name(x, name), which names a value of a graph",
        "new_empty_strided": "nacre.empty(shape)",
        "nonzero_static": "nacre.nonzero(x, size=n)",
        "resize_as": "nacre.reshape(x, y.shape)",
        "stft istft": "nacre.fft.rfft(frames * window) and nacre.fft.irfft, of frames of the signal",
        "unsafe_chunk unsafe_split unsafe_split_with_sizes": "nacre.split(x, sections=2, axis=0)",
        "hash_tensor": "hash(x.numpy().tobytes())",
        "int_repr q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale q_zero_point qscheme "
        "dequantize": "Quantised tensors are missing; integer products keep their sums in 32 bits",
    }
)

OF_TWO: Final = (  # functions of two operands' elements, which have methods in NumPy
    "add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal "
    "floor_divide fmax fmin fmod greater greater_equal hypot less less_equal logaddexp logical_and logical_or "
    "logical_xor maximum minimum multiply nextafter not_equal pow remainder subtract"
)
UFUNC: Final[dict[str, dict[str, str]]] = {  # these methods, and what to write by function; "" is for the others
    "reduce": {
        "add": "nacre.sum(x, axis=0)",
        "multiply": "nacre.prod(x, axis=0)",
        "maximum": "nacre.max(x, axis=0)",
        "minimum": "nacre.min(x, axis=0)",
        "logical_and": "nacre.all(x, axis=0)",
        "logical_or": "nacre.any(x, axis=0)",
        "logaddexp": "nacre.logsumexp(x, axis=0)",
        "": "functools.reduce(nacre.{name}, nacre.unstack(x))",
    },
    "accumulate": {
        "add": "nacre.cumsum(x, axis=0)",
        "multiply": "nacre.cumprod(x, axis=0)",
        "maximum": "nacre.cummax(x, axis=0)[0]",
        "minimum": "nacre.cummin(x, axis=0)[0]",
        "logaddexp": "nacre.logcumsumexp(x, axis=0)",
        "": "nacre.stack(list(itertools.accumulate(nacre.unstack(x), nacre.{name})))",
    },
    "outer": {"multiply": "nacre.outer(x, y)", "": "nacre.{name}(x[:, None], y)"},
    "at": {
        **{name: f"x = x.at[i].{name}(v)" for name in ("add", "subtract", "multiply", "divide")},
        "maximum": "x = x.at[i].max(v)",
        "minimum": "x = x.at[i].min(v)",
        "": "x = x.at[i].set(nacre.{name}(x[i], v))",
    },
    "reduceat": {
        "add": "nacre.segment_sum(x, segment_ids)",
        "multiply": "nacre.segment_prod(x, segment_ids)",
        "maximum": "nacre.segment_max(x, segment_ids)",
        "minimum": "nacre.segment_min(x, segment_ids)",
        "": "[functools.reduce(nacre.{name}, nacre.unstack(part)) for part in nacre.split(x, places, axis=0)]",
    },
}

MODULE: Final = by_name(
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

OPTIMIZER: Final = by_name(
    {
        "minimize": "loss.backward() and optimizer.step()",
        "apply_gradients apply": "optimizer.step()",
        "init": "optimizer.state",
        "lr learning_rate get_lr set_lr": 'optimizer.param_groups[0]["lr"]',
        "params": 'optimizer.param_groups[0]["params"]',
    }
)

INDEX_UPDATE: Final = by_name(
    {
        "apply": "x.at[key].set(f(x[key]))",
        "power pow": "x.at[key].set(x[key] ** v)",
        "sub": "x.at[key].subtract(v)",
        "div": "x.at[key].divide(v)",
        "minimum": "x.at[key].min(v)",
        "maximum": "x.at[key].max(v)",
    }
)

GENERATOR: Final = by_name(
    {
        "normal standard_normal randn": "nacre.random.normal(shape, key=generator.next_key())",
        "uniform random rand": "nacre.random.uniform(shape, key=generator.next_key())",
        "integers randint": "nacre.random.randint(low, high, shape, key=generator.next_key())",
        "choice": "nacre.random.choice(x, shape, key=generator.next_key())",
        "permutation shuffle permuted": "nacre.random.permutation(x, key=generator.next_key())",
        "exponential standard_exponential gamma standard_gamma beta poisson binomial multinomial dirichlet laplace "
        "logistic gumbel geometric multivariate_normal": "the function of nacre.random, with key=generator.next_key()",
        "manual_seed": "generator.seed(number)",
    }
)
