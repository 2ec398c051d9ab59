# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""What the site needs beside mkdocs.yml: pages that live outside of docs/, links as GitHub
understands them, and folders in the navigation."""

import re
from pathlib import Path, PurePosixPath

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
SOURCE = "https://github.com/fairway-gpu/fairway/{}/main/{}"

# Files of the repository that are pages of the site, by their names there.
OUTSIDE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "python/README.md": "python.md",
}
INSIDE = {page: source for source, page in OUTSIDE.items()}

LINK = re.compile(r"(\]\()([^)\s#]+)([^)\s]*\))")


def on_config(config):
    """Replaces each folder in the navigation by its pages, sorted by name."""
    for section in config["nav"]:
        for entries in section.values():
            if not isinstance(entries, list):
                continue
            for entry in entries:
                for title, target in entry.items():
                    if target.endswith("/"):
                        pages = sorted((ROOT / "docs" / target).glob("*.md"))
                        entry[title] = [target + page.name for page in pages]
    return config


def on_files(files, config):
    """Adds the pages from outside of docs/."""
    for source, page in OUTSIDE.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    return files


def on_page_markdown(markdown, page, config, files):
    """Makes links that leave docs/ lead to the page of the site, or else to the source."""
    here = PurePosixPath(INSIDE.get(page.file.src_uri, "docs/" + page.file.src_uri)).parent
    depth = len(PurePosixPath(page.file.src_uri).parts) - 1

    def lead(match):
        target = match[2]
        if "://" in target or target.startswith("mailto:"):
            return match[0]
        path = resolve(here / target)
        if not (ROOT / path).exists():
            return match[0]  # mkdocs says so
        if path in OUTSIDE:
            site = OUTSIDE[path]
        elif path.startswith("docs/") and (ROOT / path).is_file():
            site = path.removeprefix("docs/")
        else:
            kind = "tree" if (ROOT / path).is_dir() else "blob"
            return match[1] + SOURCE.format(kind, path) + match[3]
        return match[1] + "../" * depth + site + match[3]

    # Code is as it is.
    parts = re.split(r"(^```.*?^```|^    .*?$|`[^`\n]*`)", markdown, flags=re.M | re.S)
    return "".join(part if i % 2 else LINK.sub(lead, part) for i, part in enumerate(parts))


def resolve(path):
    """Takes the dots out of a path."""
    parts = []
    for part in path.parts:
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)
