"""A patch is what git takes: any name, any line end, any bytes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.fix.patch import patch

from .trees import HEAD, POOL, fix, method

OPEN = method("def get_mean(self, layer_id):\n    return self.pages[layer_id].mean()")


def apply(folder: Path, text: bytes) -> None:
    done = subprocess.run(
        ["git", "-c", "core.autocrlf=false", "apply", "--whitespace=nowarn", "-"],
        cwd=folder,
        input=text,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "name",
    [
        "plain.py",
        "sglang/srt/deep/er.py",
        "with blanks/a b.sh",
        'quo"ted.sh',
        "back\\slash.sh",
        "ta\tb.sh",
        "层/größe.sh",
        " leading.sh",
    ],
)
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"a\nb\nc\n", b"a\nx\nc\n"),
        (b"a\nb", b"a\nx"),
        (b"a\r\nb\r\n", b"a\r\nx\r\nb\r\n"),
        (b"one", b"one\ntwo\n"),
        (b"\xff\xfe\x00\n", b"\xff\xfe\x01\n"),
    ],
)
def test_git_applies_it(tmp_path: Path, name: str, old: bytes, new: bytes) -> None:
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(old)
    apply(tmp_path, patch([(name, old, new)]))
    assert file.read_bytes() == new


@settings(deadline=None, max_examples=60)
@given(st.lists(st.sampled_from([b"a\n", b"b\r\n", b"\n", b"\xe5\n"]), max_size=12), st.data())
def test_git_applies_any_change(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], data: st.DataObject
) -> None:
    other = list(lines)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(other)))
        other[place:place] = [data.draw(st.sampled_from([b"new\n", b"a\n", b"x\r\n"]))]
    end = data.draw(st.sampled_from([b"", b"end"]))
    old, new = b"".join(lines) + end, b"".join(other) + end
    folder = tmp_path_factory.mktemp("patched")
    (folder / "f").write_bytes(old or b"")
    if old:
        apply(folder, patch([("f", old, new)]))
        assert (folder / "f").read_bytes() == new


def test_a_dry_run_and_git_apply_lead_to_the_same_files(tmp_path: Path) -> None:
    text = "# größer\r\n" + (HEAD + OPEN).replace("\n", "\r\n").rstrip()
    files = {POOL: text, "sglang/srt/a b/pool.py": (HEAD + OPEN).replace("PagePool", "OtherPool")}
    patched = fix(tmp_path / "patched", files, dry=True)
    made = fix(tmp_path / "made", files)
    for name, content in files.items():
        assert (tmp_path / "patched" / "fork" / name).read_bytes() == content.encode()
    apply(tmp_path / "patched" / "fork", patch(patched.changes))
    assert len(made.changes) == 2
    for name, _, new in made.changes:
        assert (tmp_path / "made" / "fork" / name).read_bytes() == new
        assert (tmp_path / "patched" / "fork" / name).read_bytes() == new
