"""Measures each test and fails it at its limits."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any, Optional

import pytest
from _pytest.runner import runtestprotocol

from . import text
from .driver import NotSimulated
from .limits import Limits, limits
from .measure import Recording, Usage, allocated, settle

# Of a report: why vramtape fails the test. A name of `summary.CATEGORIES`.
PROBLEM = "vramtape_problem"
# Of `user_properties`, which go to JUnit's XML too.
PEAK, RESERVED = "vramtape_peak_bytes", "vramtape_peak_reserved_bytes"
_LIMITS = pytest.StashKey[Limits]()
# The section of a test that is over a limit.
_SECTION = pytest.StashKey[str]()
_RECORDING = pytest.StashKey[Recording]()


class Tests:
    """The hooks of the process that runs the tests."""

    def __init__(self, root: Path, stacks: int) -> None:
        self._calls = NotSimulated()
        self._listing = text.Listing(root, stacks)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            item.stash[_LIMITS] = limits(item)

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        report = yield
        calls = self._calls.new()
        if calls and not report.failed:
            report.outcome, report.longrepr, report.result = "failed", text.not_simulated(calls), []
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        limit = item.stash[_LIMITS]
        if limit != Limits(None, None, None):
            settle(empties_cache=limit.reserved_bytes is not None)
        recording = Recording()
        if limit.leaked_bytes is not None:
            item.stash[_RECORDING] = Recording()
        yield
        usages = recording.usages()
        item.user_properties.append((PEAK, max((one.grown_bytes for one in usages), default=0)))
        item.user_properties.append((RESERVED, max((one.peak_reserved_bytes for one in usages), default=0)))
        for one in usages:
            self._judge(item, limit, one)

    def _judge(self, item: pytest.Item, limit: Limits, one: Usage) -> None:
        """Fails a test whose peak on a device is over a limit."""
        checks = (
            (limit.allocated_bytes, one.grown_bytes, "allocated"),
            (limit.reserved_bytes, one.reserved_bytes, "reserved"),
        )
        for limit_bytes, used_bytes, kind in checks:
            if limit_bytes is None:
                continue
            if used_bytes > limit_bytes:
                item.stash[_SECTION] = self._listing.peak(one)
                pytest.fail(text.over(limit_bytes, used_bytes, kind, one.device), pytrace=False)
            if one.lost:
                pytest.fail(text.lost(one.lost), pytrace=False)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        calls = self._calls.new()
        if calls:
            report.sections.append((text.SECTION, text.not_simulated(calls)))
            if not report.failed:
                report.outcome, report.longrepr = "failed", text.not_simulated(calls)
            report.__dict__.pop("wasxfail", None)
            setattr(report, PROBLEM, "not simulated")
        elif report.failed and call.when == "call" and _SECTION in item.stash:
            report.sections.append((text.SECTION, item.stash[_SECTION]))
            setattr(report, PROBLEM, "memory")
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: Optional[pytest.Item]) -> Optional[bool]:
        """Runs a test with a limit of leaks: they are known after its teardown, before its result is reported."""
        limit_bytes = item.stash[_LIMITS].leaked_bytes
        if limit_bytes is None:
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        settle()
        before = allocated()
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        called = [report for report in reports if report.when == "call"]
        if called and all(report.passed for report in reports):
            settle()
            self._judge_leaks(item, limit_bytes, before, called[0])
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def _judge_leaks(self, item: pytest.Item, limit_bytes: int, before: dict[int, int], report: Any) -> None:
        """Fails a test that leaves more memory allocated than it found."""
        after = allocated()
        for one in item.stash[_RECORDING].usages():
            grown_bytes = after.get(one.device, 0) - before.get(one.device, 0)
            end = one.holders["end"]
            # Fixtures that outlive the test made the rest.
            leaked_bytes = grown_bytes if end is None else min(grown_bytes, end["new_bytes"])
            if leaked_bytes > limit_bytes:
                report.outcome, report.longrepr = "failed", text.leaked(limit_bytes, leaked_bytes, one.device)
                report.sections.append((text.SECTION, self._listing.end(one)))
                setattr(report, PROBLEM, "memory")
                return
            if one.lost:
                report.outcome, report.longrepr = "failed", text.lost(one.lost)
                return
