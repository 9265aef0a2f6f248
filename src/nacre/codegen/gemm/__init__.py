"""Matrix products: packed blocks and register tiles for many rows, vector products for few, and their epilogues."""
