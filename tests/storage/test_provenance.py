"""Records: what a product was made with."""

from anchorscope import __version__
from anchorscope.storage import provenance


def test_the_version_of_anchorscope_is_known_in_an_environment_where_it_is_not_installed(
    monkeypatch,
):
    asked: list[str] = []
    monkeypatch.setattr(provenance, "version", lambda name: asked.append(name) or "1")
    assert provenance.libraries()["anchorscope"] == __version__ and "anchorscope" not in asked
