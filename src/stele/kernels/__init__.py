"""Hot loops over Arrow buffers, compiled by numba. Importing this package imports no numba."""
