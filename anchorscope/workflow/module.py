"""Find the project's files, also if another Snakefile uses this workflow as a module."""

import io
import os
import tarfile
from pathlib import Path
from typing import Any

from anchorscope.storage.files import atomic


def folder_of(source: Any) -> str:
    """Return the project's folder, given Snakemake's `workflow.current_basedir`.

    If that is on a Git host, all files of its commit are extracted to `.snakemake/anchorscope/`,
    since Snakemake itself fetches only rules and scripts.
    """
    path: str = source.get_path_or_uri(secret_free=True)
    if os.path.isdir(path):
        return path
    commit = source.hosted_repo.repo.commit(source.ref)
    folder = Path(".snakemake", "anchorscope", commit.hexsha).absolute()
    if not folder.is_dir():
        archive = io.BytesIO()
        commit.repo.archive(archive, commit.hexsha)
        archive.seek(0)
        with atomic(folder) as draft, tarfile.open(fileobj=archive) as files:
            files.extractall(draft, filter="data")
    return str(folder)
