"""Find a Java that Spark can run on. Starts no JVM except to print its version."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

SUPPORTED = (17, 21)
"""Major versions that Spark 4.1 runs on and that lakekeeper is tested with."""

INSTALL = "sudo apt-get update && sudo apt-get install -y openjdk-17-jre-headless"
"""Install command for Debian and Ubuntu; releases without 17 have ``openjdk-21-jre-headless``."""

JAVA_HOMES = ("/usr/lib/jvm", "/opt/java", "/opt/jdk", "/Library/Java/JavaVirtualMachines")
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')


@dataclass(frozen=True, slots=True)
class Java:
    """One Java runtime: its ``java`` program and major version (8, 11, 17 ...)."""

    program: str
    major: int

    @property
    def home(self) -> str:
        """The directory to use as JAVA_HOME."""
        return str(Path(self.program).resolve().parent.parent)

    @property
    def supported(self) -> bool:
        """Whether Spark runs on it."""
        return self.major in SUPPORTED


def effective_java() -> Java | None:
    """The Java that Spark would start: ``$JAVA_HOME/bin/java``, else ``java`` on PATH, or None."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home, "bin", "java")) if home else shutil.which("java")
    return _ask(program) if program else None


def usable_java() -> Java | None:
    """The effective Java if Spark runs on it, else the first supported one in the usual locations, or None."""
    effective = effective_java()
    if effective is not None and effective.supported:
        return effective
    found = (_ask(str(program)) for program in _candidates())
    return next((java for java in found if java is not None and java.supported), None)


def major_version(banner: str) -> int | None:
    """The major version in the output of ``java -version``: 8 for ``1.8.0_392``, 17 for ``17.0.15``."""
    match = _VERSION.search(banner)
    if match is None:
        return None
    first, second = match.group(1), match.group(2)
    return int(second) if first == "1" and second else int(first)


def _ask(program: str) -> Java | None:
    try:
        done = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    major = major_version(done.stderr + done.stdout)
    return Java(program, major) if done.returncode == 0 and major else None


def _candidates() -> list[Path]:
    roots = [Path(root) for root in JAVA_HOMES]
    pattern = ("*/bin/java", "*/Contents/Home/bin/java")
    return [hit for root in roots if root.is_dir() for part in pattern for hit in sorted(root.glob(part))]
