"""docker and podman: what is removed, and what runs in a container."""

from __future__ import annotations

from typing import Final

from stream_guard_shell.expansion.fields import NOTHING, Field, literal, unknown
from stream_guard_shell.expansion.places import normal, resolve
from stream_guard_shell.shell.call import Handler, Options, ProgramCall, parse_options
from stream_guard_shell.shell.word_lists import word_list
from stream_guard_shell.tools.infra import destroy
from stream_guard_shell.tools.programs import looks

_GLOBAL_VALUED: Final = word_list("H c l host context log-level config")
_RUN_VALUED: Final = word_list(
    "a c e h l m p u v w add-host annotation attach cap-add cap-drop cidfile cpus cpu-shares cpuset-cpus device dns "
    "env env-file entrypoint expose gpus group-add health-cmd hostname ip ipc label label-file link log-driver log-opt "
    "mac-address memory memory-swap mount name network net network-alias pid pids-limit platform publish pull restart "
    "runtime security-opt shm-size stop-signal stop-timeout storage-opt sysctl tmpfs ulimit user userns uts volume "
    "volume-driver volumes-from workdir detach-keys cgroup-parent cgroupns index"
)
_COMPOSE_VALUED: Final = word_list(
    "f p file project-name profile env-file project-directory parallel ansi progress t timeout rmi"
)
_REMOVING: Final = frozenset((("volume", "rm"), ("container", "rm"), ("image", "rm"), ("volume", "remove")))
_GROUPS: Final = frozenset(
    ("container", "image", "volume", "network", "system", "builder", "buildx", "compose", "context")
)


def docker(call: ProgramCall) -> Field:
    """Tell what is removed, stopped or run."""
    options = parse_options(call.args, _GLOBAL_VALUED, stop=True)
    words = options.rest
    verb = words[0].literal if words else None
    if verb == "compose":
        return _compose(call, words[1:])
    if verb == "container" and len(words) > 1 and words[1].literal in ("run", "exec", "stop", "kill"):
        verb, words = words[1].literal, words[1:]
    if verb in ("run", "create"):
        return _run(call, words[1:], verb)
    if verb == "exec":
        return _exec(call, words[1:])
    inner = parse_options(words, ("filter", "t", "time", "s", "signal", "until"))
    if verb in ("stop", "kill"):
        for target in inner.operands[1:]:
            call.emit("process", tool=call.name, target=call.recorder.word(target))
        return NOTHING
    pair = tuple(one.literal or "" for one in inner.operands[:2])
    if verb in ("rm", "rmi") or pair in _REMOVING or (len(pair) > 1 and pair[1] == "prune"):
        destroy(call, "container", inner.operands, inner, volumes=inner.has("v", "volumes"))
        return NOTHING
    if inner.operands and not looks(inner, 2 if verb in _GROUPS else 1):
        call.run(verb)
    return unknown()


def docker_compose(call: ProgramCall) -> Field:
    """Read docker-compose as docker compose."""
    return _compose(call._replace(name="docker"), call.args)


def _compose(call: ProgramCall, words: list[Field]) -> Field:
    outer = parse_options(words, _COMPOSE_VALUED, stop=True)
    verb = outer.rest[0].literal if outer.rest else None
    rest = outer.rest[1:]
    if verb == "exec":
        return _exec(call, rest)
    if verb == "run":
        return _run(call, rest, "compose")
    inner = parse_options(rest, _COMPOSE_VALUED)
    if verb == "down":
        operands = [literal("compose"), literal("down"), *inner.operands]
        destroy(call, "container", operands, inner, volumes=inner.has("v", "volumes"))
        return NOTHING
    if verb not in (None, "config") and not looks(_operands(outer), 1):
        call.run("compose")
    return unknown()


def _operands(outer: Options) -> Options:
    options = Options()
    options.operands = outer.rest
    return options


def _exec(call: ProgramCall, words: list[Field]) -> Field:
    options = parse_options(words, _RUN_VALUED, stop=True)
    if len(options.rest) < 2:
        return unknown()
    name = call.recorder.word(options.rest[0])
    folder = options.value("w", "workdir")
    shell = call.shell.elsewhere(f"container:{name or ''}", folder=(folder.literal or "") if folder is not None else "")
    return call.recorder.run_words(shell, options.rest[1:], call.stdin)


def _run(call: ProgramCall, words: list[Field], task: str) -> Field:
    """Read what a new container runs; what is mounted into it is here."""
    options = parse_options(words, _RUN_VALUED, stop=True)
    mounts = _mounts(call, options)
    if options.has("privileged") or any(_opens_machine(here) for here, _ in mounts):
        call.emit("privilege", via="docker")
    if not options.rest:
        return unknown()
    image, command = options.rest[0], options.rest[1:]
    entry = options.value("entrypoint")
    if entry is not None and entry.text:
        command = [entry, *command]
    if not command or task == "create":
        call.run(task)
        return unknown()
    name = options.value("name") or image
    folder = options.value("w", "workdir")
    shell = call.shell.elsewhere(
        f"container:{call.recorder.word(name) or ''}",
        tuple(mounts),
        (folder.literal or "") if folder is not None else "",
    )
    return call.recorder.run_words(shell, command, call.stdin)


def _mounts(call: ProgramCall, options: Options) -> list[tuple[str, str]]:
    """Return folders of this machine that are mounted, and where."""
    pairs: list[tuple[Field, str]] = []
    for value in options.values("v", "volume"):
        if value.known:
            pieces = value.text.split(":")
            if len(pieces) > 1:
                pairs.append((literal(pieces[0]), pieces[1]))
        else:
            call.recorder.unknown(value)
    for value in options.values("mount"):
        fields = dict(one.partition("=")[::2] for one in value.text.split(","))
        source = fields.get("source") or fields.get("src")
        target = fields.get("target") or fields.get("destination") or fields.get("dst")
        if source and target:
            pairs.append((literal(source), target))
    found = []
    for source_field, target_text in pairs:
        text = source_field.text
        if text.startswith(("/", ".", "~")):
            place = resolve(source_field, call.shell.folder)
            found.append((place.text, normal(target_text)))
    return found


def _opens_machine(path: str) -> bool:
    return path == "/" or path.endswith("/docker.sock")


TOOLS: Final[dict[str, Handler]] = {"docker": docker, "podman": docker, "docker-compose": docker_compose}
