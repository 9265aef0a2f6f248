"""Other names of public functions and dtypes: those of NumPy and PyTorch, where the meaning is the same.

Each is the function itself: `nc.cat` is `nc.concat`.  A name that means something else in one of the libraries is not
here; `base/porting` has what to write for it.
"""

from nacre.api import data_types as _data_types
from nacre.api import linear_algebra as _products
from nacre.api import manipulation as _shapes
from nacre.api import statistical as _statistical
from nacre.api import taking as _taking
from nacre.api.elementwise import arithmetic as _arithmetic
from nacre.api.elementwise import comparison as _comparison
from nacre.api.elementwise import logic as _logic
from nacre.api.elementwise import transcendental as _transcendental
from nacre.api.other_names import short as _short
from nacre.base import dtypes as _dtypes

# ---- shapes and places

cat = concatenate = _shapes.concat
unsqueeze = _shapes.expand_dims
permute = _shapes.permute_dims
swapdims = _shapes.swapaxes
movedim = _shapes.moveaxis
ravel = _shapes.flatten
unbind = _shapes.unstack
broadcast_tensors = _shapes.broadcast_arrays
take_along_dim = _taking.take_along_axis
row_stack = _short.vstack

# ---- arithmetic

mul = _arithmetic.multiply
sub = _arithmetic.subtract
div = true_divide = _arithmetic.divide
neg = _arithmetic.negative
absolute = _arithmetic.abs
power = _arithmetic.pow
mod = _arithmetic.remainder
clamp = _arithmetic.clip
sgn = _arithmetic.sign
fix = _arithmetic.trunc
around = _arithmetic.round

# ---- elementary functions

arccos = _transcendental.acos
arccosh = _transcendental.acosh
arcsin = _transcendental.asin
arcsinh = _transcendental.asinh
arctan = _transcendental.atan
arctan2 = _transcendental.atan2
arctanh = _transcendental.atanh

radians = _short.deg2rad
degrees = _short.rad2deg

# ---- comparisons and bits

eq = _comparison.equal
ne = _comparison.not_equal
lt = _comparison.less
le = _comparison.less_equal
gt = _comparison.greater
ge = _comparison.greater_equal
invert = bitwise_not = _logic.bitwise_invert
left_shift = _logic.bitwise_left_shift
right_shift = _logic.bitwise_right_shift

# ---- sums and products

cumsum = _statistical.cumulative_sum
cumprod = _statistical.cumulative_prod
mm = bmm = mv = _products.matmul

# ---- dtypes

promote_types = _data_types.result_type
double = _dtypes.float64
half = _dtypes.float16
short = _dtypes.int16
long = _dtypes.int64
cfloat = _dtypes.complex64
cdouble = _dtypes.complex128
bool_ = _dtypes.bool_
