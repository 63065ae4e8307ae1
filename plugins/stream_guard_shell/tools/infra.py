"""Containers, clusters and clouds: what is destroyed there, what runs there, what is secret there."""

from __future__ import annotations

from typing import Any, Final

from stream_guard_shell.expansion import NOTHING, Field, literal, normal, resolve, unknown
from stream_guard_shell.shell import Handler, Options, ProgramCall, host_of, parse_options, word_list
from stream_guard_shell.tools.programs import LOOKING_VERBS, is_dry, looks

_KUBECTL_VALUED: Final = word_list(
    "n f l o c k namespace filename selector output container context kubeconfig cluster user grace-period timeout "
    "cascade field-selector as token server s kustomize"
)
_HELM_VALUED: Final = word_list("n namespace kube-context kubeconfig timeout description")
_CLOUD_FLAGS: Final = frozenset(
    word_list("""
    recursive r quiet q yes y force all a async no-wait no-prompt dryrun dry-run no-paginate debug verbose
    skip-final-snapshot delete-automated-backups only-show-errors no-verify-ssl no-sign-request confirm include-profile
    with-decryption auto-approve no-cli-pager delete auto-delete purge remove-source
    """)
)


def destroy(call: ProgramCall, area: str, operands: list[Field], options: Options, **fields: Any) -> None:
    """Record what is destroyed: the subcommand and its operands, without options."""
    words = [call.recorder.word(one) for one in operands]
    what = None if None in words else " ".join(word for word in words if word)
    call.emit(
        "destroy",
        area=area,
        tool=call.name,
        what=what,
        recursive=options.has("r", "recursive") and area == "cloud",
        all=options.has("a", "all"),
        **fields,
    )


def _other(call: ProgramCall, options: Options, depth: int = 2) -> Field:
    """Record a subcommand that is not listed, unless it only looks."""
    if not looks(options, depth):
        call.run(options.operands[0].literal)
    return unknown()


def kubectl(call: ProgramCall) -> Field:
    """Delete, look into a pod, or show secrets."""
    options = parse_options(call.args, _KUBECTL_VALUED)
    verbs = [one.literal for one in options.operands[:2]]
    if is_dry(options):
        return unknown()
    if verbs[:1] == ["delete"]:
        destroy(call, "cluster", options.operands, options)
    elif verbs[:1] == ["get"] and any(_is_secret_resource(one) for one in options.operands[1:]):
        call.emit("secret", tool="kubectl")
    elif verbs[:1] == ["exec"]:
        return _exec_in_pod(call)
    elif verbs[:1] not in (["top"], ["explain"], ["api-resources"], ["cluster-info"]):
        return _other(call, options)
    return unknown()


def _is_secret_resource(field: Field) -> bool:
    names = (field.literal or "").lower().partition("/")[0].split(",")
    return any(name in ("secret", "secrets") for name in names)


def _exec_in_pod(call: ProgramCall) -> Field:
    before = call.args
    at = next((number for number, arg in enumerate(before) if arg.literal == "--"), None)
    options = parse_options(before[:at] if at is not None else before, _KUBECTL_VALUED)
    operands = options.operands[1:]
    words = before[at + 1 :] if at is not None else operands[1:]
    name = call.recorder.word(operands[0]) if operands else None
    if not words:
        return unknown()
    pod = (name or "").removeprefix("pod/").removeprefix("pods/")
    return call.recorder.run_words(call.shell.elsewhere(f"pod:{pod}"), words, call.stdin)


def helm(call: ProgramCall) -> Field:
    """Uninstall a release."""
    options = parse_options(call.args, _HELM_VALUED)
    if is_dry(options):
        return unknown()
    if options.operands and options.operands[0].literal in ("uninstall", "delete", "del", "un"):
        destroy(call, "cluster", options.operands, options)
        return NOTHING
    return _other(call, options)


def terraform(call: ProgramCall) -> Field:
    """Destroy what a state describes: terraform, tofu, pulumi."""
    valued = word_list("s C stack cwd message m") if call.name == "pulumi" else ("var", "var-file", "target", "chdir")
    options = parse_options(call.args, valued, single=("var", "var-file", "target", "chdir", "destroy", "auto-approve"))
    verb = options.operands[0].literal if options.operands else None
    if verb == "destroy" or (verb == "down" and call.name == "pulumi") or (verb == "apply" and options.has("destroy")):
        call.emit("destroy", area="cloud", tool=call.name, what="destroy")
    elif verb not in ("fmt", "output", "graph", "providers", "preview", "whoami") or verb is None:
        return _other(call, options)
    return unknown()


def _cloud_options(call: ProgramCall) -> Options:
    """Tell options from operands where any long option may take a value: all do but those that are known not to."""
    valued = {
        arg.head[2:]
        for arg, following in zip(call.args, call.args[1:], strict=False)
        if arg.head.startswith("--") and "=" not in arg.head and not following.head.startswith("-")
    }
    return parse_options(call.args, [*(valued - _CLOUD_FLAGS), *("g", "n", "o", "s")])


def aws(call: ProgramCall) -> Field:
    """Delete, copy to and from buckets, show secrets."""
    options = _cloud_options(call)
    words = [one.literal or "" for one in options.operands[:2]]
    if len(words) < 2 or is_dry(options):
        return unknown()
    if words in (["s3", "rm"], ["s3", "rb"]) or words[1].startswith(("delete-", "terminate-")):
        destroy(call, "cloud", options.operands, options)
    elif words in (["s3", "cp"], ["s3", "sync"]):
        return _bucket_copy(call, options)
    elif words in (["secretsmanager", "get-secret-value"], ["configure", "get"]):
        call.emit("secret", tool="aws")
    elif not words[1].startswith(("describe-", "list-", "get-", "head-")) and words[1] not in ("help", "wait"):
        return _other(call, options)
    return unknown()


def _bucket_copy(call: ProgramCall, options: Options) -> Field:
    operands = options.operands[2:]
    recursive = options.has("recursive") or options.operands[1].literal == "sync"
    if len(operands) < 2:
        return unknown()
    source, target = operands[0], operands[1]
    fetched = _bucket(call, source)
    if fetched is None:
        call.recorder.read(call.shell, source, recursive=recursive)
    else:
        call.emit("net", host=fetched, direction="up" if call.carried else "down", tool="aws")
    bucket = _bucket(call, target)
    if bucket is None:
        call.recorder.write(call.shell, target, recursive=recursive, fetched=fetched)
    else:
        call.emit("net", host=bucket, direction="up", tool="aws")
    return unknown("net", host=fetched) if fetched is not None and target.literal == "-" else unknown()


def _bucket(call: ProgramCall, field: Field) -> str | None:
    if not field.head.startswith("s3://"):
        return None
    name = host_of(field.with_holes[5:]) or ""
    if "\0" in name:
        call.recorder.unknown(field)
        return ""
    return f"s3://{name}" if name else ""


def cloud(call: ProgramCall) -> Field:
    """Delete what the subcommand names: gcloud, az."""
    options = _cloud_options(call)
    words = [one.literal or "" for one in options.operands]
    if "delete" in words:
        destroy(call, "cloud", options.operands, options)
    elif words[:3] == ["auth", "print-access-token"] or words[:2] == ["auth", "print-access-token"]:
        call.emit("secret", tool=call.name)
    elif not any(word in LOOKING_VERBS for word in words[:4]):
        return _other(call, options)
    return unknown()


def gh(call: ProgramCall) -> Field:
    """Delete repositories and releases, show the token, publish gists."""
    options = parse_options(
        call.args, word_list("R repo b body t title F body-file B base H head l label L limit d desc q jq f")
    )
    words = [one.literal or "" for one in options.operands[:2]]
    if words == ["auth", "token"]:
        call.emit("secret", tool="gh")
    elif words in (["repo", "delete"], ["release", "delete"]):
        destroy(call, "cloud", options.operands, options)
    elif words == ["gist", "create"]:
        for file in options.operands[2:]:
            call.recorder.read(call.shell, file)
        call.emit("net", direction="up", tool="gh")
    else:
        return _other(call, options)
    return unknown()


def platform(call: ProgramCall) -> Field:
    """Destroy an application: heroku, fly."""
    options = parse_options(call.args, word_list("a app r remote c config confirm o org"))
    words = [one.literal or "" for one in options.operands]
    if words[:1] == ["apps:destroy"] or words[:2] == ["apps", "destroy"]:
        call.emit("destroy", area="cloud", tool=call.name, what=" ".join(words))
        return NOTHING
    return _other(call, options)


def show_secret(call: ProgramCall) -> Field:
    """Show a secret: vault read, op read, pass show."""
    options = parse_options(call.args, word_list("address namespace format field account vault"))
    verb = options.operands[0].literal if options.operands else None
    shown = {"vault": ("read",), "op": ("read",), "pass": ("show",)}[call.name]
    if verb in shown:
        call.emit("secret", tool=call.name)
        return unknown()
    return _other(call, options)


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
    if verb not in (None, "config") and not looks(outer, 1):
        call.run("compose")
    return unknown()


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


TOOLS: Final[dict[str, Handler]] = {
    **dict.fromkeys(("terraform", "tofu", "pulumi"), terraform),
    **dict.fromkeys(("gcloud", "az"), cloud),
    **dict.fromkeys(("heroku", "fly", "flyctl"), platform),
    **dict.fromkeys(("vault", "op", "pass"), show_secret),
    "kubectl": kubectl,
    "helm": helm,
    "aws": aws,
    "gh": gh,
    "docker": docker,
    "podman": docker,
    "docker-compose": docker_compose,
}
