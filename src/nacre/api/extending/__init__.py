"""Functions by which code outside of the package defines primitives, and adds kernels and passes to the compiler."""
