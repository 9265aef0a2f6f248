"""`nacre demo`: a training, and the results of the compiler for a line of it."""
