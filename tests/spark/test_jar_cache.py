"""The lock on Spark's jar cache: one process downloads, others wait; with a complete cache they start in parallel."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from lakekeeper.spark.jar_cache import reserved

PACKAGES = {"spark.jars.packages": "org.example:thing_2.13:1.0,org.example:other:2.0"}
JARS = ("org.example_thing_2.13-1.0.jar", "org.example_other-2.0.jar")


def cache_with(where: Path, jars: tuple[str, ...]) -> dict[str, str]:
    (where / "jars").mkdir(parents=True)
    for jar in jars:
        (where / "jars" / jar).touch()
    return {**PACKAGES, "spark.jars.ivy": str(where)}


def can_lock(where: Path, how: int) -> bool:
    """Whether another process could take this lock now."""
    with (where / "lakekeeper.lock").open("a") as lock:
        try:
            fcntl.flock(lock, how | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@pytest.mark.parametrize("jars", [(), JARS[:1]], ids=["empty cache", "one jar is missing"])
def test_a_download_locks_the_cache_exclusively(tmp_path: Path, jars: tuple[str, ...]) -> None:
    with reserved(cache_with(tmp_path, jars)):
        assert not can_lock(tmp_path, fcntl.LOCK_SH)
    assert can_lock(tmp_path, fcntl.LOCK_EX)


def test_with_all_jars_spark_starts_in_parallel_but_waits_for_a_download(tmp_path: Path) -> None:
    with reserved(cache_with(tmp_path, JARS)):
        assert can_lock(tmp_path, fcntl.LOCK_SH)
        assert not can_lock(tmp_path, fcntl.LOCK_EX)


def test_a_failed_start_frees_the_cache(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), reserved(cache_with(tmp_path, ())):
        raise RuntimeError
    assert can_lock(tmp_path, fcntl.LOCK_EX)


def test_without_packages_nothing_is_locked(tmp_path: Path) -> None:
    with reserved({"spark.jars": "a.jar", "spark.jars.ivy": str(tmp_path / "ivy")}):
        assert not (tmp_path / "ivy").exists()


def test_a_cache_that_cannot_be_locked_does_not_prevent_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with reserved({**PACKAGES, "spark.jars.ivy": str(tmp_path / "file")}):
        pass


def test_a_user_without_a_home_can_start_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """``Path.home`` raises where the user id has no entry, as in many containers."""

    def none() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", none)
    with reserved(PACKAGES):
        pass
