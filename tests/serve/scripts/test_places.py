from __future__ import annotations

import os
from pathlib import Path

import pytest

from auditor.model import Launch
from auditor.serve.scripts.places import SMALL, Places


def launch(path: str = "serve.sh", **more) -> Launch:
    return Launch(path, 1, "server", "sglang serve", "plain", None, (), (), 0, "shell", **more)


def places(*roots: Path, tree: dict[str, bytes] | None = None, outside: str = "") -> Places:
    return Places(roots, (tree or {}).get, frozenset({outside} if outside else ()))


def test_beside_the_script_before_the_root(tmp_path) -> None:
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops" / "a.jinja").write_text("beside")
    (tmp_path / "a.jinja").write_text("root")
    found = places(tmp_path).find(launch("ops/serve.sh"), "a.jinja")
    assert (found.state, found.path, found.data) == ("found", "ops/a.jinja", b"beside")
    assert places(tmp_path).read(launch(), "./a.jinja") == b"root"


def test_the_folder_of_the_launch_comes_first(tmp_path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "a.jinja").write_text("run")
    (tmp_path / "a.jinja").write_text("root")
    assert places(tmp_path).read(launch(folder="run"), "a.jinja") == b"run"


def test_a_file_of_the_tree() -> None:
    tree = {"examples/chat_template/a.jinja": b"x", "ops/b.jinja": b"y"}
    found = places(tree=tree)
    assert found.read(launch(), "examples/chat_template/a.jinja") == b"x"
    assert found.read(launch(), "/sgl-workspace/sglang/examples/chat_template/a.jinja") == b"x"
    assert found.read(launch(), "a.jinja") == b"x"
    assert found.read(launch("ops/serve.sh"), "b.jinja") == b"y"


def test_through_a_mount_and_a_copy(tmp_path) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "a.jinja").write_text("x")
    mounted = launch(mounts=(("/app", "."), ("/app/t", "templates")))
    found = places(tmp_path)
    assert found.read(mounted, "/app/t/a.jinja") == b"x"
    assert found.read(mounted, "/app/templates/a.jinja") == b"x"
    assert found.find(mounted, "/app/t/b.jinja").state == "missing"
    assert found.find(mounted, "/other/a.jinja").state == "unknown"
    inside = launch(mounts=(("/app", "."),), folder="/app/templates")
    assert found.read(inside, "a.jinja") == b"x"


@pytest.mark.parametrize("path", ["/models/a.jinja", "~/a.jinja", "s3://bucket/a.jinja", ""])
def test_paths_of_other_machines_are_unknown(path: str, tmp_path) -> None:
    assert places(tmp_path).find(launch(), path).state == "unknown"


def test_a_relative_path_that_is_nowhere_is_missing(tmp_path) -> None:
    found = places(tmp_path).find(launch("ops/serve.sh"), "t/a.jinja")
    assert found.state == "missing"
    assert "ops/t" in found.why
    there = launch(folder="/srv/elsewhere")
    assert places(tmp_path).find(there, "t/a.jinja").state == "unknown"


def test_upstreams_examples_are_unknown_where_the_tree_has_none(tmp_path) -> None:
    path = "examples/chat_template/a.jinja"
    assert places(tmp_path).find(launch(), path).state == "unknown"
    (tmp_path / "examples" / "chat_template").mkdir(parents=True)
    assert places(tmp_path).find(launch(), path).state == "missing"


def test_an_absolute_path_is_read_for_named_scripts_only(tmp_path) -> None:
    (tmp_path / "a.jinja").write_text("x")
    path = str(tmp_path / "a.jinja")
    assert places().find(launch("serve.sh"), path).state == "unknown"
    assert places(outside="serve.sh").read(launch("serve.sh"), path) == b"x"
    gone = str(tmp_path / "b.jinja")
    assert places(outside="serve.sh").find(launch("serve.sh"), gone).state == "missing"


def test_beside_a_script_from_outside(tmp_path) -> None:
    (tmp_path / "a.jinja").write_text("x")
    script = str(tmp_path / "serve.sh")
    assert places(outside=script).read(launch(script), "a.jinja") == b"x"


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="needs links")
def test_links_and_dots_do_not_lead_out(tmp_path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret").write_text("secret")
    (root / "link.jinja").symlink_to(tmp_path / "secret")
    (root / "folder").symlink_to(tmp_path)
    found = places(root, outside="serve.sh")
    for path in ("link.jinja", "../secret", "folder/secret", "a/../../secret"):
        assert found.read(launch(), path) is None, path
    assert found.find(launch(), "link.jinja").state == "unknown"
    assert found.folder(launch(), "folder") is None
    inner = found.folder(launch(), ".")
    assert inner is not None
    assert inner.read("link.jinja", SMALL) is None
    assert inner.read("../secret", SMALL) is None


def test_large_files_and_pipes_are_not_read(tmp_path) -> None:
    (tmp_path / "large.jinja").write_bytes(b"x" * (SMALL + 1))
    os.mkfifo(tmp_path / "pipe.jinja")
    found = places(tmp_path)
    assert found.find(launch(), "large.jinja").state == "unknown"
    assert found.find(launch(), "pipe.jinja").state == "unknown"
    assert places(tree={"a": b"x" * (SMALL + 1)}).find(launch(), "a").state == "unknown"


def test_a_models_folder_and_its_neighbours(tmp_path) -> None:
    for name in ("m", "m-NVFP4", "n"):
        (tmp_path / name).mkdir()
    (tmp_path / "m" / "config.json").write_text("{}")
    folder = places(tmp_path).folder(launch(), "m")
    assert folder is not None
    assert folder.read("config.json", SMALL) == b"{}"
    assert folder.beside == ("m-NVFP4", "n")
    assert places(tmp_path).folder(launch(), "absent") is None
    tree = {"m/config.json": b"{}", "m-FP8/config.json": b"{}", "serve.sh": b""}
    inner = Places((), tree.get, names=tuple(tree)).folder(launch(), "m")
    assert inner is not None
    assert inner.beside == ("m-FP8",)
    assert inner.read("config.json", SMALL) == b"{}"


def test_a_path_made_of_the_own_folder_of_a_script_named_by_a_relative_path(
    tmp_path, monkeypatch
) -> None:
    """``$(dirname "$0")/a.jinja`` of ``ops/serve.sh`` is ``ops/a.jinja``, from where we stand."""
    (tmp_path / "ops" / "model").mkdir(parents=True)
    (tmp_path / "ops" / "a.jinja").write_text("beside")
    monkeypatch.chdir(tmp_path)
    found = places(outside="ops/serve.sh")
    started = launch("ops/serve.sh", folder="ops")
    assert found.read(started, "ops/a.jinja") == b"beside"
    assert found.read(started, "a.jinja") == b"beside"
    assert found.folder(started, "ops/model") is not None
    (tmp_path / "b.jinja").write_text("above")
    assert found.read(started, "./b.jinja") == b"above"
    assert found.find(started, "ops/c.jinja").state == "missing"
