#!/usr/bin/env bash
# What `make dist` and `make compiled` do:
#   bash deploy/dist.sh compiled PYTHON FOLDER   the compiled wheel for this Python, and unpacked in FOLDER/site
#   bash deploy/dist.sh plain FOLDER             sdist and plain wheel
#   bash deploy/dist.sh published FOLDER         those, checked, with sums and a bill of materials
#   bash deploy/dist.sh all FOLDER               all of that, with a compiled wheel for each Python found
#   bash deploy/dist.sh workflows                lint the workflows and the action
# The same sources give the same bytes: locked tools, no debugging data, one time for every file.
set -euo pipefail
. "$(dirname "$0")/progress.sh"
export PIP_DISABLE_PIP_VERSION_CHECK=1 UV_NO_PROGRESS=1 PYTHONDONTWRITEBYTECODE=1
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-1580601600} # hatchling's own; a commit's would differ with each page
TOOLS=.cache/dist/tools
UV=${VENV:-.venv}/bin/uv

refuse() { echo "$*" >&2; exit 1; }

# An environment with exactly what a lock names; made again when the lock is another.
make_environment() { # PYTHON FOLDER LOCK
    [ ! -f "$2/.made" ] || ! cmp --silent "$3" "$2/.made" || return 0
    "$1" -m venv --clear "$2"
    # uv does in seconds what takes pip minutes; without it, or where only pip is told of an index, pip it is.
    "$UV" pip install --quiet --python "$2/bin/python" --only-binary :all: --require-hashes -r "$3" 2>/dev/null ||
        "$2/bin/python" -m pip install --quiet --only-binary :all: --require-hashes -r "$3"
    cp "$3" "$2/.made"
}

tag_of() { "$1" -c 'import sys; print(sys.implementation.cache_tag)'; }

find_pythons() {
    local minor python
    for minor in ${PYTHONS:-3.11 3.12 3.13 3.14}; do
        for python in "python$minor" "$HOME"/.pyenv/versions/"$minor".*/bin/python"$minor"; do
            if "$python" -c 'import ensurepip, venv' 2>/dev/null; then
                echo "$python"
                break
            fi
        done
    done
}

build_plain() { # FOLDER
    make_environment "${PYTHON:-python3}" .cache/dist/plain deploy/build.lock
    .cache/dist/plain/bin/python -m hatchling build --target sdist --target wheel --directory "$1"
}

build_compiled() { # PYTHON FOLDER
    local tag environment headers
    tag=$(tag_of "$1")
    environment=.cache/dist/$tag
    headers=$("$1" -c 'import sysconfig; print(sysconfig.get_path("include"))')
    command -v cc >/dev/null && [ -f "$headers/Python.h" ] || refuse "compiling needs a C compiler and the headers of" \
        "Python (Debian: apt-get install gcc libc6-dev python3-dev); the plain build needs neither"
    with_progress "making the environment that compiles, for $tag" make_environment "$1" "$environment" deploy/build.lock
    rm -rf "$2" && mkdir -p "$2" && touch "$2/.began" # an edit while it builds is newer than this
    HATCH_BUILD_HOOK_ENABLE_CUSTOM=true with_progress "compiling for $tag, some three minutes on two cores" \
        "$environment/bin/python" -m hatchling build --target wheel --directory "$2"
    "$environment/bin/python" -m pip install --quiet --no-deps --no-index --no-compile --target "$2/site" "$2"/*.whl
    mv "$2/.began" "$2/.built"
}

make_tools() {
    with_progress "making the environment of the tools that check" \
        make_environment "${PYTHON:-python3}" "$TOOLS" deploy/dist.lock
}

build_published() { # FOLDER
    make_tools
    build_plain "$1"
    make_bill "$1"
    check "$1"
}

build_all() { # FOLDER
    local python wheel
    rm -rf "$1" && mkdir -p "$1"
    make_tools
    build_plain "$1"
    for python in $(find_pythons); do
        # By make, which builds again only after an edit.
        "${MAKE:-make}" --no-print-directory compiled-wheel COMPILED=".cache/compiled/$(tag_of "$python")" COMPILER="$python"
        for wheel in .cache/compiled/"$(tag_of "$python")"/*.whl; do
            # The oldest Linux that it runs on stands in its name from here on.
            PATH="$TOOLS/bin:$PATH" "$TOOLS/bin/auditwheel" repair --wheel-dir "$1" "$wheel"
        done
    done
    make_bill "$1"
    check "$1"
}

make_bill() { # FOLDER
    # It would warn that a lock does not say who needs what.
    PYTHONWARNINGS=ignore "$TOOLS/bin/cyclonedx-py" requirements requirements.lock --pyproject pyproject.toml --mc-type application \
        --output-reproducible --output-format JSON --validate --output-file "$1/sbom.cdx.json"
}

check() { # FOLDER
    "$TOOLS/bin/twine" check --strict "$1"/*.tar.gz "$1"/*.whl
    "$TOOLS/bin/check-wheel-contents" "$1"/*.whl
    (cd "$1" && sha256sum ./*.tar.gz ./*.whl ./*.json | sed 's# \./# #' | tee SHA256SUMS)
}

# On PyPI there is only a package that fetches it from elsewhere; as a Go module it comes with its sum.
make_actionlint() {
    local wanted=v1.7.12
    [ ! -x "$TOOLS/bin/actionlint-$wanted" ] || return 0
    command -v go >/dev/null || refuse "actionlint is built by Go, which is missing (Debian: apt-get install golang-go)"
    GOBIN=$PWD/$TOOLS/bin go install "github.com/rhysd/actionlint/cmd/actionlint@$wanted"
    mv "$TOOLS/bin/actionlint" "$TOOLS/bin/actionlint-$wanted"
}

lint_workflows() {
    make_tools
    with_progress "building actionlint" make_actionlint
    "$TOOLS"/bin/actionlint-*
    "$TOOLS/bin/zizmor" --offline --no-progress --persona=pedantic .github action.yml
}

case $1 in
    compiled) build_compiled "$2" "$3" ;;
    plain) build_plain "$2" ;;
    published) build_published "$2" ;;
    all) build_all "$2" ;;
    workflows) lint_workflows ;;
    *) refuse "bash deploy/dist.sh compiled|plain|published|all|workflows" ;;
esac
