"""Model folders: which tensors there are, where their bytes lie, and reading them by position."""
