"""The rules of the house that a machine can check."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PURE = ROOT / "engine"
# What would let the engine see a clock, chance or the world; `hash()` differs in every process.
FORBIDDEN_MODULES = {
    *("asyncio", "io", "logging", "multiprocessing", "os", "pathlib", "random", "secrets", "select", "selectors"),
    *("signal", "socket", "ssl", "structlog", "subprocess", "tempfile", "threading", "time", "uuid"),
}
FORBIDDEN_BUILTINS = {"hash", "open", "print", "input", "id"}
# Digests are told apart within one process, never ordered, stored or sent.
ALLOWED = {("index", "digest: Final[Callable[[Key], Digest]] = hash")}
# Put together here, so that this file does not hold what it looks for.
MACHINE_PATHS = re.compile(r"/(work|root|home/[a-z]+|tmp)" + r"/[a-z.]")
REGISTRIES = re.compile(
    r"(pypi|pythonhosted|deb\.debian|snapshot\.debian|maven|npmjs|docker)" + r"\.(org|io|com|net)\b"
)
TEXT = {".py", ".md", ".toml", ".lock", ".yaml", ".yml", ".sh", ".txt", ".html", ".js", ".css", ".json", ""}


def tracked() -> list[Path]:
    """Files of the repository: those git knows and new ones that it does not ignore."""
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=True,
    ).stdout
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def engine_modules() -> list[Path]:
    return sorted(path for path in PURE.rglob("*.py") if path.name != "__init__.py")


def run(*command: str) -> None:
    done = subprocess.run(
        [str(Path(sys.executable).parent / command[0]), *command[1:]],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout}{done.stderr}"


def test_ruff() -> None:
    run("ruff", "check", "--no-cache", ".")


def test_mypy_strict() -> None:
    run("mypy")


def test_imports_point_one_way() -> None:
    run("lint-imports", "--no-cache")


@pytest.mark.parametrize("module", engine_modules(), ids=lambda path: path.stem)
def test_engine_is_pure(module: Path) -> None:
    text = module.read_text()
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names=names):
                imported = {alias.name for alias in names}
            case ast.ImportFrom(module=str(name)):
                imported = {name}
            case ast.Name(id=name, ctx=ast.Load()):
                pure = name not in FORBIDDEN_BUILTINS or (module.stem, lines[node.lineno - 1].strip()) in ALLOWED
                assert pure, f"line {node.lineno}: {name} in the engine"
                continue
            case ast.AsyncFunctionDef() | ast.Await():
                pytest.fail(f"line {node.lineno}: the engine awaits nothing")
            case _:
                continue
        forbidden = {name for name in imported if name.partition(".")[0] in FORBIDDEN_MODULES}
        assert not forbidden, f"line {node.lineno}: {forbidden} in the engine"
        ours = {name for name in imported if name.startswith(("tidelock", "bench"))}
        assert all(name.startswith("tidelock.engine.") for name in ours), f"line {node.lineno}: imports {ours}"


def has_state(module: Path) -> bool:
    """Tells whether the module decides: some class in it has methods that change what it holds."""
    for node in ast.walk(ast.parse(module.read_text())):
        match node:
            case ast.Attribute(value=ast.Name(id="self"), ctx=ast.Store() | ast.Del()):
                return True
    return False


@pytest.mark.parametrize("module", [path for path in engine_modules() if has_state(path)], ids=lambda path: path.stem)
def test_every_machine_has_its_test_file(module: Path) -> None:
    paired = ROOT / "tests" / "engine" / f"test_{'_'.join(module.relative_to(PURE).with_suffix('').parts)}.py"
    assert paired.is_file(), f"{module.relative_to(ROOT)} keeps state and has no {paired.relative_to(ROOT)}"


@pytest.mark.parametrize(
    ("what", "pattern"), [("a path of one machine", MACHINE_PATHS), ("a registry or mirror", REGISTRIES)]
)
def test_no_file_names(what: str, pattern: re.Pattern[str]) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in tracked()
        if path.suffix in TEXT
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found, f"{what} in:\n" + "\n".join(found)


def test_adapters_ask_the_apply_machine_and_not_its_parts() -> None:
    """Its `status` is what there is to see of it."""
    part = re.compile(r"machine\.(_\w+|batches|copying|streaming|watermark)\b")
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sorted((ROOT / "adapters").rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if part.search(line)
    ]
    assert not found, "\n".join(found)


def late_decoders(module: Path) -> list[str]:
    """Returns the calls in functions of a module that make a decoder of a type."""
    text = module.read_text()
    if not re.search(r"msgspec\.\w+\.(Decoder|decode)\(", text):
        return []
    functions = (n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    calls = (n for function in functions for n in ast.walk(function) if isinstance(n, ast.Call))
    typed = re.compile(r"msgspec\.\w+\.(Decoder\(|decode\(.*\btype=)", re.DOTALL)
    return [told for told in map(ast.unparse, calls) if typed.match(told)]


def test_decoders_are_made_before_threads_are() -> None:
    """A decoder is made when its module is loaded, since msgspec ends the process where one thread makes the first of a
    type while another decodes it: the type is known by then, and its fields are not yet."""
    alone = {ROOT / "adapters/runtime/journal.py"}  # one thread reads a journal, and few do
    modules = (path for room in ("adapters", "bench/chaos", "bench/harness") for path in (ROOT / room).rglob("*.py"))
    found = {str(path): late for path in modules if path not in alone and (late := late_decoders(path))}
    assert not found, found


COMPILED = """
import os, sys
import tidelock.adapters.app.embedded_run, tidelock.adapters.cli.app, tidelock.adapters.mysql.binlog.capture_process
ours = [module for name, module in sys.modules.items() if name.startswith("tidelock.")]
print(len(ours), *(m.__name__ for m in ours if getattr(m, "__cached__", None) and not os.path.exists(m.__cached__)))
"""


def test_processes_find_our_modules_compiled() -> None:
    """Else each start of the command, of thousands here, compiles them anew, and takes twice as long."""
    command = [sys.executable, "-c", COMPILED]
    number, *missing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert int(number) > 100 and not missing


def test_packages_stay_out_of_tests() -> None:
    """Tests are modules by path, so that two of one name are no trouble."""
    assert not list((ROOT / "tests").rglob("__init__.py"))
