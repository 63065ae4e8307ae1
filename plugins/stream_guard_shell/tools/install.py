"""Package managers: what is installed, and where it comes from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from stream_guard_shell.expansion import NOTHING, Field, literal, unknown
from stream_guard_shell.shell import Handler, Options, ProgramCall, host_of, parse_options, url_host, word_list
from stream_guard_shell.tools.programs import LOOKING_VERBS, task_of

_LOOKING: Final = LOOKING_VERBS | frozenset(
    word_list("freeze check help config root prefix bin why ll la tree doctor version cache")
)

_CHANGING: Final = frozenset(word_list("set unset delete edit add remove rm clean clear purge prune verify fix"))


class _Manager(NamedTuple):
    """How a manager is told to install, and which of its options take a value or name a registry."""

    verbs: frozenset[str]
    valued: Sequence[str] = ()
    registries: Sequence[str] = ()
    variables: Sequence[str] = ()
    lists: Sequence[str] = ()
    bare: bool = False  # it installs without a verb


_PIP: Final = _Manager(
    frozenset(("install",)),
    word_list(
        "r c e i t f b d requirement constraint editable index-url extra-index-url find-links target platform prefix "
        "root python-version trusted-host proxy timeout progress-bar upgrade-strategy no-binary only-binary src python "
        "p cache-dir log report abi implementation config-settings index default-index group extra"
    ),
    ("i", "index-url", "extra-index-url", "find-links", "f", "index", "default-index"),
    ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX", "PIP_FIND_LINKS", "UV_INDEX"),
    ("r", "requirement"),
)
_NODE: Final = _Manager(
    frozenset(("install", "i", "add", "ci", "in", "clean-install")),
    word_list("registry prefix C dir filter workspace w tag cwd omit include loglevel cache network-timeout otp"),
    ("registry",),
    ("NPM_CONFIG_REGISTRY", "npm_config_registry", "YARN_REGISTRY", "YARN_NPM_REGISTRY_SERVER", "BUN_CONFIG_REGISTRY"),
)
_SYSTEM: Final = _Manager(
    frozenset(("install", "add", "reinstall")),
    word_list("t o c a repository X repo enablerepo default-release option config-file target-release p root"),
    ("repository", "X"),
)
_MANAGERS: Final[dict[str, _Manager]] = {
    "pip": _PIP,
    "uv": _PIP._replace(verbs=frozenset(("install", "add", "sync"))),
    **dict.fromkeys(("npm", "pnpm", "bun"), _NODE),
    "yarn": _NODE._replace(bare=True),
    "gem": _Manager(
        frozenset(("install",)), word_list("s v i n P source version install-dir platform"), ("s", "source")
    ),
    "cargo": _Manager(
        frozenset(("install", "add")),
        word_list("git branch tag rev path version vers root index registry features F target profile bin example j"),
        ("index", "registry"),
    ),
    "go": _Manager(frozenset(("install", "get")), word_list("o p ldflags tags mod modfile C"), (), ("GOPROXY",)),
    **dict.fromkeys(("apt", "apk", "dnf", "brew"), _SYSTEM),
}
_OF_THE_SYSTEM: Final = ("apt", "apt-get", "apk", "dnf", "yum", "zypper", "brew")
_REFRESHING: Final = frozenset(("install", "add", "reinstall", "update", "upgrade"))
_PACKAGE: Final = re.compile(
    r"(?!.*\.(?:deb|rpm|apk)$)[A-Za-z0-9][A-Za-z0-9+.:=_@~-]*"
)  # a name, and no file or address
_NAMES: Final = {"pip3": "pip", "apt-get": "apt", "pipx": "pipx"}
_GIT: Final = re.compile(r"(?:git\+|git://|git@|ssh://|github:|gitlab:|bitbucket:|gist:)|.*\.git(?:[#@].*)?$")
_SHORT_GIT: Final = re.compile(r"[\w.-]+/[\w.-]+(?:#\S+)?$")
_FILE: Final = re.compile(r"(?:\.|/|~|file:|link:|workspace:)|.*\.(?:whl|tgz|tar\.gz|tar\.bz2|zip|deb|rpm|gem|apk)$")
_SHORT_HOSTS: Final = {
    "github": "github.com",
    "gitlab": "gitlab.com",
    "bitbucket": "bitbucket.org",
    "gist": "gist.github.com",
}


def install(call: ProgramCall) -> Field:
    """Tell an installation from what else a manager does."""
    manager = _NAMES.get(call.name, call.name)
    spec = _MANAGERS[manager]
    options = parse_options(call.args, spec.valued, single=spec.valued if manager == "go" else ())
    verb = options.operands[0].literal if options.operands else None
    operands = options.operands[1:]
    if manager == "uv" and verb == "pip":
        verb, operands = (operands[0].literal if operands else None), operands[1:]
    if manager == "yarn" and verb == "global":
        verb, operands = (operands[0].literal if operands else None), operands[1:]
    if options.has("dry-run", "simulate"):
        return unknown()
    bare = verb is None and spec.bare and not options.operands
    if bare or (verb in spec.verbs and not (manager == "cargo" and options.has("list"))):
        _record(call, manager, spec, options, operands)
    elif verb is not None or options.operands:
        _other(call, options, verb)
    return unknown()


def installs_from_registry(words: Sequence[Field]) -> bool:
    """Whether these words of a command only install or refresh what the registry of the system has."""
    texts = [word.literal for word in words]
    if not texts or texts[0] not in _OF_THE_SYSTEM or None in texts:
        return False
    options = parse_options(list(words[1:]), _SYSTEM.valued)
    verb, *packages = [word.literal or "" for word in options.operands] or [""]
    elsewhere = options.value(*_SYSTEM.registries) is not None or options.has("o", "option", "c", "config-file", "root")
    return verb in _REFRESHING and not elsewhere and all(_PACKAGE.fullmatch(name) for name in packages)


def _other(call: ProgramCall, options: Options, verb: str | None) -> None:
    if verb == "publish" and call.name == "npm":
        address = options.value("registry")
        host = url_host(call.recorder, address) if address is not None else None
        call.emit("net", host=host, direction="up", tool="npm")
    elif verb is None or verb not in _LOOKING or _changes(options):
        call.run(task_of(call.name, options.operands))


def _changes(options: Options) -> bool:
    """Whether a verb that mostly looks is told to change something: ``config set``, ``cache clean``."""
    return len(options.operands) > 1 and options.operands[1].literal in _CHANGING


def _record(call: ProgramCall, manager: str, spec: _Manager, options: Options, operands: list[Field]) -> None:
    """Record an effect for each source."""
    index = _index(call, spec, options)
    groups: dict[tuple[str | None, str | None], list[str]] = {}
    packages = [*operands, *(options.values("e", "editable") if manager in ("pip", "uv") else ())]
    listed = options.values(*spec.lists) if spec.lists else []
    for package in packages:
        source, host, name = _source(call, manager, package, index)
        groups.setdefault((source, host), []).extend([name] if name is not None else [])
    _cargo_source(manager, options, groups)
    if listed or not groups:
        groups.setdefault(("index", index) if index else ("lock", None), [])
    for (source, host), names in groups.items():
        known = None if source is None else tuple(names)
        call.emit("install", manager=manager, packages=known, source=source, host=host)


def _cargo_source(manager: str, options: Options, groups: dict[tuple[str | None, str | None], list[str]]) -> None:
    if manager != "cargo":
        return
    address, path = options.value("git"), options.value("path")
    names = [name for group in groups.values() for name in group]
    if address is not None or path is not None:
        groups.clear()
        host = host_of((address.literal or "").partition("://")[2]) if address is not None else None
        groups[("git", host) if address is not None else ("path", None)] = names


def _index(call: ProgramCall, spec: _Manager, options: Options) -> str | None:
    """Return the host of another registry, by option or by variable."""
    address = options.value(*spec.registries) if spec.registries else None
    for name in spec.variables:
        found = call.shell.variable(name)
        if address is None and found is not None and found.exported:
            address = found.value or unknown()
    return (url_host(call.recorder, address) or "") if address is not None else None


def _source(
    call: ProgramCall, manager: str, package: Field, index: str | None
) -> tuple[str | None, str | None, str | None]:
    text = package.text if package.known else None
    if text is None:
        call.recorder.unknown(package)
        return None, None, None
    address = text.partition(" @ ")[2].strip() or text if " @ " in text else text
    if manager in ("npm", "pnpm", "yarn", "bun") and "@" in address[1:] and "://" in address:
        address = address[address.index("@", 1) + 1 :] if re.match(r"@?[\w./-]+@(?:git|http)", address) else address
    if manager not in ("go", "apt", "apk", "dnf", "brew") and _GIT.match(address):
        return "git", _git_host(address), text
    if re.match(r"https?://", address):
        return "url", host_of(address.partition("://")[2]), text
    if _FILE.match(address):
        return "path", None, text
    if manager in ("npm", "pnpm", "yarn", "bun") and _SHORT_GIT.match(address) and not address.startswith("@"):
        return "git", "github.com", text
    return ("index", index or None, text) if index is not None else ("registry", None, text)


def _git_host(address: str) -> str | None:
    short = _SHORT_HOSTS.get(address.partition(":")[0])
    if short:
        return short
    if "://" in address:
        return host_of(address.partition("://")[2])
    return host_of(address.partition("@")[2].replace(":", "/", 1)) if "@" in address else None


def dpkg(call: ProgramCall) -> Field:
    """Install package files."""
    options = parse_options(call.args, ("root", "admindir"))
    if options.has("i", "install", "unpack"):
        names = [call.recorder.word(one) for one in options.operands]
        known = tuple(name for name in names if name is not None)
        call.emit("install", manager="dpkg", packages=known, source="path" if known else None)
    elif options.has("r", "P", "remove", "purge", "configure"):
        call.run()
    return NOTHING


def fetch_and_run(call: ProgramCall) -> Field:
    """Install a package and run it: npx, uvx, bunx, and ``dlx`` of pnpm and yarn."""
    options = parse_options(call.args, ("p", "package", "c", "call", "from", "with", "python", "w"), stop=True)
    words = list(options.rest)
    for text in options.values("c", "call") if call.name == "npx" else []:
        call.recorder.run_text(call.shell.subshell(process=True), text, "sh")
    packages = options.values("p", "package", "from", "with") or words[:1]
    if not packages:
        return unknown()
    manager = "npm" if call.name != "uvx" else "pip"
    index = _index(call, _MANAGERS[manager], options)
    _packages(call, call.name, manager, packages, index)
    if not words:
        return unknown()
    return _run_package(call, words)


def _run_package(call: ProgramCall, words: list[Field]) -> Field:
    text = words[0].literal
    if text is None:
        call.recorder.opaque("command")
        return unknown()
    plain = re.sub(r"(?<=.)@[^/@]*$", "", text)
    tool = plain.rpartition("/")[2]
    if plain == tool and call.recorder.knows(tool):
        return call.recorder.run_words(call.shell, [literal(tool), *words[1:]], call.stdin)
    call.recorder.run(call.shell, text)
    return unknown()


def node_manager(call: ProgramCall) -> Field:
    """Install, or run a package with ``dlx`` or ``x``."""
    first = call.args[0].literal if call.args else None
    if first == "dlx" or (first == "x" and call.name == "bun"):
        return fetch_and_run(call._replace(args=call.args[1:]))
    return install(call)


def uv(call: ProgramCall) -> Field:
    """Install, look through ``run``, or run a tool of a package."""
    words = [arg.literal for arg in call.args[:2]]
    if words[:1] == ["run"]:
        options = parse_options(
            call.args[1:], word_list("with python p extra group m module env-file directory project"), stop=True
        )
        _packages(call, "uv", "pip", options.values("with"), None)
        module = options.value("m", "module")
        rest = [literal("python"), literal("-m"), module, *options.rest] if module is not None else options.rest
        return call.recorder.run_words(call.shell, list(rest), call.stdin) if rest else unknown()
    if words == ["tool", "run"]:
        return fetch_and_run(call._replace(name="uvx", args=call.args[2:]))
    if words == ["tool", "install"]:
        return install(call._replace(args=call.args[1:]))
    return install(call)


def _packages(call: ProgramCall, tool: str, manager: str, packages: list[Field], index: str | None) -> None:
    """Record packages that a tool installs to run something, one by one."""
    for package in packages:
        source, host, name = _source(call, manager, package, index)
        names = (name,) if name is not None else None
        call.emit("install", manager=tool, packages=names, source=source, host=host)


TOOLS: Final[dict[str, Handler]] = {
    **dict.fromkeys(("pip", "pip3", "gem", "cargo", "go", "apt", "apt-get", "apk", "dnf", "brew", "npm"), install),
    **dict.fromkeys(("pnpm", "yarn", "bun"), node_manager),
    **dict.fromkeys(("npx", "uvx", "bunx"), fetch_and_run),
    "uv": uv,
    "dpkg": dpkg,
}
