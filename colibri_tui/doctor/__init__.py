"""Looks at a machine, an installation, a model and what was learned, and says what is wrong with them."""
