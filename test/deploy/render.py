"""Lints the Dockerfile and the Helm chart, and renders the chart.

Arguments: the folder `deploy`. Reads values of the chart from standard input, as JSON, and prints a JSON object:

- `dockerfile`: the findings of hadolint
- `lint`: the warnings and errors of `helm lint`
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


def render(chart_folder: Path, values: dict) -> list[dict]:
    with helm.Chart.load(str(chart_folder)) as chart:
        chart.validate_schema(values)
        manifests = chart.render(values, name="test", namespace="default")
    texts = [text for name, text in manifests.items() if not name.endswith("NOTES.txt")]
    documents = [document for text in texts for document in yaml.safe_load_all(text)]
    return [document for document in documents if document is not None]


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
    chart = deploy / "helm" / "sluice"
    findings = [finding for finding in helm.lint(str(chart))["messages"] if finding["severity"] >= WARNING]
    manifests, error = None, None
    try:
        manifests = render(chart, json.load(sys.stdin))
    except helm.HelmError as reason:
        error = str(reason)
    result = {
        "dockerfile": dockerfile.stdout + dockerfile.stderr,
        "lint": findings,
        "manifests": manifests,
        "error": error,
        "invalid": [problem for problem in map(invalid, manifests or []) if problem is not None],
    }
    json.dump(result, sys.stdout)


main(Path(sys.argv[1]))
