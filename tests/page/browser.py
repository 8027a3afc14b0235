"""A headless Chromium for the tests of pages; in Debian, the package `chromium`."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(
    BROWSER is None, reason="no Chromium on PATH: apt-get install chromium (or google-chrome) runs this test"
)
_PROBE = """<!doctype html><iframe src="{page}" style="width:{width}px;height:900px;border:0"></iframe>
<output></output><script>
addEventListener("load", () => {{
  const inside = document.querySelector("iframe").contentDocument;
  const wide = inside.documentElement.scrollWidth;
  const colour = inside.defaultView.getComputedStyle(inside.body).backgroundColor;
  document.querySelector("output").textContent = wide + " " + colour;
}});
</script>"""


def dom(page: Path, *flags: str) -> tuple[str, list[str]]:
    """The document in the browser once it is loaded, and the messages of its console."""
    assert BROWSER is not None
    profile = page.parent / "browser-profile"
    command = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", f"--user-data-dir={profile}",
        "--virtual-time-budget=2000", *flags, "--dump-dom", page.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def rendered(page: Path, width: int, *, dark: bool = False) -> tuple[int, str]:
    """The width of the page in a window of that width, both in CSS pixels, and its background colour."""
    probe = page.with_name(f"probe-{width}-{dark}.html")
    probe.write_text(_PROBE.format(page=page.name, width=width))
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    found = re.search(
        r"<output>(\d+) (.*?)</output>", dom(probe, scheme, "--allow-file-access-from-files")[0]
    )
    assert found is not None
    return int(found[1]), found[2]
