"""Make the site's links to files outside this folder work, by copying the files into the site."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parent.parent


def on_page_markdown(markdown: str, *, config: Any, files: Any, **rest: Any) -> str:
    """Copy the files of the project that a page links to, and link to the copies."""

    def copied(link: re.Match[str]) -> str:
        source = ROOT / link[1]
        if not source.is_file():
            return link[0]
        # Markdown outside this folder is not a page of the site, so it becomes a text file.
        name = f"files/{link[1]}" + (".txt" if source.suffix == ".md" else "")
        if files.get_file_from_path(name) is None:
            files.append(File.generated(config, name, abs_src_path=str(source)))
        return f"]({name})"

    return re.sub(r"\]\(\.\./([^)#]+)\)", copied, markdown)
