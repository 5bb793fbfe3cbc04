"""XDG folders. Everything that pdctl writes on its own machine is below one of these two."""

from pathlib import Path

from platformdirs import user_cache_path, user_state_path


def cache_dir() -> Path:
    """Things that can be made again: converted models, downloads."""
    return user_cache_path("pdctl")


def state_dir() -> Path:
    """Things that can't: run records, deployments, logs."""
    return user_state_path("pdctl")
