"""Sparse matrices by rows (CSR), and their products with dense tensors."""

from nacre.api.sparse.csr import CSR, csr, from_dense, from_scipy
from nacre.base.boundary import publish_all

__all__ = ["CSR", "csr", "from_dense", "from_scipy"]


def __dir__() -> list[str]:
    return __all__


publish_all(__name__, ["csr", "from_dense", "from_scipy"])
