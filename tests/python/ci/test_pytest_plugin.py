"""The pytest plugin in a real PyTorch on the simulated driver: each case runs pytest on small test files.

The package is laid out as the wheel lays it out, with its entry point and the simulated driver, so that pytest finds
the plugin by itself and the driver is found without a variable.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

import tomllib

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from harness import LAB_LIBRARY, LIBRARY, ROOT, SIMCUDA, clean_environment, run_cases

SCRATCH = tempfile.TemporaryDirectory()
INSTALLED = os.path.join(SCRATCH.name, "installed")
LIMIT_SECONDS = 300
FAILED, USAGE = 1, 4


def install():
    """Lays the package out as pip does."""
    package = os.path.join(INSTALLED, "vramtape")
    shutil.copytree(os.path.join(ROOT, "python", "vramtape"), package, ignore=shutil.ignore_patterns("__pycache__"))
    for file, name in ((LIBRARY, "libvramtape.so"), (LAB_LIBRARY, "libvramtape_lab.so"), (SIMCUDA, "_sim")):
        os.symlink(file, os.path.join(package, name))
    with open(os.path.join(ROOT, "pyproject.toml"), "rb") as file:
        points = tomllib.load(file)["project"]["entry-points"]["pytest11"]
    about = os.path.join(INSTALLED, "vramtape-0.dist-info")
    os.mkdir(about)
    with open(os.path.join(about, "METADATA"), "w") as file:
        file.write("Metadata-Version: 2.1\nName: vramtape\nVersion: 0\n")
    with open(os.path.join(about, "entry_points.txt"), "w") as file:
        file.write("\n".join(["[pytest11]", *(f"{name} = {module}" for name, module in points.items()), ""]))


def run_pytest(files, *arguments, code=0, before=("-m", "pytest"), path="", **settings):
    """Runs pytest in a folder with these files, which has to end with this code; its output."""
    folder = tempfile.mkdtemp(dir=SCRATCH.name)
    for name, content in files.items():
        with open(os.path.join(folder, name), "w") as file:
            file.write(content)
    environment = clean_environment(PYTHONPATH=os.pathsep.join(filter(None, [path, INSTALLED])))
    for name in ("VRAMTAPE_SIMCUDA", "VRAMTAPE_LIBRARY", "VRAMTAPE_LAB_LIBRARY"):
        environment.pop(name, None)
    command = [sys.executable, *before, "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**environment, **settings},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=LIMIT_SECONDS,
    )
    assert done.returncode == code, f"{command} ended with {done.returncode}:\n{done.stdout}"
    return done.stdout


def has(output, *texts):
    for text in texts:
        assert text in output, f"no {text!r} in:\n{output}"


def lacks(output, *texts):
    for text in texts:
        assert text not in output, f"{text!r} in:\n{output}"


def line_of(content, text):
    """The number of the line with this text."""
    (number,) = [at for at, line in enumerate(content.splitlines(), 1) if text in line]
    return number


LIMITS = """
import pytest, torch

def make(mib):
    return torch.empty(mib << 20, dtype=torch.uint8, device="cuda")  # made here

@pytest.mark.limit_vram("64 MiB")
def test_within():
    make(64)

@pytest.mark.limit_vram("64 MiB")
def test_over():
    small, large = make(4), make(62)

def test_without_a_limit():
    make(128)

def test_nothing():
    pass
"""


def a_peak_over_the_limit_fails_the_test_and_names_the_line():
    output = run_pytest({"test_it.py": LIMITS}, "--vramtape", code=FAILED)
    has(output, "1 failed, 3 passed", "Test is limited to 64.00 MiB of GPU memory but allocated 66.00 MiB")
    line, caller = line_of(LIMITS, "made here"), line_of(LIMITS, "small, large")
    has(output, f"66.00 MiB  100.0 %  test_it.py:{line} make", f"test_it.py:{line} in make")
    has(output, f"test_it.py:{caller} in test_over", ".M..")
    has(output, "test_it.py::test_without_a_limit\n", "1 of 4 tests allocated no GPU memory")
    assert output.index("test_without_a_limit\n") < output.index("test_it.py::test_over\n")


def the_peak_is_the_tests_own():
    content = """
import pytest, torch

@pytest.fixture(scope="module")
def held():
    return torch.empty(100 << 20, dtype=torch.uint8, device="cuda")

@pytest.mark.limit_vram("3 MiB")
@pytest.mark.parametrize("run", [0, 1])
def test_beside_what_is_held(held, run):
    torch.cuda.reset_peak_memory_stats()
    torch.empty(2 << 20, dtype=torch.uint8, device="cuda")

@pytest.mark.limit_vram("16 MiB")
@pytest.mark.parametrize("run", [0, 1])
def test_with_a_workspace(run):
    a = torch.empty(256, 256, device="cuda")
    a @ a
"""
    xml_file = os.path.join(SCRATCH.name, "junit.xml")
    run_pytest({"test_it.py": content}, "--vramtape", f"--junitxml={xml_file}")
    peaks = {}
    for case in xml.etree.ElementTree.parse(xml_file).iter("testcase"):
        (peak,) = [one.get("value") for one in case.iter("property") if one.get("name") == "vramtape_peak_bytes"]
        peaks[case.get("name")] = int(peak)
    assert peaks["test_beside_what_is_held[0]"] == peaks["test_beside_what_is_held[1]"] == 2 << 20, peaks
    assert peaks["test_with_a_workspace[0]"] == peaks["test_with_a_workspace[1]"] > 2 << 18, peaks


def reserved_memory_has_a_limit_of_its_own():
    content = """
import pytest, torch

@pytest.mark.limit_vram("9 MiB", reserved="22 MiB")
@pytest.mark.parametrize("run", [0, 1])
def test_reserved(run):
    for _ in range(2):
        torch.empty(9 << 20, dtype=torch.uint8, device="cuda")
        torch.empty(1 << 18, dtype=torch.uint8, device="cuda")

@pytest.mark.limit_vram(reserved="20 MiB")
def test_fragmented():
    first = torch.empty(9 << 20, dtype=torch.uint8, device="cuda")
    del first
    torch.empty(21 << 20, dtype=torch.uint8, device="cuda")
"""
    output = run_pytest({"test_it.py": content}, "--vramtape", code=FAILED)
    has(output, "1 failed, 2 passed", "of GPU memory but reserved 42.00 MiB")


LEAKS = """
import pytest, torch

KEPT = []

def make():
    return torch.empty(2 << 20, dtype=torch.uint8, device="cuda")  # made here

@pytest.fixture
def model():
    return torch.nn.Linear(1024, 1024, device="cuda")

@pytest.fixture(scope="session")
def data():
    return make()

@pytest.mark.limit_vram_leaks("1 MiB")
def test_leaks():
    KEPT.append(make())

@pytest.mark.limit_vram_leaks("0 B")
def test_fixtures_and_cycles_are_no_leaks(model, data):
    cycle = [make()]
    cycle.append(cycle)
    model(torch.ones(8, 1024, device="cuda")).sum().backward()
    assert model.weight.grad is not None

@pytest.mark.limit_vram_leaks("1 MiB")
def test_replaces_what_was_kept():
    KEPT[:] = [make()]
"""


def memory_that_is_left_after_a_test_fails_it():
    output = run_pytest({"test_it.py": LEAKS}, "--vramtape", "-v", code=FAILED)
    has(output, "1 failed, 2 passed", "Test is limited to 1.00 MiB of leaked GPU memory but leaves 2.00 MiB")
    has(output, f"test_it.py:{line_of(LEAKS, 'made here')} in make", "::test_leaks MEMORY PROBLEM")


def without_the_flag_it_is_inert():
    content = """
import sys, pytest

@pytest.mark.limit_vram("a lot")
@pytest.mark.limit_vram_leaks("none")
def test_nothing_is_checked_and_nothing_is_loaded():
    loaded = {name for name in sys.modules if name.startswith(("vramtape", "torch"))}
    assert loaded == {"vramtape", "vramtape.pytest_plugin"}, loaded
"""
    output = run_pytest({"test_it.py": content}, "--strict-markers", "-W", "error")
    has(output, "1 passed")
    lacks(output, "vramtape:")


def a_limit_that_is_no_size_is_a_usage_error():
    for marker, shown in [
        ('limit_vram("4 gigs")', "limit_vram('4 gigs'): '4 gigs' is no size"),
        ('limit_vram("4")', "limit_vram('4'): '4' is no size"),
        ("limit_vram(4)", "limit_vram(4): 4 is no size"),
        ('limit_vram_leaks("")', "limit_vram_leaks(''): '' is no size"),
        ("limit_vram()", 'limit_vram(): write it as limit_vram("4 GiB"'),
        ('limit_vram("1B", peak="1B")', "limit_vram('1B', peak='1B'): write it as"),
        ('limit_vram("1B", reserved="1X")', "limit_vram('1B', reserved='1X'): '1X' is no size"),
    ]:
        content = f"import pytest\n\n@pytest.mark.{marker}\ndef test_it(): pass\n"
        output = run_pytest({"test_it.py": content}, "--vramtape", code=USAGE)
        has(output, f"ERROR: test_it.py::test_it: {shown}")
    for option in ("--vramtape-top=-1", "--vramtape-sim=h10000"):
        has(run_pytest({"test_it.py": ""}, "--vramtape", option, code=USAGE), option.split("=")[1], "ERROR: ")


def the_simulated_gpu_is_chosen_by_the_option():
    content = """
import torch

def test_memory():
    assert torch.cuda.mem_get_info()[1] == 24 << 30
"""
    has(run_pytest({"test_it.py": content}, "--vramtape-sim=24GiB"), "1 passed", "simulated GPU of 24.00 GiB")
    has(run_pytest({"test_it.py": ""}, "--vramtape-sim", "test_it.py", code=5), "simulated GPU: allocations are real")
    ini = "[pytest]\nvramtape = true\nvramtape_sim = 24GiB\n"
    has(run_pytest({"test_it.py": content, "pytest.ini": ini}), "1 passed", "simulated GPU of 24.00 GiB")


NOT_SIMULATED = """
import ctypes, pytest, torch

def call():
    torch.empty(64, device="cuda")
    ctypes.CDLL("libcuda.so.1").cudaMallocManaged()

@pytest.fixture
def called():
    call()

def test_caught():
    call()

def test_in_a_fixture(called):
    pass

@pytest.mark.xfail
def test_expected_to_fail():
    call()
    raise AssertionError

def test_skipped():
    call()
    pytest.skip()

def test_other():
    torch.empty(64, device="cuda")
"""


def a_call_that_is_not_simulated_makes_the_test_an_error():
    output = run_pytest({"test_it.py": NOT_SIMULATED}, "--vramtape", code=FAILED)
    has(
        output,
        "1 passed, 4 errors",
        "does not simulate calls of this test",
        "  cudaMallocManaged",
        "ERROR at setup of test_in_a_fixture",
    )
    in_the_file = NOT_SIMULATED + "\ncall()\n"
    output = run_pytest({"test_it.py": in_the_file}, "--vramtape", code=2)
    has(output, "ERROR collecting test_it.py", "  cudaMallocManaged")


EARLY = {"early.py": "import torch\n", "test_it.py": LIMITS}


def a_torch_that_was_imported_before_is_an_error_with_the_solution():
    output = run_pytest(EARLY, "-p", "early", "--vramtape", code=USAGE, path=".")
    has(output, "torch was imported before", "`python -m vramtape run --sim -m pytest --vramtape`")
    launched = ("-m", "vramtape", "run", "--sim", "-q", "--conf", "record:ring,stacks:alloc", "-m", "pytest")
    output = run_pytest(EARLY, "-p", "early", "--vramtape", before=launched, code=FAILED, path=".")
    has(output, "1 failed, 3 passed", "simulated GPU: allocations are real", "test_it.py::test_without_a_limit")
    in_conftest = {"conftest.py": "import torch\n", "test_it.py": LIMITS}
    has(run_pytest(in_conftest, "--vramtape", code=FAILED), "1 failed, 3 passed")


def a_torch_without_cuda_is_an_error():
    """The real torch with the one line of `torch/version.py` that a build for the CPU has otherwise."""
    folder = tempfile.mkdtemp(dir=SCRATCH.name)
    with open(os.path.join(folder, "sitecustomize.py"), "w") as file:
        file.write("""
import importlib.abc, importlib.machinery, sys

class OfTheCpu(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name != "torch.version":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module
        def exec_module(module):
            execute(module)
            module.cuda, module.__version__ = None, "2.11.0+cpu"
        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, OfTheCpu())
""")
    output = run_pytest({"test_it.py": LIMITS}, "--vramtape", code=USAGE, path=folder)
    has(output, "ERROR: --vramtape: torch 2.11.0", "is built without CUDA: install a build with it")


def workers_of_xdist_report_their_tests():
    output = run_pytest({"test_it.py": LIMITS}, "--vramtape-sim=24GiB", "-n", "2", code=FAILED)
    has(output, "1 failed, 3 passed", "simulated GPU of 24.00 GiB", "but allocated 66.00 MiB")
    has(output, "test_it.py::test_without_a_limit\n", "1 of 4 tests allocated no GPU memory")
    output = run_pytest({"test_it.py": NOT_SIMULATED}, "--vramtape", "-n", "2", code=FAILED)
    has(output, "1 passed, 4 errors")


def a_limit_that_lost_records_is_not_passed():
    content = """
import pytest, torch

@pytest.mark.limit_vram("1 GiB")
def test_long():
    for _ in range(500):
        torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
"""
    output = run_pytest({"test_it.py": content}, "--vramtape", code=FAILED, VRAMTAPE_CONF="ring_events:256")
    assert re.search(r"cannot be checked: \d+ records .* are lost", output), output
    lacks(output, "1 passed")


def the_summary_can_be_short_or_hidden():
    quiet = run_pytest({"test_it.py": LIMITS}, "--vramtape", "--hide-vramtape-summary", code=FAILED)
    lacks(quiet, "peak GPU memory")
    short = run_pytest({"test_it.py": LIMITS}, "--vramtape", "--vramtape-top=1", "--vramtape-stacks=1", code=FAILED)
    summary = short[short.index("peak GPU memory") : short.index("short test summary")]
    has(summary, "::test_without_a_limit")
    lacks(summary, "::test_within", "::test_over")
    lacks(short, "in test_over")


if __name__ == "__main__":
    install()
    CASES = [
        a_peak_over_the_limit_fails_the_test_and_names_the_line,
        the_peak_is_the_tests_own,
        reserved_memory_has_a_limit_of_its_own,
        memory_that_is_left_after_a_test_fails_it,
        without_the_flag_it_is_inert,
        a_limit_that_is_no_size_is_a_usage_error,
        the_simulated_gpu_is_chosen_by_the_option,
        a_call_that_is_not_simulated_makes_the_test_an_error,
        a_torch_that_was_imported_before_is_an_error_with_the_solution,
        a_torch_without_cuda_is_an_error,
        workers_of_xdist_report_their_tests,
        a_limit_that_lost_records_is_not_passed,
        the_summary_can_be_short_or_hidden,
    ]
    wanted = [case for case in CASES if not sys.argv[1:] or case.__name__ in sys.argv[1:]]
    run_cases([(f"ci.{case.__name__}", case) for case in wanted])
