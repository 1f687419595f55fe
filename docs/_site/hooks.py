"""Pages of the site that lie beside docs/, and links between them; see mkdocs.yml."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "SECURITY.md": "SECURITY.md",
    "replicator/sources/mysql/README.md": "sources/mysql.md",
    "replicator/sources/postgres/README.md": "sources/postgres.md",
    "replicator/sources/sqlserver/README.md": "sources/sqlserver.md",
    "replicator/sources/oracle/README.md": "sources/oracle.md",
    "replicator/targets/iceberg/README.md": "targets/iceberg.md",
    "replicator/targets/delta/README.md": "targets/delta.md",
    "replicator/targets/postgres/README.md": "targets/postgres.md",
    "replicator/targets/redshift/README.md": "targets/redshift.md",
    "replicator/targets/snowflake/README.md": "targets/snowflake.md",
    "replicator/targets/bigquery/README.md": "targets/bigquery.md",
    "replicator/targets/spanner/README.md": "targets/spanner.md",
    "replicator/targets/kafka/README.md": "targets/kafka.md",
}
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def on_config(config: Any) -> None:
    """The decisions' list, from their folder."""
    decisions = [f"adr/{file.name}" for file in sorted((ROOT / "docs" / "adr").glob("*.md"))]
    config.nav[-1]["Explanation"].append({"Decisions": decisions})


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages."""
    for source, page in PAGES.items():
        if (ROOT / source).exists():
            files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links as they are from the file's own place in the project become links of the site; what is no page of it, a
    path.
    """
    del config
    at = next((source for source, found in PAGES.items() if found == page.file.src_uri), f"docs/{page.file.src_uri}")

    def linked(match: re.Match[str]) -> str:
        image, text, target, anchor = match[1], match[2], match[3], match[4] or ""
        if "://" in target or target.startswith("mailto:"):
            return match[0]
        place = posixpath.normpath(posixpath.join(posixpath.dirname(at), target))
        found = PAGES.get(place, place.removeprefix("docs/") if place.startswith("docs/") else "")
        if files.get_file_from_path(found) is None:
            return f"{text} (`{place}`)"
        way = posixpath.relpath(found, posixpath.dirname(page.file.src_uri) or ".")
        return f"{image}[{text}]({way}{anchor})"

    return LINK.sub(linked, markdown)
