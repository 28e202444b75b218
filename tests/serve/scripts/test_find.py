"""The search for scripts: what is read, under which name, and what is told of the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditor.serve.scripts.find import find_in_tree, find_named, form_of

SCRIPT = "python3 -m sglang.launch_server --model-path org/m\n"


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize(
    ("name", "data", "form"),
    [
        ("run.sh", b"", "shell"),
        ("job.slurm", b"", "shell"),
        ("job.sbatch", b"", "shell"),
        ("start", b"#!/usr/bin/env bash\n", "shell"),
        ("start", b"#!/bin/sh -e\n", "shell"),
        ("start", b"#!/usr/bin/env python3\n", "python"),
        ("start", b"#!/usr/bin/perl\n", ""),
        ("Dockerfile", b"", "dockerfile"),
        ("Dockerfile.cuda", b"", "dockerfile"),
        ("rocm.Dockerfile", b"", "dockerfile"),
        ("Containerfile", b"", "dockerfile"),
        ("image", b"# syntax=x\n\nFROM a\n", "dockerfile"),
        ("values.yaml", b"", "yaml"),
        ("values.yml.j2", b"", "yaml"),
        ("deployment.tpl", b"apiVersion: v1\n", "yaml"),
        ("job.j2", b"#!/bin/bash\n", "shell"),
        ("run.sh.j2", b"", "shell"),
        ("x.service", b"", "systemd"),
        ("10-flags.conf", b"", "systemd"),
        ("unit", b"# x\n[Service]\n", "systemd"),
        ("Makefile", b"", "makefile"),
        ("rules.mk", b"", "makefile"),
        ("serve.py", b"", "python"),
        ("README.md", b"#!/bin/bash\n", ""),
        ("notes.txt", b"FROM a\n", ""),
        ("data.bin", b"\0\1", ""),
    ],
)
def test_the_notation_of_a_file(name, data, form):
    assert form_of(name, data) == form


def test_paths_keep_their_spelling(tmp_path):
    write(tmp_path, {"a/run.sh": SCRIPT, "a/b/more.sh": SCRIPT, "c.sh": SCRIPT})
    found = find_named(["./a", "a/*.sh", "c.sh"], tmp_path)
    assert [launch.path for launch in found.launches] == [
        "./a/b/more.sh",
        "./a/run.sh",
        "a/run.sh",
        "c.sh",
    ]
    assert found.skipped == []


def test_every_notation_of_a_folder_is_read(tmp_path):
    write(
        tmp_path,
        {
            "s/a.sh": SCRIPT,
            "s/b.yaml": "services: {x: {command: sglang serve org/m}}\n",
            "s/c.py": "import sglang\nsglang.Engine(model_path='org/m')\n",
            "s/d.j2": "#!/bin/bash\nsglang serve org/m --port {{ port }}\n",
            "s/e.md": SCRIPT,
            "s/Dockerfile": 'FROM a\nCMD ["sglang", "serve", "org/m"]\n',
            "s/Makefile": "run:\n\tsglang serve org/m\n",
            "s/x.service": "[Service]\nExecStart=/opt/bin/sglang serve org/m\n",
            "s/f.sh": "echo sglang\n",
            "s/g.sh": "echo nothing\n",
            "s/.git/hook.sh": SCRIPT,
        },
    )
    found = find_named(["s"], tmp_path)
    assert [(launch.path, launch.form) for launch in found.launches] == [
        ("s/Dockerfile", "dockerfile"),
        ("s/Makefile", "makefile"),
        ("s/a.sh", "shell"),
        ("s/b.yaml", "yaml"),
        ("s/c.py", "python"),
        ("s/d.j2", "shell"),
        ("s/x.service", "systemd"),
    ]
    (port,) = [a for a in found.launches[5].arguments if a.flag == "--port"]
    assert (port.value, port.line, port.column, port.resolved) == ("{{ port }}", 2, 20, False)
    assert found.silent == ["s/f.sh"]
    assert found.skipped == []


def test_a_named_file_is_never_passed_over_in_silence(tmp_path):
    write(tmp_path, {"a.sh": "echo\n", "b.md": SCRIPT, "c.yaml": "a: 'sglang\n", "d": SCRIPT})
    (tmp_path / "e.bin").write_bytes(b"\0\1\2")
    found = find_named(["a.sh", "b.md", "c.yaml", "d", "e.bin", "missing/*.sh"], tmp_path)
    assert [launch.path for launch in found.launches] == ["d"]
    assert found.silent == ["a.sh"]
    reasons = {skipped.path: skipped.reason for skipped in found.skipped}
    assert sorted(reasons) == ["b.md", "c.yaml", "e.bin", "missing/*.sh"]
    assert reasons["b.md"] == "in no notation of scripts that is read"
    assert reasons["c.yaml"].startswith("no YAML: ")
    assert reasons["missing/*.sh"] == "no such file or folder"
    assert {skipped.stage for skipped in found.skipped} == {"serve"}


def test_links_lead_nowhere_outside(tmp_path):
    write(tmp_path, {"in/ok.sh": SCRIPT, "out/secret.sh": SCRIPT, "out/deep/more.sh": SCRIPT})
    (tmp_path / "in/link.sh").symlink_to(tmp_path / "out/secret.sh")
    (tmp_path / "in/folder").symlink_to(tmp_path / "out/deep")
    (tmp_path / "in/loop.sh").symlink_to(tmp_path / "in/loop.sh")
    write(tmp_path, {"in/source.sh": "source ../out/secret.sh\n"})
    found = find_named(["in"], tmp_path)
    assert [launch.path for launch in found.launches] == ["in/ok.sh"]


def test_scripts_may_source_what_lies_in_a_folder_around_them(tmp_path):
    write(tmp_path, {"lib.sh": "MODEL=org/m\n", "s/run.sh": 'source "$(dirname "$0")/../lib.sh"\n'})
    with (tmp_path / "s/run.sh").open("a") as script:
        script.write("sglang serve $MODEL\n")
    (closed,) = find_named(["s/run.sh"], tmp_path).launches
    (open_,) = find_named(["s/run.sh"], tmp_path, also=[tmp_path]).launches
    assert (closed.model, open_.model) == (None, "org/m")


def test_a_config_file_is_merged_as_the_server_does(tmp_path):
    write(
        tmp_path,
        {
            "s/run.sh": "sglang serve --config conf/x.yaml --tp 2\n",
            "s/attached.sh": "sglang serve org/n --config=conf/y.yaml\n",
            "s/bad.sh": "sglang serve org/o --config conf/z.yaml\n",
            "s/conf/x.yaml": "# sglang\nmodel-path: org/m\nmem-fraction-static: 0.8\ntp: 4\n",
            "s/conf/y.yaml": "model-path: org/y\n",
            "s/conf/z.yaml": "- sglang\n",
        },
    )
    found = find_named(["s"], tmp_path)
    by_path = {launch.path: launch for launch in found.launches}
    assert sorted(by_path) == ["s/attached.sh", "s/bad.sh", "s/run.sh"]
    assert [(a.flag, a.value, a.path, a.line) for a in by_path["s/run.sh"].arguments] == [
        ("--model-path", "org/m", "s/conf/x.yaml", 2),
        ("--mem-fraction-static", "0.8", "s/conf/x.yaml", 3),
        ("--tp", "4", "s/conf/x.yaml", 4),
        ("--config", "conf/x.yaml", "s/run.sh", 1),
        ("--tp", "2", "s/run.sh", 1),
    ]
    assert by_path["s/run.sh"].model == "org/m"
    assert by_path["s/attached.sh"].model == "org/n"
    assert [(s.path, s.reason) for s in found.skipped] == [("s/conf/z.yaml", "no mapping of flags")]


def test_a_file_that_is_too_large_is_told(tmp_path):
    (tmp_path / "big.sh").write_bytes(b"# sglang\n" + b"x" * (10 * 1024 * 1024))
    (tmp_path / "big.yaml").write_bytes(b"k: sglang\n" + b"#" * (5 * 1024 * 1024))
    found = find_named(["big.sh", "big.yaml"], tmp_path)
    assert {s.path: s.reason for s in found.skipped} == {
        "big.sh": "larger than 10 MiB",
        "big.yaml": "larger than 4 MiB of YAML",
    }
    assert found.silent == []


def test_the_search_of_a_tree_leaves_out_what_is_upstreams():
    files = {
        "deploy/own.sh": SCRIPT,
        "docker/theirs.sh": SCRIPT,
        "docs/how.md": SCRIPT,
        "python/sglang/srt/engine.py": "import sglang\nsglang.Engine(model_path='m')\n",
        "python/sglang/run.sh": SCRIPT,
        "tools/run.py": "import sglang\nsglang.Engine(model_path='m')\n",
        "tools/other.py": "print(1)\n",
        "x/node_modules/run.sh": SCRIPT,
    }
    asked = []

    def read(path: str) -> bytes | None:
        return files[path].encode() if path in files else None

    def is_upstream(path: str, data: bytes) -> bool:
        asked.append((path, data))
        return path.startswith("docker/")

    found = find_in_tree(files, read, is_upstream)
    assert [launch.path for launch in found.launches] == [
        "deploy/own.sh",
        "python/sglang/run.sh",
        "tools/run.py",
    ]
    assert ("docker/theirs.sh", SCRIPT.encode()) in asked
    assert found.silent == []


def test_what_a_sourced_file_starts_is_told_once_with_all_that_is_known(tmp_path):
    files = {
        "lib.sh": 'start() {\n  python3 -m sglang.launch_server --model-path "$MODEL"\n}\nstart\n',
        "run.sh": "MODEL=org/m\nsource ./lib.sh\n",
        "alone.sh": SCRIPT,
    }
    write(tmp_path, files)
    found = find_named(["."], tmp_path)
    assert [(launch.path, launch.model) for launch in found.launches] == [
        ("alone.sh", "org/m"),
        ("lib.sh", "org/m"),
    ]
