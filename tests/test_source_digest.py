"""When two pieces of code mean the same, and which files a golden's meaning depends on."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import source_digest

BASE = '''
"""A golden."""
from helpers import scale

def f(x):
    """Doc."""
    # comment
    return scale(x) * 2
'''


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "golden.py").write_text(BASE)
    (tmp_path / "helpers.py").write_text("from package.inner import FACTOR\n\ndef scale(x):\n    return x * FACTOR\n")
    (tmp_path / "package").mkdir()
    (tmp_path / "package/__init__.py").write_text("")
    (tmp_path / "package/inner.py").write_text("FACTOR = 3\n")
    return tmp_path


def digest(root: Path) -> str:
    return source_digest.digest([root / "golden.py"], [root])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("# comment", "# another comment, longer"),
        ('"""Doc."""', '"""Other words."""'),
        ('"""A golden."""', ""),
        ("    return scale(x) * 2", "\n\n    return (\n        scale(x) * 2\n    )"),
    ],
)
def test_comments_docstrings_and_layout_do_not_count(root: Path, old: str, new: str) -> None:
    before = digest(root)
    (root / "golden.py").write_text(BASE.replace(old, new))
    assert digest(root) == before


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("golden.py", "* 2", "* 4"),
        ("golden.py", "def f(x)", "def f(x, y=1)"),
        ("helpers.py", "x * FACTOR", "x + FACTOR"),
        ("package/inner.py", "3", "5"),
    ],
)
def test_an_edit_counts_also_in_a_module_imported_indirectly_and_a_revert_undoes_it(
    root: Path, file: str, old: str, new: str
) -> None:
    before = digest(root)
    path = root / file
    text = path.read_text()
    path.write_text(text.replace(old, new))
    assert digest(root) != before
    path.write_text(text)
    assert digest(root) == before


def test_a_relative_import_is_followed(root: Path) -> None:
    (root / "package/user.py").write_text("from .inner import FACTOR\nfrom . import other\n")
    (root / "package/other.py").write_text("A = 1\n")
    files = source_digest.by_file([root / "package/user.py"], [root])
    assert set(files) == {f"package/{name}.py" for name in ("user", "inner", "other", "__init__")}


def test_a_moved_checkout_has_the_same_digest(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    import shutil

    other = tmp_path_factory.mktemp("elsewhere") / "checkout"
    shutil.copytree(root, other)
    assert digest(other) == digest(root)


def test_code_with_a_syntax_error_still_has_a_digest(root: Path) -> None:
    (root / "golden.py").write_text("def f(:\n")
    first = digest(root)
    (root / "golden.py").write_text("def f(:\n\n")
    assert digest(root) != first
