"""Follows what commands read and write: here-documents, files and pipes."""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace

from auditor.serve.scripts.builtins import lines_of
from auditor.serve.scripts.loops import Loops
from auditor.serve.scripts.state import Shell, exported
from auditor.serve.scripts.syntax import PROGRAM, Tree
from auditor.serve.scripts.values import Piece, Source, Text, constant, shown
from auditor.serve.scripts.variables import (
    Left,
    whole,
)
from auditor.serve.scripts.words import SHELLS, Setting, base

_SCRIPT_NAME = re.compile(r"\.(?:sh|bash|slurm|sbatch|command)$")


class Redirections(Loops):
    """Here-documents that a command reads, a shell gets, or that become a script."""

    def _redirected(
        self, node: Tree, root: Tree, source: Source, shell: Shell, setting: Setting
    ) -> bool | None:
        body = node.field("body")
        redirects = node.fields.get("redirect", ())
        heredoc = next((each for each in redirects if each.kind == "heredoc_redirect"), None)
        if body is None:
            return True
        if heredoc is None and body.kind == "command":
            # What a command's own words and redirections are is read from its text.
            whole_command = Tree("command", node.start, node.end, True, (), {})
            return self.command(whole_command, source, shell, setting)
        expander = self.expander(source, shell)
        inner = shell
        plain = [each for each in redirects if each.kind != "heredoc_redirect"]
        if plain and body.kind != "command":
            found = expander.command(plain[0].start, max(each.end for each in plain))
            inner = self.redirected(found.redirects, expander, shell)
        if heredoc is not None:
            return self._heredoc(heredoc, node, body, root, source, shell, inner, setting)
        status = self.statement(body, root, source, inner, setting)
        if inner is not shell:
            shell.folder, shell.arguments = inner.folder, inner.arguments
            shell.shifted, shell.export_all = inner.shifted, inner.export_all
        return status

    def _heredoc(
        self,
        redirect: Tree,
        node: Tree,
        body: Tree,
        root: Tree,
        source: Source,
        shell: Shell,
        inner: Shell,
        setting: Setting,
    ) -> bool | None:
        """Follows a here-document that a command reads, a shell gets, or that becomes a script."""
        parts = {part.kind: part for part in redirect.parts}
        start, text = parts.get("heredoc_start"), parts.get("heredoc_body")
        rest = [p for p in redirect.statements if p.kind in {"pipeline", "list", "command"}]
        if start is None or text is None:
            return self.statement(body, root, source, inner, setting)
        raw = re.search(rb"[\"'\\]", source.data[start.start : start.end]) is not None
        expander = self.expander(source, shell)
        content = expander.settle(expander.heredoc(text.start, text.end, raw))
        if source.data[redirect.start : redirect.start + 3] == b"<<-":
            content = _untabbed(content)
        lines = lines_of(content)
        own = replace(inner, input=lines)
        if body.kind != "command":
            status = self.statement(body, root, source, own, setting)
            shell.folder = own.folder
            return status
        found = expander.command(body.start, body.end)
        line_end = source.data.find(b"\n", start.end)
        after = expander.command(start.end, text.start if line_end < 0 else line_end)
        found.redirects.extend(after.redirects)
        words = expander.split(found.words)
        names = [base(word.text) for word in words]
        target = next(
            (whole(expander.settle(r.target)) for r in found.redirects if ">" in r.sign), ""
        )
        if names[:1] in (["cat"], ["tee"]) and not rest:
            target = target or (words[1].text if names[0] == "tee" and len(words) > 1 else "")
            first = constant(lines[0]) if lines else ""
            is_script = re.match(r"#!.*\b(?:ba|z|da|k)?sh\b", first or "")
            if PROGRAM.search(shown(content).encode("utf-8", "replace")) and (
                _SCRIPT_NAME.search(target) or is_script
            ):
                self._written(content, target)
        piped = [name for part in rest for name in _heads(part, source.data)]
        if {*SHELLS, "ssh", "sbatch"} & {*names, *piped}:
            seen = {} if "ssh" in names else exported(shell)
            runs = PROGRAM.search(shown(content).encode("utf-8", "replace"))
            if runs:
                given = Shell(dict(seen), shell.folder, (), self.script.path)
                with contextlib.suppress(Left):
                    self.follow(content, given, setting)
            return None
        own = self.redirected(found.redirects, expander, own)
        status = self.run_words(words, found, source, shell, own, setting) if words else True
        for part in rest:
            captured = replace(shell.inside(), input=lines if names[:1] == ["cat"] else None)
            status = self.apart([part], root, source, captured, setting)
        return status

    def _written(self, content: Text, target: str) -> None:
        functions, self.functions = self.functions, {}
        try:
            self.follow(content, Shell({}, script=target), Setting())
        except Left:
            pass
        finally:
            self.functions = functions


def _heads(node: Tree, data: bytes) -> list[str]:
    if node.kind == "command":
        words = data[node.start : node.end].split()
        return [base(word.decode("utf-8", "replace")) for word in words[:1]]
    return [name for part in node.statements for name in _heads(part, data)]


def _untabbed(text: Text) -> Text:
    return tuple(
        replace(token, text=re.sub(r"(?m)^\t+", "", token.text), exact=False)
        if isinstance(token, Piece) and token.resolved
        else token
        for token in text
    )
