"""The summary at the end of a session, and the categories of failed tests."""

from __future__ import annotations

from typing import Any, Optional

import pytest

from .._sizes import show
from .hooks import PEAK, PROBLEM, RESERVED

# Of a report's problem: pytest's category, its letter and its word.
CATEGORIES = {
    "memory": ("failed", "M", "MEMORY PROBLEM"),
    "not simulated": ("error", "E", "NOT SIMULATED"),
}


class Summary:
    """The hooks of the process that prints."""

    def __init__(self, driver: str, top: int, is_hidden: bool) -> None:
        self._driver = driver
        self._top = top
        self._is_hidden = is_hidden
        # Of each test: peak above its start, peak of reserved memory.
        self._peaks: dict[str, tuple[int, int]] = {}

    def pytest_report_header(self) -> str:
        return f"vramtape: {self._driver}"

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> Optional[tuple[str, str, str]]:
        problem = getattr(report, PROBLEM, None)
        return CATEGORIES[problem] if problem is not None and report.failed else None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        found: dict[str, Any] = dict(report.user_properties)
        if report.when == "call" and PEAK in found:
            self._peaks[report.nodeid] = (int(found[PEAK]), int(found[RESERVED]))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._is_hidden:
            return
        terminalreporter.write_sep("=", "vramtape: peak GPU memory")
        terminalreporter.write_line(self._driver)
        ranked = sorted(self._peaks.items(), key=lambda one: (-one[1][0], one[0]))
        used = [one for one in ranked if one[1][0]]
        if used:
            terminalreporter.write_line(f"{'allocated':>12}  {'reserved':>12}  test")
        for test, (grown_bytes, reserved_bytes) in used[: self._top or None]:
            terminalreporter.write_line(f"{show(grown_bytes):>12}  {show(reserved_bytes):>12}  {test}")
        without = len(ranked) - len(used)
        if without:
            terminalreporter.write_line(f"{without} of {len(ranked)} tests allocated no GPU memory")
