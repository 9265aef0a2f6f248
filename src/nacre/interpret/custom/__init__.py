"""Functions with derivatives of their own: how `custom_jvp` and `custom_vjp` are differentiated and batched."""
