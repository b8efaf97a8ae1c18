"""A file is one subject of a readable length, a name says one thing, and the trusted part is read in one sitting."""

import ast
import io
import re
import tokenize
from collections import Counter

from tests.house.tree import ROOT, SOURCE, python_files

CODE_IN_A_FILE = 400
CODE_IN_TRUSTED = 1200
EMPTY_NAMES = frozenset({"own", "found", "told", "one", "somebody", "thing"})
"""Words that name any value, and so none."""
_NO_CODE = frozenset(
    {
        tokenize.COMMENT,
        tokenize.DEDENT,
        tokenize.ENCODING,
        tokenize.ENDMARKER,
        tokenize.INDENT,
        tokenize.NEWLINE,
        tokenize.NL,
    }
)


def code_lines(text: str) -> int:
    """The number of lines that hold code: not blank, no comment, no docstring."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            match node.body:
                case [ast.Expr(ast.Constant(str())) as doc, *_]:
                    lines.difference_update(range(doc.lineno, (doc.end_lineno or doc.lineno) + 1))
    return len(lines)


def test_no_file_is_long() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in python_files()}
    long = {
        str(path.relative_to(ROOT)): count
        for path, text in texts.items()
        if text.count("\n") > CODE_IN_A_FILE and (count := code_lines(text)) > CODE_IN_A_FILE
    }
    assert long == {}


def test_no_name_of_a_type_stands_for_two_things() -> None:
    texts = [path.read_text(encoding="utf-8") for path in python_files()]
    counts = Counter(name for text in texts for name in re.findall(r"^\s*class (\w+)", text, re.MULTILINE))
    assert {name for name, count in counts.items() if count > 1} == set()


def test_a_variable_says_what_it_is() -> None:
    named = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in python_files()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (name := _bound_name(node)) in EMPTY_NAMES
    }
    assert named == set()


def _bound_name(node: ast.AST) -> str | None:
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.MatchAs(name=str(name)):
            return name
        case _:
            return None


def test_the_trusted_part_is_small() -> None:
    trusted = python_files(SOURCE / "dodona" / "trusted")
    total = sum(code_lines(path.read_text(encoding="utf-8")) for path in trusted)
    assert total <= CODE_IN_TRUSTED


def test_comments_blanks_and_docstrings_are_no_code() -> None:
    text = '"""Two\nlines."""\n\n# why\ndef f(\n    x,\n):  # here\n    """One."""\n    return """a\nb"""\n'
    assert code_lines(text) == 5
