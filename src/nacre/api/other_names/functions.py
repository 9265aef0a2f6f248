"""Other names of public functions and dtypes: those of NumPy and PyTorch, where the meaning is the same.

Each is the function itself: `nc.cat` is `nc.concat`.  A name that means something else in one of the libraries is not
here; `base/porting` has what to write for it.
"""

from __future__ import annotations

from nacre.api import data_types, linear_algebra, manipulation, statistical
from nacre.api.elementwise import arithmetic, comparison, logic, transcendental
from nacre.api.other_names import short as composed
from nacre.base import dtypes

__all__ = [
    "absolute",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "around",
    "bitwise_not",
    "bmm",
    "bool_",
    "broadcast_tensors",
    "cat",
    "cdouble",
    "cfloat",
    "clamp",
    "concatenate",
    "cumprod",
    "cumsum",
    "degrees",
    "double",
    "eq",
    "fix",
    "ge",
    "gt",
    "half",
    "invert",
    "le",
    "left_shift",
    "long",
    "lt",
    "mm",
    "mod",
    "movedim",
    "mul",
    "mv",
    "ne",
    "neg",
    "permute",
    "power",
    "promote_types",
    "radians",
    "ravel",
    "right_shift",
    "row_stack",
    "sgn",
    "short",
    "sub",
    "swapdims",
    "true_divide",
    "unbind",
    "unsqueeze",
]

# ---- shapes and places

cat = concatenate = manipulation.concat
unsqueeze = manipulation.expand_dims
permute = manipulation.permute_dims
swapdims = manipulation.swapaxes
movedim = manipulation.moveaxis
ravel = manipulation.flatten
unbind = manipulation.unstack
broadcast_tensors = manipulation.broadcast_arrays
row_stack = composed.vstack

# ---- arithmetic

mul = arithmetic.multiply
sub = arithmetic.subtract
true_divide = arithmetic.divide
neg = arithmetic.negative
absolute = arithmetic.abs
power = arithmetic.pow
mod = arithmetic.remainder
clamp = arithmetic.clip
sgn = arithmetic.sign
fix = arithmetic.trunc
around = arithmetic.round

# ---- elementary functions

arccos = transcendental.acos
arccosh = transcendental.acosh
arcsin = transcendental.asin
arcsinh = transcendental.asinh
arctan = transcendental.atan
arctan2 = transcendental.atan2
arctanh = transcendental.atanh

radians = composed.deg2rad
degrees = composed.rad2deg

# ---- comparisons and bits

eq = comparison.equal
ne = comparison.not_equal
lt = comparison.less
le = comparison.less_equal
gt = comparison.greater
ge = comparison.greater_equal
invert = bitwise_not = logic.bitwise_invert
left_shift = logic.bitwise_left_shift
right_shift = logic.bitwise_right_shift

# ---- sums and products

cumsum = statistical.cumulative_sum
cumprod = statistical.cumulative_prod
mm = bmm = mv = linear_algebra.matmul

# ---- dtypes

promote_types = data_types.result_type
double = dtypes.float64
half = dtypes.float16
short = dtypes.int16
long = dtypes.int64
cfloat = dtypes.complex64
cdouble = dtypes.complex128
bool_ = dtypes.bool_
