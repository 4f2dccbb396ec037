"""Pods of a rendered chart for `podman play kube`, which has no cluster around it.

Controllers, kubelet and the cluster's DNS do here what they do there: one Pod a replica, variables with their values,
names of Services, and volumes, as folders of this machine with the owner that fsGroup gives them. Probes and preStop
are left out: podman has none for gRPC, and no Service that a Pod would leave.
"""

import base64
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.deploy.chart.rendering import Object, Rendered

USER = 10001
REFERENCE = re.compile(r"\$\((\w+)\)")
LEFT_OUT = ("startupProbe", "readinessProbe", "livenessProbe", "lifecycle", "ports")
"""podman would publish ports on this machine."""


@dataclass
class PlayedPod:
    """A Pod, and where it is."""

    name: str
    address: str
    spec: Object
    labels: dict[str, str]
    names: list[str] = field(default_factory=list)
    """Names by which others find it."""

    @property
    def container(self) -> str:
        """Name of its one container in podman."""
        return f"{self.name}-{self.spec['containers'][0]['name']}"


class Cluster:
    """Parts of a cluster that the objects of a chart count on."""

    def __init__(self, rendered: Rendered, folder: Path, subnet: str) -> None:
        """`subnet`: the first three numbers of addresses."""
        self._rendered = rendered
        self._folder = folder
        self.pods = list(self._place(subnet))

    def yaml_of(self, pod: PlayedPod) -> Object:
        """The Pod with all that it refers to."""
        aliases = [{"ip": each.address, "hostnames": each.names} for each in self.pods if each.names]
        spec = pod.spec | {"hostAliases": aliases, "volumes": []}
        spec["containers"] = [self._container(pod, each) for each in pod.spec["containers"]]
        for volume in pod.spec.get("volumes", []):
            path = self._fill(pod, volume)
            spec["volumes"].append({"name": volume["name"], "hostPath": {"path": str(path), "type": "Directory"}})
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod.name, "labels": pod.labels}, "spec": spec}

    def _place(self, subnet: str) -> Iterator[PlayedPod]:
        number = 10
        for item in self._rendered.objects:
            if item["kind"] not in ("Deployment", "StatefulSet", "Pod"):
                continue
            template = item if item["kind"] == "Pod" else item["spec"]["template"]
            own = item["metadata"]["name"]
            for replica in range(item["spec"].get("replicas", 1)):
                name = f"{own}-{replica}"
                pod = PlayedPod(name, f"{subnet}.{number}", template["spec"], template["metadata"]["labels"])
                pod.names = list(self._names(item, pod))
                number += 1
                yield pod

    def _names(self, item: Object, pod: PlayedPod) -> Iterator[str]:
        """Each name stands for one Pod: gRPC takes all addresses of lines of /etc/hosts that share a name for those of
        each of their names. So the Service's name is that of its first Pod."""
        for service in self._rendered.of("Service"):
            name = service["metadata"]["name"]
            if service["spec"]["selector"].items() <= pod.labels.items():
                if service["spec"].get("clusterIP") != "None" and pod.name.endswith("-0"):
                    yield name
                if item["spec"].get("serviceName") == name:
                    yield f"{pod.name}.{name}"

    def _container(self, pod: PlayedPod, container: Object) -> Object:
        values: dict[str, str] = {}
        for variable in container.get("env", []):
            values[variable["name"]] = REFERENCE.sub(lambda found: values[found[1]], self._value(pod, variable))
        kept = {name: part for name, part in container.items() if name not in LEFT_OUT}
        kept["env"] = [{"name": name, "value": value} for name, value in values.items()]
        if "command" in container:
            kept["command"] = [REFERENCE.sub(lambda found: values[found[1]], each) for each in container["command"]]
        return kept

    def _value(self, pod: PlayedPod, variable: Object) -> str:
        source: dict[str, Any] = variable.get("valueFrom", {})
        match source:
            case {"fieldRef": {"fieldPath": "metadata.name"}}:
                return pod.name
            case {"fieldRef": {"fieldPath": "status.podIP"}}:
                return pod.address
            case {"secretKeyRef": {"name": name, "key": key}}:
                return self._data("Secret", name)[key].decode()
        return str(variable["value"])

    def _data(self, kind: str, name: str) -> dict[str, bytes]:
        (found,) = [each for each in self._rendered.of(kind) if each["metadata"]["name"] == name]
        plain = found.get("stringData", {}) | (found.get("data", {}) if kind == "ConfigMap" else {})
        coded = found.get("data", {}) if kind == "Secret" else {}
        return {key: text.encode() for key, text in plain.items()} | {
            key: base64.b64decode(text) for key, text in coded.items()
        }

    def _fill(self, pod: PlayedPod, volume: Object) -> Path:
        path = self._folder / pod.name / volume["name"]
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        files: dict[str, bytes] = {}
        match volume:
            case {"secret": {"secretName": name}}:
                files = self._data("Secret", name)
            case {"configMap": {"name": name}}:
                files = self._data("ConfigMap", name)
        for name, content in files.items():
            (path / name).write_bytes(content)
            (path / name).chmod(0o440)
            os.chown(path / name, 0, USER)
        os.chown(path, 0 if files else USER, USER)
        return path
