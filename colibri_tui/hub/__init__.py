"""Models from a hub: what is there, what is needed of it, and getting it here."""
