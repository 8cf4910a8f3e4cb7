# SPDX-License-Identifier: Apache-2.0
"""The API's own document is valid OpenAPI 3.1, by the word of a linter that is not ours."""
import os
import pathlib
import subprocess
import tempfile

from tranche_platform import Client, Platform, main

LINTER = pathlib.Path(__file__).resolve().parent.parent / "tools" / "openapi-lint"


def document_passes_the_linter():
    """redocly lint, strict, without a warning."""
    program = LINTER / "node_modules" / ".bin" / "redocly"
    if not program.exists():
        return "[skipped] the linter needs Node.js 20.19 or newer; tools/bootstrap installs it there"
    with Platform() as platform, tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(Client(platform.port).get("/openapi.json").body)
        file.flush()
        lint = subprocess.run([program, "lint", "--config", LINTER / "redocly.yaml", file.name], text=True, capture_output=True,
                              env={**os.environ, "REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true"},
                              timeout=120, check=False)
        assert lint.returncode == 0, lint.stdout[-3000:] + lint.stderr[-3000:]


def document_describes_what_is_answered():
    """Each body named in the document has a schema, and every $ref leads somewhere."""
    with Platform() as platform:
        text = Client(platform.port).get("/openapi.json").body
        document = Client(platform.port).get("/openapi.json").json
        schemas = document["components"]["schemas"]
        for part in text.split('"$ref":"#/components/schemas/')[1:]:
            assert part.split('"')[0] in schemas, part[:40]
        job = schemas["Job"]["properties"]
        assert {"run", "resources", "limits", "kind"} <= set(job), sorted(job)


main([document_passes_the_linter, document_describes_what_is_answered])
