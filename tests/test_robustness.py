"""Hostile and broken input, through the real command: a clear outcome and never a traceback."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import TinyRepository
from scenarios.pools import POOL, READERS, pool

import auditor
from auditor.cli.main import main

ROOT = Path(auditor.__file__).parents[1]
PATH = f"python/{POOL}"
SOUND = pool()
BROKEN = pool(READERS[1:], READERS[:1])
FOLDER = "python/sglang/srt/mem_cache"

Make = Callable[..., TinyRepository]
Done = subprocess.CompletedProcess


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def audit(cache: Path) -> Callable[..., Done[str]]:
    """Runs the command in a folder; every outcome is checked to be a clear one."""

    def run(cwd: Path, *arguments: str | bytes, upstream: str = "v0.5.9") -> Done[str]:
        given = ["--upstream", upstream] if upstream else []
        done = subprocess.run(
            [sys.executable, "-m", "auditor", *given, *arguments],
            cwd=cwd,
            env=environment(cache),
            capture_output=True,
            check=False,
            timeout=120,
        )
        out, err = done.stdout.decode(), done.stderr.decode()
        clear(out, err)
        assert done.returncode in (0, 1, 2, 3), (done.returncode, err)
        return Done(done.args, done.returncode, out, err)

    return run


def environment(cache: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("GIT_", "XDG_"))}
    return {**kept, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(cache)}


def clear(out: str, err: str) -> None:
    for text in (out, err):
        assert "Traceback" not in text, text
        assert "defect of audit itself" not in text, text
        controls = {c for c in text if (ord(c) < 32 or 127 <= ord(c) < 160) and c not in "\n\t"}
        assert not controls, controls
    assert len(err.strip().split("\n")) <= 3, err


def report(done: Done[str]) -> dict[str, object]:
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def skipped(done: Done[str]) -> dict[str, str]:
    rows = report(done)["skipped"]
    return {r["path"]: r["reason"] for r in rows if r["side"] == "fork"}  # type: ignore[attr-defined]


# -- files ---------------------------------------------------------------------------------------

MENTIONS = "\n# self.counter.wait_until(layer_id) and self.rows[layer_id]\n"

UNREADABLE: dict[str, bytes] = {
    "syntax error": b"def f(:" + MENTIONS.encode(),
    "no text": b"x = '\xff\xfe'" + MENTIONS.encode(),
    "NUL bytes": b"x = 1\0" + MENTIONS.encode(),
    "unknown codec": b"# coding: martian" + MENTIONS.encode(),
    "deep parentheses": b"x = " + b"(" * 10_000 + b")" * 10_000 + MENTIONS.encode(),
    "deep unary": b"x = " + b"-" * 10_000 + b"1" + MENTIONS.encode(),
    "deep attributes": b"x = a" + b".a" * 10_000 + MENTIONS.encode(),
    "deep calls": b"x = a" + b"()" * 10_000 + MENTIONS.encode(),
    "deep branches": b"def f(x):\n if x: y" + b"\n elif x: y" * 10_000 + MENTIONS.encode(),
    "generated": b"x = 1\n" * 900_000 + MENTIONS.encode(),
}


@pytest.mark.parametrize("content", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_a_file_that_cannot_be_read_is_named_and_the_rest_goes_on(
    tiny_repository: Make, audit: Callable[..., Done[str]], content: bytes
) -> None:
    repository = tiny_repository({PATH: BROKEN})
    repository.write({f"{FOLDER}/odd.py": content})
    done = audit(repository.top, "-o", "json")
    assert list(skipped(done)) == [f"{FOLDER}/odd.py"]
    assert [f["symbol"] for f in report(done)["findings"]] == ["Pool.get_rows"]  # type: ignore[attr-defined]
    assert done.returncode == 1
    repository.write({PATH: SOUND})
    assert audit(repository.top).returncode == 3, "it could not decide"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xef\xbb\xbf" + SOUND.replace("Pool", "Marked").encode(),
        b"# coding: latin-1\n# \xe4" + MENTIONS.encode(),
        SOUND.replace("Pool", "Windows").replace("\n", "\r\n").encode(),
        ("\f\n" + SOUND.replace("Pool", "Fed")).encode(),
        b"x = (" + b"1 + " * 500 + b"1)" + MENTIONS.encode(),
        b"x = '" + b"a" * 1_000_000 + b"'" + MENTIONS.encode(),
    ],
    ids=["empty", "BOM", "latin-1", "CRLF", "form feed", "long sum", "long line"],
)
def test_an_odd_file_that_python_reads_is_read(
    tiny_repository: Make, audit: Callable[..., Done[str]], content: bytes
) -> None:
    repository = tiny_repository({PATH: SOUND})
    repository.write({f"{FOLDER}/odd.py": content})
    done = audit(repository.top, "-o", "json")
    assert done.returncode == 0, done.stdout
    assert skipped(done) == {}


def test_deep_code_in_a_class_that_is_judged(
    tiny_repository: Make, audit: Callable[..., Done[str]]
) -> None:
    """Not too deep to be read, but many calls deep to be followed."""
    text = BROKEN.split("\n\nclass PoolLoader")[0]
    for n in range(30):
        text += f"\n    def get_deep{n}(self, layer_id):\n"
        text += "".join(" " * (8 + i) + "if layer_id:\n" for i in range(60))
        text += " " * 70 + f"return self.get_deep{n + 1}(layer_id)\n"
    repository = tiny_repository({PATH: text})
    done = audit(repository.top, "-o", "json")
    assert "Pool.get_rows" in {f["symbol"] for f in report(done)["findings"]}  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["new\nline", "quo\"te'", "tab\tbed", "ä\u202ed", "$(touch x)"])
def test_strange_file_names(
    tiny_repository: Make, audit: Callable[..., Done[str]], name: str
) -> None:
    repository = tiny_repository({PATH: SOUND})
    repository.write({f"{FOLDER}/{name}.py": BROKEN.replace("Pool", "Strange")})
    for form in ("table", "json"):
        done = audit(repository.top, "-o", form)
        assert done.returncode == 1
        assert "Strange" in done.stdout
        assert "\u202e" not in done.stdout


def test_a_file_name_that_is_no_text(
    tiny_repository: Make, audit: Callable[..., Done[str]]
) -> None:
    repository = tiny_repository({PATH: SOUND})
    folder = os.fsencode(repository.top / FOLDER)
    Path(os.fsdecode(folder + b"/b\xff\x1b[31m.py")).write_text(BROKEN.replace("Pool", "Bytes"))
    for form in ("table", "json"):
        assert audit(repository.top, "-o", form).returncode == 1


def test_terminal_control_characters_are_disarmed(
    tiny_repository: Make, audit: Callable[..., Done[str]]
) -> None:
    title = "\x1b]0;owned\x07\x1b[2J\x9b31m"
    repository = tiny_repository({PATH: SOUND})
    repository.write({f"{FOLDER}/{title}.py": BROKEN.replace("Pool", "Titled")})
    repository.write({f"{FOLDER}/{title}x.py": "def f(:" + MENTIONS})
    repository.git("checkout", "--quiet", "-b", "br\u202eanch")
    for arguments in ((), ("-o", "json")):
        assert audit(repository.top, *arguments).returncode == 1
    message = f"ours {title}"
    repository.commit({PATH: BROKEN}, message)
    assert audit(repository.top).returncode == 1


def test_links_folders_and_pipes_in_place_of_files(
    tiny_repository: Make, audit: Callable[..., Done[str]], tmp_path: Path
) -> None:
    secret = tmp_path / "secret.py"
    secret.write_text(BROKEN.replace("Pool", "Secret"))
    repository = tiny_repository({PATH: SOUND})
    folder = repository.top / FOLDER
    (folder / "link.py").symlink_to(secret)
    (folder / "loop.py").symlink_to("loop.py")
    (folder / "gone.py").symlink_to("/no/such/file.py")
    (folder / "null.py").symlink_to("/dev/zero")
    (folder / "dir.py").mkdir()
    (folder / "dir.py" / "inner.py").write_text("x = 1\n")
    (folder / "outside").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe.py")
    done = audit(repository.top, "-o", "json")
    assert "Secret" not in done.stdout
    assert {Path(p).name for p in skipped(done)} >= {"link.py", "loop.py", "gone.py", "null.py"}
    plain = tmp_path / "plain"
    shutil.copytree(repository.top / "python", plain, symlinks=True, ignore=only_regular)
    (plain / "sglang" / "link.py").symlink_to(secret)
    os.mkfifo(plain / "sglang" / "pipe.py")
    done = audit(plain, "-o", "json", upstream=str(repository.top))
    assert "Secret" not in done.stdout
    assert {Path(p).name for p in skipped(done)} >= {"link.py", "pipe.py"}


def only_regular(folder: str, names: list[str]) -> list[str]:
    return [n for n in names if n == "pipe.py" or (Path(folder) / n).is_symlink()]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
def test_a_file_without_permission(tiny_repository: Make, audit: Callable[..., Done[str]]) -> None:
    repository = tiny_repository({PATH: SOUND, f"{FOLDER}/closed.py": "x = 1\n"})
    (repository.top / FOLDER / "closed.py").chmod(0)
    done = audit(repository.top, "-o", "json")
    assert list(skipped(done)) == [f"{FOLDER}/closed.py"]
    assert done.returncode == 3


# -- trees ---------------------------------------------------------------------------------------


def test_a_fork_without_sglang_cannot_be_decided(
    tiny_repository: Make, audit: Callable[..., Done[str]], tmp_path: Path
) -> None:
    repository = tiny_repository({"README.md": "no code here\n"})
    assert audit(repository.top).returncode == 3
    empty = tmp_path / "empty"
    empty.mkdir()
    assert audit(empty, upstream=str(repository.top)).returncode == 3


def test_a_repository_without_a_commit(audit: Callable[..., Done[str]], tmp_path: Path) -> None:
    repository = TinyRepository(tmp_path / "fork")
    repository.top.mkdir()
    repository.git("init", "--quiet")
    done = audit(repository.top)
    assert done.returncode == 2
    assert "v0.5.9" in done.stderr
    assert audit(repository.top, upstream="").returncode == 2


@pytest.fixture
def here(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """The same without a process of its own, for many small questions."""

    def run(cwd: Path, *arguments: str) -> tuple[int, str]:
        monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
        monkeypatch.chdir(cwd)
        status = main(arguments)
        out, err = capsys.readouterr()
        clear(out, err)
        return status, err

    return run


@pytest.mark.parametrize(
    "reference",
    ["--output=x", "-x", "--", "v0.5.9 --output=x", "$(touch x)", "v0.5.9\n", "..", "@{-1}", "",
     "pypi:--index-url=http://x", "pypi:../../x", ":/first", "HEAD:python", "/dev/null", "~nobody",
     "refs/heads/../../x", "a" * 5000, "./" + "a" * 5000, "v0.5.9^{tree}", "\x1b[2J", "a\0b",
     "./a\0b", "pypi:a\0b", "\udcff"],
    ids=lambda reference: ascii(reference)[:24],
)  # fmt: skip
@pytest.mark.parametrize("option", ["--upstream", "--target", "--rev"])
def test_references_that_try_to_be_something_else(
    tiny_repository: Make, here: Callable[..., tuple[int, str]], reference: str, option: str
) -> None:
    repository = tiny_repository({PATH: SOUND})
    before = sorted(repository.top.parent.rglob("*.py"))
    upstream = [] if option == "--upstream" else ["--upstream", "v0.5.9"]
    status, err = here(repository.top, *upstream, f"{option}={reference}")
    assert status in (0, 2, 3)
    assert status != 2 or err.startswith("audit: ")
    assert not (repository.top / "x").exists()
    assert sorted(repository.top.parent.rglob("*.py")) == before


@pytest.mark.parametrize("option", ["-C", "--config", "--rules"])
@pytest.mark.parametrize(
    "path",
    ["no\nsuch", "/dev/null", "\x1b[2J", "a" * 5000, "", "pool.py", "\udcff", "/proc/1/mem"],
    ids=lambda path: ascii(path)[:24],
)
def test_paths_that_lead_nowhere(
    tiny_repository: Make, here: Callable[..., tuple[int, str]], option: str, path: str
) -> None:
    repository = tiny_repository({PATH: SOUND, "pool.py": SOUND})
    status, err = here(repository.top, "--upstream", "v0.5.9", option, path)
    assert status in (0, 2, 3)
    assert status != 2 or err.startswith("audit: ")


@pytest.mark.parametrize("file", ["a\0b", "a" * 5000, "/dev/full", "no/such/x", ".", "\udcff/x"])
def test_outputs_that_cannot_be_written(
    tiny_repository: Make, here: Callable[..., tuple[int, str]], file: str
) -> None:
    repository = tiny_repository({PATH: SOUND})
    status, err = here(repository.top, "--upstream", "v0.5.9", "-o", f"json={file}")
    assert status == 2
    assert err.startswith("audit: ")


@pytest.mark.parametrize("subject", ["no-such", "a\0b", "--", "\x1b[2J", "a" * 5000, "0123456789"])
def test_explaining_what_is_not_there(
    tiny_repository: Make, here: Callable[..., tuple[int, str]], subject: str
) -> None:
    repository = tiny_repository({PATH: SOUND})
    assert here(repository.top, "explain", subject)[0] == 2


HOSTILE_SETTINGS = {
    "not TOML": "[tool.audit\n",
    "unknown key": "[tool.audit]\nrun = 'touch x'\n",
    "wrong type": "[tool.audit]\nupstream = 7\n",
    "wrong table": "tool = 3\n",
    "control characters": '[tool.audit]\nupstream = "\\u001b[2J\\u0007"\n',
    "bytes": "[tool.audit]\nupstream = '\udcff'\n",
    "deep": "x = " + "[" * 5000 + "]" * 5000 + "\n",
    "a NUL in a reference": '[tool.audit]\nupstream = "a\\u0000b"\n',
    "a NUL in a path": '[tool.audit]\nupstream = "./a\\u0000b"\n',
    "endless reference": f"[tool.audit]\nupstream = '{'a' * 5000}'\n",
    "reference as option": "[tool.audit]\nupstream = '--output=x'\n",
    "rules elsewhere": "[tool.audit]\nrules = ['/etc']\n",
}


@pytest.mark.parametrize("text", HOSTILE_SETTINGS.values(), ids=HOSTILE_SETTINGS.keys())
def test_hostile_configuration(
    tiny_repository: Make, here: Callable[..., tuple[int, str]], text: str
) -> None:
    repository = tiny_repository({PATH: SOUND})
    (repository.top / "pyproject.toml").write_bytes(text.encode(errors="surrogateescape"))
    assert here(repository.top)[0] == 2
    assert not (repository.top / "x").exists()
    assert here(repository.top, "--isolated", "--upstream", "v0.5.9")[0] == 0


def test_a_configuration_that_is_a_folder_or_a_pipe(
    tiny_repository: Make, audit: Callable[..., Done[str]]
) -> None:
    repository = tiny_repository({PATH: SOUND})
    (repository.top / "audit.toml").mkdir()
    assert audit(repository.top).returncode in (0, 2)
    (repository.top / "audit.toml").rmdir()
    os.mkfifo(repository.top / "audit.toml")
    assert audit(repository.top).returncode in (0, 2)


# -- the machine ---------------------------------------------------------------------------------


def test_a_reader_that_goes_away(tiny_repository: Make, cache: Path) -> None:
    repository = tiny_repository({PATH: BROKEN})
    process = subprocess.Popen(
        [sys.executable, "-m", "auditor", "--upstream", "v0.5.9"],
        cwd=repository.top,
        env=environment(cache),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout and process.stderr
    process.stdout.close()
    errors = process.stderr.read().decode()
    process.stderr.close()
    assert process.wait(60) == 1
    assert errors == ""


def many_files() -> dict[str, str]:
    files = {PATH: BROKEN}
    for n in range(300):
        files[f"{FOLDER}/p{n}.py"] = pool(READERS, name=f"Pool{n}", buffer=f"rows{n}") * 2
    return files


def interrupted(top: Path, cache: Path) -> tuple[int, str, str]:
    """Exit status and output of a run that gets Ctrl-C as soon as it has begun its cache."""
    process = subprocess.Popen(
        [sys.executable, "-m", "auditor", "--upstream", "v0.5.9"],
        cwd=top,
        env=environment(cache),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Tests that a shell runs in the background have it ignored, and so would the run.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    deadline = time.monotonic() + 60
    while not list(cache.rglob("*.sqlite")) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    out, err = process.communicate(timeout=60)
    clear(out, err)
    return process.returncode, out, err


def test_an_interrupted_run_leaves_a_usable_cache(
    tiny_repository: Make, audit: Callable[..., Done[str]], cache: Path
) -> None:
    repository = tiny_repository(many_files())
    for _ in range(5):
        code, out, err = interrupted(repository.top, cache)
        if code != 1:  # else it was done before the signal came, as may be on a busy machine
            break
        shutil.rmtree(cache)
    assert code == 130
    assert (out, err.strip()) == ("", "audit: interrupted")
    done = audit(repository.top, "-o", "json")
    assert [f["symbol"] for f in report(done)["findings"]] == ["Pool.get_rows"]  # type: ignore[attr-defined]
    assert not skipped(done)


def test_two_runs_at_once_on_one_cache(tiny_repository: Make, cache: Path) -> None:
    repository = tiny_repository(many_files())
    both = [
        subprocess.Popen(
            [sys.executable, "-m", "auditor", "--upstream", "v0.5.9", "-o", "json"],
            cwd=repository.top,
            env=environment(cache),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [1, 1]
    assert outputs[0] == outputs[1]
    clear(*outputs[0])


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_no_room_for_the_cache(
    tiny_repository: Make, audit: Callable[..., Done[str]], cache: Path
) -> None:
    repository = tiny_repository(many_files())
    cache.mkdir()
    size = ["-o", "size=64k"]
    if subprocess.run(["mount", "-t", "tmpfs", *size, "tmpfs", str(cache)], check=False).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        done = audit(repository.top, "-o", "json")
    finally:
        subprocess.run(["umount", "--lazy", str(cache)], check=True)
    assert [f["symbol"] for f in report(done)["findings"]] == ["Pool.get_rows"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\0" + b"\xff" * 9000])
def test_a_corrupt_cache(
    tiny_repository: Make, audit: Callable[..., Done[str]], cache: Path, content: bytes
) -> None:
    repository = tiny_repository({PATH: BROKEN})
    fresh = audit(repository.top, "-o", "json").stdout
    for path in [p for p in cache.rglob("*") if p.is_file()]:
        path.write_bytes(content)
    assert audit(repository.top, "-o", "json").stdout == fresh


def test_a_cache_that_is_a_file(
    tiny_repository: Make, audit: Callable[..., Done[str]], cache: Path
) -> None:
    cache.write_text("")
    repository = tiny_repository({PATH: BROKEN})
    assert audit(repository.top).returncode == 1
