"""Nacre: a machine-learning framework in Python, from tensors down to machine code.

>>> import nacre as nc
>>> nc.tensor([1.0, 2.0]) * 2
Tensor([2., 4.], f32[2])

The import is fast: a public name is loaded when it is first used.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import_module("nacre.base.forks")  # before another thread imports the rest
import_module("nacre.kernel")  # whose name in this package is that of the decorator
del globals()["kernel"]

__version__ = "0.1.0"
__array_api_version__ = "2025.12"  # of the array API standard; see docs/conformance.md

_PACKAGES = ("data", "deploy", "inspect", "nn", "optim", "optimize", "train")
_NAMESPACES = ("autograd", "fft", "linalg", "sparse", "special")  # of functions on tensors
_STANDARD = ("__array_api_version__", "__array_namespace_info__")  # by which a library is known to follow the standard
_LATE = {
    "api.arranging.diagonals": "block_diag diag diag_embed diagflat diagonal kron",
    "api.arranging.windows": "sliding_window_view",
    "api.elementwise.division": "fmax fmin fmod",
    "api.interchange.dlpack": "from_dlpack",
    "api.placement.at": "IndexUpdate",
    "api.placement.scatter": "index_add index_copy index_fill scatter scatter_add scatter_reduce",
    "api.placement.segments": "segment_max segment_mean segment_min segment_prod segment_sum",
    "api.statistics.counting": "bincount bucketize digitize histc histogram histogram2d histogram_bin_edges "
    "histogramdd",
    "api.statistics.covariance": "average corrcoef cov",
    "api.statistics.interpolation": "interp",
    "api.statistics.missing": "nanargmax nanargmin nancumprod nancumsum nanmax nanmean nanmin nanprod nanstd nansum "
    "nanvar",
    "api.statistics.order": "median mode nanmedian nanpercentile nanquantile percentile quantile",
    "api.statistics.running": "cummax cummin logcumsumexp",
    "api.extending.kernel": "register_kernel",
    "api.extending.primitive": "primitive",
    "api.extending.rewriting": "register_pass",
    "transform.anomalies": "detect_anomalies",
    "transform.grad": "grad hessian jacfwd jacrev jvp value_and_grad vjp",
    "transform.vmap": "vmap",
    "transform.jit": "jit",
    "transform.autograph.options": "set_loop_options",
    "transform.control": "cond fori_loop scan switch while_loop",
    "transform.sequences": "associative_scan map",
    "transform.checkpoint": "checkpoint",
    "transform.derivatives.checks": "check_grads",
    "transform.derivatives.custom": "custom_jvp custom_vjp",
    "transform.derivatives.second": "derivative_graph hvp",
    "transform.host_call": "host_call",
    "transform.kernels.decorator": "kernel",
    "transform.kernels.words": "pairwise_sum prange",
    "transform.graphs.placeholder": "placeholder",
    "transform.graphs.naming": "name",
    "nn.functional.activation": "relu",
    "nn.functional.softmaxes": "log_softmax softmax",
    "formats.program": "Graph freeze",
    "formats.safetensors": "load save",
    "formats.frozen": "load_program save_program",
}  # in addition to the names of nacre.api
_HOMES = {name: module for module, names in _LATE.items() for name in names.split()}


def _all() -> list[str]:
    return sorted({*import_module("nacre.api.namespace").PUBLIC, *_HOMES, *_NAMESPACES, *_PACKAGES, *_STANDARD})


def _namespace() -> Any:
    """The public names, loaded at the first use of one; meanwhile, the code that every program needs is prepared."""
    if "nacre.api.namespace" not in sys.modules:
        with import_module("nacre.base.gc_pause").gc_paused():
            import_module("nacre.codegen.entry.texts").begin()
            import_module("nacre.api.namespace")
    return import_module("nacre.api.namespace")


def _published(module: str, name: str) -> Any:
    return import_module("nacre.base.boundary").publish(import_module(module), name)


def _loaded(name: str) -> Any:
    """A public name or package, at its first use."""
    if name == "__all__":
        return _all()
    if name == "__array_namespace_info__":
        return import_module("nacre.api.standard.inspection").__array_namespace_info__
    if name.startswith("_"):
        raise AttributeError(f"module 'nacre' has no attribute {name!r}")
    if name in _PACKAGES:
        return import_module(f"nacre.{name}")
    if name in _HOMES or name in _NAMESPACES:
        _namespace()  # so that values are Tensors
        found = _published(f"nacre.{_HOMES[name]}", name) if name in _HOMES else import_module(f"nacre.api.{name}")
        globals()[name] = found
        return found
    public = _namespace().PUBLIC
    globals().update(public)
    if name not in public:
        raise import_module("nacre.base.hints").MissingName("nacre", name)
    return public[name]


def __dir__() -> list[str]:
    return [*_all(), "__version__"]


if TYPE_CHECKING:
    from nacre import data as data
    from nacre import deploy as deploy
    from nacre import inspect as inspect
    from nacre import nn as nn
    from nacre import optim as optim
    from nacre import optimize as optimize
    from nacre import train as train
    from nacre.api import autograd as autograd
    from nacre.api import fft as fft
    from nacre.api import linalg as linalg
    from nacre.api import random as random
    from nacre.api import sparse as sparse
    from nacre.api import special as special
    from nacre.api import tree as tree
    from nacre.api.arranging.diagonals import *
    from nacre.api.arranging.windows import *
    from nacre.api.constants import *
    from nacre.api.creation import *
    from nacre.api.data_types import *
    from nacre.api.elementwise.arithmetic import *
    from nacre.api.elementwise.comparison import *
    from nacre.api.elementwise.complex_numbers import *
    from nacre.api.elementwise.division import *
    from nacre.api.elementwise.logic import *
    from nacre.api.elementwise.transcendental import *
    from nacre.api.extending.kernel import register_kernel as register_kernel
    from nacre.api.extending.primitive import primitive as primitive
    from nacre.api.extending.rewriting import register_pass as register_pass
    from nacre.api.indexing import *
    from nacre.api.interchange.dlpack import *
    from nacre.api.linear_algebra import *
    from nacre.api.manipulation import *
    from nacre.api.other_names.functions import *
    from nacre.api.other_names.short import *
    from nacre.api.placement.at import *
    from nacre.api.placement.scatter import *
    from nacre.api.placement.segments import *
    from nacre.api.printing import *
    from nacre.api.searching import *
    from nacre.api.settings import *
    from nacre.api.slices import *
    from nacre.api.sorting import *
    from nacre.api.standard.inspection import __array_namespace_info__ as __array_namespace_info__
    from nacre.api.standard.sets import *
    from nacre.api.statistical import *
    from nacre.api.statistics.counting import *
    from nacre.api.statistics.covariance import *
    from nacre.api.statistics.interpolation import *
    from nacre.api.statistics.missing import *
    from nacre.api.statistics.order import *
    from nacre.api.statistics.running import *
    from nacre.api.taking import *
    from nacre.api.tensor import Tensor as Tensor
    from nacre.api.utility import *
    from nacre.base.dims import Dim as _Dim
    from nacre.base.dtypes import DType as DType
    from nacre.base.dtypes import bfloat16 as bfloat16
    from nacre.base.dtypes import bool_ as _bool
    from nacre.base.dtypes import complex64 as complex64
    from nacre.base.dtypes import complex128 as complex128
    from nacre.base.dtypes import float4_e2m1fn as float4_e2m1fn
    from nacre.base.dtypes import float8_e4m3fn as float8_e4m3fn
    from nacre.base.dtypes import float8_e4m3fnuz as float8_e4m3fnuz
    from nacre.base.dtypes import float8_e5m2 as float8_e5m2
    from nacre.base.dtypes import float8_e5m2fnuz as float8_e5m2fnuz
    from nacre.base.dtypes import float8_e8m0fnu as float8_e8m0fnu
    from nacre.base.dtypes import float16 as float16
    from nacre.base.dtypes import float32 as float32
    from nacre.base.dtypes import float64 as float64
    from nacre.base.dtypes import int2 as int2
    from nacre.base.dtypes import int4 as int4
    from nacre.base.dtypes import int8 as int8
    from nacre.base.dtypes import int16 as int16
    from nacre.base.dtypes import int32 as int32
    from nacre.base.dtypes import int64 as int64
    from nacre.base.dtypes import uint2 as uint2
    from nacre.base.dtypes import uint4 as uint4
    from nacre.base.dtypes import uint8 as uint8
    from nacre.base.dtypes import uint16 as uint16
    from nacre.base.dtypes import uint32 as uint32
    from nacre.base.dtypes import uint64 as uint64
    from nacre.base.errors import *
    from nacre.formats.frozen import *
    from nacre.formats.program import *
    from nacre.formats.safetensors import *
    from nacre.nn.functional.activation import relu as relu
    from nacre.nn.functional.softmaxes import log_softmax as log_softmax
    from nacre.nn.functional.softmaxes import softmax as softmax
    from nacre.trace.variable import Variable as Variable
    from nacre.transform.anomalies import *
    from nacre.transform.autograph.options import *
    from nacre.transform.checkpoint import *
    from nacre.transform.control import *
    from nacre.transform.derivatives.checks import *
    from nacre.transform.derivatives.custom import *
    from nacre.transform.derivatives.second import *
    from nacre.transform.grad import *
    from nacre.transform.graphs.naming import *
    from nacre.transform.graphs.placeholder import *
    from nacre.transform.host_call import *
    from nacre.transform.jit import *
    from nacre.transform.kernels.decorator import *
    from nacre.transform.kernels.words import *
    from nacre.transform.sequences import *
    from nacre.transform.vmap import *

    bool = _bool

    Dim = _Dim.symbol
else:
    __getattr__ = _loaded  # a checker that saw it would take every name for a public one
