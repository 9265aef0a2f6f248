"""Any kernel's loop nest as vector code: statements, expressions, reductions, and the analyses that shorten them."""
