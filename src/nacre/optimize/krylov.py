"""Linear systems A·x = b for an operator given as a function of a vector: iterations, and LU factors.

Each solver returns x and (status, iterations, applications of A, |b − A·x|).  It ends when the residual is at most
the tolerance times |b|.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from nacre.api.creation import eye, full, ones, zeros, zeros_like
from nacre.api.elementwise.logic import isfinite
from nacre.api.elementwise.transcendental import sqrt
from nacre.api.searching import where
from nacre.api.slices import dynamic_update_slice
from nacre.base.dtypes import bool_, int64
from nacre.ops.linalg.lu import LU, lu
from nacre.ops.linalg.solve import lu_solve
from nacre.optimize.solution import ended
from nacre.transform.control import while_loop
from nacre.transform.vmap import vmap

Operator = Callable[[Any], Any]
Solved = tuple[Any, tuple[Any, Any, Any, Any]]
BASIS: Final = 32  # directions of GMRES before a restart


def norm(x: Any) -> Any:
    """The Euclidean norm of a vector."""
    return sqrt((x * x).sum())


def put_row(rows: Any, row: Any, k: Any) -> Any:
    """A matrix with another row k."""
    return dynamic_update_slice(rows, row[None, :], (k, 0))


def count(n: int = 0) -> Any:
    """A number of iterations."""
    return full((), n, int64)


def false() -> Any:
    """False as a tensor."""
    return zeros((), bool_)


def cg(apply: Operator, b: Any, tolerance: float, limit: int) -> Solved:
    """Conjugate gradients (Hestenes and Stiefel 1952), for a symmetric positive definite A."""
    small = (tolerance * tolerance) * (b * b).sum()

    def more(s: Any) -> Any:
        """Whether the residual is too large."""
        return (s["rr"] > small) & (s["k"] < limit) & ~s["broken"]

    def step(s: Any) -> Any:
        """One direction, conjugate to the former ones."""
        q = apply(s["p"])
        curvature = (s["p"] * q).sum()
        broken = ~(curvature > 0)
        alpha = where(broken, 0.0, s["rr"] / where(broken, 1.0, curvature))
        r = s["r"] - alpha * q
        rr = (r * r).sum()
        p = r + (rr / s["rr"]) * s["p"]
        return {"x": s["x"] + alpha * s["p"], "r": r, "p": p, "rr": rr, "k": s["k"] + 1, "broken": broken}

    rr = (b * b).sum()
    s = while_loop(more, step, {"x": zeros_like(b), "r": b, "p": b, "rr": rr, "k": count(), "broken": false()})
    status = ended(s["rr"] <= small, isfinite(s["rr"]), singular=s["broken"])
    return s["x"], (status, s["k"], s["k"], sqrt(s["rr"]))


def bicgstab(apply: Operator, b: Any, tolerance: float, limit: int) -> Solved:
    """Stabilised biconjugate gradients (van der Vorst 1992); the shadow residual is b."""
    small = tolerance * norm(b)

    def more(s: Any) -> Any:
        """Whether the residual is too large."""
        return (norm(s["r"]) > small) & (s["k"] < limit) & ~s["broken"]

    def step(s: Any) -> Any:
        """One step along a direction, and one that makes the residual least."""
        v = apply(s["p"])
        along = (b * v).sum()
        alpha = s["rho"] / where(along == 0, 1.0, along)
        half = s["r"] - alpha * v
        t = apply(half)
        square = (t * t).sum()
        omega = where(square == 0, 0.0, (t * half).sum() / where(square == 0, 1.0, square))
        r = half - omega * t
        rho = (b * r).sum()
        broken = (along == 0) | (((omega == 0) | (rho == 0)) & (norm(r) > small))
        beta = (rho / s["rho"]) * (alpha / where(omega == 0, 1.0, omega))
        x = s["x"] + alpha * s["p"] + omega * half
        return {"x": x, "r": r, "p": r + beta * (s["p"] - omega * v), "rho": rho, "k": s["k"] + 1, "broken": broken}

    start = {"x": zeros_like(b), "r": b, "p": b, "rho": (b * b).sum(), "k": count(), "broken": false()}
    s = while_loop(more, step, start)
    rest = norm(s["r"])
    status = ended(rest <= small, isfinite(rest), singular=s["broken"])
    return s["x"], (status, s["k"], s["k"] * 2, rest)


def gmres(apply: Operator, b: Any, tolerance: float, limit: int) -> Solved:
    """GMRES, restarted after 32 directions, in its adaptive simpler form (Jiránek and Rozložník 2010).

    The rows of `images` are orthonormal; they are A times the rows of `directions`.  The next direction begins with the
    residual if it became clearly smaller, and otherwise with the last image.
    """
    small, size = tolerance * norm(b), int(b.shape[0])
    basis = min(BASIS, size)

    def more(s: Any) -> Any:
        """Whether the residual is too large."""
        return (s["rest"] > small) & (s["k"] < limit) & ~s["broken"]

    def step(s: Any) -> Any:
        """One direction, whose image is orthogonal to the former ones."""
        place = s["k"] % basis
        fresh = place == 0
        images, directions = (where(fresh, 0.0, s[name]) for name in ("images", "directions"))
        p = where(fresh | s["falls"], s["r"] / s["rest"], s["last"])
        q = apply(p)
        before = norm(q)
        for _ in range(2):  # the second time for what rounding left
            h = images @ q
            q, p = q - h @ images, p - h @ directions
        after = norm(q)
        broken = ~(after > before * 1e-14)
        scale = where(broken, 0.0, 1.0 / where(broken, 1.0, after))
        q, p = q * scale, p * scale
        alpha = (s["r"] * q).sum()
        r = s["r"] - alpha * q
        rest = norm(r)
        return {
            "x": s["x"] + alpha * p, "r": r, "rest": rest, "last": q, "falls": rest < 0.9 * s["rest"],
            "images": put_row(images, q, place), "directions": put_row(directions, p, place),
            "k": s["k"] + 1, "broken": broken,
        }  # fmt: skip

    s = while_loop(more, step, {
        "x": zeros_like(b), "r": b, "rest": norm(b), "last": b, "falls": ones((), bool_),
        "images": zeros((basis, size), b.dtype), "directions": zeros((basis, size), b.dtype),
        "k": count(), "broken": false(),
    })  # fmt: skip
    rest = norm(b - apply(s["x"]))  # the recurrence loses some of its digits
    status = ended(s["rest"] <= small, isfinite(rest), singular=s["broken"])
    return s["x"], (status, s["k"], s["k"] + 1, rest)


def dense(apply: Operator, b: Any, tolerance: float, limit: int) -> Solved:
    """LU factors of the matrix of the operator, which takes one application for each unknown, all at once."""
    size = int(b.shape[0])
    matrix = vmap(apply, out_axes=1)(eye(size, dtype=b.dtype))
    x, regular = solve_matrix(matrix, b)
    rest = norm(b - matrix @ x)
    finite = isfinite(rest)
    return x, (ended(regular & finite, finite | ~regular, singular=~regular), count(1), count(size), rest)


def solve_matrix(matrix: Any, b: Any) -> tuple[Any, Any]:
    """The solution for a matrix, and whether the matrix is regular; a singular one gives zeros and raises nothing."""
    size = int(b.shape[0])
    found = lu(matrix)
    pivots: Any = found.factors
    diagonal = (pivots * eye(size, dtype=b.dtype)).sum(axis=1)
    regular = (diagonal != 0).all()
    safe: Any = where(regular, pivots, eye(size, dtype=b.dtype))
    x: Any = lu_solve(where(regular, matrix, eye(size, dtype=b.dtype)), LU(safe, *found[1:]), b[:, None])
    return where(regular, x[:, 0], 0.0), regular


METHODS: Final[dict[str, Callable[[Operator, Any, float, int], Solved]]] = {
    "cg": cg,
    "bicgstab": bicgstab,
    "gmres": gmres,
    "dense": dense,
}
