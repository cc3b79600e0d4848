"""Lints the Dockerfile and the Helm chart, and renders the chart.

Arguments: the folder `deploy`. Reads a list of values of the chart from standard input, as JSON, and prints a JSON
object:

- `dockerfile`: the findings of hadolint
- `lint`: the warnings and errors of `helm lint`
- `rendered`: for each of the values:
  - `manifests`: the rendered manifests; null if they cannot be rendered
  - `error`: why they cannot be rendered; null if they can
  - `invalid`: what the schemas of Kubernetes reject in the manifests
"""

import json
import subprocess
import sys
from pathlib import Path

import helm_python as helm
import kubernetes_validate
import yaml

# The oldest version that the chart supports.
KUBERNETES = "1.30"
# Kinds whose schemas belong to other projects.
OTHER_KINDS = {"HTTPRoute", "ServiceMonitor"}
WARNING = 2


def render(folder: str, values: dict) -> dict:
    try:
        with helm.Chart.load(folder) as chart:
            chart.validate_schema(values)
            manifests = documents(chart.render(values, name="test", namespace="default"))
    except helm.HelmError as reason:
        return {"manifests": None, "error": str(reason), "invalid": []}
    problems = [problem for problem in map(invalid, manifests) if problem is not None]
    return {"manifests": manifests, "error": None, "invalid": problems}


def documents(manifests: dict[str, str]) -> list[dict]:
    texts = [text for name, text in manifests.items() if not name.endswith("NOTES.txt")]
    loaded = [document for text in texts for document in yaml.safe_load_all(text)]
    return [document for document in loaded if document is not None]


def invalid(document: dict) -> str | None:
    if document["kind"] in OTHER_KINDS:
        return None
    try:
        kubernetes_validate.validate(document, KUBERNETES, strict=True)
    except kubernetes_validate.ValidationError as error:
        return f"{document['kind']} {document['metadata']['name']}: {error.message}"
    return None


def main(deploy: Path) -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    dockerfile = subprocess.run(
        [hadolint, deploy / "docker" / "Dockerfile"], check=False, capture_output=True, text=True
    )
    folder = str(deploy / "helm" / "sluice")
    result = {
        "dockerfile": dockerfile.stdout + dockerfile.stderr,
        "lint": [finding for finding in helm.lint(folder)["messages"] if finding["severity"] >= WARNING],
        "rendered": [render(folder, values) for values in json.load(sys.stdin)],
    }
    json.dump(result, sys.stdout)


main(Path(sys.argv[1]))
