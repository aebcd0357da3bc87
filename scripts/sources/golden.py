"""A golden file: `<op>_golden`, its inputs from cases.yaml or from its own factory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from scripts import golden_file, make_inputs, memory
from scripts.cases import Case
from scripts.golden_file import Golden
from scripts.sources import absent_npu


@dataclass
class GoldenSource:
    """See `Source`."""

    case: Case
    golden: Golden
    facts: dict[str, str] = field(default_factory=dict)

    @property
    def parameters(self) -> list[str]:
        """Names of the golden's positional parameters."""
        return self.golden.parameters

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Drawn as the case says, or made by `_make_inputs`."""
        if self.case.mode == "A":
            memory.check(self.case.nbytes, self.case.id)
        self._fix(torch.device("cpu"))
        return make_inputs.call_arguments(self.case, self.golden)

    def function(self, device: torch.device) -> Callable[..., Any]:
        """The golden, with the devices that its file fixed at import replaced by `device`."""
        self._fix(device)
        return self.golden.function

    def _fix(self, device: torch.device) -> None:
        if changed := absent_npu.rebind(self.golden.module, device):
            self.facts["rebound"] = changed


def open_source(case: Case, roots: tuple[Path, ...]) -> GoldenSource:
    """Load a golden file; see `scripts.sources.open_source`."""
    golden = golden_file.load(Path(case.golden), case.function, roots)
    return GoldenSource(case, golden, absent_npu.facts())
