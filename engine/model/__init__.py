"""The forward pass that every family shares: what a model is, how it becomes a program, and running it."""
