"""The commands of `colibri-tui`, one file each. A command returns its exit code, or None for 0."""
