"""Prints each field of the given dashboards that Grafana's own types do not have, and exits with 1 if there is one.

Grafana ignores a field that it does not know, so a misspelt field would change nothing without an error. The types are those of
the Grafana Foundation SDK: this program reads a dashboard into them, writes it again, and compares.
"""

import json
import sys

from grafana_foundation_sdk.cog import encoder, plugins
from grafana_foundation_sdk.models import dashboard

# Fields of the query of an annotation belong to its data source, and the types keep none of them.
OF_DATA_SOURCE = {"/annotations/list/*/titleFormat", "/annotations/list/*/step"}


def differences(before, after, path):
    """Yields the paths of the fields of `before` that `after` does not have, or has with another value."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name, value in before.items():
            if name in after:
                yield from differences(value, after[name], f"{path}/{name}")
            else:
                yield f"{path}/{name}"
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for one, other in zip(before, after):
            yield from differences(one, other, f"{path}/*")
    elif before != after:
        yield path


plugins.register_default_plugins()
unknown = 0
for name in sys.argv[1:]:
    with open(name) as file:
        before = json.load(file)
    after = json.loads(encoder.JSONEncoder().encode(dashboard.Dashboard.from_json(before)))
    for path in differences(before, after, ""):
        if path not in OF_DATA_SOURCE:
            print(f"{name}: {path}")
            unknown += 1
sys.exit(unknown > 0)
