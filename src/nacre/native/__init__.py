"""Machine code: LLVM text, compiling and loading it, the object cache, the thread pool."""
