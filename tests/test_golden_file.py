"""Finding the golden in its file, and calling it with a case's arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import golden_file
from scripts.errors import CaseFailure


def load(tmp_path: Path, text: str, function: str | None = None, name: str = "norm_golden") -> golden_file.Golden:
    path = tmp_path / f"{name}.py"
    path.write_text(text)
    return golden_file.load(path, function, (tmp_path,))


def test_the_function_with_the_files_name_is_the_golden(tmp_path: Path) -> None:
    golden = load(tmp_path, "def norm_golden(x): return x\ndef other_golden(x): return x\n")
    assert golden.function.__name__ == "norm_golden"


def test_the_only_function_that_ends_in_golden_is_the_golden(tmp_path: Path) -> None:
    golden = load(tmp_path, "def helper(x): return x\ndef rms_golden(x, eps): return x\n")
    assert golden.function.__name__ == "rms_golden"
    assert golden.parameters == ["x", "eps"]


@pytest.mark.parametrize(
    ("text", "function", "words"),
    [
        ("def a_golden(x): ...\ndef b_golden(x): ...\n", None, "a_golden, b_golden"),
        ("def helper(x): ...\n", None, "no function named"),
        ("def norm_golden(x): ...\n", "nrm_golden", "Did you mean norm_golden"),
        ("import absent_package\n", None, "absent_package"),
        ("def norm_golden(:\n", None, "SyntaxError"),
        ("raise RuntimeError('at import')\n", None, "at import"),
    ],
)
def test_a_file_without_a_clear_golden_is_refused(tmp_path: Path, text: str, function: str | None, words: str) -> None:
    with pytest.raises(CaseFailure) as refused:
        load(tmp_path, text, function)
    assert words in refused.value.message + refused.value.advice
    assert "norm_golden.py" in refused.value.message


def test_a_missing_argument_is_named(tmp_path: Path) -> None:
    golden = load(tmp_path, "def norm_golden(x, weight, *, eps): return x\n")
    with pytest.raises(CaseFailure, match="'weight'"):
        golden.bind({"x": 1, "eps": 2})
    with pytest.raises(CaseFailure, match="'wieght'"):
        golden.bind({"x": 1, "weight": 1, "wieght": 2, "eps": 2})


def test_positional_only_parameters_are_passed_by_position(tmp_path: Path) -> None:
    golden = load(tmp_path, "def norm_golden(x, y, /, z): return (x, y, z)\n")
    args, kwargs = golden.bind({"z": 3, "y": 2, "x": 1})
    assert golden.function(*args, **kwargs) == (1, 2, 3)


def test_a_module_beside_the_golden_can_be_imported(tmp_path: Path) -> None:
    (tmp_path / "beside_it.py").write_text("VALUE = 5\n")
    golden = load(tmp_path, "from beside_it import VALUE\ndef norm_golden(x): return x + VALUE\n")
    assert golden.function(1) == 6
