"""The manifests in deploy/kubernetes: valid, without rights they do not need, and fit for the program they run."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import textwrap
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import typer
from jsonschema import Draft7Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT7
from ruamel.yaml import YAML

from stream_guard.cli.app import app
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from tests.laws.deployed import load_deployed, open_routes
from tests.parts import require

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
YAML_FILES = YAML(typ="safe", pure=True)
KUSTOMIZATION: dict[str, Any] = YAML_FILES.load(FOLDER / "kustomization.yaml")
RESOURCES: list[dict[str, Any]] = [
    resource for name in KUSTOMIZATION["resources"] for resource in YAML_FILES.load_all(FOLDER / name)
]
WORKLOADS = {resource["metadata"]["name"]: resource for resource in RESOURCES if resource["kind"] == "StatefulSet"}
GENERATED = {entry["name"]: entry for entry in KUSTOMIZATION["configMapGenerator"]}
NAMES = [f"{resource['kind']}/{resource['metadata']['name']}" for resource in RESOURCES]


def schema_folder() -> Path:
    package = find_spec("kubernetes_validate")
    require(package, "kubernetes-validate is missing; `make setup-dev` installs it")
    assert package is not None
    assert package.origin is not None
    folders = (Path(package.origin).parent / "kubernetes-json-schema").glob("v*-local-strict")
    return max(folders, key=lambda folder: [int(part) for part in re.findall(r"\d+", folder.name)])


@cache
def validator(kind: str, version: str) -> Draft7Validator:
    """Return what checks a kind of the newest Kubernetes that there are schemas of; unknown fields are flaws."""
    folder = schema_folder()
    group = re.sub(r"\.(k8s\.io)(?=/)", "", version).replace("/", "-").lower()
    schema = json.loads((folder / f"{kind.lower()}-{group}.json").read_text())

    def retrieve(name: str) -> Resource[Any]:
        return Resource.from_contents(json.loads((folder / Path(name).name).read_text()), DRAFT7)

    return Draft7Validator(schema, registry=Registry(retrieve=retrieve))  # type: ignore[call-arg]  # attrs makes it


def flaws(resource: dict[str, Any]) -> list[str]:
    found = validator(resource["kind"], resource["apiVersion"]).iter_errors(resource)
    return [f"{error.json_path}: {error.message}" for error in found]


@pytest.mark.parametrize("resource", RESOURCES, ids=NAMES)
def test_a_manifest_is_valid_and_has_no_field_that_kubernetes_does_not_know(resource: dict[str, Any]) -> None:
    assert flaws(resource) == []


def test_a_misspelt_field_and_a_wrong_type_would_be_found() -> None:
    worker = json.loads(json.dumps(WORKLOADS["stream-guard-worker"]))
    worker["spec"]["template"]["spec"]["containers"][0]["livenessProbbe"] = {}
    worker["spec"]["replicas"] = "two"
    assert len(flaws(worker)) == 2


def containers(workload: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = workload["spec"]["template"]["spec"]["containers"]
    return found


def test_every_file_is_named_in_the_kustomization_or_taken_into_a_config_map() -> None:
    used = {*KUSTOMIZATION["resources"], *GENERATED["stream-guard-policy"]["files"], "kustomization.yaml"}
    assert {file.name for file in FOLDER.iterdir()} == used


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_pod_has_no_rights_it_does_not_need(name: str) -> None:
    pod = WORKLOADS[name]["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    user = re.findall(r"^USER (\d+)", (FOLDER.parent / "Dockerfile").read_text(), re.MULTILINE)
    assert [str(pod["securityContext"]["runAsUser"])] == user
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
        assert "memory" in container["resources"]["limits"]


@pytest.mark.parametrize("name", WORKLOADS)
def test_options_and_variables_are_those_of_the_program(name: str) -> None:
    [container] = containers(WORKLOADS[name])
    command, *words = container["args"]
    known = getattr(typer.main.get_command(app), "commands", {})
    options = {option for parameter in known[command].load().params for option in parameter.opts}
    assert {word.split("=")[0] for word in words if word.startswith("--")} - options == set()
    load_deployed(variables(container))


def variables(container: dict[str, Any]) -> dict[str, str]:
    """Return the settings that a container gets, its own and those of config maps, by their variables."""
    given = {entry["name"]: entry["value"] for entry in container["env"] if "value" in entry}
    for source in container.get("envFrom", ()):
        given |= dict(pair.split("=", 1) for pair in GENERATED[source["configMapRef"]["name"]]["literals"])
    return given


@pytest.mark.parametrize("name", WORKLOADS)
def test_somebody_is_told_of_what_a_pod_finds_and_the_network_lets_it(name: str, tmp_path: Path) -> None:
    [container] = containers(WORKLOADS[name])
    [target] = open_routes(load_deployed(variables(container)), tmp_path)
    found = re.fullmatch(r"alertmanager:http://\w+\.(?P<namespace>\w+):(?P<port>\d+)", target)
    assert found is not None
    [policy] = [one for one in RESOURCES if one["kind"] == "NetworkPolicy" and one["metadata"]["name"] == name]
    ways = [
        (to["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"], str(port["port"]))
        for rule in policy["spec"]["egress"]
        for to in rule.get("to", ())
        for port in rule["ports"]
    ]
    assert ways == [(found["namespace"], found["port"])]


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_path_of_a_command_is_on_a_volume_that_exists(name: str) -> None:
    pod = WORKLOADS[name]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    volumes = {volume["name"] for volume in pod["volumes"]}
    volumes |= {claim["metadata"]["name"] for claim in WORKLOADS[name]["spec"]["volumeClaimTemplates"]}
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    assert set(mounts.values()) == volumes
    values = [word.partition("=")[2] for word in container["args"]] + [one.get("value", "") for one in container["env"]]
    paths = [value for value in values if value.startswith("/")]
    assert paths
    assert [path for path in paths if not any(path.startswith(f"{mount}/") for mount in mounts)] == []
    assert {"/tmp", "/var/lib/stream-guard"} <= set(mounts)  # what is written, with a read-only root


@pytest.mark.parametrize("name", WORKLOADS)
def test_probes_ask_a_port_that_the_program_listens_on(name: str) -> None:
    [container] = containers(WORKLOADS[name])
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    literals = dict(pair.split("=", 1) for pair in GENERATED["stream-guard-settings"]["literals"])
    flags = dict(word[2:].split("=", 1) for word in container["args"] if word.startswith("--"))
    [listening] = ports.values()
    assert str(listening) == flags.get("port", literals["STREAM_GUARD_SERVE__PORT"])
    served = {"/healthz"} if container["args"][0] == "serve" else {"/healthz", "/readyz", "/livez"}
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["port"] in ports
        assert container[probe]["httpGet"]["path"] in served


def selected(selector: dict[str, Any]) -> list[str]:
    """Return the workloads whose pods a selector takes; an empty one takes all."""
    wanted = selector.get("matchLabels", selector).items()
    return [
        name
        for name, workload in WORKLOADS.items()
        if wanted <= workload["spec"]["template"]["metadata"]["labels"].items()
    ]


@pytest.mark.parametrize("name", WORKLOADS)
def test_alerts_that_wait_are_on_a_volume_that_outlives_the_pod(name: str) -> None:
    [container] = containers(WORKLOADS[name])
    claims = {claim["metadata"]["name"] for claim in WORKLOADS[name]["spec"]["volumeClaimTemplates"]}
    kept = [mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] in claims]
    image = (FOLDER.parent / "Dockerfile").read_text()
    # Where a process starts is where its outbox is, unless the settings say otherwise.
    assert re.findall(r"^WORKDIR (\S+)$", image.rpartition("FROM ")[2], re.MULTILINE) == kept
    assert load_deployed(variables(container)).delivery.outbox is None


def test_services_budgets_and_the_autoscaler_are_about_workloads_that_exist() -> None:
    for resource in RESOURCES:
        spec, own = resource.get("spec", {}), [resource["metadata"]["name"]]
        if resource["kind"] in ("Service", "PodDisruptionBudget"):
            assert selected(spec["selector"]) == own
        elif resource["kind"] == "HorizontalPodAutoscaler":
            assert spec["scaleTargetRef"]["name"] in WORKLOADS
            assert spec["minReplicas"] == WORKLOADS[spec["scaleTargetRef"]["name"]]["spec"]["replicas"]


def test_nothing_comes_in_or_goes_out_but_what_a_policy_names() -> None:
    policies = {
        resource["metadata"]["name"]: resource["spec"]
        for resource in RESOURCES
        if "podSelector" in resource.get("spec", {})
    }
    closed = policies["stream-guard-nothing"]
    assert (closed["podSelector"], sorted(closed["policyTypes"])) == ({}, ["Egress", "Ingress"])
    assert not {"ingress", "egress"} & closed.keys()
    for name, workload in WORKLOADS.items():
        [container] = containers(workload)
        allowed = {port["port"] for rule in policies[name]["ingress"] for port in rule["ports"]}
        assert allowed == {port["containerPort"] for port in container["ports"]}
        assert all(rule["from"] for rule in policies[name]["ingress"])


def test_the_overlay_of_the_page_is_built_with_what_it_adds(tmp_path: Path) -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not installed: the overlay is not built")  # no package of Debian's has one that can
    page = (FOLDER.parents[1] / "docs" / "kubernetes.md").read_text()
    [overlay] = re.findall(r"(?m)^    resources: \[.+\n(?:    .+\n)+", page)
    [more] = re.findall(r"(?m)^      (- \{name: stream-guard-alerts.+)$", page)
    written = overlay.replace("sha256:...", f"sha256:{'0' * 64}") + f"      {more}\n"
    shutil.copytree(FOLDER, tmp_path / "deploy" / "kubernetes")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "kustomization.yaml").write_text(textwrap.dedent(written))
    shutil.copy(FOLDER / "policy.yaml", tmp_path / "mine")
    command = [kubectl, "kustomize", str(tmp_path / "mine")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    built = list(YAML_FILES.load_all(done.stdout))
    assert [flaw for resource in built for flaw in flaws(resource)] == []
    [alerts] = [one["data"] for one in built if one["metadata"]["name"].startswith("stream-guard-alerts")]
    assert sorted(load_deployed(alerts).delivery.routes) == ["chat", "pager"]
    images = {container["image"] for one in built if one["kind"] == "StatefulSet" for container in containers(one)}
    assert images == {f"registry.example.com/stream-guard@sha256:{'0' * 64}"}


def test_the_policy_that_comes_with_it_loads() -> None:
    assert load_policy(FOLDER / "policy.yaml", build_registry()).warnings == ()
