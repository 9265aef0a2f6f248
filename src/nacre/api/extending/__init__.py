"""Functions by which code outside of the package defines primitives, and adds passes to the compiler."""
