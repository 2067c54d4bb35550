"""What mkdocs needs to build the site from docs/ as it is: pages from elsewhere, and links that leave docs/.

On GitHub a link may lead to any file of the repository. The site has some of these files as pages; a link to any other
file, such as a source, becomes its text.
"""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import dirname, join, normpath, relpath
from typing import Any

from mkdocs.structure.files import File, Files

import reference

ROOT = Path(__file__).parents[1]

# A link around an image has no text of its own.
LINK = re.compile(r"(?:\[(?P<text>[^\[\]]*))?\]\((?!https?:|mailto:|#)(?P<to>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    for page, path in config.extra["elsewhere"].items():
        files.append(File.generated(config, page, content=(ROOT / path).read_text()))
    for page, text in reference.pages().items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    uri = page.file.src_uri
    elsewhere = config.extra["elsewhere"]
    page_of = {path: name for name, path in elsewhere.items()}
    source = elsewhere.get(uri, f"docs/{uri}")

    def linked(found: re.Match[str]) -> str:
        text = found["text"]
        path = normpath(join(dirname(source), found["to"]))
        target = page_of.get(path, path.removeprefix("docs/"))
        if files.get_file_from_path(target) is None:
            outside = text is not None and (ROOT / path).exists()
            return text if outside else found[0]  # mkdocs reports what does not exist
        here = relpath(target, dirname(uri) or ".")
        return f"{'' if text is None else '[' + text}]({here}{found['anchor'] or ''})"

    return LINK.sub(linked, markdown)
