"""Functions with derivatives of their own, products of the Hessian, checks and graphs of derivatives."""
