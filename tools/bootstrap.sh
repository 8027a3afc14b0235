#!/bin/sh
# Make .venv, install what the project needs into it, and see to a Java that Spark runs on.
# Idempotent, and silent when all is well. Assumes a POSIX shell and Python >= 3.10; the rest is
# installed by apt where that may be done, or named in a message that says what to type.
#
#   tools/bootstrap.sh          PYTHON=python3.12 tools/bootstrap.sh
set -eu

cd "$(dirname "$0")/.."
venv=.venv
stamp=$venv/.installed

say() { printf 'lakekeeper: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# Run a command as root: as we are, or by sudo (which may only ask for a password at a terminal).
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"
    elif ! command -v sudo >/dev/null 2>&1; then return 1
    elif [ -t 0 ]; then sudo "$@"
    else sudo -n "$@"
    fi
}

apt_updated=no
# Install the first of these packages that is available; return 1 if none is.
apt_install() {
    command -v apt-get >/dev/null 2>&1 || return 1
    if [ "$apt_updated" = no ]; then
        say "apt-get update"
        as_root apt-get update -qq </dev/null >&2 || return 1
        apt_updated=yes
    fi
    for package in "$@"; do
        apt-cache show "$package" >/dev/null 2>&1 || continue
        say "apt-get install $package"
        if as_root env DEBIAN_FRONTEND=noninteractive \
            apt-get install -y -qq --no-install-recommends "$package" </dev/null >&2; then return 0; fi
    done
    return 1
}

python_is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1
}

find_python() {
    for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11 python3.10; do
        if python_is_new_enough "$candidate"; then echo "$candidate"; return 0; fi
    done
    return 1
}

make_venv() {
    python=$(find_python) || die "Python 3.10 or newer is needed and none was found. On Debian and Ubuntu:
    sudo apt-get update && sudo apt-get install -y python3 python3-venv"
    say "making $venv with $("$python" --version)"
    if "$python" -m venv "$venv" >/dev/null 2>&1; then return 0; fi
    # Debian and Ubuntu keep ensurepip in a package of its own; a half-made environment is of no use.
    rm -rf "$venv"
    minor=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    apt_install "python$minor-venv" python3-venv || true
    "$python" -m venv "$venv" || { rm -rf "$venv"; die "could not make a virtual environment. On Debian and Ubuntu:
    sudo apt-get update && sudo apt-get install -y python3-venv"; }
}

# The stamp holds a checksum of pyproject.toml: a touched file costs nothing, a changed one installs again.
wanted() { cksum <pyproject.toml; }

install_packages() {
    if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(wanted)" ]; then return 0; fi
    say "installing the Python packages (Spark is 430 MB: some minutes the first time)"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable ".[dev]" >&2 ||
        die "the Python packages could not be installed; see pip's message above"
    wanted >"$stamp"
}

# `lakekeeper.spark.java_runtime` finds the Java that the session will use: one place knows the versions and where to look.
java_is_there() {
    "$venv/bin/python" -c 'import sys; from lakekeeper.spark.java_runtime import usable_java; sys.exit(usable_java() is None)'
}

ensure_java() {
    if java_is_there; then return 0; fi
    say "no Java 17 or 21 was found, in JAVA_HOME, on PATH or in /usr/lib/jvm"
    apt_install openjdk-17-jre-headless openjdk-21-jre-headless || true
    java_is_there || die "Spark needs a Java 17 (or 21) runtime. On Debian and Ubuntu:
    sudo apt-get update && sudo apt-get install -y openjdk-17-jre-headless
elsewhere install any build of OpenJDK 17 and set JAVA_HOME to its directory"
}

"$venv/bin/python" -m pip --version >/dev/null 2>&1 || make_venv
install_packages
ensure_java
