"""The native code of executables and libraries, in native Python: files, the processor's features, and threads."""
