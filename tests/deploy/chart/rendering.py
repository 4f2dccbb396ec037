"""The chart, as helm renders it."""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

RELEASE = "hr"
NAMESPACE = "serving"
Object = dict[str, Any]
Values = Mapping[str, Any]


class Refused(Exception):
    """Says why helm refuses values."""


@dataclass(frozen=True)
class Rendered:
    """All objects of one rendering."""

    objects: list[Object]

    def of(self, kind: str) -> list[Object]:
        return [each for each in self.objects if each["kind"] == kind]

    def one(self, kind: str, name: str) -> Object:
        """The object of a kind whose name ends so, after the release's."""
        (found,) = [each for each in self.of(kind) if each["metadata"]["name"] == f"{RELEASE}-headrace-{name}"]
        return found

    def pods(self) -> dict[str, Object]:
        """Specs of all Pods, by the name of what makes them."""
        found = {}
        for each in self.objects:
            name, spec = each["metadata"]["name"], each.get("spec", {})
            if each["kind"] == "Pod":
                found[name] = spec
            elif each["kind"] == "LeaderWorkerSet":
                template = spec["leaderWorkerTemplate"]
                found[f"{name} leader"] = template["leaderTemplate"]["spec"]
                found[f"{name} follower"] = template["workerTemplate"]["spec"]
            elif "template" in spec:
                found[name] = spec["template"]["spec"]
        return found


@dataclass(frozen=True)
class Chart:
    """A chart in a folder."""

    helm: Path
    folder: Path

    def render(self, values: Values | None = None, *arguments: str) -> Rendered:
        """Raises Refused with what helm says."""
        text = self._run("template", RELEASE, str(self.folder), "--namespace", NAMESPACE, *arguments, values=values)
        return Rendered([each for each in yaml.safe_load_all(text) if each])

    def lint(self, values: Values | None = None) -> str:
        return self._run("lint", "--strict", str(self.folder), values=values)

    def _run(self, *arguments: str, values: Values | None) -> str:
        command = [str(self.helm), *arguments, "--values", "-"]
        done = subprocess.run(
            command, input=json.dumps(values or {}), capture_output=True, text=True, timeout=60, check=False
        )
        if done.returncode:
            raise Refused(done.stdout + done.stderr)
        return done.stdout


def variables(pod: Object) -> dict[str, str]:
    """Variables of the first container of a Pod, with plain values."""
    return {each["name"]: each["value"] for each in pod["containers"][0]["env"] if "value" in each}
