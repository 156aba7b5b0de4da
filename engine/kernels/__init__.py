"""Native code: everything that is computed while a model answers, compiled by numba.

Importing this package decides where compiled code is kept, before the first kernel is defined.
"""

from . import cache

CACHE_FOLDER = cache.prepare()
"""Where this version's compiled kernels are kept."""
