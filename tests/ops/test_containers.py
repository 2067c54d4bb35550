"""Images and clusters: files that cannot be run here, held against the schemas and linters of their formats."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.ops.programs import OPS, run

KUBERNETES = OPS / "kubernetes"
OVERLAYS = ("small", "ha", "keda", "hpa")
UNKNOWN = "keda.sh/"  # resources of others, without a schema here

Json = dict[str, Any]


def resources(folder: Path) -> Iterator[Json]:
    """What a kustomization names, and those it is made of; as they are in their files."""
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    for name in kustomization["resources"]:
        if (folder / name).is_dir():
            yield from resources((folder / name).resolve())
        else:
            yield from yaml.safe_load_all((folder / name).read_text())


@pytest.mark.ops
def test_the_dockerfile_is_clean() -> None:
    assert run("hadolint", OPS / "docker" / "Dockerfile") == ""


def test_the_image_has_what_the_package_is_built_from() -> None:
    ignored = (OPS / "docker" / "Dockerfile.dockerignore").read_text().split()
    copied = [
        word
        for line in (OPS / "docker" / "Dockerfile").read_text().splitlines()
        if line.startswith("COPY ") and "--from" not in line
        for word in line.split()[1:-1]
    ]

    assert {f"!{name}" for name in copied} == {line for line in ignored if line.startswith("!")}
    assert all((OPS.parent / name).exists() for name in copied)


@pytest.mark.ops
def test_compose_fits_its_schema() -> None:
    run("check-jsonschema", "--builtin-schema", "vendor.compose-spec", OPS / "compose.yaml")


@pytest.mark.ops
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_resources_fit_their_schemas(overlay: str, tmp_path: Path) -> None:
    """Those in the files; where there is a kubectl, those that it makes of them as well."""
    known = [one for one in resources(KUBERNETES / "overlays" / overlay) if not one["apiVersion"].startswith(UNKNOWN)]
    check(known, tmp_path)


@pytest.mark.ops
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_kubectl_builds_resources_that_fit(overlay: str, tmp_path: Path) -> None:
    folder = KUBERNETES / "overlays" / overlay
    built = list(yaml.safe_load_all(run("kubectl", "kustomize", folder)))

    assert sorted(map(named, built)) == sorted(map(named, resources(folder)))
    assert unselected(built) == []
    check([one for one in built if not one["apiVersion"].startswith(UNKNOWN)], tmp_path)


def test_what_sends_notices_runs_no_code_of_users_and_has_its_secrets_alone() -> None:
    """Workers have neither the master key nor the mail server's password; the API has both, and runs no tasks."""
    pods = {
        one["metadata"]["name"]: one["spec"]["template"]["spec"]
        for one in resources(KUBERNETES / "base")
        if one["kind"] == "Deployment"
    }
    arguments = {name: pod["containers"][0]["args"] for name, pod in pods.items()}

    assert [name for name, given in arguments.items() if "--only-notify" in given] == ["oncue-notify"]
    assert [name for name, given in arguments.items() if "--no-notify" in given] == ["oncue-worker"]
    for secret in ("oncue-master", "oncue-notify"):
        assert {name for name, pod in pods.items() if secret in named_secrets(pod)} == {"oncue-api", "oncue-notify"}
    assert {name for name, pod in pods.items() if "oncue-storage" in named_secrets(pod)} == {
        "oncue-api",
        "oncue-scheduler",
        "oncue-worker",
    }


def named_secrets(pod: Json) -> set[str]:
    mounted = {one["secret"]["secretName"] for one in pod["volumes"] if "secret" in one}
    return mounted | {one["secretRef"]["name"] for one in pod["containers"][0].get("envFrom", ())}


def check(resources: list[Json], folder: Path) -> None:
    file = folder / "built.yaml"
    file.write_text(yaml.safe_dump_all(resources))
    run("kubernetes-validate", "--strict", file)


def named(resource: Json) -> str:
    return f"{resource['kind']}/{resource['metadata']['name']}"


def unselected(built: list[Json]) -> list[str]:
    """Services, budgets and policies that select no pod: a misspelt label is valid, and does nothing."""
    pods = [one["spec"]["template"]["metadata"]["labels"] for one in built if "template" in one["spec"]]
    return [named(one) for one in built if not any(selects(one, labels) for labels in pods)]


def selects(resource: Json, labels: dict[str, str]) -> bool:
    match resource["kind"], resource["spec"]:
        case "Service", {"selector": wanted}:
            return wanted.items() <= labels.items()
        case "PodDisruptionBudget", {"selector": {"matchLabels": wanted}}:
            return wanted.items() <= labels.items()
        case "NetworkPolicy", {"podSelector": {"matchLabels": wanted}}:
            return wanted.items() <= labels.items()
        case "NetworkPolicy", {"podSelector": {"matchExpressions": [{"key": key, "values": values}]}}:
            return labels.get(key) in values
        case _:
            return True
