"""NumPy's functions, and Nacre's functions of the same meaning with the settings that both have.

A row of `SETTINGS` has the name of NumPy's function, `=` and the name of Nacre's where it differs, and the parameters
of NumPy's function in order:

- `a/` is passed on by its place, and `axis` by its name; `ddof>correction` by another name;
- `-out` is refused unless it is left out or None, and `-order=C` unless it has this value;
- `*` stands for all arguments that are given by place.

The functions of NumPy's `fft` and `linalg` have Nacre's of the same room as counterparts.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

SAME: Final = (  # functions of elements
    "add bitwise_and bitwise_or bitwise_xor cbrt ceil copysign cos cosh deg2rad degrees divide equal exp exp2 expm1 "
    "floor floor_divide fmax fmin fmod greater greater_equal hypot isfinite isinf isnan less less_equal log log10 "
    "log1p log2 logaddexp logical_and logical_not logical_or logical_xor matmul maximum minimum multiply negative "
    "nextafter not_equal positive rad2deg radians reciprocal remainder sign signbit sin sinh sqrt square subtract tan "
    "tanh trunc vecdot"
)
RENAMED: Final = {
    "absolute": "abs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan",
    "arctan2": "atan2", "arctanh": "atanh", "conjugate": "conj", "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift", "power": "pow", "right_shift": "bitwise_right_shift",
}  # fmt: skip
SETTINGS: Final = """
all: a/ axis -out keepdims -where
amax=max: a/ axis -out keepdims -initial -where
amin=min: a/ axis -out keepdims -initial -where
angle: z/ -deg=False
any: a/ axis -out keepdims -where
argmax: a/ axis -out keepdims
argmin: a/ axis -out keepdims
argsort: a/ axis -kind=stable -order stable
argwhere: a/
astype: x/ dtype/ copy device
atleast_1d: *
atleast_2d: *
atleast_3d: *
average: a/ axis weights -returned=False keepdims
bincount: x/ weights minlength
broadcast_arrays: * -subok=False
broadcast_to: array/ shape/ -subok=False
clip: a/ a_min>min a_max>max -out min max
column_stack: tup/
concatenate=concat: arrays/ axis -out -dtype -casting=same_kind
corrcoef: x/ y/ rowvar -bias -ddof -dtype
count_nonzero: a/ axis keepdims
cumprod=cumulative_prod: a/ axis dtype -out
cumsum=cumulative_sum: a/ axis dtype -out
cumulative_prod: x/ axis dtype -out include_initial
cumulative_sum: x/ axis dtype -out include_initial
diag: v/ k
diagflat: v/ k
diagonal: a/ offset axis1 axis2
diff: a/ n axis prepend append
digitize: x/ bins/ right
dot: a/ b/ -out
dstack: tup/
einsum: * -out dtype -order=K -casting=safe -optimize=False
empty_like: prototype/ dtype -order=K -subok=True -shape device
expand_dims: a/ axis
fft.fft: a/ n axis norm -out
fft.fft2: a/ s axes norm -out
fft.fftn: a/ s axes norm -out
fft.fftshift: x/ axes
fft.hfft: a/ n axis norm -out
fft.ifft: a/ n axis norm -out
fft.ifft2: a/ s axes norm -out
fft.ifftn: a/ s axes norm -out
fft.ifftshift: x/ axes
fft.ihfft: a/ n axis norm -out
fft.irfft: a/ n axis norm -out
fft.irfft2: a/ s axes norm -out
fft.irfftn: a/ s axes norm -out
fft.rfft: a/ n axis norm -out
fft.rfft2: a/ s axes norm -out
fft.rfftn: a/ s axes norm -out
fix=trunc: x/ -out
flatnonzero: a/
flip: m/ axis
full_like: a/ fill_value/ dtype -order=K -subok=True -shape device
histogram: a/ bins range density weights
histogram2d: x/ y/ bins range density weights
histogram_bin_edges: a/ bins range -weights
histogramdd: sample/ bins range density weights
hstack: tup/ -dtype -casting=same_kind
imag: val/
inner: a/ b/
interp: x/ xp/ fp/ left right period
isin: element/ test_elements/ -assume_unique=False invert -kind
kron: a/ b/
linalg.cholesky: a/ upper
linalg.cond: x/ p/
linalg.cross: x1/ x2/ axis
linalg.det: a/
linalg.diagonal: x/ offset
linalg.eig: a/
linalg.eigvals: a/
linalg.inv: a/
linalg.lstsq: a/ b/ rcond>rtol
linalg.matmul: x1/ x2/
linalg.matrix_norm: x/ keepdims ord
linalg.matrix_power: a/ n/
linalg.matrix_rank: A/ -tol -hermitian=False rtol
linalg.matrix_transpose: x/
linalg.multi_dot: arrays/ -out
linalg.norm: x/ ord axis keepdims
linalg.outer: x1/ x2/
linalg.pinv: a/ rcond>rtol -hermitian=False rtol
linalg.qr: a/ mode
linalg.slogdet: a/
linalg.solve: a/ b/
linalg.svd: a/ full_matrices -compute_uv=True -hermitian=False
linalg.svdvals: x/
linalg.tensordot: x1/ x2/ axes
linalg.trace: x/ offset dtype
linalg.vecdot: x1/ x2/ axis
linalg.vector_norm: x/ axis keepdims ord
linspace: start/ stop/ num endpoint -retstep=False dtype -axis=0 device
matrix_transpose: x/
max: a/ axis -out keepdims -initial -where
mean: a/ axis -dtype -out keepdims -where
median: a/ axis -out -overwrite_input=False keepdims
meshgrid: * -copy=True -sparse=False indexing
min: a/ axis -out keepdims -initial -where
moveaxis: a/ source/ destination/
nan_to_num: x/ -copy=True nan posinf neginf
nanargmax: a/ axis -out keepdims
nanargmin: a/ axis -out keepdims
nancumprod: a/ axis dtype -out
nancumsum: a/ axis dtype -out
nanmax: a/ axis -out keepdims -initial -where
nanmean: a/ axis -dtype -out keepdims -where
nanmedian: a/ axis -out -overwrite_input=False keepdims
nanmin: a/ axis -out keepdims -initial -where
nanpercentile: a/ q/ axis -out -overwrite_input=False method keepdims -weights
nanprod: a/ axis dtype -out keepdims -initial -where
nanquantile: a/ q/ axis -out -overwrite_input=False method keepdims -weights
nanstd: a/ axis -dtype -out ddof>correction keepdims -where -mean correction
nansum: a/ axis dtype -out keepdims -initial -where
nanvar: a/ axis -dtype -out ddof>correction keepdims -where -mean correction
nonzero: a/
ones_like: a/ dtype -order=K -subok=True -shape device
pad: array/ pad_width/ -mode=constant constant_values>value
percentile: a/ q/ axis -out -overwrite_input=False method keepdims -weights
prod: a/ axis dtype -out keepdims -initial -where
quantile: a/ q/ axis -out -overwrite_input=False method keepdims -weights
ravel=flatten: a/ -order=C
real: val/
repeat: a/ repeats/ axis
reshape: a/ shape -order=C newshape>shape copy
roll: a/ shift/ axis
searchsorted: a/ v/ side sorter
sort: a/ axis -kind=stable -order stable
stack: arrays/ axis -out -dtype -casting=same_kind
std: a/ axis -dtype -out ddof>correction keepdims -where -mean correction
sum: a/ axis dtype -out keepdims -initial -where
swapaxes: a/ axis1/ axis2/
take: a/ indices/ axis -out -mode=raise
take_along_axis: arr/ indices/ axis
tensordot: a/ b/ axes
tile: A/ reps/
transpose=permute_dims: a/ axes
tril: m/ k
triu: m/ k
unique_all: x/
unique_counts: x/
unique_inverse: x/
unique_values: x/
unstack: x/ axis
var: a/ axis -dtype -out ddof>correction keepdims -where -mean correction
vstack: tup/ -dtype -casting=same_kind
where: condition/ x/ y/
zeros_like: a/ dtype -order=K -subok=True -shape device
"""
REDUCTIONS: Final = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all", "logical_or": "any",
}  # fmt: skip
ACCUMULATIONS: Final = {"add": "cumulative_sum", "multiply": "cumulative_prod"}
UFUNC_SETTINGS: Final = (
    "-where=True -casting=same_kind -order=K -dtype -subok=True -signature -axes -axis -keepdims=False"
)
REDUCTION: Final = "array/ axis -dtype -out keepdims -initial -where=True"
ACCUMULATION: Final = "array/ axis dtype -out"


class SettingParameter(NamedTuple):
    """A parameter of NumPy's function: its name there, and here; by place; refused; the one value that is allowed."""

    name: str
    meant: str
    by_place: bool
    refused: bool
    allowed: str


class Counterpart(NamedTuple):
    """Nacre's function for one of NumPy's, and how its arguments are passed."""

    name: str
    parameters: tuple[SettingParameter, ...]
    passes_places: bool


def counterpart(name: str, written: str) -> Counterpart:
    """A counterpart from the parameters of a row.

    >>> counterpart("std", "a/ ddof>correction -out").parameters[1].meant
    'correction'
    """
    found: list[SettingParameter] = []
    for word in written.split():
        if word != "*":
            left, _, allowed = word.lstrip("-").partition("=")
            given, _, meant = left.rstrip("/").partition(">")
            found.append(SettingParameter(given, meant or given, word.endswith("/"), word.startswith("-"), allowed))
    return Counterpart(name, tuple(found), "*" in written.split())


def _rows() -> dict[Any, Counterpart]:
    found: dict[Any, Counterpart] = {}
    for line in SETTINGS.strip().splitlines():
        names, _, written = line.partition(": ")
        name, _, ours = names.partition("=")
        room, _, short = name.rpartition(".")
        function = getattr(getattr(np, room) if room else np, short, None)  # old versions of NumPy lack some
        if function is not None:
            found[function] = counterpart(ours or name, written)
    return found


FUNCTIONS_OF_NUMPY: Final = _rows()
UFUNCS: Final = {
    getattr(np, name): ours
    for name, ours in ({name: name for name in SAME.split()} | RENAMED).items()
    if hasattr(np, name)
}
