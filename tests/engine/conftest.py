"""Fixtures of the tests that need real weights: the embedded model, its reference tokens, a running deployment."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.engine.cluster import Cluster
from tests.engine.reference_tokens import ReferenceTokens, load_reference


@pytest.fixture(scope="session")
def model_directory() -> Path:
    """PDCTL_TEST_MODEL, else where `pdctl model fetch` puts the embedded model. Skips when neither is there."""
    named = os.environ.get("PDCTL_TEST_MODEL")
    if named:
        return Path(named)
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    from platformdirs import user_cache_path

    from pdserve.embedded import DEFAULT

    directory = DEFAULT.directory(user_cache_path("pdctl"))
    if not (directory / "config.json").is_file():
        pytest.skip(f"the embedded model is not at {directory}: `pdctl model fetch`, or set PDCTL_TEST_MODEL")
    return directory


@pytest.fixture(scope="session")
def reference_tokens() -> ReferenceTokens:
    return load_reference()


@pytest.fixture(scope="session")
def cluster(model_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Prefill, decode and router: three processes on loopback, ready and open.

    Tests that break things start their own.
    """
    with Cluster(model_directory, tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.start()
        yield cluster
