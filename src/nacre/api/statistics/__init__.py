"""Functions that describe the elements of tensors: running extrema, quantiles, counts, covariances."""
