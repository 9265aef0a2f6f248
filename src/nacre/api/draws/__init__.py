"""How random numbers of distributions are made, from a key; `nacre.api.random` has the public functions."""
