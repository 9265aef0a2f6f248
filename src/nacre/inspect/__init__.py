"""Looking at what the compiler did, and at the machine it did it for."""
