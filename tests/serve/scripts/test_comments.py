"""Which comments of scripts count, and which statement each belongs to."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from auditor.errors import Unreadable
from auditor.serve.scripts.comments import script_comments


def spans(path: str, text: str, launched: Collection[int] = ()) -> dict[str, tuple[int, int, int]]:
    found = {}
    for c in script_comments(path, text.encode(), launched):
        found[c.text.partition("[")[2].partition("]")[0]] = (c.line, c.first, c.last)
    return found


SHELL = """\
#!/bin/bash
# audit: ignore[above] x
python -m sglang.launch_server \\
  --tp 8  # audit: ignore[behind] x
cat > run.sh <<'EOF'  # audit: ignore[heredoc] x
# audit: ignore[text] x
python -m sglang.launch_server
EOF
echo "# audit: ignore[text] x" '
# audit: ignore[text] x
' ${x#audit: ignore[text]} a#audit:
ARGS=(
  --tp 8  # audit: ignore[array] x
  # audit: ignore[array-own] x
)
if [ "$x" ]; then
  # audit: ignore[nested] x
  a && \\
    b
  { c; d; } | tee log  # audit: ignore[block] x
fi
y=$(
  # audit: ignore[substitution] x
  c
)
"""


def test_shell() -> None:
    assert spans("run.sh", SHELL) == {
        "above": (2, 3, 4),
        "behind": (4, 3, 4),
        "heredoc": (5, 5, 8),
        "array": (13, 12, 15),
        "array-own": (14, 12, 15),
        "nested": (17, 18, 19),
        "block": (20, 20, 20),
        "substitution": (23, 22, 25),
    }


def test_where_bash_cannot_be_parsed_nothing_is_a_comment() -> None:
    assert spans("run.sh", "a() { ((\n# audit: ignore[text] x\necho") == {}
    assert spans("run.sh", 'x="\n# audit: ignore[text] x\n') == {}


YAML = """\
# audit: ignore[above] x
image: "x # audit: ignore[text] x"
notes: |  # audit: ignore[head] x
  # audit: ignore[text] x
  more
command: |
  # audit: ignore[shell] x
  python -m sglang.launch_server \\
    --tp 8
  cat <<EOF
  # audit: ignore[text] x
  EOF
  echo '
  # audit: ignore[text] x'
# audit: ignore[flow] x
args: [a,
  # audit: ignore[inside] x
  b]
more:
  # audit: ignore[item] x
  - --tp
  - 8  # audit: ignore[trailing] x
  - 'over
     # audit: ignore[text] x
     lines'
folded: >
  # audit: ignore[text] x
  python -m sglang.launch_server
"""


def test_yaml_and_the_shell_in_its_blocks() -> None:
    assert spans("a.yaml", YAML, [8, 28]) == {
        "above": (1, 2, 2),
        "head": (3, 3, 5),
        "shell": (7, 8, 9),
        "flow": (15, 16, 18),
        "inside": (17, 16, 18),
        "item": (20, 21, 21),
        "trailing": (22, 22, 22),
    }


def test_a_block_that_starts_nothing_is_text() -> None:
    assert "shell" not in spans("a.yaml", YAML, [2])


def test_a_heredoc_in_an_indented_block_ends_where_bash_ends_it() -> None:
    text = (
        "a:\n  run: |\n    cat <<EOF\n    # audit: ignore[text] x\n    EOF\n"
        "    # audit: ignore[é] x\n    b\n"
    )
    assert spans("a.yaml", text, [7]) == {"é": (6, 7, 7)}


def test_templates_of_helm_and_jinja() -> None:
    text = "a: {{ .Values.a }} # audit: ignore[x] y\n{{- if .b }}\nc: d\n{{- end }}\n"
    assert spans("templates/a.yaml", text) == {"x": (1, 1, 1)}
    text = "{# # audit: ignore[text] y #}\n# audit: ignore[x] y\nrun {{ a }}\n"
    assert spans("run.sh.j2", text) == {"x": (2, 3, 3)}


DOCKERFILE = """\
# audit: ignore[above] x
RUN a \\
  # audit: ignore[within] x
  b
RUN <<EOF
# audit: ignore[text] x
EOF
CMD x # audit: ignore[text] x
"""
UNIT = """\
[Service]
# audit: ignore[above] x
ExecStart=a \\
# audit: ignore[within] x
  b
Environment=x # audit: ignore[text] x
"""
MAKEFILE = """\
serve:
\t# audit: ignore[above] x
\ta \\
\t# audit: ignore[text] x
"""


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("Dockerfile", DOCKERFILE, {"above": (1, 2, 4), "within": (3, 2, 4)}),
        ("a.service", UNIT, {"above": (2, 3, 5), "within": (4, 3, 5)}),
        ("Makefile", MAKEFILE, {"above": (2, 3, 4)}),
    ],
)
def test_comments_on_lines_of_their_own(
    path: str, text: str, expected: dict[str, tuple[int, int, int]]
) -> None:
    assert spans(path, text) == expected


def test_what_is_no_yaml_is_refused() -> None:
    with pytest.raises(Unreadable):
        script_comments("a.yaml", b"a: [\n# audit: ignore[a] b\n", ())


def test_deep_and_long_scripts_end() -> None:
    assert len(spans("a.sh", "a && " * 50_000 + "b  # audit: ignore[x] y")) == 1
    spans("a.sh", "$(" * 20_000 + "# audit: ignore[x] y")
    with pytest.raises(Unreadable):
        spans("a.yaml", "[" * 50_000 + " # audit:\n" + "]" * 50_000)
