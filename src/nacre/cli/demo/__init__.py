"""`nacre demo`: a training, and what the compiler makes of a line of it."""
