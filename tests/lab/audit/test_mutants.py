"""The catalogue of faults fits the source as it stands."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dodona.lab.audit.examine import all_cases
from dodona.lab.audit.mutants import MUTANTS
from dodona.lab.audit.patch import Mutant, apply
from tests.house.tree import module_path

EACH = pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)


@EACH
def test_every_patch_of_a_mutant_applies_once_and_compiles(mutant: Mutant):
    texts: dict[str, str] = {}
    for patch in mutant.patches:
        text = texts.get(patch.module, module_path(patch.module).read_text(encoding="utf-8"))
        texts[patch.module] = apply(patch, text)
    for module, text in texts.items():
        compile(text, module, "exec")


@EACH
def test_a_mutant_names_cases_that_exist(mutant: Mutant):
    assert mutant.cases
    assert set(mutant.cases) <= {case.name for case in all_cases()}


def test_no_two_mutants_share_a_name():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 20


def test_reading_the_catalogue_imports_nothing_that_could_be_patched():
    code = "import sys, dodona.lab.audit.mutants, dodona.lab.audit.trial; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name for name in done.stdout.split() if name.partition(".")[0] == "dodona"}
    assert all(name == "dodona" or name.startswith("dodona.lab") for name in loaded)
    assert not loaded & {patch.module for mutant in MUTANTS for patch in mutant.patches}
