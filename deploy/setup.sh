#!/usr/bin/env bash
# What `make setup`, `make setup-dev` and `make setup-tests` do: bash deploy/setup.sh run|dev|tests|debian|promtool|alertmanager|editor|kafka
# A part that cannot be had here is named, with what to do; the tests that need it skip and say so.
set -euo pipefail
VENV=${VENV:-.venv}
BIN=$VENV/bin
export PIP_DISABLE_PIP_VERSION_CHECK=1 UV_NO_PROGRESS=1
. "$(dirname "$0")/progress.sh"

refuse() { echo "$*" >&2; exit 1; }
may_install() { [ -n "${STREAM_GUARD_REQUIRE_ALL:-}" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }
apt_install() { DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null; }

# Wheels, so that nothing has to be compiled; only Faust, off x86_64, is published as source alone.
from_source() { [ "$(uname -m)" = x86_64 ] || echo faust-streaming; }

# uv does in seconds what takes pip minutes. It reads no settings of pip's: where those name the only index, pip it is.
install() { # LOCK OPTIONS...
    local only=(--only-binary :all:) source
    source=$(from_source)
    [ -z "$source" ] || only+=(--no-binary "$source")
    "$BIN/uv" pip install --quiet --python "$BIN/python" "${only[@]}" --require-hashes -r "$1" 2>/dev/null ||
        "$BIN/python" -m pip install --quiet --no-compile "${only[@]}" --require-hashes -r "$1"
}

make_environment() {
    [ -n "${PYTHON:-}" ] || refuse "stream_guard needs Python 3.11 to 3.14 and found none that starts;" \
        "install one (Debian: apt-get install python3 python3-venv), or name it: make PYTHON=..."
    "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null || refuse "$PYTHON cannot make virtual environments;" \
        "install what it lacks (Debian: apt-get install python3-venv), or name another: make PYTHON=..."
    "$BIN/python" -m pip --version >/dev/null 2>&1 || "$PYTHON" -m venv --clear "$VENV"
    "$BIN/python" -m pip install --quiet --only-binary :all: --require-hashes -r deploy/installer.lock ||
        echo "uv could not be installed: pip does the same, only slower"
}

# What was called stream-guard until 0.2 would bring every plugin a second time.
install_checkout() {
    "$BIN/python" -m pip uninstall --quiet --yes stream-guard 2>/dev/null || true
    "$BIN/python" -m pip install --quiet --no-deps --no-build-isolation --no-index -e .
}

set_up_run() {
    with_progress "making the environment $VENV" make_environment
    with_progress "installing what deploy/run.lock names into $VENV" install deploy/run.lock
    with_progress "installing the checkout" install_checkout
    build_native
}

# A second, where there are a C compiler and the headers of Python. Without them records are checked in another way.
build_native() {
    local headers source=stream_guard/_native/plain_json.c built=stream_guard/_native/plain_json.abi3.so
    [ -f $source ] || return 0
    rm -f $built
    headers=$("$BIN/python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
    if command -v cc >/dev/null && [ -f "$headers/Python.h" ]; then
        cc -O3 -g0 -fPIC -shared -I"$headers" -o $built $source || rm -f $built
    fi
}

set_up_dev() {
    if [ -n "$(from_source)" ] && ! command -v cc >/dev/null; then
        refuse "$(from_source) has no wheel for $(uname -m) and is built from source: install a C compiler" \
            "(Debian: apt-get install gcc libc6-dev and the headers of Python, python3-dev)"
    fi
    with_progress "installing what requirements.lock names into $VENV" install requirements.lock
}

# Once, by one process, while other parts are fetched: the processes of a first run would each compile every test file.
# What is wrong with a file, the run says.
set_up_tests() {
    with_progress "compiling the tests" compile_tests
}

compile_tests() { "$BIN/pytest" --collect-only --quiet >/dev/null 2>&1 || true; }

# A browser and a database. Only where everything is required, and by root, are they installed.
set_up_debian() {
    local missing=()
    command -v chromium >/dev/null || missing+=(chromium)
    command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing+=(postgresql)
    if may_install; then
        apt-get update -qq >/dev/null 2>&1 || true
        [ ${#missing[@]} = 0 ] || with_progress "installing ${missing[*]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}" >/dev/null
    elif [ ${#missing[@]} != 0 ]; then
        refuse "missing (Debian: apt-get install ${missing[*]}): tests that need it will be skipped"
    fi
}

# Debian's package unpacked beside the code: nothing is installed.
set_up_promtool() {
    command -v promtool >/dev/null && return
    cd .cache/promtool
    apt-get download -qq prometheus 2>/dev/null && dpkg -x prometheus_*.deb . ||
        refuse "promtool is missing (Debian: apt-get install prometheus): tests of metrics and alarms will be skipped"
    rm -f ./*.deb
}

# Debian's Alertmanager reads its templates from /usr/share, so it is installed, on the same terms as the browser.
set_up_alertmanager() {
    command -v prometheus-alertmanager >/dev/null && return
    may_install && apt_install prometheus-alertmanager ||
        refuse "missing (Debian: apt-get install prometheus-alertmanager): tests that need it will be skipped"
}

set_up_editor() {
    command -v npm >/dev/null || refuse "npm is missing: the tests of the editor schema will be skipped"
    with_progress "installing the editor's language server" npm ci --prefix tests/editor --no-audit --no-fund --loglevel=error ||
        refuse "npm ci failed: the tests of the editor schema will be skipped"
}

set_up_kafka() {
    command -v java >/dev/null && command -v mvn >/dev/null ||
        refuse "Java or Maven is missing: tests on a real Kafka broker will be skipped"
    with_progress "fetching Apache Kafka" "$BIN/python" -m tests.kafka.broker fetch ||
        refuse "Apache Kafka could not be fetched: tests on a real broker will try again, and fail"
}

"set_up_$1"
